//! The counts of all workers, and the session that a client of HOTKEYS starts.
use super::{
    super::process_stats::CpuTime,
    hot_key_report::{self, HotKey, HotKeyReport, MergedCounts, Sums},
    key_counts::KeyCounts,
    session_counts::SessionCounts,
};
use larder_engine::Millis;
use parking_lot::Mutex;
use std::sync::Arc;

/// The counts of all workers.
#[derive(Debug, Default)]
pub struct HotKeys {
    /// By group, then by worker.
    counts: Mutex<Vec<Vec<Arc<KeyCounts>>>>,
    session: Mutex<Option<Session>>,
}

/// What a client asks of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionOptions {
    /// Whether keys are ranked by CPU time.
    pub by_cpu: bool,
    /// Whether they are ranked by bytes.
    pub by_bytes: bool,
    /// The length of the lists.
    pub rows: usize,
    /// One command in so many is counted.
    pub sample: u64,
    /// When the session ends by itself, ms after its start.
    pub duration: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Session {
    options: SessionOptions,
    started: Millis,
    cpu_at_start: CpuTime,
    /// When it was stopped, and the CPU time then.
    stopped: Option<(Millis, CpuTime)>,
}

impl Session {
    fn until(&self) -> Millis {
        self.options.duration.map_or(Millis::MAX, |duration| self.started.saturating_add(duration))
    }
    fn is_active(&self, now: Millis) -> bool {
        self.stopped.is_none() && now < self.until()
    }
}

/// What a session has counted in group `default`.
#[derive(Debug, Clone)]
pub struct SessionReport {
    /// What the client asked for.
    pub options: SessionOptions,
    /// Whether it goes on.
    pub is_active: bool,
    /// When it began.
    pub started: Millis,
    /// How long it has lasted, ms.
    pub lasted: u64,
    /// CPU time of the process since it began.
    pub cpu: CpuTime,
    /// Bytes of keys and values.
    pub bytes: u64,
    /// Keys by CPU time, microseconds: their shares of all commands, applied to the CPU time of the
    /// process.
    pub by_cpu: Vec<HotKey>,
    pub by_bytes: Vec<HotKey>,
}

impl HotKeys {
    /// The counts of one more worker of a group.
    pub fn join(&self, group: usize) -> Arc<KeyCounts> {
        let counts = Arc::<KeyCounts>::default();
        let mut groups = self.counts.lock();
        if groups.len() <= group {
            groups.resize_with(group + 1, Vec::new);
        }
        groups[group].push(counts.clone());
        counts
    }

    fn workers(&self, group: usize) -> Vec<Arc<KeyCounts>> {
        self.counts.lock().get(group).cloned().unwrap_or_default()
    }

    /// The lists of all groups, at most so many rows each.
    pub fn report(&self, rows: usize, now: Millis) -> HotKeyReport {
        let groups = self.counts.lock().clone();
        let merged = groups.iter().map(|workers| {
            let mut merged = MergedCounts::default();
            for counts in workers {
                counts.look(now, |noted| merged.add(noted, now));
            }
            merged
        });
        HotKeyReport::new(merged, rows)
    }

    /// Forgets the reads of a group.
    pub fn clear(&self, group: usize, now: Millis) {
        self.workers(group).iter().for_each(|counts| counts.clear(now));
    }

    /// Whether a session is under way.
    pub fn is_counting(&self, now: Millis) -> bool {
        self.session.lock().is_some_and(|session| session.is_active(now))
    }

    /// Starts a session; `cpu` is the CPU time of the process so far. False: one is under way.
    pub fn start(&self, options: SessionOptions, cpu: CpuTime, now: Millis) -> bool {
        let mut session = self.session.lock();
        if session.is_some_and(|session| session.is_active(now)) {
            return false;
        }
        let started = Session { options, started: now, cpu_at_start: cpu, stopped: None };
        let counts = || SessionCounts::new(started.until(), options.sample);
        self.workers(0).iter().for_each(|worker| worker.set_session(Some(counts()), now));
        *session = Some(started);
        true
    }

    /// Stops the session; its counts stay. False: none is under way.
    pub fn stop(&self, cpu: CpuTime, now: Millis) -> bool {
        let mut session = self.session.lock();
        let Some(active) = session.as_mut().filter(|session| session.is_active(now)) else { return false };
        active.stopped = Some((now, cpu));
        self.workers(0).iter().for_each(|counts| counts.end_session(now));
        true
    }

    /// Forgets the session. False: it is under way and must be stopped first.
    pub fn reset(&self, now: Millis) -> bool {
        let mut session = self.session.lock();
        if session.is_some_and(|session| session.is_active(now)) {
            return false;
        }
        *session = None;
        self.workers(0).iter().for_each(|counts| counts.set_session(None, now));
        true
    }

    /// What the session has counted; `None`: there is none.
    pub fn session(&self, cpu: CpuTime, now: Millis) -> Option<SessionReport> {
        let session = (*self.session.lock())?;
        let (mut by_commands, mut by_bytes) = (Sums::new(), Sums::new());
        let (mut commands, mut bytes) = (0, 0);
        for counts in self.workers(0) {
            counts.look(now, |noted| {
                if let Some(of_worker) = &noted.session {
                    commands += of_worker.commands;
                    bytes += of_worker.bytes;
                    hot_key_report::add(&mut by_commands, of_worker.by_commands.iter());
                    hot_key_report::add(&mut by_bytes, of_worker.by_bytes.iter());
                }
            });
        }
        let SessionOptions { rows, .. } = session.options;
        let (end, cpu) = session.stopped.unwrap_or((now.min(session.until()), cpu));
        let cpu = cpu.since(session.cpu_at_start);
        let mut by_cpu = hot_key_report::largest(by_commands, rows);
        for key in &mut by_cpu {
            // At least one, so that no key that was read seems to be free.
            let share = u128::from(key.count) * cpu.total.as_micros() / u128::from(commands.max(1));
            key.count = u64::try_from(share).unwrap_or(u64::MAX).max(1);
        }
        Some(SessionReport {
            options: session.options,
            is_active: session.is_active(now),
            started: session.started,
            lasted: end.saturating_sub(session.started),
            cpu,
            bytes,
            by_cpu,
            by_bytes: hot_key_report::largest(by_bytes, rows),
        })
    }
}
