//! Faults to order (`POST /v1/faults`, setting `allow-faults`): what a team rehearses an outage
//! with.
//!
//! A fault is at one place, of one kind, for a share of what comes by there, and ends by itself.
//! With none ordered, a place reads one flag. Without `allow-faults` no source knows of faults at
//! all.
use crate::special::Switch;
use larder_engine::Millis;
use larder_store::clock;
use parking_lot::Mutex;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// Faults at a time.
pub const MOST_FAULTS: usize = 64;
pub const LONGEST_FAULT: Duration = Duration::from_secs(3600);
/// The farthest that one sets the clock forward or back.
pub const FARTHEST_JUMP: Duration = Duration::from_secs(30 * 86_400);
pub const LONGEST_DELAY: Duration = Duration::from_secs(60);

/// Where a fault is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultPlace {
    /// Between Larder and the source of a group.
    Source,
    /// Between clients and the HTTP listeners.
    Http,
    /// Between clients and the listeners of the Redis protocol.
    Redis,
    /// Between clients and the memcached listeners.
    Memcached,
    /// The disk of a disk store.
    Disk,
    /// Between this node and the others that share its keys.
    Peers,
    /// The wall clock, as the whole process reads it.
    Clock,
}

impl FaultPlace {
    /// All of them, in the order of their numbers.
    pub const ALL: [FaultPlace; 7] = [
        FaultPlace::Source,
        FaultPlace::Http,
        FaultPlace::Redis,
        FaultPlace::Memcached,
        FaultPlace::Disk,
        FaultPlace::Peers,
        FaultPlace::Clock,
    ];

    /// As requests, metrics and logs write it.
    pub fn name(self) -> &'static str {
        match self {
            FaultPlace::Source => "source",
            FaultPlace::Http => "http",
            FaultPlace::Redis => "redis",
            FaultPlace::Memcached => "memcached",
            FaultPlace::Disk => "disk",
            FaultPlace::Peers => "peers",
            FaultPlace::Clock => "clock",
        }
    }

    /// The kinds of faults that there are here.
    pub fn kinds(self) -> &'static [&'static str] {
        match self {
            FaultPlace::Source | FaultPlace::Peers => &["delay", "error", "cut"],
            FaultPlace::Disk => &["delay", "error", "full"],
            FaultPlace::Clock => &["jump"],
            FaultPlace::Http | FaultPlace::Redis | FaultPlace::Memcached => &["delay", "cut"],
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// What comes by waits for this long.
    Delay(Duration),
    /// It fails.
    Error,
    /// The connection that it comes over breaks.
    Cut,
    /// Writes find no room on the disk.
    Full,
    /// The clock goes wrong by so many milliseconds, and right again when the fault ends.
    Jump(i64),
}

impl FaultKind {
    /// As requests and logs write it.
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::Delay(_) => "delay",
            FaultKind::Error => "error",
            FaultKind::Cut => "cut",
            FaultKind::Full => "full",
            FaultKind::Jump(_) => "jump",
        }
    }
}

impl FaultKind {
    fn jump(self) -> i64 {
        if let FaultKind::Jump(by) = self { by } else { 0 }
    }
}

/// Sets the clock forward or back. The faults last as long as they would have.
fn jump(list: &mut [Fault], by: i64) {
    clock::shift(by);
    list.iter_mut().for_each(|fault| fault.until = fault.until.saturating_add_signed(by));
}

#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// Its number, from 1.
    pub id: u64,
    /// Where it is.
    pub place: FaultPlace,
    /// At a source or a disk: of this group; `None`: of all groups.
    pub group: Option<String>,
    /// What it does.
    pub kind: FaultKind,
    /// To what share of what comes by, above 0 and up to 1.
    pub share: f64,
    /// When it ends.
    pub until: Millis,
    /// How often it has done it.
    pub done: u64,
}

#[derive(Debug, Default)]
pub struct Faults {
    /// On while there is one.
    is_on: Switch,
    list: Mutex<Vec<Fault>>,
    /// Faults ordered so far.
    ordered: AtomicU64,
    done: [AtomicU64; FaultPlace::ALL.len()],
}

impl Faults {
    /// None is ordered. The switch is on while one is.
    pub fn new(is_on: Switch) -> Faults {
        Faults { is_on, ..Faults::default() }
    }

    /// Whether there is a fault.
    #[inline]
    pub fn are_on(&self) -> bool {
        self.is_on.is_on()
    }

    /// Orders a fault, whose number is chosen here; gives it back with its number. `None`: there
    /// are [`MOST_FAULTS`].
    pub fn order(&self, fault: Fault) -> Option<Fault> {
        let mut list = self.list.lock();
        if list.len() == MOST_FAULTS {
            return None;
        }
        let fault = Fault { id: self.ordered.fetch_add(1, Relaxed) + 1, done: 0, ..fault };
        let Fault { id, kind, share, until, .. } = fault;
        let group = fault.group.as_deref().unwrap_or("*");
        tracing::warn!(
            id,
            at = fault.place.name(),
            group,
            ?kind,
            share,
            until,
            "a fault is injected (POST /v1/faults)"
        );
        list.push(fault.clone());
        if let FaultKind::Jump(by) = kind {
            jump(&mut list, by);
        }
        let fault = list.last().cloned()?;
        self.is_on.set(true);
        Some(fault)
    }

    pub fn list(&self, now: Millis) -> Vec<Fault> {
        self.end_old(now);
        self.list.lock().clone()
    }

    /// Ends all faults, or the one with this number. Returns how many.
    pub fn clear(&self, id: Option<u64>) -> usize {
        self.end(|fault| id.is_none_or(|id| fault.id == id))
    }

    /// Ends the faults whose time is over.
    pub fn end_old(&self, now: Millis) {
        if self.are_on() {
            self.end(|fault| fault.until <= now);
        }
    }

    fn end(&self, ends: impl Fn(&Fault) -> bool) -> usize {
        let mut list = self.list.lock();
        let before = list.len();
        let back: i64 = list.iter().filter(|fault| ends(fault)).map(|fault| fault.kind.jump()).sum();
        list.retain(|fault| {
            if ends(fault) {
                let Fault { id, kind, done, .. } = fault;
                tracing::warn!(id, at = fault.place.name(), ?kind, done, "an injected fault has ended");
            }
            !ends(fault)
        });
        if back != 0 {
            jump(&mut list, -back);
        }
        self.is_on.set(!list.is_empty());
        before - list.len()
    }

    /// What a fault does to what comes by at this moment; `None`: nothing.
    #[inline]
    pub fn strike(&self, place: FaultPlace, group: &str, now: Millis) -> Option<FaultKind> {
        if self.are_on() { self.strike_one(place, group, now, |_| true) } else { None }
    }

    /// What a fault does to an operation of the disk of a group; only writes find it full.
    #[inline]
    pub fn strike_disk(&self, group: &str, is_write: bool, now: Millis) -> Option<FaultKind> {
        let concerns = |kind| is_write || kind != FaultKind::Full;
        if self.are_on() { self.strike_one(FaultPlace::Disk, group, now, concerns) } else { None }
    }

    /// Whether a fault cuts the connection that comes by at this moment.
    #[inline]
    pub fn cuts(&self, place: FaultPlace, group: &str, now: Millis) -> bool {
        self.are_on() && self.strike_one(place, group, now, |kind| kind == FaultKind::Cut).is_some()
    }

    /// How long a fault delays the request that comes by at this moment; `None`: not at all.
    #[inline]
    pub fn delay(&self, place: FaultPlace, now: Millis) -> Option<Duration> {
        if !self.are_on() {
            return None;
        }
        match self.strike_one(place, "", now, |kind| matches!(kind, FaultKind::Delay(_))) {
            Some(FaultKind::Delay(delay)) => Some(delay),
            _ => None,
        }
    }

    /// The first fault that strikes. Each draws for itself.
    #[cold]
    fn strike_one(
        &self,
        place: FaultPlace,
        group: &str,
        now: Millis,
        concerns: impl Fn(FaultKind) -> bool,
    ) -> Option<FaultKind> {
        let mut list = self.list.lock();
        let strikes = |fault: &&mut Fault| {
            let is_here = fault.place == place && fault.group.as_deref().is_none_or(|of| of == group);
            is_here && fault.until > now && concerns(fault.kind) && fastrand::f64() < fault.share
        };
        let fault = list.iter_mut().find(strikes)?;
        fault.done += 1;
        self.done[place as usize].fetch_add(1, Relaxed);
        Some(fault.kind)
    }

    /// What was done so far, by place.
    pub fn done(&self) -> impl Iterator<Item = (&'static str, u64)> {
        FaultPlace::ALL.into_iter().map(|place| (place.name(), self.done[place as usize].load(Relaxed)))
    }
}

#[derive(Debug, Clone)]
pub struct SourceFaults {
    pub faults: Arc<Faults>,
    /// The name of the group.
    pub group: Arc<str>,
    /// The source is a disk store.
    pub is_disk: bool,
    /// The deadline of a request (`source-timeout`).
    pub timeout: Duration,
}

impl SourceFaults {
    /// What a fault does to a request at this moment.
    #[inline]
    pub fn strike(&self, now: Millis) -> Option<FaultKind> {
        match self.is_disk {
            true => self.strike_disk(false, now),
            false => self.faults.strike(FaultPlace::Source, &self.group, now),
        }
    }
    /// What a fault does to an operation of the disk at this moment.
    #[inline]
    pub fn strike_disk(&self, is_write: bool, now: Millis) -> Option<FaultKind> {
        self.faults.strike_disk(&self.group, is_write, now)
    }
    /// Whether a fault cuts a connection at this moment.
    #[inline]
    pub fn cuts(&self, now: Millis) -> bool {
        self.faults.cuts(FaultPlace::Source, &self.group, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(place: FaultPlace, kind: FaultKind, share: f64) -> Fault {
        Fault { id: 0, place, group: None, kind, share, until: 2000, done: 0 }
    }

    #[test]
    fn a_fault_is_at_its_place_for_its_time() {
        let faults = Faults::default();
        let strikes = |place, group, now| faults.strike(place, group, now);
        assert_eq!(strikes(FaultPlace::Source, "a", 1000), None);
        let ordered =
            faults.order(Fault { group: Some("a".into()), ..fault(FaultPlace::Source, FaultKind::Error, 1.0) });
        assert_eq!(ordered.map(|fault| fault.id), Some(1));
        assert_eq!(strikes(FaultPlace::Source, "a", 1999), Some(FaultKind::Error));
        assert!(!faults.cuts(FaultPlace::Source, "a", 1999));
        for (place, group, now) in
            [(FaultPlace::Source, "b", 1999), (FaultPlace::Http, "a", 1999), (FaultPlace::Source, "a", 2000)]
        {
            assert_eq!(strikes(place, group, now), None, "{place:?} {group} {now}");
        }
        assert_eq!(faults.list(1999)[0].done, 1);
        assert!(faults.are_on());
        faults.end_old(2000);
        assert!(!faults.are_on() && faults.list(0).is_empty());
        let done: Vec<_> = faults.done().filter(|(_, count)| *count > 0).collect();
        assert_eq!(done, [("source", 1)]);
    }

    #[test]
    fn a_share_is_struck_and_faults_are_cleared() {
        let faults = Faults::default();
        faults.order(fault(FaultPlace::Redis, FaultKind::Cut, 0.25));
        faults.order(fault(FaultPlace::Http, FaultKind::Delay(Duration::from_millis(5)), 1.0));
        let struck = (0..10_000).filter(|_| faults.cuts(FaultPlace::Redis, "", 1000)).count();
        assert!((2000..3000).contains(&struck), "{struck}");
        assert_eq!((faults.clear(Some(1)), faults.clear(Some(1)), faults.list(0).len()), (1, 0, 1));
        assert_eq!((faults.clear(None), faults.are_on()), (1, false));
        (0..MOST_FAULTS).for_each(|_| assert!(faults.order(fault(FaultPlace::Http, FaultKind::Cut, 1.0)).is_some()));
        assert_eq!(faults.order(fault(FaultPlace::Http, FaultKind::Cut, 1.0)), None);
    }
}
