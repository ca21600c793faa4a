//! Larder's server: rooms in the order in which they may import one another (docs/architecture.md).
pub mod app;
pub mod buffers;
pub mod cli;
pub mod clients;
pub mod config;
pub mod http;
pub mod identity;
pub mod lifecycle;
pub mod net;
pub mod peer;
pub mod read;
pub mod redis;
pub mod replica;
pub mod snapshot;
pub mod source;
pub mod telemetry;
pub mod tls;
