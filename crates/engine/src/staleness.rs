//! What is out of date, since when, and for how long it may be served all the same.
//!
//! ```text
//!   stored ───────── fresh ─────────►│──── while renewed ────►│──── if the source fails ────►│ gone
//!                        └ renew ahead    served, one fetch        a read waits for its        a miss
//!                          served, one    renews                   fetch; served if that
//!                          fetch renews                            fails or takes too long
//! ```
//!
//! An entry is out of date since the earliest of: the end of its freshness
//! ([`Expiry::FreshFor`](crate::Expiry::FreshFor),
//! [`Expiry::FreshUntil`](crate::Expiry::FreshUntil)), and a mark that covers it. A mark covers the
//! entries of a shard under a prefix that were stored before it
//! ([`Cache::mark_stale`](crate::Cache::mark_stale)). The windows come from the
//! [`StaleRules`](crate::StaleRules) of the cache. An expiry ([`Expiry::At`](crate::Expiry::At)) is
//! no end of freshness: what has expired is gone.
//!
//! A mark costs a hit a few nanoseconds. [`Cache::tick`](crate::Cache::tick) removes what marks
//! ended, a bounded number of entries at a time, and then the marks.

use crate::{
    marks::Mark, record, shard::Shard, shard_common::Rules, stale_rules::Standing, sweep::SWEEP_EVERY,
    sweep_state::Sweep, tag_table::Cleared, time::Millis,
};
use std::sync::Arc;

/// From so many marks of one shard on, callers thin them out in steps before they add one
/// ([`Cache::thin_marks`](crate::Cache::thin_marks)).
const MANY_MARKS: usize = 32;
/// Marks of one shard, if callers do not thin them out. One more sweeps the shard at once.
const MOST_MARKS: usize = MANY_MARKS + 8;

impl Shard {
    /// From now on what is held under a prefix (empty: everything) is out of date, or gone if
    /// `is_final`, until it is written again. Nothing that is in flight for it will be stored.
    /// False if older marks say as much.
    pub(crate) fn mark(&mut self, rules: &Rules, prefix: &Arc<[u8]>, is_final: bool, now: Millis) -> bool {
        self.flights.fence_all(prefix);
        let version = self.clock.version();
        let says_nothing_new =
            |mark: &Mark| mark.version == version && mark.is_final >= is_final && prefix.starts_with(&mark.prefix);
        let is_new = version > 0 && !self.marks.marks.iter().any(says_nothing_new);
        if is_new {
            if self.marks.marks.len() == MOST_MARKS {
                while self.thin_marks(rules, now) {}
            }
            self.marks.marks.push(Mark { version, since: now, prefix: prefix.clone(), is_final });
            // What is final goes soon.
            if is_final {
                self.marks.next_sweep = now;
            }
            self.has_marks = true;
            self.side_changed = true;
        }
        self.settle(&rules.budget);
        is_new
    }

    /// Removes some of what the marks ended, if there are many. The oldest becomes final if none
    /// is: earlier than need be, which is never wrong for what can be fetched. Only copies have marks
    /// that are not final. True if there is more to do.
    pub(crate) fn thin_marks(&mut self, rules: &Rules, now: Millis) -> bool {
        let is_needed = |shard: &Shard| shard.marks.marks.len() >= MANY_MARKS;
        if !is_needed(self) {
            return false;
        }
        if !self.marks.marks.iter().any(|mark| mark.is_final) {
            self.marks.marks[0].is_final = true;
        }
        self.marks.next_sweep = now;
        self.sweep_marks(rules, now) || is_needed(self)
    }

    /// Where the entry at a position stands.
    pub(crate) fn standing(&self, rules: &Rules, position: u32, now: Millis) -> Standing {
        let entry = self.entry(position);
        let (end, keep) = (entry.expiry(), rules.keep());
        let is_soft = record::is_soft(entry.record, entry.meta);
        let mut since = None;
        if let Some(at) = end.filter(|at| *at <= now) {
            if !is_soft || at.saturating_add(keep) <= now {
                return Standing::Gone;
            }
            since = Some(at);
        }
        let own_end = end.filter(|at| is_soft && *at > now);
        if self.has_marks {
            match self.marks.of(entry.key, entry.version()) {
                Some(mark) if mark.is_final || mark.has_ended(keep, now) && own_end.is_none() => return Standing::Gone,
                marked => since = [since, marked.map(|mark| mark.since)].into_iter().flatten().min(),
            }
        }
        if self.is_cleared(entry.record, entry.meta) {
            match self.judge_tags(entry.record, entry.meta) {
                Cleared::No => {}
                Cleared::Since(at) if at.saturating_add(keep) > now || own_end.is_some() => {
                    since = Some(since.map_or(at, |since| since.min(at)));
                }
                Cleared::Since(_) | Cleared::Gone => return Standing::Gone,
            }
        }
        match since {
            None => Standing::Fresh { left: end.map(|at| at - now) },
            Some(since) => Standing::OutOfDate { since, own_end },
        }
    }

    /// Is the entry at a position neither expired nor out of date?
    #[inline]
    pub(crate) fn is_fresh(&self, position: u32, now: Millis) -> bool {
        let record = self.log.record(position);
        let meta = record::Meta::read(record);
        record::expiry(record, meta).is_none_or(|at| at > now)
            && (!self.has_marks || !self.is_marked(position))
            && !self.is_cleared(record, meta)
    }

    /// Apart from its caller: it is hardly ever needed there, and slows every hit by a tenth.
    #[cold]
    fn is_marked(&self, position: u32) -> bool {
        let entry = self.entry(position);
        self.marks.of(entry.key, entry.version()).is_some()
    }

    /// When an entry with this end has to be looked at next: at its end, then when it has been kept
    /// for long enough.
    pub(crate) fn due(rules: &Rules, end: Millis, is_soft: bool, now: Millis) -> Millis {
        if is_soft && end <= now { end.saturating_add(rules.keep()) } else { end }
    }

    /// Removes some of what the marks ended, and then the marks. True if there is more to do now.
    pub(crate) fn sweep_marks(&mut self, rules: &Rules, now: Millis) -> bool {
        let Some(mut sweep) = self.marks.sweep.take().or_else(|| self.begin_sweep(rules, now)) else {
            return false;
        };
        let has_more = self.sweep_some(rules, &mut sweep, now, true, |_, _| true);
        if has_more {
            self.marks.sweep = Some(sweep);
        } else {
            // What a mark made out of date must not count as fresh without it.
            let is_done =
                |mark: &Mark| mark.is_final || !sweep.leaves_some && mark.has_ended(rules.keep(), sweep.begun);
            self.marks.marks.retain(|mark| mark.version > sweep.version || !is_done(mark));
            self.marks.next_sweep = now + SWEEP_EVERY;
            self.has_marks = !self.marks.is_empty();
            self.side_changed = true;
        }
        self.settle(&rules.budget);
        has_more
    }

    /// Removes all that final marks ended, for who counts.
    pub(crate) fn sweep_final_marks(&mut self, rules: &Rules) {
        let is_final = self.marks.marks.iter().filter(|mark| mark.is_final);
        if let Some(since) = is_final.map(|mark| mark.since).max() {
            self.marks.sweep = None;
            self.marks.next_sweep = 0;
            while self.sweep_marks(rules, since) {}
        }
    }

    fn begin_sweep(&self, rules: &Rules, now: Millis) -> Option<Sweep> {
        let version = self.marks.marks.last()?.version;
        let is_due =
            now >= self.marks.next_sweep && self.marks.marks.iter().any(|mark| mark.has_ended(rules.keep(), now));
        is_due.then(|| Sweep::new(version, now))
    }
}
