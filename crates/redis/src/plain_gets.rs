//! Runs of plain `GET key` commands, the most common input of a cache. They skip the parser and the
//! command table, which would cost as much as the rest of a hit, and their memory is prefetched
//! together. All other input goes to [`begin`](super::begin_command::begin), which begins one
//! command.
use super::{
    command_counts::count_calls, command_lookup::GET, commands::get::read_one, pending_read::PendingRead,
    session::Session,
};
use larder_core::{app::Worker, gate::Door, read::KEYS_AHEAD};
use larder_engine::{Key, Millis};
use larder_proto::{
    output::Output,
    resp::{self, Reply},
};
use larder_source::Fetch;
use smallvec::SmallVec;

/// Bytes of a plain command before its name and after its last argument: `*2`, `$3`, and three ends of
/// lines.
pub(super) const AROUND: usize = 10;

/// How far a run of plain commands was begun.
#[derive(Default)]
pub struct PlainRun {
    /// The number of commands.
    pub commands: usize,
    /// Their bytes in the input.
    pub consumed: usize,
    /// How many of them wait for a flight.
    pub waiting: usize,
}

/// Takes the replies to the commands of a run, in order.
pub trait GetReplies {
    /// The output for the next replies, and at how many bytes the run stops.
    fn output(&mut self) -> (&mut Output, usize);
    /// The next reply waits for a flight. False: the run stops here.
    fn wait(&mut self, read: PendingRead) -> bool;
}

/// Whether nothing special is on, and the client is in no special state.
#[inline]
pub(super) fn is_plain(worker: &Worker, session: &Session, now: Millis) -> bool {
    worker.special(Door::Redis) == 0 && session.plain_reads && !session.has_old_user(worker, now)
}

/// Begins the GETs at the start of `input`, until enough bytes or reads are due. Begins none if
/// they need more than a lookup: something special is on, or the client is in a special state. Fetches that they need are pushed to `batch`.
pub fn begin(
    worker: &Worker,
    session: &mut Session,
    input: &[u8],
    now: Millis,
    replies: &mut impl GetReplies,
    batch: &mut Vec<Fetch>,
) -> PlainRun {
    let mut gets = PlainRun::default();
    if !is_plain(worker, session, now) {
        return gets;
    }
    let group = worker.groups.default();
    let longest = worker.app.settings.max_key;
    let mut ahead = resp::gets_ahead(input)
        .take(KEYS_AHEAD)
        .take_while(|(key, _)| key.len() <= longest && session.may_get(key))
        .map(|(key, len)| (group.cache.key(key), len))
        .peekable();
    if ahead.peek().is_none() {
        return gets;
    }
    // Filled in place and borrowed: to move the row takes longer than to find it.
    let mut row: SmallVec<[(Key<'_>, usize); KEYS_AHEAD]> = SmallVec::new();
    row.extend(ahead);
    session.times.end_short(worker, &session.client);
    let _one_table = group.one_table();
    if row.len() > 1 {
        group.prefetch(row.iter().map(|(key, _)| *key));
    }
    let (out, mut enough) = replies.output();
    let mut before = out.len();
    let mut sent = 0;
    let mut reply = Reply::new(out, session.resp3);
    for &(key, len) in &row {
        if reply.output().len() >= enough {
            break;
        }
        gets.commands += 1;
        gets.consumed += len;
        if let Some(mut read) = read_one(group, key, now, batch, &mut reply) {
            gets.waiting += 1;
            sent += reply.output().len() - before;
            read.timed = Some(session.times.get_later());
            let goes_on = replies.wait(read);
            let (out, limit) = replies.output();
            (before, enough) = (out.len(), limit);
            reply = Reply::new(out, session.resp3);
            if !goes_on {
                break;
            }
        }
    }
    sent += reply.output().len() - before;
    if gets.commands > 0 {
        count_calls(worker, session, GET, gets.commands as u64, (gets.consumed - gets.commands * AROUND, sent));
    }
    gets
}
