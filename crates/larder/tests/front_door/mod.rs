//! What stands between clients and Larder, and what comes that should not: real proxies, limits,
//! overload, attacks on real sockets.

use crate::{
    common, larder,
    tls::{certificates, programs},
};

mod attacks_http;
mod attacks_http2;
mod attacks_logins;
mod attacks_redis;
mod attacks_tls;
mod established;
mod kept_identities;
mod limits;
pub mod long_turns;
mod overload;
mod proxies;
mod proxy_headers;
mod proxy_programs;
mod secrets;
mod sockets;
mod tokens;
#[cfg(target_os = "linux")]
mod transport;
#[cfg(target_os = "linux")]
mod transport_moves;
mod unix_sockets;
