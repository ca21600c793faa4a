//! `larder-bench floor`: servers, and a proxy, that read and write and do nothing else. What they cost is what no
//! server on the same kernel interface can go below; what another server costs more is its own.
//!
//! They answer requests of one kind from one client of ours and are no servers for anything else.
//! Each runs on the thread that calls it.
mod bare_hyper;
mod canned;
mod proxy;
mod sockets;
#[cfg(test)]
mod tests;

use crate::lib::{figures, servers::FLOOR_VALUE};
use canned::{Canned, Requests};
use proxy::Proxy;
use serde::Serialize;
use std::{
    io::Write,
    net::{SocketAddr, TcpListener},
};

/// Serves a canned value without parsing, looking up or copying anything, until it is killed
///
/// What a server costs above this is its own doing. Answers every request with 64 bytes and prints
/// a ready line like larder's. With --proxy, another server answers: what a proxy costs above this
/// is its own doing.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct FloorArgs {
    /// Redis protocol, epoll: counts requests by --request-bytes, one write for each read
    #[arg(long, value_name = "ADDR")]
    redis: Option<SocketAddr>,
    /// HTTP, a bare hyper server on a tokio runtime of one thread
    #[arg(long, value_name = "ADDR")]
    hyper: Option<SocketAddr>,
    /// HTTP, epoll: a read that ends with an empty line or with `}` is one request
    #[arg(long, value_name = "ADDR")]
    http: Option<SocketAddr>,
    /// Redis protocol, epoll: forwards the requests of all clients to UPSTREAM over one connection
    #[arg(long, num_args = 2, value_names = ["ADDR", "UPSTREAM"])]
    proxy: Option<Vec<SocketAddr>>,
    /// Length of each request of the Redis protocol (default: GET of a key of 16 bytes)
    #[arg(long, value_name = "N", default_value_t = GET_BYTES)]
    request_bytes: usize,
}

/// `*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000042\r\n`
const GET_BYTES: usize = 36;

/// As larder's ready line.
#[derive(Debug, Serialize)]
struct Ready {
    ready: bool,
    http: Vec<SocketAddr>,
    redis: Vec<SocketAddr>,
}

/// Runs the program.
pub(crate) fn run(args: &FloorArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut bind = |address: SocketAddr, is_redis: bool| -> anyhow::Result<TcpListener> {
        let listener = TcpListener::bind(address)?;
        let bound = vec![listener.local_addr()?];
        let (http, redis) = if is_redis { (vec![], bound) } else { (bound, vec![]) };
        figures::line(out, &Ready { ready: true, http, redis })?;
        Ok(listener)
    };
    if let Some([address, upstream]) = args.proxy.as_deref() {
        let mut proxy = Proxy::connect(*upstream)?;
        return proxy.serve(&bind(*address, true)?);
    }
    match (args.redis, args.hyper, args.http) {
        (Some(address), ..) => {
            anyhow::ensure!(args.request_bytes > 0, "--request-bytes is 0");
            let reply = [b"$64\r\n", &FLOOR_VALUE[..], b"\r\n"].concat();
            Canned::new(&reply, Requests::OfBytes(args.request_bytes)).serve(&bind(address, true)?)
        }
        (_, Some(address), _) => bare_hyper::serve(bind(address, false)?),
        (.., Some(address)) => {
            let reply = [b"HTTP/1.1 200 OK\r\nContent-Length: 64\r\n\r\n", &FLOOR_VALUE[..]].concat();
            Canned::new(&reply, Requests::Reads).serve(&bind(address, false)?)
        }
        _ => anyhow::bail!("one of --redis, --hyper, --http, --proxy is needed"),
    }
}
