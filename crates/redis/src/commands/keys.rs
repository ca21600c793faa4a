//! Keys: DEL, EXISTS, TOUCH, TYPE, RENAME, COPY, and flushing the keyspace.
use crate::{
    command_context::CommandContext,
    command_outcome::{CommandResult, DB_INDEX, Done, NO_SUCH_KEY, SAME_OBJECT, SYNTAX, int},
};
use larder_core::read::KeyEvent;
use larder_engine::{Attributes, Condition, Expiry, Key, Stored, Tier, Write};
use larder_source::kind_of;
use larder_store::ValueKind;

/// Replies with the number of keys for which `counts` returns true.
fn count(call: &mut CommandContext<'_>, mut counts: impl FnMut(Key<'_>) -> bool) -> Done {
    let cache = call.cache();
    let keys = call.command.keys.of(call.args);
    let count = keys.filter(|key| counts(cache.key(key))).count();
    call.integer(count as i64)
}

/// DEL key [key …]. UNLINK does the same, because deleting is cheap.
pub(crate) fn del(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let (cache, now) = (call.cache(), call.now);
    let mut deleted = 0;
    for key in call.command.keys.of(call.args).filter(|key| tier.delete(cache.key(key), now)) {
        call.note_event(KeyEvent::Del, key);
        deleted += 1;
    }
    call.integer(deleted)
}

pub(crate) fn exists(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let now = call.now;
    count(call, |key| tier.peek(key, now, |_| ()).is_some())
}

pub(crate) fn touch(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let now = call.now;
    count(call, |key| tier.get(key, now, |_| ()).is_some())
}

pub(crate) fn type_of(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let kind = tier.peek(call.key(1), call.now, |entry| kind_of(entry.metadata()));
    call.simple(kind.map_or("none", type_name))
}

/// The name that clients know a type by.
pub(super) fn type_name(kind: ValueKind) -> &'static str {
    match kind {
        ValueKind::String | ValueKind::Flagged(_) => "string",
        // The name that RedisJSON gave its type.
        ValueKind::Document => "ReJSON-RL",
    }
}

pub(crate) fn rename(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    if call.arg(1) == call.arg(2) {
        return match tier.peek(call.key(1), call.now, |_| ()) {
            Some(()) => call.ok(),
            None => Err(NO_SUCH_KEY),
        };
    }
    duplicate(call, tier, Condition::Always)?.ok_or(NO_SUCH_KEY)?;
    move_away(call, tier);
    call.ok()
}

/// Deletes the first key, whose entry the second one has now.
fn move_away(call: &CommandContext<'_>, tier: &mut Tier<'_>) {
    tier.delete(call.key(1), call.now);
    call.note_event(KeyEvent::RenameFrom, call.arg(1));
    call.note_event(KeyEvent::RenameTo, call.arg(2));
}

pub(crate) fn renamenx(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    // A key that is renamed to itself already exists.
    let stored = duplicate(call, tier, Condition::IfAbsent)?.ok_or(NO_SUCH_KEY)?;
    let moved = stored != Stored::Unmet;
    if moved {
        move_away(call, tier);
    }
    call.integer(i64::from(moved))
}

/// `COPY source destination [DB 0] [REPLACE]`
pub(crate) fn copy(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let mut condition = Condition::IfAbsent;
    let mut parts = call.args.from(3);
    while let Some(part) = parts.next() {
        if part.eq_ignore_ascii_case(b"replace") {
            condition = Condition::Always;
        } else if part.eq_ignore_ascii_case(b"db") {
            if int(parts.next().ok_or(SYNTAX)?)? != 0 {
                return Err(DB_INDEX);
            }
        } else {
            return Err(SYNTAX);
        }
    }
    if call.arg(1) == call.arg(2) {
        return Err(SAME_OBJECT);
    }
    let copied = match duplicate(call, tier, condition)? {
        None | Some(Stored::Unmet) => 0,
        Some(_) => {
            call.note_event(KeyEvent::CopyTo, call.arg(2));
            1
        }
    };
    call.integer(copied)
}

/// Stores the first key's value, expiry and tags under the second key. `None` if the first key does
/// not exist.
fn duplicate(
    call: &CommandContext<'_>,
    tier: &mut Tier<'_>,
    condition: Condition,
) -> Result<Option<Stored>, larder_engine::TooLarge> {
    let found = tier.peek(call.key(1), call.now, |entry| {
        let tags: Vec<Vec<u8>> = entry.tags().map(<[u8]>::to_vec).collect();
        (entry.value.to_bytes(), entry.expiry(), tags, entry.metadata().to_vec())
    });
    let Some((value, expiry, tags, metadata)) = found else {
        return Ok(None);
    };
    let tags: Vec<&[u8]> = tags.iter().map(|tag| &tag[..]).collect();
    let write = Write {
        value: &value,
        expiry: expiry.map_or(Expiry::Never, Expiry::At),
        attributes: Attributes { tags: &tags, metadata: &metadata },
        condition,
    };
    let stored = tier.set(call.key(2), write, call.now)?;
    if stored != Stored::Unmet {
        // In Redis the key that was there is deleted first.
        call.note_event(KeyEvent::New, call.arg(2));
    }
    Ok(Some(stored))
}

pub(crate) fn dbsize(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    call.integer(tier.len() as i64)
}

/// FLUSHALL [ASYNC | SYNC]. FLUSHDB does the same, because there is one database.
pub(crate) fn flush(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    flush_options(call)?;
    tier.clear();
    call.ok()
}

pub(crate) fn flush_options(call: &CommandContext<'_>) -> CommandResult {
    let mut options = call.args.from(1);
    let fine = |option: &[u8]| option.eq_ignore_ascii_case(b"async") || option.eq_ignore_ascii_case(b"sync");
    if call.args.len() > 2 || !options.all(fine) {
        return Err(SYNTAX);
    }
    Ok(())
}
