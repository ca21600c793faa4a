//! The bounds of the memory tiers change while the server runs. A tier comes down to a bound that
//! was lowered in steps ([`Cache::shrink`]), which a task of the control thread takes: no worker has
//! to evict what is above the bound, nor to wait for it.
use super::App;
use crate::read::ProcessGroup;
use larder_engine::Cache;
use larder_store::clock;
use std::time::{Duration, Instant};
use tokio::{sync::Notify, time::sleep};

/// The task works for this long, and then leaves its core to others for [`REST`]: it takes at most a
/// fifth of it.
const WORK: Duration = Duration::from_micros(250);
const REST: Duration = Duration::from_millis(1);
/// Where nothing can be dropped now (fetches under way take all that is left), it waits for this
/// long.
const RETRY: Duration = Duration::from_millis(100);

/// Says that a bound was changed.
#[derive(Debug, Default)]
pub struct BoundChanges(Notify);

/// A tier that comes down to its bound.
struct Shrinking {
    since: Instant,
    evicted: usize,
}

impl App {
    /// Changes the bound on the memory of a group. A lower one is reached soon after.
    pub fn set_max_memory(&self, group: &ProcessGroup, bytes: usize) {
        group.cache.set_max_memory(bytes);
        self.bound_changes.0.notify_one();
    }

    /// Takes the steps to bounds that are lowered, until the process ends.
    pub async fn shrink_tiers(&self) {
        let mut under_way: Vec<Option<Shrinking>> = self.groups.iter().map(|_| None).collect();
        loop {
            let mut is_stuck = true;
            for (ProcessGroup { settings, cache, .. }, state) in self.groups.iter().zip(&mut under_way) {
                if cache.is_shrinking() {
                    let shrinking = state.get_or_insert_with(|| Shrinking::begin(&settings.name, cache));
                    is_stuck &= !shrinking.work(cache);
                }
                if !cache.is_shrinking()
                    && let Some(shrinking) = state.take()
                {
                    shrinking.end(&settings.name, cache);
                }
            }
            if under_way.iter().all(Option::is_none) {
                self.bound_changes.0.notified().await;
            } else {
                sleep(if is_stuck { RETRY } else { REST }).await;
            }
        }
    }
}

impl Shrinking {
    fn begin(group: &str, cache: &Cache) -> Shrinking {
        let stats = cache.stats();
        let (used_bytes, max_bytes) = (stats.used_bytes, stats.max_bytes);
        tracing::info!(group, used_bytes, max_bytes, "the memory tier shrinks to a lower max-memory");
        Shrinking { since: Instant::now(), evicted: 0 }
    }

    /// Takes some steps; false if there was nothing to drop.
    fn work(&mut self, cache: &Cache) -> bool {
        let (begun, mut has_given) = (Instant::now(), false);
        while begun.elapsed() < WORK {
            let Some(evicted) = cache.shrink(clock::now()) else { break };
            self.evicted += evicted;
            has_given = true;
        }
        has_given
    }

    fn end(self, group: &str, cache: &Cache) {
        let stats = cache.stats();
        let (used_bytes, max_bytes) = (stats.used_bytes, stats.max_bytes);
        let (evicted, seconds) = (self.evicted, self.since.elapsed().as_secs_f64());
        tracing::info!(group, used_bytes, max_bytes, evicted, seconds, "the memory tier is within its max-memory");
    }
}
