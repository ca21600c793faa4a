//! Larder's memory tier. (Contract in progress: signatures are final, bodies follow.)
#![forbid(unsafe_code)]

mod api;
pub use api::*;
