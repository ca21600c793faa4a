//! Commands of clients: sent to the nodes of their keys, their replies put together in the clients' order.
use super::{
    Core,
    redirect::{Lane, Way},
    routing::{Make, Part, Plan, To},
};
use crate::{
    config::RedisAddress,
    source::{LocalFuture, RedisServer, SourceError, UpstreamCommands, redis::request::Answer},
};
use bytes::Bytes;
use std::{rc::Rc, sync::Arc, time::Duration};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

/// Before a cluster of which nothing is known is asked again.
const PAUSE: Duration = Duration::from_millis(20);
/// Masters that are asked for their table of commands at once.
const ASKED: usize = 3;

/// A plan on its way: one write to each node.
struct Sent {
    answers: Vec<LocalFuture<'static, Answer>>,
    /// For each part, which of the answers it is in and from which reply on.
    places: Vec<Result<(usize, usize), SourceError>>,
}

impl Core {
    pub(super) fn known_commands(&self) -> Option<Arc<UpstreamCommands>> {
        // All nodes have one table.
        self.nodes.borrow().values().next()?.known_commands()
    }
    pub(super) async fn commands(&self, deadline: Instant) -> Result<Arc<UpstreamCommands>, SourceError> {
        loop {
            if let Some(known) = self.known_commands() {
                return Ok(known);
            }
            // Whoever says it first: one that is silent must not keep those waiting that want something of others.
            let mut asked = JoinSet::new();
            let (map, turn) = (self.map(), self.next_turn());
            for shard in map.shards().iter().cycle().skip(turn % map.shards().len().max(1)).take(ASKED) {
                if let Ok(node) = self.node(&shard.master) {
                    asked.spawn_local(async move { node.learn().await });
                }
            }
            let mut error = self.nobody();
            while let Some(answer) = asked.join_next().await {
                match answer {
                    Ok(Ok(known)) => return Ok(known),
                    Ok(Err(other)) => error = other,
                    Err(_) => {}
                }
            }
            // What was last said will do until somebody can.
            if let Some(known) = self.setup.settings.last_commands() {
                return Ok(known);
            }
            if Instant::now() >= deadline {
                return Err(error);
            }
            sleep(PAUSE).await;
        }
    }

    /// Sends commands at once (unless nothing is known of the cluster yet), and waits for what becomes of them.
    pub(super) fn relay(self: Rc<Core>, commands: Bytes, way: Way) -> LocalFuture<'static, Answer> {
        let deadline = self.deadline();
        match self.known_commands() {
            Some(known) => {
                let plan = Plan::new(&commands, &known, &self.map());
                let sent = self.send_all(&plan, way);
                Box::pin(async move { self.answer(plan, sent, way, deadline).await })
            }
            None => Box::pin(async move {
                let known = self.commands(deadline).await?;
                let plan = Plan::new(&commands, &known, &self.map());
                let sent = self.send_all(&plan, way);
                self.answer(plan, sent, way, deadline).await
            }),
        }
    }

    fn send_all(&self, plan: &Plan, way: Way) -> Sent {
        let map = self.map();
        let mut nodes: Vec<(RedisAddress, Vec<Bytes>, usize)> = Vec::new();
        let mut places = Vec::with_capacity(plan.parts.len());
        for part in &plan.parts {
            let address = match (&part.to, nodes.first()) {
                // Whoever is asked anyway.
                (To::Anyone, Some((address, ..))) => Ok(address.clone()),
                (to, _) => self.address(&map, to),
            };
            places.push(address.map(|address| {
                let at = nodes.iter().position(|(other, ..)| *other == address).unwrap_or(nodes.len());
                if at == nodes.len() {
                    nodes.push((address, Vec::new(), 0));
                }
                let (_, commands, count) = &mut nodes[at];
                commands.push(part.commands.clone());
                *count += part.count;
                (at, *count - part.count)
            }));
        }
        let answers = nodes.into_iter().map(|(address, mut commands, count)| {
            let commands = if commands.len() == 1 { commands.swap_remove(0) } else { commands.concat().into() };
            let part = Part { commands, count, to: To::Anyone };
            Box::pin(self.send(&part, &address, way, false)) as LocalFuture<'static, Answer>
        });
        Sent { answers: answers.collect(), places }
    }

    /// Waits for the answers, follows where they lead, and puts one together.
    async fn answer(&self, plan: Plan, sent: Sent, way: Way, deadline: Instant) -> Answer {
        let mut answers = Vec::with_capacity(sent.answers.len());
        for answer in sent.answers {
            answers.push(answer.await);
        }
        // What may take its time has had it before something comes in its way.
        let deadline = if way.lane == Lane::Shared { deadline } else { self.deadline() };
        let mut parts = Vec::with_capacity(plan.parts.len());
        for (part, place) in plan.parts.iter().zip(sent.places) {
            let answer = place.and_then(|(node, first)| {
                let replies = answers[node].as_ref().map_err(Clone::clone)?;
                Ok(replies.part(first..first + part.count))
            });
            parts.push(self.follow(part, answer, way, deadline).await);
        }
        if let [_] = &plan.units[..]
            && let [_] = &parts[..]
            && matches!(plan.units[0].make, Make::Same)
            && let Some(answer) = parts.pop()
        {
            return answer;
        }
        // Of none of them is anything known.
        if !parts.is_empty() && parts.iter().all(Result::is_err) {
            let lost = parts.iter().position(|part| matches!(part, Err(SourceError::Lost(_))));
            return parts.swap_remove(lost.unwrap_or(0));
        }
        Ok(plan.assemble(parts, self.map().shards().len()))
    }
}
