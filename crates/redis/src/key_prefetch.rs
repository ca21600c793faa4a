//! A glance at the keys of the commands to come: the processor fetches from memory what they will
//! look at, while other work is done. Without it each of them waits for memory by itself.
use larder_core::{app::Worker, read::KEYS_AHEAD};
use larder_engine::{Cache, Key};
use larder_proto::resp;
use smallvec::SmallVec;

/// Keys in rows that are prefetched together.
pub(super) fn rows<'k>(
    cache: &Cache,
    mut names: impl Iterator<Item = &'k [u8]>,
) -> impl Iterator<Item = SmallVec<[Key<'k>; KEYS_AHEAD]>> {
    std::iter::from_fn(move || {
        let row: SmallVec<_> = names.by_ref().take(KEYS_AHEAD).map(|name| cache.key(name)).collect();
        (!row.is_empty()).then_some(row)
    })
}

/// Prefetches for the commands at the start of `input`, [`KEYS_AHEAD`] of them at most. Returns their
/// number; 0 if there is only one, or if they go to a source.
#[inline]
pub(crate) fn prefetch(worker: &Worker, input: &[u8]) -> usize {
    let group = worker.groups.default();
    if group.source.reads_through() {
        return 0;
    }
    group.prefetch_ahead(resp::first_arguments(input))
}
