//! For how long copies may be served past their freshness, and where an entry stands by that
//! ([`crate::staleness`]).

use crate::{entry::Entry, time::Millis};

/// For how long an entry that is out of date may be served, ms since then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StaleWindows {
    /// To every lookup, while one fetch renews it.
    pub while_renewed: u64,
    /// To those whose fetch fails or takes too long. If a mark made it out of date, also until the
    /// end of its own freshness.
    pub if_error: u64,
    /// In no case longer.
    pub at_most: u64,
    /// From this moment on not at all.
    pub gone_at: Millis,
}

/// How long copies may be served past their freshness. The cache asks only about entries that are
/// out of date or soon will be.
pub trait StaleRules: std::fmt::Debug + Send + Sync {
    /// For how long this entry may be served.
    fn windows(&self, entry: &Entry<'_>) -> StaleWindows;
    /// Whether it is time to renew a fresh entry that stays fresh for `left` ms more.
    fn renews_ahead(&self, entry: &Entry<'_>, left: u64, now: Millis) -> bool;
    /// The longest of all windows, ms: entries are kept for this long past the end of their
    /// freshness.
    fn longest_window(&self) -> u64;
    /// How early entries are renewed at most, ms before the end of their freshness; 0: never ahead.
    fn earliest_renewal(&self) -> u64;
}

/// Where an entry stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It may be served. `left`: until it ends, ms.
    Fresh { left: Option<u64> },
    /// `own_end`: the end of its own freshness, if that is still to come.
    OutOfDate { since: Millis, own_end: Option<Millis> },
    /// It may not be served any more.
    Gone,
}

impl Standing {
    /// That of something that is held only together with something else.
    pub(crate) fn worse(self, other: Standing) -> Standing {
        match (self, other) {
            (Standing::Gone, _) | (_, Standing::Gone) => Standing::Gone,
            (Standing::OutOfDate { since, own_end }, Standing::OutOfDate { since: other, own_end: other_end }) => {
                let own_end = own_end.zip(other_end).map(|(one, other)| one.min(other));
                Standing::OutOfDate { since: since.min(other), own_end }
            }
            (Standing::OutOfDate { since, .. }, Standing::Fresh { .. }) => Standing::OutOfDate { since, own_end: None },
            (Standing::Fresh { .. }, stale @ Standing::OutOfDate { .. }) => stale,
            (Standing::Fresh { left }, Standing::Fresh { left: other }) => {
                Standing::Fresh { left: left.into_iter().chain(other).min() }
            }
        }
    }
}

/// How an entry that is out of date may be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Serves {
    WhileRenewed,
    IfError,
    No,
}

impl StaleWindows {
    /// Not at all.
    pub const NONE: StaleWindows = StaleWindows { while_renewed: 0, if_error: 0, at_most: 0, gone_at: 0 };

    pub(crate) fn allow(self, since: Millis, own_end: Option<Millis>, now: Millis) -> Serves {
        let late = now.saturating_sub(since);
        if late >= self.at_most || now >= self.gone_at {
            Serves::No
        } else if late < self.while_renewed {
            Serves::WhileRenewed
        } else if late < self.if_error || self.if_error > 0 && own_end.is_some_and(|end| end > now) {
            Serves::IfError
        } else {
            Serves::No
        }
    }
}
