//! Several Larders as one cache: real processes that own keys of one ring, and the Go libraries whose ring it is.
#![expect(clippy::unwrap_used, unreachable_pub)]

mod addressed_node;
#[expect(dead_code, reason = "the tests of TLS use the rest")]
#[path = "../tls/certificates.rs"]
mod certificates;
#[path = "../common/mod.rs"]
mod common;
mod disagreement;
mod discovery;
mod fleet;
mod go_node;
mod gossip;
mod handover;
mod interop;
mod kubernetes_server;
#[path = "../common/larder.rs"]
mod larder;
mod mixed_ring;
#[path = "../common/network.rs"]
mod network;
mod networks;
mod observation;
mod pods;
mod reads;
mod removals;
mod ring;
#[expect(dead_code, reason = "the suite of the sources uses the rest")]
#[path = "../source_conformance/scripted_origin.rs"]
mod scripted_origin;
mod srv_records;
mod store;
mod zones;
