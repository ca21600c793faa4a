//! The reply to `CLUSTER NODES`: any text is a view, of which the map takes bounded steps; each slot has at most one owner, which a node named.
//!
//! The parser is in files of the server; these alone are built with it.
#![no_main]
#![allow(dead_code, reason = "the server uses the rest")]
use libfuzzer_sys::fuzz_target;

#[path = "../../crates/source/src/redis/cluster/cluster_nodes.rs"]
mod cluster_nodes;
#[path = "../../crates/source/src/redis/cluster/key_slot.rs"]
mod key_slot;
#[path = "../../crates/source/src/redis/cluster/slot_map.rs"]
mod slot_map;

fn merge(answers: [&str; 2], by_name: bool) {
    let asked = larder_config::RedisAddress::Tcp { host: "seed".into(), port: 1 };
    let views = answers.map(|answer| cluster_nodes::parse(answer, &asked, by_name));
    for view in &views {
        let claimed: usize = view.iter().flat_map(|node| &node.slots).map(ExactSizeIterator::len).sum();
        assert!(claimed <= key_slot::SLOTS);
    }
    let map = slot_map::SlotMap::merge(&views, &slot_map::SlotMap::default());
    for slot in 0..key_slot::SLOTS as u16 {
        let Some(owner) = map.owner(slot) else { continue };
        let claims = |node: &cluster_nodes::ClusterNode| {
            node.address == owner.master && node.slots.iter().any(|range| range.contains(&slot))
        };
        assert!(views.iter().flatten().any(claims), "slot {slot}");
    }
}

fuzz_target!(|input: (&str, &str, Vec<(u8, u16, u16)>, bool)| {
    let (text, place, claims, by_name) = input;
    // Mostly a reply.
    let line = |(at, (flags, first, last)): (usize, &(u8, u16, u16))| {
        let role = if flags & 1 == 0 { "master -" } else { "slave n0" };
        let myself = if at == 0 { "myself," } else { "" };
        let (first, last) = (first % 16_384, last % 16_384);
        format!("n{at} {place}:{at}@1 {myself}{role} 0 0 {flags} connected {first}-{last} [{last}->-n1]\n")
    };
    let lines: String = claims.iter().enumerate().map(line).collect();
    merge([text, &lines], by_name);
});
