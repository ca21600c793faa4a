//! Admission of fetches to a source that may suffer: when a fetch may go to the source, when it
//! waits, and when it fails at once.
//!
//! ```text
//!  misses ─► FetchGate (one per core, `fetch_gate.rs`) ──► source
//!              │ circuit open: fails at once           CircuitBreaker   per group
//!              │ limit reached: waits a short time     ConcurrencyLimit per server, of all its groups
//!              ▼ a slot is free: sent
//!            waiting fetches
//!
//!  ends of fetches ─► FetchAdmission::finished: in flight, latency, failures
//! ```
//!
//! - [`circuit_breaker`], [`concurrency_limit`] and [`retry_budget`] are pure: time is an argument,
//!   as the duration since some start. Their tests run them with a simulated clock.
//! - Only misses come here. While the circuit is closed and slots are free, a miss reads and adds
//!   atomics. The locks are taken when a fetch fails, when a window ends (ten times a second), and
//!   while the circuit is not closed.
//! - Writes and relayed commands are not held back.
//!
//! Lock order: none of these locks is held while another is taken.
mod circuit_breaker;
mod concurrency_limit;
mod fetch_admission;
mod retry_budget;
mod server_load;
mod shared_breaker;
#[cfg(test)]
mod tests;

pub use circuit_breaker::BreakerState;
pub(super) use fetch_admission::{FetchAdmission, FetchEnd, Rejection};
pub(super) use server_load::FOREGROUND;
pub use server_load::ServerLoads;
