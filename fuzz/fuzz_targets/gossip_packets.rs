//! A datagram from a stranger where nodes gossip: no panic, nothing is looked at without the seal, and the nodes that are learned have an address.
//!
//! The parser is a file of the server; its own files alone are built with it.
#![no_main]
#![allow(dead_code, reason = "the server uses the rest")]
use foca::{AccumulatingRuntime, Config, Foca, NoCustomBroadcast, PostcardCodec};
use gossip_packets::{NodeId, Sealer};
use libfuzzer_sys::fuzz_target;
use rand::{SeedableRng, rngs::SmallRng};

#[path = "../../crates/ring/src/peer/discovery/gossip_packets.rs"]
mod gossip_packets;

fn node(port: u16) -> NodeId {
    let http = format!("10.0.0.1:{port}");
    NodeId { gossip: ([10, 0, 0, 1], port).into(), http, zone: "a".to_owned(), since: 1 }
}

fuzz_target!(|input: (Vec<u8>, Vec<(u16, u8)>)| {
    let (bytes, changes) = input;
    let machine = |port| {
        Foca::<_, _, _, NoCustomBroadcast>::new(node(port), Config::simple(), SmallRng::seed_from_u64(1), PostcardCodec)
    };
    let mut runtime = AccumulatingRuntime::new();
    machine(2).announce(NodeId::at(node(1).gossip), &mut runtime).expect("it is sent");
    let (_, packet) = runtime.to_send().expect("it was sent");
    let mut changed = packet.to_vec();
    for (at, to) in changes {
        let len = changed.len();
        changed[usize::from(at) % len] = to;
    }
    let mut this = machine(1);
    for sent in [&changed, &bytes] {
        assert!(Sealer::new(Some("secret"), 0).open(sent, 0).is_err());
        if let Ok(packet) = Sealer::new(None, 0).open(sent, 0) {
            let _ = this.handle_data(packet, &mut runtime);
        }
    }
    for learned in this.iter_members().filter_map(|member| member.id().node()) {
        assert_eq!(learned.address.to_string().parse(), Ok(learned.address));
    }
});
