//! Keeps the slot map up to date: asks nodes every second, and as soon as the map is in doubt.
use super::{
    cluster_core::ClusterCore,
    cluster_nodes::{self, ClusterNode},
    cluster_setup::ClusterSetup,
    slot_map::SlotMap,
};
use crate::{
    local_future::LocalFuture,
    redis::{connection::UpstreamConnection, queued_request::RelayResult},
};
use larder_config::RedisAddress;
use larder_proto::resp::{View, encode, view};
use std::{
    collections::HashMap,
    rc::{Rc, Weak},
    sync::Arc,
    time::Duration,
};
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// Shortest pause between two rounds, and the longest additional pause. docs/coherence.md promises
/// a second in total.
const PERIOD: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(950));
/// Once one node has answered, a round waits this long for the others, or a fifth of
/// `source-timeout`. A later answer counts in the next round.
const PATIENCE: Duration = Duration::from_millis(200);
/// Masters asked in one round; larger clusters take several rounds.
const ASKED: usize = 16;

/// A connection to a node, and its pending answer.
struct NodeQuery {
    connection: UpstreamConnection,
    /// The answer that is still pending.
    answer: Option<LocalFuture<'static, RelayResult>>,
}

/// Runs until its core ends.
pub(super) async fn keep_refreshing(core: Weak<ClusterCore>) {
    let mut connections: HashMap<RedisAddress, NodeQuery> = HashMap::new();
    let mut round = 0;
    while let Some(core) = core.upgrade() {
        let setup = core.setup.clone();
        refresh(&core, &mut connections, round).await;
        round += 1;
        drop(core);
        sleep(PERIOD.0).await;
        let _ = timeout(PERIOD.1, setup.refresh.notified()).await;
    }
}

async fn refresh(core: &Rc<ClusterCore>, connections: &mut HashMap<RedisAddress, NodeQuery>, round: usize) {
    let setup = &core.setup;
    let map = core.map();
    let masters: Vec<_> = map.shards().iter().map(|shard| &shard.master).collect();
    let from = round * ASKED % masters.len().max(1);
    let some = masters.iter().cycle().skip(from).take(masters.len().min(ASKED)).map(|address| (*address).clone());
    let some: Vec<_> = some.collect();
    let mut views = ask(setup, connections, &some).await;
    if views.len() < some.len() || some.is_empty() {
        // Other nodes may know the successors of the silent ones.
        let replicas = map.shards().iter().flat_map(|shard| &shard.replicas);
        let others: Vec<_> = replicas.chain(&setup.seeds).filter(|address| !some.contains(address)).cloned().collect();
        views.extend(ask(setup, connections, &others[..others.len().min(ASKED)]).await);
    }
    if !views.iter().flatten().any(|node| !node.slots.is_empty()) {
        return;
    }
    core.replace(|before| SlotMap::merge(&views, before));
    let map = core.map();
    connections.retain(|address, _| map.has(address) || setup.seeds.contains(address));
    setup.forget_nodes(&map);
}

async fn ask(
    setup: &Arc<ClusterSetup>,
    connections: &mut HashMap<RedisAddress, NodeQuery>,
    addresses: &[RedisAddress],
) -> Vec<Vec<ClusterNode>> {
    let command = encode(&[b"CLUSTER", b"NODES"]);
    // All at once: making a future queues its command.
    for address in addresses {
        let Ok(settings) = setup.node(address) else { continue };
        let asked = connections.entry(address.clone());
        let asked = asked
            .or_insert_with(|| NodeQuery { connection: UpstreamConnection::shared(settings, false), answer: None });
        asked.answer.get_or_insert_with(|| Box::pin(asked.connection.relay(command.clone().into(), 1)));
    }
    let (begun, limit) = (Instant::now(), setup.settings.limits.timeout);
    let mut views = Vec::new();
    for patience in [PATIENCE.min(limit / 5), limit] {
        for address in addresses {
            let Some(asked) = connections.get_mut(address) else { continue };
            let Some(answer) = &mut asked.answer else { continue };
            let Ok(answer) = timeout_at(begun + patience, answer).await else { continue };
            asked.answer = None;
            match read(answer, address, setup.settings.url.tls.is_some()) {
                Ok(view) => views.push(view),
                Err(reason) => setup.settings.health.note_error(&reason),
            }
        }
        if !views.is_empty() {
            break;
        }
    }
    views
}

fn read(answer: RelayResult, asked: &RedisAddress, by_name: bool) -> Result<Vec<ClusterNode>, Arc<str>> {
    let reply = answer.map_err(|error| error.to_string())?.last();
    match view(&reply) {
        Ok(View::Bulk(text)) => Ok(cluster_nodes::parse(&String::from_utf8_lossy(text), asked, by_name)),
        Ok(View::Error(text)) => Err(String::from_utf8_lossy(text).into()),
        _ => Err("an unexpected reply to CLUSTER NODES".into()),
    }
}
