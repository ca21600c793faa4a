//! Peers, against the real groupcache libraries and their nodes.
#![expect(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
mod go_node;
mod interop;
#[path = "../common/larder.rs"]
mod larder;
mod ring;
