//! Keeps the map: asks nodes for what they know, every second and as soon as the map is in doubt.
use super::{ClusterSetup, Core, map::Map, nodes};
use crate::{
    config::RedisAddress,
    proto::resp::{View, encode, view},
    source::redis::link::Link,
};
use std::{
    collections::HashMap,
    rc::{Rc, Weak},
    sync::Arc,
    time::Duration,
};
use tokio::time::{sleep, timeout};

/// Between two rounds, at least and at most. docs/coherence.md promises the longer one.
const PERIOD: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// Masters that are asked in one round: of larger clusters some at a time.
const ASKED: usize = 16;

/// Runs until its core ends.
pub(super) async fn keep(core: Weak<Core>) {
    let mut links: HashMap<RedisAddress, Link> = HashMap::new();
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

async fn look(core: &Rc<Core>, links: &mut HashMap<RedisAddress, Link>, round: usize) {
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
    let unsettles = setup.replace(|_| Map::merge(&views));
    if let Some(watch) = core.watch.as_ref().filter(|_| unsettles) {
        watch.to.all();
    }
    let map = core.map();
    links.retain(|address, _| map.has(address) || setup.seeds.contains(address));
}

async fn ask(
    setup: &Arc<ClusterSetup>,
    links: &mut HashMap<RedisAddress, Link>,
    addresses: &[RedisAddress],
) -> Vec<Vec<nodes::Node>> {
    let command = encode(&[b"CLUSTER", b"NODES"]);
    let mut asked = Vec::new();
    for address in addresses {
        let Ok(settings) = setup.node(address) else { continue };
        let link = links.entry(address.clone()).or_insert_with(|| Link::shared(settings, false));
        // All at once: they are queued as the futures are made.
        asked.push((address, link.relay(command.clone().into(), 1)));
    }
    let mut views = Vec::new();
    for (address, answer) in asked {
        let error = match answer.await.map(|replies| replies.last()) {
            Ok(reply) => match view(&reply) {
                Ok(View::Bulk(text)) => {
                    let by_name = setup.settings.url.tls.is_some();
                    views.push(nodes::parse(&String::from_utf8_lossy(text), address, by_name));
                    continue;
                }
                Ok(View::Error(text)) => String::from_utf8_lossy(text).into(),
                _ => "an unexpected reply to CLUSTER NODES".into(),
            },
            Err(error) => error.to_string(),
        };
        setup.settings.health.note_error(&error.into());
    }
    views
}
