//! Plain `GET key`s in a row, which is what a cache is sent most: recognised at a glance, their memory fetched together, and begun without
//! the way through parser and table, which costs a hit as much as the rest of it. Whatever is not plain is left to [`begin`](super::begin::begin),
//! which does the same for one.
use super::{command_counts::count_calls, command_lookup::GET, pending_read::PendingRead, session::Session};
use crate::{
    app::Worker,
    read::StartedRead,
    source::{Fetch, Reads},
};
use larder_engine::{Key, Millis};
use larder_proto::{
    output::Output,
    resp::{self, Reply},
};
use smallvec::SmallVec;

/// Reads whose memory is fetched together: about as many as a core can have under way.
const AHEAD: usize = 16;

/// What was begun of a row.
#[derive(Default)]
pub struct GetRun {
    /// Commands.
    pub commands: usize,
    /// Their bytes in the input.
    pub consumed: usize,
    /// The last of them waits for its flight; the replies to the others are in the output.
    pub pending: Option<PendingRead>,
}

/// The key of the plain GET that `input` begins with, if reads look at the memory tier first.
#[inline]
pub fn first_key<'i>(worker: &Worker, input: &'i [u8]) -> Option<Key<'i>> {
    let group = &*worker.groups[0];
    match group.source.reads() {
        Reads::Table(_) => None,
        Reads::Tier | Reads::Through => resp::gets_ahead(input).next().map(|(key, _)| group.cache.key(key)),
    }
}

/// Begins the GETs that `input` begins with, until one has to wait or `out` has `enough` bytes; none if they are not plain: they would be
/// throttled, recorded, shown, or are of a client in a state that needs a look. Fetches that are needed are pushed to `batch`.
pub fn begin(
    worker: &Worker,
    session: &Session,
    input: &[u8],
    now: Millis,
    (out, enough): (&mut Output, usize),
    batch: &mut Vec<Fetch>,
) -> GetRun {
    let mut gets = GetRun::default();
    let app = &worker.app;
    if !session.reads_plainly()
        || app.throttle.is_some()
        || app.telemetry.recorder.is_on()
        || app.clients.monitors().any()
    {
        return gets;
    }
    let group = &*worker.groups[0];
    let lengths = 1..=worker.app.settings.max_key;
    let row: SmallVec<[(Key<'_>, usize); AHEAD]> = resp::gets_ahead(input)
        .take(AHEAD)
        .take_while(|(key, _)| lengths.contains(&key.len()))
        .map(|(key, len)| (group.cache.key(key), len))
        .collect();
    let _one_table = group.one_table();
    if row.len() > 1 {
        let keys = row.iter().map(|(key, _)| *key);
        match group.source.reads() {
            Reads::Table(table) => keys.for_each(|key| table.prefetch(key.bytes())),
            Reads::Tier | Reads::Through => group.cache.prefetch(keys),
        }
    }
    let mut reply = Reply::new(out, session.resp3);
    for (key, len) in row {
        if reply.output().len() >= enough {
            break;
        }
        gets.commands += 1;
        gets.consumed += len;
        match group.begin(key, now, batch, |entry| reply.value(entry.value)) {
            StartedRead::Hit(()) => {}
            StartedRead::Absent => reply.null(),
            StartedRead::Wait(wait) => {
                gets.pending = Some(PendingRead::one(wait, session.resp3, false));
                break;
            }
        }
    }
    if gets.commands > 0 {
        count_calls(worker, session, GET, gets.commands as u64);
    }
    gets
}
