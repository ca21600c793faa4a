//! The bounds of the memory tiers change while the server runs. A tier comes down to a bound that
//! was lowered in steps ([`Cache::shrink`]), which a task of the control thread takes: no worker has
//! to evict what is above the bound, nor to wait for it.
use super::App;
use larder_engine::Cache;
use larder_store::clock;
use larder_units::show_size;
use std::time::{Duration, Instant};
use tokio::{sync::Notify, time::sleep};

/// The task works for so long, and then leaves its core to others for [`REST`]: it takes at most a
/// fifth of it.
const WORK: Duration = Duration::from_micros(250);
const REST: Duration = Duration::from_millis(1);
/// Where nothing can be dropped now (fetches under way take all that is left), it waits for this
/// long.
const RETRY: Duration = Duration::from_millis(100);
const MIB: usize = 1 << 20;

/// Says that a bound was changed.
#[derive(Debug, Default)]
pub struct BoundChanges(Notify);

/// A tier that comes down to its bound.
struct Shrinking {
    since: Instant,
    evicted: usize,
}

impl App {
    /// Why the bound on the memory of a group cannot be `bytes` now.
    pub fn bound_problem(&self, group: usize, bytes: usize) -> Option<String> {
        let (least, most) = self.caches[group].memory_limits().into_inner();
        let (least, most) = (least.next_multiple_of(MIB), most / MIB * MIB);
        let limit = match bytes {
            bytes if bytes < least => format!("at least {}", show_size(least as u64)),
            bytes if bytes > most => format!("at most {}", show_size(most as u64)),
            _ => return None,
        };
        let shown = show_size(bytes as u64);
        Some(format!(
            "max-memory of {shown} needs a restart: with the shards that run now it must be {limit} (setting `shards`)"
        ))
    }

    /// Changes the bound on the memory of a group. A lower one is reached soon after.
    pub fn set_max_memory(&self, group: usize, bytes: usize) {
        self.caches[group].set_max_memory(bytes);
        self.bound_changes.0.notify_one();
    }

    /// Takes the steps to bounds that are lowered, until the process ends.
    pub async fn shrink_tiers(&self) {
        let mut under_way: Vec<Option<Shrinking>> = self.caches.iter().map(|_| None).collect();
        loop {
            let mut is_stuck = true;
            for ((group, cache), state) in self.settings.groups.iter().zip(&self.caches).zip(&mut under_way) {
                if cache.is_shrinking() {
                    let shrinking = state.get_or_insert_with(|| Shrinking::begin(&group.name, cache));
                    is_stuck &= !shrinking.work(cache);
                }
                if !cache.is_shrinking()
                    && let Some(shrinking) = state.take()
                {
                    shrinking.end(&group.name, cache);
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
