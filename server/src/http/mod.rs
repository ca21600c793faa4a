//! The HTTP routes: native, compatibility and admin.
//!
//! ```text
//!              first bytes                plain GETs of hot routes                 anything else, with the bytes already read
//! TcpStream ─────────────► fast: recognise ─────────► answered from inside ──┐  ┌─► general: hyper (HTTP/1.1, HTTP/2) ─► router ─► kv, lookup …
//!                              ▲                      the engine's lookup     │  │                                              │
//!                              └───────── one write per batch ◄───────────────┘  └── from then on ◄─────────────────────────────┘
//! ```
//!
//! Invariants:
//! - The fast path answers only what the general path would answer with the same bytes; `answer` words both, a test compares them.
//! - A hit on the fast path allocates nothing: input and output buffers belong to the worker, not to the connection.
//! - Every wait for a client ends: for a head after `header-timeout`, for the next request or for room in the client's
//!   window after `idle-timeout`, for a request's body by its size (`input`).
//! - No route reads the clock twice or trusts a length before comparing it with its setting.
mod backup;
mod connection_deadlines;
mod fast;
mod general;
mod group_routes;
mod health_and_stats;
mod key_routes;
mod mget;
mod problem;
mod range_routes;
mod read_answer;
mod request_body;
mod response_body;
mod router;
#[cfg(test)]
mod tests;

use crate::{
    app::Worker,
    buffers::{Holder, Protocol},
    lifecycle::{drain::Drain, linger::linger},
};
use http::Response;
use larder_proto::{http::text::Date, output::Output};
use larder_store::clock;
use std::{cell::RefCell, future::poll_fn, io::IoSlice, net::SocketAddr, rc::Rc, task::Poll, time::Duration};
use tokio::net::TcpStream;

/// Which routes a listener has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Keys and values, health and statistics.
    Native,
    /// Health, statistics and control; no keys and values.
    Admin,
}

/// What the HTTP connections of one worker share.
#[derive(Debug, Default)]
pub struct PerWorker {
    watches: connection_deadlines::ConnectionDeadlines,
    buffers: RefCell<Buffers>,
}

/// Input and output of the connection whose turn it is. They hold nothing between turns, so they stay in the core's cache
/// and an idle connection occupies no buffer.
#[derive(Debug)]
struct Buffers {
    input: Box<[u8]>,
    output: Output,
    date: Date,
}

/// How long a client may go on sending after we have ended a connection, before it is cut off.
const LINGER: Duration = Duration::from_millis(500);

/// A head that does not fit is the general path's business.
const INPUT: usize = 16 * 1024;

impl Default for Buffers {
    fn default() -> Self {
        Buffers { input: vec![0; INPUT].into(), output: Output::default(), date: Date::default() }
    }
}

/// A connection's surroundings.
struct Context {
    worker: Rc<Worker>,
    http: Rc<PerWorker>,
    /// The connection's account.
    holder: Holder,
    peer: SocketAddr,
    role: Role,
}

impl Context {
    /// Of the calling task's connection.
    async fn new(worker: Rc<Worker>, http: Rc<PerWorker>, peer: SocketAddr, role: Role) -> Context {
        let holder = holder(&worker).await;
        Context { worker, http, holder, peer, role }
    }
}

/// An account for the calling task.
async fn holder(worker: &Worker) -> Holder {
    let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
    Holder::client(&worker.app.buffers, worker.id, Protocol::Http, waker)
}

/// Serves one connection until the client, a limit or the drain ends it.
pub async fn serve_connection(
    worker: Rc<Worker>,
    http: Rc<PerWorker>,
    stream: TcpStream,
    peer: SocketAddr,
    role: Role,
) {
    let watch = Rc::new(connection_deadlines::ConnectionDeadline::begin(&worker.app, &http).await);
    let context = Rc::new(Context::new(worker, http, peer, role).await);
    // The admin listener has no hot routes.
    let handover = match role {
        Role::Native => fast::serve(&context, stream, &watch).await,
        Role::Admin => Some((stream, Vec::new())),
    };
    if let Some((stream, read)) = handover {
        general::serve(context, stream, read, watch).await;
    }
}

/// Ends a connection with this answer to what its client has begun to send.
async fn end_with(stream: &mut TcpStream, drain: &Drain, response: Response<response_body::Body>) {
    let mut output = Output::default();
    let date = *Date::default().at(clock::now());
    read_answer::write_whole(&mut output, response, &date);
    let mut slices = [IoSlice::new(&[]); 2];
    let used = output.io_slices(&mut slices);
    // A socket without room for this much belongs to a client that does not listen.
    if stream.try_write_vectored(&slices[..used]).is_ok() {
        linger(stream, drain, LINGER).await;
    }
}
