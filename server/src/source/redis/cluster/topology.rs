//! Keeps the map: asks nodes for what they know, every second and as soon as the map is in doubt.
use super::{ClusterSetup, Core, cluster_nodes, slot_map::Map};
use crate::{
    config::RedisAddress,
    source::{
        LocalFuture,
        redis::{connection::UpstreamConnection, request::Answer},
    },
};
use larder_proto::resp::{View, encode, view};
use std::{
    collections::HashMap,
    rc::{Rc, Weak},
    sync::Arc,
    time::Duration,
};
use tokio::time::{Instant, sleep, timeout, timeout_at};

/// Between two rounds, at least, and how much longer at most. docs/coherence.md promises a second in all.
const PERIOD: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(950));
/// A round waits so long, or a fifth of `source-timeout`, for those that have not answered when others have: what they say counts in the next.
const PATIENCE: Duration = Duration::from_millis(200);
/// Masters that are asked in one round: of larger clusters some at a time.
const ASKED: usize = 16;

/// A node that is asked.
struct Asked {
    link: UpstreamConnection,
    /// What it has not said yet.
    answer: Option<LocalFuture<'static, Answer>>,
}

/// Runs until its core ends.
pub(super) async fn keep(core: Weak<Core>) {
    let mut links: HashMap<RedisAddress, Asked> = HashMap::new();
    let mut round = 0;
    while let Some(core) = core.upgrade() {
        let setup = core.setup.clone();
        look(&core, &mut links, round).await;
        round += 1;
        drop(core);
        sleep(PERIOD.0).await;
        let _ = timeout(PERIOD.1, setup.doubted.notified()).await;
    }
}

async fn look(core: &Rc<Core>, links: &mut HashMap<RedisAddress, Asked>, round: usize) {
    let setup = &core.setup;
    let map = core.map();
    let masters: Vec<_> = map.shards().iter().map(|shard| &shard.master).collect();
    let from = round * ASKED % masters.len().max(1);
    let some = masters.iter().cycle().skip(from).take(masters.len().min(ASKED)).map(|address| (*address).clone());
    let some: Vec<_> = some.collect();
    let mut views = ask(setup, links, &some).await;
    if views.len() < some.len() || some.is_empty() {
        // Others may know who has taken the place of those that are silent.
        let replicas = map.shards().iter().flat_map(|shard| &shard.replicas);
        let others: Vec<_> = replicas.chain(&setup.seeds).filter(|address| !some.contains(address)).cloned().collect();
        views.extend(ask(setup, links, &others[..others.len().min(ASKED)]).await);
    }
    if !views.iter().flatten().any(|node| !node.slots.is_empty()) {
        return;
    }
    core.replace(|before| Map::merge(&views, before));
    let map = core.map();
    links.retain(|address, _| map.has(address) || setup.seeds.contains(address));
    setup.forget_nodes(&map);
}

async fn ask(
    setup: &Arc<ClusterSetup>,
    links: &mut HashMap<RedisAddress, Asked>,
    addresses: &[RedisAddress],
) -> Vec<Vec<cluster_nodes::Node>> {
    let command = encode(&[b"CLUSTER", b"NODES"]);
    // All at once: they are queued as the futures are made.
    for address in addresses {
        let Ok(settings) = setup.node(address) else { continue };
        let asked = links.entry(address.clone());
        let asked = asked.or_insert_with(|| Asked { link: UpstreamConnection::shared(settings, false), answer: None });
        asked.answer.get_or_insert_with(|| Box::pin(asked.link.relay(command.clone().into(), 1)));
    }
    let (begun, limit) = (Instant::now(), setup.settings.limits.timeout);
    let mut views = Vec::new();
    for patience in [PATIENCE.min(limit / 5), limit] {
        for address in addresses {
            let Some(asked) = links.get_mut(address) else { continue };
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

fn read(answer: Answer, asked: &RedisAddress, by_name: bool) -> Result<Vec<cluster_nodes::Node>, Arc<str>> {
    let reply = answer.map_err(|error| error.to_string())?.last();
    match view(&reply) {
        Ok(View::Bulk(text)) => Ok(cluster_nodes::parse(&String::from_utf8_lossy(text), asked, by_name)),
        Ok(View::Error(text)) => Err(String::from_utf8_lossy(text).into()),
        _ => Err("an unexpected reply to CLUSTER NODES".into()),
    }
}
