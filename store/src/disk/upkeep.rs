//! One thread that syncs at intervals, rotates the memtable when it is full, and looks whether fjall has given up.
use super::{
    Durability, Shared, close,
    stats::{Appearing, Counts},
    tree::go_behind,
};
use parking_lot::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// How often the memtable's size is looked at: at a gigabyte per second it outgrows its size by 20 MiB.
const TICK: Duration = Duration::from_millis(20);
/// How often fjall is asked whether its own threads have failed.
const LOOK: Duration = Duration::from_millis(100);

/// Ends the thread.
#[derive(Default)]
pub(super) struct Signal {
    stopped: Mutex<bool>,
    changed: Condvar,
}
impl Signal {
    pub(super) fn stop(&self) {
        *self.stopped.lock() = true;
        self.changed.notify_all();
    }
    /// Waits at most so long; true when stopped.
    fn wait(&self, time: Duration) -> bool {
        let mut stopped = self.stopped.lock();
        if !*stopped {
            self.changed.wait_for(&mut stopped, time);
        }
        *stopped
    }
}

pub(super) fn run(shared: &Shared) {
    let interval = match shared.settings.durability {
        Durability::Interval(interval) => Some(interval),
        Durability::Always | Durability::Os => None,
    };
    let tick = interval.map_or(TICK, |interval| interval.min(TICK));
    let (mut synced, mut looked, mut synced_writes) = (Instant::now(), Instant::now(), 0);
    let mut tables = Appearing::default();
    tables.look(&shared.tree);
    while !shared.upkeep.wait(tick) {
        if interval.is_some_and(|interval| synced.elapsed() >= interval) {
            synced = Instant::now();
            let writes = shared.tree.writes();
            if writes != synced_writes {
                synced_writes = writes;
                Counts::add(&shared.counts.syncs, 1);
                check(shared, shared.tree.sync());
            }
        }
        check(shared, shared.tree.rotate_if_larger(shared.settings.write_buffer));
        let retired = shared.tree.take_retired();
        if !retired.is_empty() {
            // Beside and behind: it takes long enough to make a sync late, and to take a core from those who answer. Without a thread they are freed
            // here.
            let _ = std::thread::Builder::new().name("store-free".to_string()).spawn(move || {
                go_behind();
                drop(retired);
            });
        }
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            check(shared, shared.tree.probe());
            Counts::add(&shared.counts.table_bytes, tables.look(&shared.tree));
        }
    }
    // A clean end leaves nothing to the operating system, whatever was promised.
    if shared.poison.reason().is_none()
        && let Some(error) = close(&shared.tree, &shared.dir)
    {
        shared.poison.set(shared.dir.path(), &error);
    }
}

fn check(shared: &Shared, done: Result<(), String>) {
    if let Err(error) = done {
        shared.poison.set(shared.dir.path(), &error);
    }
}
