//! The server from outside: the real binary, real sockets, a real redis-server behind it.
#![expect(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/innocent.rs"]
mod innocent;
#[path = "../common/larder.rs"]
mod larder;

mod access;
mod attached;
mod blocking;
mod connections;
mod doors;
mod drain;
mod moving;
mod password;
mod pausing;
mod pipeline;
mod pubsub;
mod start;
mod strangers;
mod throttle;
mod tracking;
