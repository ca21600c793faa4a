//! TLS as other programs see it: curl, redis-cli, redis-py and openssl against the listeners; peers, replicas and the command line.
#![expect(clippy::unwrap_used, unreachable_pub)]

mod certificates;
mod client_certificates;
mod client_commands;
#[path = "../common/mod.rs"]
mod common;
mod files;
mod handshakes;
#[path = "../common/larder.rs"]
mod larder;
mod listeners;
mod nodes;
mod programs;
mod replicas;
