//! Waits that differ, so that cores and nodes which begin together do not go on together.
use std::time::Duration;

/// A wait of about this long: a quarter less to a quarter more.
pub fn jittered(wait: Duration) -> Duration {
    wait.mul_f64(0.75 + fastrand::f64() / 2.0)
}
