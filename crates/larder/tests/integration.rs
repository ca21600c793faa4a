//! Larder from outside: the real binary with real sockets, files, redis-servers and clients.
//!
//! All suites are one binary. It links the server once, and tests that wait leave their core to
//! others. Each suite is a folder: `cargo test -p larder --test integration peers::` runs one of
//! them. `acceptance` and `allocations` are binaries of their own: the first can run another build
//! of Larder, the second counts with an allocator of its own.
#![expect(clippy::unwrap_used, unreachable_pub, reason = "a panic is how a test fails")]

mod cassandra;
mod cli;
mod cluster;
mod coherence;
mod common;
mod crash;
mod differential;
mod disk_store;
mod front_door;
mod http;
#[path = "common/innocent_client.rs"]
mod innocent;
#[path = "common/larder.rs"]
mod larder;
#[path = "common/lies.rs"]
mod lies;
mod memcached;
mod mirror;
#[path = "common/network.rs"]
mod network;
mod peers;
mod postgres;
mod redis_protocol;
mod replication;
mod rules;
#[path = "common/sentinel.rs"]
mod sentinel;
mod snapshots;
mod source_conformance;
mod table;
mod telemetry;
mod tls;
