//! Backoff between attempts to connect, and one timer for many deadlines.
use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep};

/// First and longest pause between attempts to connect.
pub(super) const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// Exponential backoff. Each pause is shortened at random by up to half, so that many Larders do
/// not reconnect in step.
pub(super) struct Backoff(Duration);
impl Default for Backoff {
    fn default() -> Backoff {
        Backoff(BACKOFF.0)
    }
}
impl Backoff {
    pub(super) fn next(&mut self) -> Duration {
        let full = self.0;
        self.0 = (full * 2).min(BACKOFF.1);
        full - full * fastrand::u32(..=50) / 100
    }
}

/// One timer for all deadlines, set again only when it has fired or an earlier deadline comes.
pub(super) struct DeadlineTimer {
    sleep: Pin<Box<Sleep>>,
    set: Option<Instant>,
}
impl DeadlineTimer {
    pub(super) fn new() -> DeadlineTimer {
        DeadlineTimer { sleep: Box::pin(sleep(Duration::ZERO)), set: None }
    }
    /// Ready once `next` is past.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, next: Option<Instant>) -> Poll<()> {
        let Some(next) = next else {
            return Poll::Pending;
        };
        loop {
            if self.set.is_none_or(|at| next < at) {
                self.sleep.as_mut().reset(next);
                self.set = Some(next);
            }
            ready!(self.sleep.as_mut().poll(cx));
            self.set = None;
            if next <= Instant::now() {
                return Poll::Ready(());
            }
        }
    }
}
