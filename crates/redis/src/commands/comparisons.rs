//! DELEX and DELIFEQ, which delete a key if it has some value. DIGEST returns what IFDEQ compares.
use crate::{
    command_context::CommandContext,
    command_outcome::{CommandError, Done, WRONG_TYPE, arity},
    commands::{bits::read_string, keys, strings::check_string},
    value_comparison::Comparison,
};
use larder_core::read::KeyEvent;
use larder_engine::{Change, Tier};
use xxhash_rust::xxh3::xxh3_64;

const NOT_A_STRING: CommandError = CommandError::Static("ERR Key should be of string type if conditions are specified");

/// DIGEST key
pub(crate) fn digest(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    match read_string(call, tier, call.key(1), xxh3_64)? {
        Some(digest) => call.bulk(format!("{digest:016x}").as_bytes()),
        None => call.null(),
    }
}

/// `DELEX key [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]`
pub(crate) fn delex(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    match call.args.len() {
        2 => keys::del(call, tier),
        4 => delete_if(call, tier, Comparison::parse(call.arg(2), call.arg(3)), NOT_A_STRING),
        _ => Err(arity(call.command.name)),
    }
}

/// DELIFEQ key value (Valkey)
pub(crate) fn delifeq(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    delete_if(call, tier, Comparison::parse(b"IFEQ", call.arg(2)), WRONG_TYPE)
}

/// The condition is looked at only if the key has a string.
fn delete_if(
    call: &mut CommandContext<'_>,
    tier: &mut Tier<'_>,
    comparison: Result<Comparison<'_>, CommandError>,
    no_string: CommandError,
) -> Done {
    let is_deleted = tier.update(call.key(1), call.now, |entry, _| match (entry, comparison) {
        (None, _) => (Change::Keep, Ok(false)),
        (Some(_), _) if check_string(entry).is_err() => (Change::Keep, Err(no_string)),
        (_, Err(fault)) => (Change::Keep, Err(fault)),
        (_, Ok(comparison)) if comparison.holds(entry) => (Change::Delete, Ok(true)),
        (_, Ok(_)) => (Change::Keep, Ok(false)),
    })??;
    if is_deleted {
        call.note_event(KeyEvent::Del, call.arg(1));
    }
    call.integer(i64::from(is_deleted))
}
