//! Sockets: listeners, the connection loop, its buffers and limits, and the way out.
//!
//! ```text
//!   control thread                         worker 0 … worker N-1 (one current-thread runtime each, nothing shared on a hit)
//!   accept ──── std TcpStream ───────────► least loaded worker ──► redis::serve  read ─ process ─ write ─┐
//!   signals ─── Phase ───────────────────► every connection        http::serve_connection                │
//!   tick of the memory tiers, throttle's                                          ▲──── one task each ───┘
//!   forgetting, 10 and 1 times a second
//! ```
//!
//! Invariants:
//! - A connection lives and dies on one worker; only its socket crosses a thread, once.
//! - Every buffer has a bound; a client that does not read its replies is not read from.
//! - A panic ends its connection's task and nothing else.
//! - `SIGTERM`: accept no more, answer what was read, close; what is left when `grace` is over is dropped, and the exit code is 0 all the same.
mod accept;
mod control;
pub mod drain;
mod files;
pub(crate) mod linger;
mod listen;
mod ready;
pub mod redis;
pub mod throttle;
mod worker;

pub use control::run;

use std::{io, net::SocketAddr};

/// Why the server did not start, or ended other than by draining.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An address could not be listened on.
    #[error("cannot listen on {address} (setting `{setting}`): {error}")]
    Bind {
        /// The setting that names the address.
        setting: &'static str,
        /// The address.
        address: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// A source could not be set up (as opposed to: is not reachable at the moment, which is waited for).
    #[error("cannot use the source of group `{group}`: {reason}")]
    Source {
        /// The group.
        group: String,
        /// Why.
        reason: String,
    },
    /// The system refused threads, signal handlers, polling.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
    /// A worker ended on its own: a bug, and the process must not go on with a core missing.
    #[error("worker {0} ended unexpectedly")]
    WorkerLost(usize),
    /// A second signal arrived during the drain; exit with 128 plus its number.
    #[error("ended at once by a second signal ({0})")]
    SecondSignal(i32),
}

impl RunError {
    /// The exit code of a process that ends so: 1, or 128 and the signal's number as shells have it.
    pub fn exit_code(&self) -> u8 {
        match self {
            RunError::SecondSignal(number) => u8::try_from(*number).map_or(1, |number| number.saturating_add(128)),
            _ => 1,
        }
    }
}
