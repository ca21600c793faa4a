//! The time between two rounds of the senders, kept by a thread of its own.
//!
//! A timer of some milliseconds in a worker's runtime would have every wait for the next request
//! arm and disarm the core's timer: several microseconds each time, where the request takes ten.
use std::{
    sync::{Arc, OnceLock, mpsc},
    thread,
    time::Duration,
};
use tokio::sync::Notify;

/// Time between the first change of a round and the next round. Changes of this time share one
/// write.
const ROUND: Duration = Duration::from_millis(5);

/// Wakes the senders that wait for their next round.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    over: Arc<Notify>,
    /// Where a sender asks to be woken; the thread begins with the first and ends with this.
    asked: OnceLock<mpsc::Sender<()>>,
}

impl Rounds {
    /// Resolves after the time of a round.
    pub(super) async fn next(&self) {
        // Counts from here on, even if it is not polled yet.
        let over = self.over.notified();
        let asked = self.asked.get_or_init(|| {
            let (asked, asks) = mpsc::channel();
            let over = self.over.clone();
            let keep = move || keep(&asks, &over);
            thread::Builder::new().name("replication".into()).spawn(keep).expect("a thread for replication");
            asked
        });
        if asked.send(()).is_ok() {
            over.await;
        }
    }
}

fn keep(asks: &mpsc::Receiver<()>, over: &Notify) {
    while asks.recv().is_ok() {
        thread::sleep(ROUND);
        // Who has asked meanwhile is woken a little early.
        while asks.try_recv().is_ok() {}
        over.notify_waiters();
    }
}
