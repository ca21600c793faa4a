//! A walk over the entries of a shard in small steps, to remove what a mark or a clear of a tag
//! ended. Each kind has a walk of its own.

use crate::{
    departures::Departure, index::ScanAt, shard::Shard, shard_common::Rules, stale_rules::Standing, sweep_state::Sweep,
    time::Millis,
};

/// Entries that one step looks at.
const SWEPT: usize = 256;
/// A sweep that leaves something is followed by the next after this time, ms.
pub(crate) const SWEEP_EVERY: Millis = 10_000;

impl Shard {
    /// Looks at some of the entries that `concerns` names and drops those that are gone. True if
    /// there are more. `tells`: those who listen have not heard of it yet.
    pub(crate) fn sweep_some(
        &mut self,
        rules: &Rules,
        sweep: &mut Sweep,
        now: Millis,
        tells: bool,
        concerns: impl Fn(&Shard, u32) -> bool,
    ) -> bool {
        let mut gone = Vec::new();
        let next = self.index.scan(sweep.at, SWEPT, |position| {
            if concerns(self, position) {
                match self.standing(rules, position, now) {
                    Standing::Gone => gone.push(position),
                    Standing::OutOfDate { .. } => sweep.leaves_some = true,
                    Standing::Fresh { .. } => {}
                }
            }
        });
        for position in gone {
            let hash = self.hash_at(rules, position);
            if tells {
                self.tell_of_swept(rules, position);
            }
            self.sample_removal(rules, hash);
            self.note_departure(hash, Departure::Invalidated);
            self.drop_entry(hash, position);
        }
        sweep.at = next.unwrap_or(ScanAt::START);
        next.is_some()
    }
}
