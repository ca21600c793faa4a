//! Several Larders as one cache: real processes that own keys of one ring, and the Go libraries whose ring it is.
#![expect(clippy::unwrap_used, unreachable_pub)]

#[path = "../common/mod.rs"]
mod common;
mod disagreement;
mod discovery;
mod fleet;
mod go_node;
mod interop;
#[path = "../common/larder.rs"]
mod larder;
mod mixed_ring;
mod observation;
mod reads;
mod removals;
mod ring;
