//! The load generator, as a library: a [`LoadPlan`] in, an [`LoadOutcome`](measure::LoadOutcome)
//! out, whole slices of time in between.
//!
//! ```text
//! schedule ──due──> generator ──bytes──> connection ──> server
//!                       │                    │ reply
//!                       wire <───────────────┘──> recorder ──slices──> run() ──> Outcome
//! ```
//! What always holds:
//! - A request has an intended start: with a rate, its place on a fixed schedule; without one, the
//!   moment its turn came. Latency is counted from there, service time from the write. Nothing is
//!   skipped, thinned out or corrected afterwards.
//! - What cannot be sent yet waits as a number in the schedule and keeps its time.
//! - With a think time, a connection is a user, who sends when its time has come. With a delay, the
//!   thread holds each written request back for this long.
//! - A request without a reply is an error by kind; one that timed out is in the percentiles with
//!   the time it had.
//! - The generator watches itself:
//!   [`GeneratorHealth::saturated`](measure::GeneratorHealth::saturated).
//! - One thread, one event loop; threads share nothing but the count of inserted keys.
mod connection;
mod generator;
mod generator_thread;
mod interrupt;
pub(crate) mod keys;
mod latency_recorder;
pub(crate) mod measure;
pub(crate) mod ops;
mod options;
mod plan;
pub(crate) mod poll;
pub(crate) mod reply_kinds;
mod run_plan;
pub(crate) mod schedule;
pub(crate) mod target;
#[cfg(test)]
mod tests;
mod users;
pub(crate) mod values;
pub(crate) mod wire;
pub(crate) mod zipf;

pub(crate) use interrupt::Interrupt;
pub(crate) use options::{GeneratorOptions, LoadOptions, PlanOptions, plan, rate};
pub(crate) use plan::{LoadPlan, Played, RunEnd, slice};
pub(crate) use run_plan::{preload, run, run_connected};
pub(crate) use users::{ThinkTime, duration};
