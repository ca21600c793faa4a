//! How long copies may be served past their freshness: what the policy of a key says, unless its
//! source said something else with the copy.
use super::{
    copy_metadata::CopyMetadataView,
    fill_policy::{FillPolicy, KeyPolicy},
};
use larder_config::RefreshAhead;
use larder_engine::{Entry, Millis, StaleRules, StaleWindows};

/// XFetch renews earlier than this with a probability below 1 in 1,000 if the fetch takes a second.
/// Copies with more time left are not asked about.
const XFETCH_EARLIEST: u64 = 7_000;
/// Lifetime that is assumed where only the source gives lifetimes, ms.
const ASSUMED_LIFE: u64 = 3_600_000;

impl StaleRules for FillPolicy {
    fn windows(&self, entry: &Entry<'_>) -> StaleWindows {
        let (policy, said) = (self.of(entry.key), CopyMetadataView::read(entry.metadata()));
        StaleWindows {
            while_renewed: said.stale_while_revalidate.unwrap_or(policy.stale_while_revalidate),
            if_error: said.stale_if_error.unwrap_or(policy.stale_if_error),
            at_most: policy.max_stale.unwrap_or(u64::MAX),
            gone_at: said.gone_at.unwrap_or(Millis::MAX),
        }
    }

    fn renews_ahead(&self, entry: &Entry<'_>, left: u64, now: Millis) -> bool {
        let policy = self.of(entry.key);
        match policy.refresh_ahead {
            None => false,
            Some(RefreshAhead::Share(share)) => {
                // The moment of storing is known to a second or so.
                let life = (now + left).saturating_sub(entry.stored()).min(policy.ttl.unwrap_or(u64::MAX));
                left.saturating_mul(100) <= life.saturating_mul(share.into())
            }
            Some(RefreshAhead::XFetch) => {
                let took = CopyMetadataView::read(entry.metadata()).fetch_duration.unwrap_or(0);
                -(took as f64) * fastrand::f64().max(f64::MIN_POSITIVE).ln() >= left as f64
            }
        }
    }

    fn longest_window(&self) -> u64 {
        self.longest_stale()
    }

    fn earliest_renewal(&self) -> u64 {
        let earliest = |policy: &KeyPolicy| match policy.refresh_ahead {
            None => 0,
            Some(RefreshAhead::Share(share)) => policy.ttl.unwrap_or(ASSUMED_LIFE).saturating_mul(share.into()) / 100,
            Some(RefreshAhead::XFetch) => XFETCH_EARLIEST,
        };
        self.table().policies().map(earliest).max().unwrap_or(0)
    }
}
