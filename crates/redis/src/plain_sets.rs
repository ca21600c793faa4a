//! Runs of plain `SET key value` commands where the memory tier has all entries. They skip the parser and
//! the command table, as [`plain_gets`](super::plain_gets) do, and share its conditions.
use super::{
    command_counts::count_calls,
    command_lookup::SET,
    plain_gets::{AROUND, PlainRun, is_plain},
    session::{Backend, Session},
};
use larder_base::special::Special;
use larder_core::{app::Worker, read::KEYS_AHEAD};
use larder_engine::{Attributes, Condition, Key, Millis, Write};
use larder_proto::{
    output::Output,
    resp::{Reply, sets_ahead},
};
use smallvec::SmallVec;

/// A longer value is left to the parser: it may need room that is made in steps.
const LONGEST: usize = 64 << 10;

/// Begins the SETs at the start of `input`, until the output has `enough` bytes. Begins none if they need
/// more than a write to the memory tier. A SET that fails is left to the command table, which answers it.
pub(super) fn begin(
    worker: &Worker,
    session: &mut Session,
    input: &[u8],
    now: Millis,
    (out, enough): (&mut Output, usize),
) -> PlainRun {
    let mut sets = PlainRun::default();
    let group = worker.groups.default();
    let settings = &worker.app.settings;
    if session.backend != Backend::Memory
        || session.restricted
        || worker.app.replication.is_read_only()
        || group.policy.key_counts.counts_writes()
        || worker.is_on(Special::KeyEvents)
        || !is_plain(worker, session, now)
    {
        return sets;
    }
    let (longest_key, longest) = (settings.max_key, settings.max_value.min(LONGEST));
    let mut ahead = sets_ahead(input)
        .take(KEYS_AHEAD)
        .take_while(|(key, value, _)| key.len() <= longest_key && value.len() <= longest)
        .map(|(key, value, len)| (group.cache.key(key), value, len))
        .peekable();
    if ahead.peek().is_none() {
        return sets;
    }
    session.times.end_short(worker, &session.client);
    // Filled in place and borrowed: to move the row takes longer than to find it.
    let mut row: SmallVec<[(Key<'_>, &[u8], usize); KEYS_AHEAD]> = SmallVec::new();
    row.extend(ahead);
    if row.len() > 1 {
        group.cache.prefetch(row.iter().map(|(key, ..)| *key));
    }
    let before = out.len();
    let (mut reply, mut tier) = (Reply::new(out, session.resp3), group.cache.tier());
    for &(key, value, len) in &row {
        let expiry = group.lifetime(key.bytes());
        let write = Write { value, expiry, attributes: Attributes::NONE, condition: Condition::Always };
        if reply.output().len() >= enough || tier.set(key, write, now).is_err() {
            break;
        }
        reply.ok();
        sets.commands += 1;
        sets.consumed += len;
    }
    if sets.commands > 0 {
        let bytes = (sets.consumed - sets.commands * AROUND, reply.output().len() - before);
        count_calls(worker, session, SET, sets.commands as u64, bytes);
        session.times.end_sets(worker, &session.client, sets.commands as u32);
    }
    sets
}
