//! The ticks of the control thread: a clock for what need not be exact.
//!
//! A thread that has a timer sets and clears it in the kernel each time that it waits for its
//! sockets, which is 2 to 4 % of a request that comes alone (decision 0095). So what a worker does
//! again and again comes with these ticks, or is the control thread's.
use std::time::Duration;
use tokio::{sync::Notify, time::sleep};

/// The least time between two ticks.
pub const TICK: Duration = Duration::from_millis(100);

/// Wakes all who wait for the next tick.
#[derive(Debug, Default)]
pub struct Ticks(Notify);

impl Ticks {
    /// Ticks for as long as it is polled. This is for the control thread.
    pub async fn run(&self) {
        loop {
            // Not an interval, whose ticks may be 5 ms closer than its period.
            sleep(TICK).await;
            self.tick();
        }
    }
    pub fn tick(&self) {
        self.0.notify_waiters();
    }
    /// Waits for the next tick. Who does not wait misses it.
    pub async fn next(&self) {
        self.0.notified().await;
    }
}
