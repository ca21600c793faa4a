//! Expired entries are dropped when compaction comes upon them.
use super::format;
use crate::clock;
use fjall::compaction::filter::{CompactionFilter, CompactionFilterResult, Context, Factory, ItemAccessor, Verdict};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// Makes a filter for each compaction and counts what they drop.
#[derive(Default)]
pub(super) struct DropExpired {
    pub(super) dropped: Arc<AtomicU64>,
}

struct Filter {
    now: larder_engine::Millis,
    dropped: u64,
    total: Arc<AtomicU64>,
}

impl Factory for DropExpired {
    fn name(&self) -> &str {
        "larder-expiry"
    }
    fn make_filter(&self, _context: &Context) -> Box<dyn CompactionFilter> {
        Box::new(Filter { now: clock::now(), dropped: 0, total: self.dropped.clone() })
    }
}

impl CompactionFilter for Filter {
    fn filter_item(&mut self, item: ItemAccessor<'_>, _context: &Context) -> CompactionFilterResult {
        if format::is_live(&item.value()?, self.now) {
            return Ok(Verdict::Keep);
        }
        self.dropped += 1;
        // A tombstone, not nothing: an older version of the key may lie in a deeper level, and must not
        // come back.
        Ok(Verdict::Remove)
    }
    fn finish(self: Box<Self>) {
        self.total.fetch_add(self.dropped, Relaxed);
    }
}
