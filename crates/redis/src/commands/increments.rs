//! Counters: INCR and related commands.
use crate::{
    command_context::CommandContext,
    command_outcome::{DECREMENT_OVERFLOW, Done, NOT_FINITE, NOT_FLOAT, NOT_INTEGER, OVERFLOW, integer},
    commands::strings::check_string,
    long_double::LongDouble,
};
use larder_core::read::KeyEvent;
use larder_engine::{Change, Entry, Expiry, Tier};
use larder_proto::resp::parse_i64;

pub(crate) fn incrby(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let by = integer(call.arg(2))?;
    add(call, tier, by)
}

/// DECRBY key decrement
pub(crate) fn decrby(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let by = integer(call.arg(2))?.checked_neg().ok_or(DECREMENT_OVERFLOW)?;
    add(call, tier, by)
}

pub(crate) fn add(call: &mut CommandContext<'_>, tier: &mut Tier<'_>, by: i64) -> Done {
    let (sum, is_new) = tier.update(call.key(1), call.now, |entry, scratch| {
        if let Err(fault) = check_string(entry) {
            return (Change::Keep, Err(fault));
        }
        let old = match entry {
            None => Some(0),
            Some(entry) => parse_i64(entry.value.as_bytes()),
        };
        let sum = old.ok_or(NOT_INTEGER).and_then(|old| old.checked_add(by).ok_or(OVERFLOW));
        match sum {
            Err(fault) => (Change::Keep, Err(fault)),
            Ok(sum) => {
                scratch.extend_from_slice(itoa::Buffer::new().format(sum).as_bytes());
                (Change::Put(counter_expiry(call, entry)), Ok((sum, entry.is_none())))
            }
        }
    })??;
    call.note_written(KeyEvent::IncrBy, call.arg(1), is_new);
    call.integer(sum)
}

pub(crate) fn incrbyfloat(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let by = call.arg(2);
    let (sum, is_new) = tier.update(call.key(1), call.now, |entry, scratch| {
        if let Err(fault) = check_string(entry) {
            return (Change::Keep, Err(fault));
        }
        let old = match entry {
            None => Some(LongDouble::ZERO),
            Some(entry) => LongDouble::parse(entry.value.as_bytes()),
        };
        // Redis checks the value before the argument.
        let sum = match old.zip(LongDouble::parse(by)) {
            None => Err(NOT_FLOAT),
            Some((old, by)) => old.add(by).ok_or(NOT_FINITE),
        };
        match sum {
            Err(fault) => (Change::Keep, Err(fault)),
            Ok(sum) => {
                let text = sum.print();
                scratch.extend_from_slice(text.as_bytes());
                (Change::Put(counter_expiry(call, entry)), Ok((text, entry.is_none())))
            }
        }
    })??;
    call.note_written(KeyEvent::IncrByFloat, call.arg(1), is_new);
    call.bulk(sum.as_bytes())
}

/// A counter keeps its expiry. A new one gets the group's.
pub(super) fn counter_expiry(call: &CommandContext<'_>, entry: Option<&Entry<'_>>) -> Expiry {
    match entry {
        Some(_) => Expiry::Keep,
        None => call.lifetime(call.arg(1)),
    }
}
