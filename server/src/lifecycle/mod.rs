//! The life of the process, as every room sees it: how far it is on its way out, who has to wait,
//! how much each client may ask, and how much a core takes on.
//!
//! Invariants:
//! - The drain's phase only moves forward.
//! - Nothing here knows a protocol or a source.
pub mod drain_phase;
pub mod error;
pub mod faults;
pub(crate) mod linger;
pub mod live_settings;
pub mod pause;
pub mod queue_delay;
mod shared_cells;
pub mod throttle;

pub use error::RunError;
