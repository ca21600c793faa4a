//! Moments. The engine has no clock of its own: callers say what time it is.

/// Milliseconds since the Unix epoch.
pub type Millis = u64;
