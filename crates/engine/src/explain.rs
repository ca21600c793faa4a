//! What is known of a key, for people: what is held, where it stands, and what a read would do.

use crate::{
    cache::Cache,
    derived::is_anchor,
    holds::Hold,
    key::Key,
    record,
    stale_rules::{Serves, Standing},
    sync::lock,
    time::Millis,
};

/// What is held of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldKind {
    /// A value.
    Value,
    /// The knowledge that the source has no value.
    Absence,
    /// What was derived from the value, without the value.
    Derived,
}

/// What a read would do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextRead {
    /// Answer from the entry.
    Hit,
    /// Like `Hit`, and start a fetch.
    HitAndRenew,
    /// Answer from the entry, which is out of date, and start a fetch unless one is in flight or
    /// held off.
    Stale,
    /// Wait for a fetch. The entry is served if that fails or takes too long.
    FetchOrStale,
    /// Wait for a fetch.
    Fetch,
}

/// The entry of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeldEntry {
    /// What it is.
    pub kind: HeldKind,
    /// Its version.
    pub version: u64,
    /// When it was stored: up to a second early, for old entries up to an eighth of their age.
    pub stored: Millis,
    /// Bytes that it occupies.
    pub bytes: usize,
    /// When it expires, or stops being fresh.
    pub end: Option<Millis>,
    /// Since when it is out of date.
    pub stale_since: Option<Millis>,
    /// Until when it may be served: by itself, and if the source fails. `None`: without end.
    pub served_until: [Option<Millis>; 2],
}

/// What is known of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Explanation {
    /// `None`: nothing is held, or it is gone.
    pub held: Option<HeldEntry>,
    /// What a read would do.
    pub next: NextRead,
    /// A fetch is in flight.
    pub is_fetching: bool,
    /// It has taken longer than it should.
    pub is_overdue: bool,
    /// A fetch failed a moment ago: what may be served is served without another.
    pub is_held_off: bool,
    /// The key was evicted not long ago.
    pub was_evicted: bool,
}

impl Cache {
    /// Says what is known of a key. Changes and counts nothing.
    pub fn explain(&self, key: Key<'_>, now: Millis) -> Explanation {
        let mut shard = lock(self.mutex(self.shard_of(key.hash)));
        let flight = shard.flights.get(key.hash, key.bytes, b"");
        let (is_fetching, is_overdue) = (flight.is_some(), flight.is_some_and(|flight| flight.is_overdue()));
        let is_held_off = shard.holds.has(key.hash, Hold::NoFetch, now);
        let was_evicted = shard.policy.history.as_ref().is_some_and(|history| history.knows(key.hash));
        let mut explanation =
            Explanation { held: None, next: NextRead::Fetch, is_fetching, is_overdue, is_held_off, was_evicted };
        let Some((position, entry)) = shard.find(key) else { return explanation };
        let kind = match () {
            () if is_anchor(&entry) => HeldKind::Derived,
            // What is derived has a name, which only looks like a key.
            () if entry.meta.is_hidden() => return explanation,
            () if entry.meta.is_absent() => HeldKind::Absence,
            () => HeldKind::Value,
        };
        let windows = self.rules.windows(&entry);
        let end = entry.expiry();
        let after = |since: Millis, window: u64| since.saturating_add(window.min(windows.at_most)).min(windows.gone_at);
        let (next, stale_since, from) = match shard.standing(&self.rules, position, now) {
            Standing::Gone => return explanation,
            Standing::Fresh { left } => {
                let renews = self.rules.renews_ahead(&entry, left, now);
                let next = if renews && !is_held_off { NextRead::HitAndRenew } else { NextRead::Hit };
                (next, None, end.filter(|_| record::is_soft(entry.record, entry.meta)))
            }
            Standing::OutOfDate { since, own_end } => {
                let next = match windows.allow(since, own_end, now) {
                    Serves::WhileRenewed => NextRead::Stale,
                    Serves::IfError if is_held_off || is_overdue => NextRead::Stale,
                    Serves::IfError => NextRead::FetchOrStale,
                    Serves::No => NextRead::Fetch,
                };
                (next, Some(since), Some(since))
            }
        };
        explanation.next = if kind == HeldKind::Derived { NextRead::Fetch } else { next };
        explanation.held = Some(HeldEntry {
            kind,
            version: entry.version(),
            stored: entry.stored(),
            bytes: entry.footprint(),
            end,
            stale_since,
            served_until: match from {
                Some(from) => [windows.while_renewed, windows.if_error].map(|window| Some(after(from, window))),
                None => [end; 2],
            },
        });
        explanation
    }
}
