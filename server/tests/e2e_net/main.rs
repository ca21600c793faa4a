//! The server from outside: the real binary, real sockets, a real redis-server behind it.
#![expect(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/larder.rs"]
mod larder;

mod attached;
mod blocking;
mod buffers;
mod connections;
mod drain;
mod moving;
mod pausing;
mod pipeline;
mod pubsub;
mod start;
mod throttle;
mod tracking;
