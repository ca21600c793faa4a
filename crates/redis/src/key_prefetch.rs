//! A glance at the keys of the commands to come: the processor fetches from memory what they will
//! look at, while other work is done. Without it each of them waits for memory by itself.
use larder_core::app::Worker;
use larder_engine::{Cache, Key};
use larder_proto::resp;
use larder_source::SourceKind;
use smallvec::SmallVec;

/// Keys that are prefetched together: about as many cache misses as a core can have in progress.
pub(super) const AHEAD: usize = 16;

/// A longer argument is seldom a key, and to hash it takes longer than to wait for memory.
const LONGEST: usize = 256;

/// Keys in rows that are prefetched together.
pub(super) fn rows<'k>(
    cache: &Cache,
    mut names: impl Iterator<Item = &'k [u8]>,
) -> impl Iterator<Item = SmallVec<[Key<'k>; AHEAD]>> {
    std::iter::from_fn(move || {
        let row: SmallVec<_> = names.by_ref().take(AHEAD).map(|name| cache.key(name)).collect();
        (!row.is_empty()).then_some(row)
    })
}

/// The first argument of the command at the start of `input`, as a key, if the command is likely to
/// look at the memory tier first.
#[inline]
pub fn first_key<'i>(worker: &Worker, input: &'i [u8]) -> Option<Key<'i>> {
    let group = worker.groups.default();
    match group.source.kind() {
        SourceKind::Table(_) => None,
        _ => {
            let key = resp::first_arguments(input).next()??;
            (key.len() <= LONGEST).then(|| group.cache.key(key))
        }
    }
}

/// Prefetches for the commands at the start of `input`, [`AHEAD`] of them at most. Returns their
/// number; 0 if there is only one, or if they go to a source.
#[inline]
pub fn prefetch(worker: &Worker, input: &[u8]) -> usize {
    let group = worker.groups.default();
    if group.source.reads_through() {
        return 0;
    }
    let mut commands = 0;
    // Filled in place: to move the keys takes longer than to find them.
    let mut keys: SmallVec<[Key<'_>; AHEAD]> = SmallVec::new();
    keys.extend(
        resp::first_arguments(input)
            .take(AHEAD)
            .inspect(|_| commands += 1)
            .filter_map(|argument| argument.filter(|key| key.len() <= LONGEST))
            .map(|key| group.cache.key(key)),
    );
    if keys.len() < 2 {
        return 0;
    }
    group.cache.prefetch(keys.iter().copied());
    commands
}
