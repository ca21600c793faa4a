//! The counts of all workers, merged and sorted.
use super::{
    key_counts::Noted,
    measure::{Measure, PerMeasure},
};
use larder_engine::Millis;
use std::collections::HashMap;

/// A key or a prefix with its count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotKey {
    /// The number of the group.
    pub group: usize,
    /// The key, or the prefix.
    pub name: Vec<u8>,
    pub count: u64,
}

/// What takes the most, by each [`Measure`]. The counts are estimates.
#[derive(Debug, Clone, Default)]
pub struct HotKeyReport {
    /// Time that the counts stand for, ms.
    pub span: u64,
    /// The sums of all keys, those that are on no list included.
    pub totals: PerMeasure<u64>,
    /// Keys, the largest first.
    pub keys: PerMeasure<Vec<HotKey>>,
    /// Prefixes, the largest first.
    pub prefixes: PerMeasure<Vec<HotKey>>,
}

/// Sums by name.
pub(super) type Sums = HashMap<Vec<u8>, u64>;

/// Adds names and counts to the sums.
pub(super) fn add<'n>(sums: &mut Sums, counts: impl Iterator<Item = (&'n [u8], u64)>) {
    for (name, count) in counts {
        match sums.get_mut(name) {
            Some(sum) => *sum += count,
            None => drop(sums.insert(name.to_vec(), count)),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct MergedCounts {
    span: u64,
    totals: PerMeasure<u64>,
    keys: PerMeasure<Sums>,
    prefixes: PerMeasure<Sums>,
}

impl MergedCounts {
    pub(super) fn add(&mut self, noted: &Noted, now: Millis) {
        self.span = self.span.max(noted.span(now));
        for at in 0..Measure::ALL.len() {
            self.totals[at] += noted.totals[at];
            add(&mut self.keys[at], noted.keys[at].iter());
            add(&mut self.prefixes[at], noted.prefixes[at].iter());
        }
    }
}

impl HotKeyReport {
    /// The report of all groups, in the order of their numbers, with at most so many rows in each
    /// list.
    pub(super) fn new(groups: impl IntoIterator<Item = MergedCounts>, rows: usize) -> HotKeyReport {
        let mut report = HotKeyReport::default();
        for (group, merged) in groups.into_iter().enumerate() {
            report.span = report.span.max(merged.span);
            for (at, (keys, prefixes)) in merged.keys.into_iter().zip(merged.prefixes).enumerate() {
                report.totals[at] += merged.totals[at];
                let rows = |sums: Sums| sums.into_iter().map(move |(name, count)| HotKey { group, name, count });
                report.keys[at].extend(rows(keys));
                report.prefixes[at].extend(rows(prefixes));
            }
        }
        report.keys.iter_mut().chain(&mut report.prefixes).for_each(|list| sort(list, rows));
        report
    }
}

/// The largest first, equal ones by name; the rest is dropped.
fn sort(list: &mut Vec<HotKey>, rows: usize) {
    list.sort_unstable_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
    list.truncate(rows);
}

/// The largest sums first, at most so many.
pub(super) fn largest(sums: Sums, rows: usize) -> Vec<HotKey> {
    let mut list: Vec<HotKey> = sums.into_iter().map(|(name, count)| HotKey { group: 0, name, count }).collect();
    sort(&mut list, rows);
    list
}
