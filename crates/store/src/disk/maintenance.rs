//! One thread that syncs at intervals, rotates the memtable when it is full, and looks whether
//! fjall has given up.
use super::{
    background::go_behind, opening::close, pressure::background, read_queue::Work, settings::Durability,
    shared::Shared, stats::Counts, tree::Tree, write_gate::Background,
};
use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

/// How often the memtable's size is looked at: at a gigabyte per second it outgrows its size by 20
/// MiB.
const TICK: Duration = Duration::from_millis(20);
/// How often fjall is asked whether its own threads have failed.
const LOOK: Duration = Duration::from_millis(100);

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
                check(shared, shared.gate.while_shut(|| shared.tree.sync()));
            }
        }
        let is_full = shared.tree.is_larger(shared.settings.write_buffer);
        // Before the rotation, which fjall's flush follows at once.
        let about_to = if is_full { Background::Running } else { Background::Idle };
        let background = background(&shared.tree).max(about_to);
        shared.gate.set_background(background);
        if is_full {
            check(shared, shared.gate.while_shut(|| shared.tree.rotate()));
        }
        if shared.gate.is_calm() && shared.tree.has_new_tables() {
            let learn: Work = Box::new(|tree| {
                if let Err(error) = tree.learn_tables() {
                    // A table that was merged meanwhile, or a damaged one, of which reads tell.
                    tracing::debug!("cores read nothing of the block cache for now: {error}");
                }
            });
            // Not here: it reads from the disk, and a sync may be due.
            shared.scans.push([learn]);
        }
        let retired = shared.tree.take_retired(background != Background::Idle);
        if !retired.is_empty() {
            // Beside and behind: it takes long enough to make a sync late, and to take a core from those who
            // answer. Without a thread they are freed here.
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

/// Counts tables as they appear. fjall does not say how much it writes; one that comes and goes
/// between two looks is missed.
#[derive(Default)]
struct Appearing {
    known: Option<HashSet<u64>>,
}
impl Appearing {
    /// The bytes of the tables that are new since the last look; of the first look 0.
    fn look(&mut self, tree: &Tree) -> u64 {
        let now = tree.tables();
        let new = match &self.known {
            None => 0,
            Some(known) => now.iter().filter(|(id, _)| !known.contains(id)).map(|(_, bytes)| bytes).sum(),
        };
        self.known = Some(now.into_iter().map(|(id, _)| id).collect());
        new
    }
}
