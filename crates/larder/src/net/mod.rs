//! Sockets: listeners, the connection loop, its buffers and limits, and the way out.
//!
//! ```text
//!   control thread                         worker 0 … worker N-1 (one current-thread runtime each, nothing shared on a hit)
//!   accept ──── std TcpStream ───────────► least loaded worker ──► redis_connection  read ─ process ─ write ─┐
//!                                            (proxy_protocol, tls_handshake first)
//!   signals ─── Phase ───────────────────► every connection        http::serve_connection                     │
//!   ticks, 10 times a second                                                      ▲──── one task each ───┘
//!   (memory tiers, HTTP deadlines)
//! ```
//!
//! Plain connections are TcpStreams, or with `transport = io-uring` streams of the worker's ring
//! (`ring_transport`).
//!
//! Invariants:
//! - A connection lives and dies on one worker; only its socket crosses a thread, once.
//! - Every buffer has a bound; a client that does not read its replies is not read from.
//! - A handshake waits for its turn, so that a crowd of newcomers does not hold up those who are
//!   connected (`tls::HandshakeTurns`).
//! - A panic ends its connection's task and nothing else.
//! - `SIGTERM`: accept no more, answer what was read, close; what is left when `grace` is over is
//!   dropped, and the exit code is 0 all the same.
mod acceptor;
mod control_thread;
mod drain_on_signal;
mod idle_clients;
mod listeners;
mod mirror_threads;
mod open_files_limit;
#[cfg(feature = "otlp")]
mod otlp_exporter;
mod proxy_protocol;
mod ready_message;
mod ring_transport;
mod tls_handshake;
mod unix_socket;
mod worker_thread;

pub use control_thread::run;
