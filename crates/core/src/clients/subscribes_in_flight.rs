//! SUBSCRIBE and related commands that Larder has read and that the upstream has not confirmed yet.
//!
//! A client may subscribe on one connection and let another one publish at once, without waiting
//! for the confirmation. At one Redis server the first command that is read runs first. Larder
//! sends the two over different connections, so PUBLISH waits until the subscriptions that were
//! read before it are confirmed.
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// The subscribing commands in flight, of all clients of the process.
#[derive(Debug, Default)]
pub struct SubscribesInFlight {
    /// Their number, so that PUBLISH looks at nothing else while there are none.
    count: AtomicUsize,
    numbers: Mutex<Numbers>,
    /// Changes when one ends.
    ended: watch::Sender<()>,
}
#[derive(Debug, Default)]
struct Numbers {
    next: u64,
    /// When each began.
    open: BTreeMap<u64, Instant>,
}

/// A subscribing command in flight, until it is dropped.
#[derive(Debug)]
pub struct SubscribeInFlight {
    all: Arc<SubscribesInFlight>,
    number: u64,
}

impl SubscribesInFlight {
    /// A subscribing command was read.
    pub fn begin(self: &Arc<Self>) -> SubscribeInFlight {
        let mut numbers = self.numbers.lock();
        let number = numbers.next;
        numbers.next += 1;
        numbers.open.insert(number, Instant::now());
        self.count.fetch_add(1, SeqCst);
        SubscribeInFlight { all: self.clone(), number }
    }

    #[inline]
    pub fn any(&self) -> bool {
        self.count.load(SeqCst) > 0
    }

    /// Waits for those that are in flight now, each until `limit` after it began: a client that does
    /// not read its replies may hold one back for long.
    pub async fn wait(&self, limit: Duration) {
        let before = self.numbers.lock().next;
        let mut ended = self.ended.subscribe();
        let all_before = async {
            let is_awaited = |(number, begun): (&u64, &Instant)| *number < before && begun.elapsed() < limit;
            while self.numbers.lock().open.iter().any(is_awaited) {
                // The sender lives in `self`.
                let _ = ended.changed().await;
            }
        };
        // At the limit the subscriber may have lost its connection to the upstream.
        let _ = tokio::time::timeout(limit, all_before).await;
    }
}

impl Drop for SubscribeInFlight {
    fn drop(&mut self) {
        self.all.numbers.lock().open.remove(&self.number);
        self.all.count.fetch_sub(1, SeqCst);
        self.all.ended.send_replace(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_wait_is_for_those_that_began_before_it() {
        let all = Arc::<SubscribesInFlight>::default();
        assert!(!all.any());
        all.wait(Duration::MAX).await;
        let (first, second) = (all.begin(), all.begin());
        let waits = tokio::spawn({
            let all = all.clone();
            async move { all.wait(Duration::MAX).await }
        });
        tokio::task::yield_now().await;
        let _later = all.begin();
        drop(second);
        tokio::task::yield_now().await;
        assert!(!waits.is_finished());
        drop(first);
        waits.await.unwrap();
        assert!(all.any(), "a later one");
        all.wait(Duration::ZERO).await;
    }
}
