//! How uneven keys and requests lie on the nodes.
use super::fleet_ring::{mean, ring};
use crate::lib::dataset::uuid_of;
use fastrand::Rng;
use larder::peer::{Ring, RingHash};
use serde::Serialize;
use std::fmt::Write;

/// The most loaded node, in means of all nodes, unless it says otherwise.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Imbalance {
    /// Of the ring, and so of evenly spread keys.
    pub(super) share: f64,
    /// Of requests under way, all by owner.
    pub(super) plain: f64,
    /// The same with bounded load, if every node knows the load of all.
    pub(super) bounded: f64,
    /// The part of the requests that bounded load takes from the owner.
    diverted: f64,
    /// With bounded load, if a node knows its own requests alone.
    bounded_by_own: f64,
    /// The part of the requests that this takes from the owner.
    diverted_by_own: f64,
    /// The part of the ring that one node more takes.
    moved_to_new_node: f64,
    /// The part of the ids 1 to 100 that the node with most of them owns.
    hundred_ids_xxh3: f64,
    hundred_ids_fnv1: f64,
    hundred_ids_crc32: f64,
}

impl Imbalance {
    /// Means over the fleets.
    pub(super) fn mean(fleets: &[Imbalance]) -> Imbalance {
        Imbalance {
            share: mean(fleets, |fleet| fleet.share),
            plain: mean(fleets, |fleet| fleet.plain),
            bounded: mean(fleets, |fleet| fleet.bounded),
            diverted: mean(fleets, |fleet| fleet.diverted),
            bounded_by_own: mean(fleets, |fleet| fleet.bounded_by_own),
            diverted_by_own: mean(fleets, |fleet| fleet.diverted_by_own),
            moved_to_new_node: mean(fleets, |fleet| fleet.moved_to_new_node),
            hundred_ids_xxh3: mean(fleets, |fleet| fleet.hundred_ids_xxh3),
            hundred_ids_fnv1: mean(fleets, |fleet| fleet.hundred_ids_fnv1),
            hundred_ids_crc32: mean(fleets, |fleet| fleet.hundred_ids_crc32),
        }
    }
}

pub(super) fn imbalance(
    of: &Ring,
    hash: RingHash,
    names: &[String],
    in_flight: u64,
    factor: f64,
    random: &mut Rng,
) -> Imbalance {
    let nodes = names.len();
    let (mut plain, mut bounded, mut by_own) = (vec![0; nodes], vec![0; nodes], vec![0; nodes]);
    let (mut diverted, mut diverted_by_own) = (0, 0);
    let mut key = Vec::new();
    // Single flight leaves one request for a key, so all keys differ.
    for _ in 0..nodes {
        let mut own = vec![0; nodes];
        for _ in 0..in_flight {
            key.clear();
            uuid_of(random.u64(..), &mut key);
            let owner = of.owner(&key).expect("a fleet has nodes");
            plain[owner] += 1;
            let chosen = of.owner_within(&key, |node| bounded[node], factor).expect("a fleet has nodes");
            bounded[chosen] += 1;
            diverted += u64::from(chosen != owner);
            let chosen = of.owner_within(&key, |node| own[node], factor).expect("a fleet has nodes");
            own[chosen] += 1;
            by_own[chosen] += 1;
            diverted_by_own += u64::from(chosen != owner);
        }
    }
    let requests = (nodes as u64 * in_flight) as f64;
    let most = |loads: &[u64]| loads.iter().copied().max().unwrap_or(0) as f64 / in_flight as f64;
    let mut larger = names.to_vec();
    larger.push("192.0.2.1:8080".to_owned());
    Imbalance {
        share: of.shares().into_iter().fold(0.0, f64::max) * nodes as f64,
        plain: most(&plain),
        bounded: most(&bounded),
        diverted: diverted as f64 / requests,
        bounded_by_own: most(&by_own),
        diverted_by_own: diverted_by_own as f64 / requests,
        moved_to_new_node: ring(hash, &larger).shares()[nodes],
        hundred_ids_xxh3: hundred_ids(&ring(RingHash::Xxh3, names)),
        hundred_ids_fnv1: hundred_ids(&ring(RingHash::Fnv1, names)),
        hundred_ids_crc32: hundred_ids(&ring(RingHash::Crc32, names)),
    }
}

/// The largest part of the ids 1 to 100 that one node owns.
fn hundred_ids(ring: &Ring) -> f64 {
    let (mut owned, mut key) = (vec![0; ring.shares().len()], String::new());
    for id in 1..=100 {
        key.clear();
        let _ = write!(key, "{id}");
        owned[ring.owner(key.as_bytes()).expect("a fleet has nodes")] += 1;
    }
    f64::from(owned.into_iter().max().unwrap_or(0)) / 100.0
}
