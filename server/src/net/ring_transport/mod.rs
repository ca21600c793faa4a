//! Client connections over io_uring: with one system call a worker sends the replies and receives
//! the requests of many connections (decision 0084).
//!
//! ```text
//! connection's task ── bytes ──► its slot ── listed ─┐                       ┌── one io_uring_enter: submit
//!        ▲                                           ├─► the worker's task ──┤
//!        └──── chunk, end, error, room ◄── its slot ◄┘   behind all others   └── completions
//! ```
//!
//! `kernel_ring` has the memory that the kernel reads and writes, `worker_ring` the states of the
//! connections, `ring_stream` is a [`ClientStream`](crate::tls::ClientStream).
//!
//! Invariants:
//! - A slot stays until its last operation has completed, so that no completion finds another
//!   connection there.
//! - Between two turns no connection holds a receive buffer of the kernel. What it has not read is
//!   moved to memory of its own, which its account counts, and the kernel stops receiving for it:
//!   from then on it reads from the socket, when it reads.
//! - One send is under way for each connection. At most 16 KiB wait for it (`SMALL`).
//! - TLS connections and connections of other platforms use epoll.
#[cfg(target_os = "linux")]
mod kernel_ring;
#[cfg(target_os = "linux")]
mod ring_stream;
#[cfg(target_os = "linux")]
mod worker_ring;

#[cfg(target_os = "linux")]
pub(super) use worker_ring::WorkerRing;

use crate::{app::Worker, config::Transport};
use std::sync::atomic::Ordering::Relaxed;

/// The worker's ring if the setting asks for one and the kernel gives it.
pub(super) fn start(worker: &Worker) -> Option<WorkerRing> {
    if worker.app.settings.transport == Transport::Epoll {
        return None;
    }
    match WorkerRing::start() {
        Ok(ring) => {
            worker.app.workers_with_ring.fetch_add(1, Relaxed);
            Some(ring)
        }
        Err(error) => {
            // Every worker is refused for the same reason.
            if worker.id == 0 {
                tracing::warn!(%error, "the kernel refuses io_uring (setting `transport`): clients are served by epoll");
            }
            None
        }
    }
}

/// A platform without io_uring.
#[cfg(not(target_os = "linux"))]
#[derive(Clone)]
pub(super) enum WorkerRing {}
#[cfg(not(target_os = "linux"))]
impl WorkerRing {
    fn start() -> std::io::Result<WorkerRing> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
    pub(super) fn works(&self) -> bool {
        match *self {}
    }
    pub(super) async fn emptied(&self) {
        match *self {}
    }
    pub(super) fn stream(&self, _: tokio::net::TcpStream) -> std::io::Result<tokio::net::TcpStream> {
        match *self {}
    }
}
