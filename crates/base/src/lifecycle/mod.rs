//! The life of the process, as every room sees it: how far it is on its way out, who has to wait,
//! how much each client may ask, how much a core takes on, what the service manager is told, and the
//! ticks of the control thread.
//!
//! Invariants:
//! - The drain's phase only moves forward.
//! - Nothing here knows a protocol or a source.
pub mod drain_phase;
pub mod error;
pub mod faults;
pub mod linger;
pub mod live_settings;
pub mod longest_turn;
pub mod pause;
pub mod queue_delay;
pub mod service_manager;
mod shared_cells;
pub mod throttle;
pub mod ticks;
pub mod watchdog;

pub use error::RunError;
