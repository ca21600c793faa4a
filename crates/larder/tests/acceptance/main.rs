//! Larder as its users meet it: the binary as a process, real client libraries, the commands of the
//! README.
//!
//! `LARDER_BIN` names another binary to test (`make acceptance`: the release build); else it is the
//! one of this build.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod clients;
#[expect(dead_code, unreachable_pub)]
#[path = "../common/mod.rs"]
mod common;
mod console;
mod end_to_end;
mod guide;
mod http_client;
#[expect(dead_code, unreachable_pub)]
#[path = "../common/larder.rs"]
mod larder;
mod maintenance_notifications;
mod openapi;
#[expect(dead_code, unreachable_pub)]
#[path = "../postgres/server.rs"]
mod postgres_server;
mod quick_starts;
mod reference;
