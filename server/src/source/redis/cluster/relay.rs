//! Commands of clients: sent to the nodes of their keys, their replies put together in the clients' order.
use super::{
    Core,
    detour::{Lane, Way},
    gather::gather,
    plan::{Make, Part, Plan, To, next_cursor},
};
use crate::{
    config::RedisAddress,
    source::{Commands, Local, RedisServer, Replies, SourceError, redis::pipeline::Answer},
};
use bytes::Bytes;
use std::{iter, rc::Rc, sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};

/// Before a cluster of which nothing is known is asked again.
const PAUSE: Duration = Duration::from_millis(20);

/// A plan on its way: one write to each node.
struct Sent {
    answers: Vec<Local<'static, Answer>>,
    /// For each part, which of the answers it is in and from which reply on.
    places: Vec<Result<(usize, usize), SourceError>>,
}

impl Core {
    pub(super) fn known_commands(&self) -> Option<Arc<Commands>> {
        self.nodes.borrow().values().find_map(|node| node.known_commands())
    }
    pub(super) async fn commands(&self, deadline: Instant) -> Result<Arc<Commands>, SourceError> {
        loop {
            if let Some(known) = self.known_commands() {
                return Ok(known);
            }
            let mut error = self.nobody();
            for shard in self.map().shards() {
                match self.node(&shard.master)?.commands().await {
                    Ok(known) => return Ok(known),
                    Err(other) => error = other,
                }
            }
            if Instant::now() >= deadline {
                return Err(error);
            }
            sleep(PAUSE).await;
        }
    }

    /// Sends commands at once (unless nothing is known of the cluster yet), and waits for what becomes of them.
    pub(super) fn relay(self: Rc<Core>, commands: Bytes, way: Way) -> Local<'static, Answer> {
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
            Box::pin(self.send(&part, &address, way, false)) as Local<'static, Answer>
        });
        Sent { answers: answers.collect(), places }
    }

    /// Waits for the answers, follows where they lead, and puts one together.
    async fn answer(&self, plan: Plan, sent: Sent, way: Way, deadline: Instant) -> Answer {
        let mut answers = Vec::with_capacity(sent.answers.len());
        for answer in sent.answers {
            answers.push(answer.await);
        }
        let mut parts = Vec::with_capacity(plan.parts.len());
        for (part, place) in plan.parts.iter().zip(sent.places) {
            let answer = place.and_then(|(node, first)| {
                let replies = answers[node].as_ref().map_err(Clone::clone)?;
                Ok(replies.part(first..first + part.count))
            });
            // What may take its time has it before something comes in its way, too.
            let deadline = if way.lane == Lane::Shared { deadline } else { self.deadline() };
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
        Ok(self.assemble(&plan, parts))
    }

    fn assemble(&self, plan: &Plan, parts: Vec<Answer>) -> Replies {
        let masters = self.map().shards().len();
        let mut parts = parts.into_iter();
        let mut replies: Vec<Bytes> = Vec::with_capacity(parts.len());
        for unit in &plan.units {
            let its = parts
                .by_ref()
                .take(unit.parts)
                .map(|part| part.unwrap_or_else(|error| iter::repeat_n(error.to_reply(), unit.replies).collect()));
            match &unit.make {
                Make::Same => {
                    its.for_each(|part| replies.extend(part.iter().map(|reply| part.bytes().slice_ref(reply))))
                }
                Make::Crossed => {
                    replies.extend(iter::repeat_n(Bytes::from_static(b"+QUEUED\r\n"), unit.replies - 1));
                    replies.push(Bytes::from_static(b"-CROSSSLOT Keys in request don't hash to the same slot\r\n"));
                }
                Make::Gather(how) => replies.push(gather(how, &its.map(|part| part.last()).collect::<Vec<_>>())),
                Make::Cursor(index) => replies.extend(its.map(|part| next_cursor(&part.last(), *index, masters))),
            }
        }
        replies.into_iter().collect()
    }
}
