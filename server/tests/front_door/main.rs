//! What stands between clients and Larder, and what comes that should not: real proxies, limits, overload, attacks on real sockets.
#![expect(clippy::unwrap_used, unreachable_pub)]

mod attacks_http;
mod attacks_http2;
mod attacks_redis;
mod attacks_tls;
#[path = "../tls/certificates.rs"]
mod certificates;
#[path = "../common/mod.rs"]
mod common;
mod established;
#[path = "../common/larder.rs"]
mod larder;
mod limits;
mod overload;
#[path = "../tls/programs.rs"]
mod programs;
mod proxies;
mod proxy_headers;
mod proxy_programs;
mod sockets;
