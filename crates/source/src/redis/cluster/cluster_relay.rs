//! Relays commands of clients: sends each to the node of its keys and assembles the replies in the
//! clients' order.
use super::{
    cluster_core::ClusterCore,
    command_routing::{Destination, ReplyAssembly, RoutedCommands, RoutingPlan},
    slot_redirects::{ConnectionClass, ConnectionRoute},
};
use crate::{
    local_future::LocalFuture,
    raw_replies::RawReplies,
    redis::{queued_request::RelayResult, redis_source::RedisSource},
    redis_server_trait::RedisServer,
    source_error::SourceError,
    upstream_commands::UpstreamCommands,
};
use bytes::Bytes;
use larder_config::RedisAddress;
use std::{rc::Rc, sync::Arc, time::Duration};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

/// Pause before an unknown cluster is asked again.
const PAUSE: Duration = Duration::from_millis(20);
/// Masters that are asked for their command table at once.
const ASKED: usize = 3;

/// A plan in flight: one write to each node.
struct Sent {
    answers: Vec<LocalFuture<'static, RelayResult>>,
    /// For each part: the index of its answer, and of its first reply in it.
    places: Vec<Result<(usize, usize), SourceError>>,
}

impl ClusterCore {
    pub(super) fn known_commands(&self) -> Option<Arc<UpstreamCommands>> {
        // All nodes have the same table.
        self.nodes.borrow().values().next()?.known_commands()
    }
    pub(super) async fn commands(&self, deadline: Instant) -> Result<Arc<UpstreamCommands>, SourceError> {
        loop {
            if let Some(known) = self.known_commands() {
                return Ok(known);
            }
            // The first answer counts: a silent node must not delay commands for other nodes.
            let mut asked = JoinSet::new();
            let (map, turn) = (self.map(), self.next_turn());
            for shard in map.shards().iter().cycle().skip(turn % map.shards().len().max(1)).take(ASKED) {
                if let Ok(node) = self.node(&shard.master) {
                    asked.spawn_local(async move { node.ask_commands().await });
                }
            }
            let mut error = self.no_node_error();
            while let Some(answer) = asked.join_next().await {
                match answer {
                    Ok(Ok(known)) => return Ok(known),
                    Ok(Err(other)) => error = other,
                    Err(_) => {}
                }
            }
            // The last known table is used until a node answers.
            if let Some(known) = self.setup.settings.last_commands() {
                return Ok(known);
            }
            if Instant::now() >= deadline {
                return Err(error);
            }
            sleep(PAUSE).await;
        }
    }

    /// Sends commands at once (unless the command table is unknown), and awaits their replies.
    pub(super) fn relay(
        self: Rc<ClusterCore>,
        commands: Bytes,
        route: ConnectionRoute,
    ) -> LocalFuture<'static, RelayResult> {
        let deadline = self.deadline();
        match self.known_commands() {
            Some(known) => {
                let plan = RoutingPlan::new(&commands, &known, &self.map());
                let sent = self.send_all(&plan, route);
                Box::pin(async move { self.answer(plan, sent, route, deadline).await })
            }
            None => Box::pin(async move {
                let known = self.commands(deadline).await?;
                let plan = RoutingPlan::new(&commands, &known, &self.map());
                let sent = self.send_all(&plan, route);
                self.answer(plan, sent, route, deadline).await
            }),
        }
    }

    /// The nodes that may have answered these commands.
    pub(super) fn nodes_of(&self, commands: &Bytes) -> Vec<Rc<RedisSource>> {
        let map = self.map();
        let parts = self.known_commands().map(|known| RoutingPlan::new(commands, &known, &map).parts);
        let has_places = |part: &RoutedCommands| !matches!(part.to, Destination::Anyone);
        match parts.filter(|parts| parts.iter().all(has_places)) {
            Some(parts) => {
                parts.iter().filter_map(|part| self.node(&self.address(&map, &part.to).ok()?).ok()).collect()
            }
            None => self.nodes.borrow().values().cloned().collect(),
        }
    }

    fn send_all(&self, plan: &RoutingPlan, route: ConnectionRoute) -> Sent {
        let map = self.map();
        let mut nodes: Vec<(RedisAddress, Vec<Bytes>, usize)> = Vec::new();
        let mut places = Vec::with_capacity(plan.parts.len());
        for part in &plan.parts {
            let address = match (&part.to, nodes.first()) {
                // A node that gets commands anyway.
                (Destination::Anyone, Some((address, ..))) => Ok(address.clone()),
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
            let part = RoutedCommands { commands, count, to: Destination::Anyone };
            Box::pin(self.send(&part, &address, route, false)) as LocalFuture<'static, RelayResult>
        });
        Sent { answers: answers.collect(), places }
    }

    /// Awaits the answers, follows redirects, and assembles the replies.
    async fn answer(&self, plan: RoutingPlan, sent: Sent, route: ConnectionRoute, deadline: Instant) -> RelayResult {
        let mut answers = Vec::with_capacity(sent.answers.len());
        for answer in sent.answers {
            answers.push(answer.await);
        }
        // Slow commands have used their own limit before a redirect, so they get a new deadline.
        let deadline = if route.class == ConnectionClass::Shared { deadline } else { self.deadline() };
        let mut parts = Vec::with_capacity(plan.parts.len());
        for (part, place) in plan.parts.iter().zip(sent.places) {
            let answer = place.and_then(|(node, first)| {
                let replies = answers[node].as_ref().map_err(Clone::clone)?;
                Ok(replies.part(first..first + part.count))
            });
            parts.push(self.follow_redirects(part, answer, route, deadline).await);
        }
        if let [_] = &plan.units[..]
            && let [_] = &parts[..]
            && matches!(plan.units[0].assembly, ReplyAssembly::Same)
            && let Some(answer) = parts.pop()
        {
            return answer;
        }
        // All parts failed.
        if !parts.is_empty() && parts.iter().all(Result::is_err) {
            let lost = parts.iter().position(|part| matches!(part, Err(SourceError::Lost(_))));
            return parts.swap_remove(lost.unwrap_or(0));
        }
        let any = |is: fn(&RawReplies) -> bool| parts.iter().flatten().any(is);
        let (is_broken, may_be_forged) = (any(RawReplies::is_broken), any(RawReplies::may_be_forged));
        let replies = plan.assemble(parts, self.map().shards().len(), &self.setup.settings.buffers)?;
        Ok(RawReplies { is_broken, may_be_forged, ..replies })
    }
}
