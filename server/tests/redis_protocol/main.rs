//! The server from outside: the real binary, real sockets, a real redis-server behind it.
#![expect(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/innocent_client.rs"]
mod innocent;
#[path = "../common/larder.rs"]
mod larder;
#[expect(dead_code, reason = "replies are compared as JSON")]
#[path = "../differential/resp.rs"]
mod resp;

mod access;
mod blocking;
mod buffers;
mod client_pause;
mod connections;
mod dedicated_connections;
mod drain;
mod identity;
mod innocent_bystanders;
mod json_examples;
mod maintenance_notifications;
mod other_protocols;
mod passthrough;
mod password;
mod pipeline;
mod pubsub;
mod shards;
mod startup;
mod throttle;
mod tracking;
