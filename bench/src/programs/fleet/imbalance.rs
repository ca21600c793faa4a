//! How uneven keys and requests lie on the nodes.
use super::traffic::{Figures, ring};
use crate::lib::dataset::uuid_of;
use fastrand::Rng;
use larder_ring::peer::{Ring, RingHash};

/// The most loaded node, in means of all nodes, unless it says otherwise.
pub(super) fn imbalance(
    of: &Ring,
    hash: RingHash,
    names: &[String],
    (in_flight, factor): (u64, f64),
    random: &mut Rng,
) -> Figures {
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
    let larger = [names, &["192.0.2.1:8080".to_owned()]].concat();
    vec![
        // Of the ring, and so of evenly spread keys.
        ("share", of.shares().into_iter().fold(0.0, f64::max) * nodes as f64),
        // Of requests under way, all by owner; then with bounded load, if every node knows the load of all,
        // and the part of the requests that it takes from the owner.
        ("plain", most(&plain)),
        ("bounded", most(&bounded)),
        ("diverted", diverted as f64 / requests),
        // With bounded load, if a node knows its own requests alone.
        ("bounded_by_own", most(&by_own)),
        ("diverted_by_own", diverted_by_own as f64 / requests),
        // The part of the ring that one node more takes.
        ("moved_to_new_node", ring(hash, &larger).shares()[nodes]),
        ("hundred_ids_xxh3", hundred_ids(&ring(RingHash::Xxh3, names))),
        ("hundred_ids_fnv1", hundred_ids(&ring(RingHash::Fnv1, names))),
        ("hundred_ids_crc32", hundred_ids(&ring(RingHash::Crc32, names))),
    ]
}

/// The part of the ids 1 to 100 that the node with most of them owns.
fn hundred_ids(ring: &Ring) -> f64 {
    let mut owned = vec![0; ring.shares().len()];
    for id in 1..=100 {
        owned[ring.owner(id.to_string().as_bytes()).expect("a fleet has nodes")] += 1;
    }
    f64::from(owned.into_iter().max().unwrap_or(0)) / 100.0
}
