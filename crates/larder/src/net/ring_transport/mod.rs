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
//! connections, `ring_stream` is a [`ClientStream`](larder_base::tls::ClientStream). `plain_stream` is one
//! over epoll or over the ring, and moves between them (decision 0091) as `turn_meter` says.
//!
//! Invariants:
//! - A slot stays until its last operation has completed, so that no completion finds another
//!   connection there.
//! - Between two turns no connection holds a receive buffer of the kernel. What it has not read is
//!   moved to memory of its own, which its account counts, and the kernel stops receiving for it:
//!   from then on it reads from the socket, when it reads.
//! - One send is under way for each connection. At most 16 KiB wait for it (`SMALL`).
//! - A connection moves only when its place holds none of its bytes and nothing of it is under way.
//! - TLS connections and connections of other platforms use epoll.
#[cfg(target_os = "linux")]
mod kernel_ring;
mod placement;
#[cfg(target_os = "linux")]
mod plain_stream;
#[cfg(target_os = "linux")]
mod ring_stream;
#[cfg(target_os = "linux")]
mod turn_meter;
#[cfg(target_os = "linux")]
mod worker_ring;

#[cfg(target_os = "linux")]
pub(super) use plain_stream::{PlainStream, plain_stream};
#[cfg(target_os = "linux")]
pub(super) use worker_ring::WorkerRing;

use larder_core::app::Worker;
pub(super) use placement::FirstKey;
use placement::Placement;
use std::{rc::Rc, sync::atomic::Ordering::Relaxed};

/// The worker's ring if the setting wants one and the kernel gives it.
pub(super) fn start(worker: &Rc<Worker>) -> Option<WorkerRing> {
    let placement = Placement::of(worker.app.settings.transport)?;
    match WorkerRing::start(placement, worker.clone()) {
        Ok(ring) => {
            worker.app.workers_with_ring.fetch_add(1, Relaxed);
            Some(ring)
        }
        // Every worker is refused for the same reason.
        Err(_) if worker.id > 0 => None,
        Err(error) if placement == Placement::Auto => {
            tracing::debug!(%error, "the kernel refuses io_uring: clients are served by epoll");
            None
        }
        Err(error) => {
            tracing::warn!(%error, "the kernel refuses io_uring (setting `transport`): clients are served by epoll");
            None
        }
    }
}

/// A platform without io_uring.
#[cfg(not(target_os = "linux"))]
mod without_ring {
    use super::{FirstKey, Placement, Rc, Worker};
    use std::io;
    use tokio::net::TcpStream;

    #[derive(Clone)]
    pub(in crate::net) enum WorkerRing {}
    impl WorkerRing {
        pub(super) fn start(_: Placement, _: Rc<Worker>) -> io::Result<WorkerRing> {
            Err(io::ErrorKind::Unsupported.into())
        }
        pub(in crate::net) fn works(&self) -> bool {
            match *self {}
        }
        pub(in crate::net) async fn emptied(&self) {
            match *self {}
        }
    }

    pub(in crate::net) type PlainStream = TcpStream;
    pub(in crate::net) fn plain_stream(
        stream: TcpStream,
        _: Option<&WorkerRing>,
        _: Option<FirstKey>,
    ) -> io::Result<PlainStream> {
        Ok(stream)
    }
}
#[cfg(not(target_os = "linux"))]
pub(super) use without_ring::{PlainStream, WorkerRing, plain_stream};
