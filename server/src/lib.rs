//! Larder's server: rooms in the order in which they may import one another (docs/architecture.md).
pub mod app;
pub mod buffers;
pub mod cli;
pub mod clients;
pub mod clock;
pub mod config;
pub mod dispatch;
pub mod http;
pub mod net;
pub mod proto;
pub mod read;
pub mod source;
pub mod store;
pub mod telemetry;
