//! Arrays of documents: JSON.ARRAPPEND, ARRINDEX, ARRINSERT, ARRLEN, ARRPOP, ARRTRIM.
use super::documents::{
    NO_FORMAT, NO_KEY, NO_PATH, WRONG_FORMAT, each_found, edit, expected, find, no_path_or, path, read, reply_numbers,
    reply_outcomes, values, write_outcome,
};
use crate::{
    command_context::CommandContext,
    command_outcome::{CommandError, Done, SYNTAX, arity, integer},
};
use larder_document::{Edit, Found, Path, compact, count, index_of};
use larder_engine::Tier;

const NOT_ARRAY: &str = "not an array";

fn reply_edit(call: &mut CommandContext<'_>, tier: &mut Tier<'_>, path: &Path, change: &Edit<'_>) -> Done {
    let outcomes = edit(call, tier, path, change)?;
    reply_outcomes(call, path, outcomes, NOT_ARRAY, write_outcome)
}

/// JSON.ARRAPPEND key path value [value …]
pub(crate) fn arrappend(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let values = values(call, 3)?;
    if values.is_empty() {
        return Err(arity(call.command.name));
    }
    let path = path(call.args.get(2))?;
    reply_edit(call, tier, &path, &Edit::Append(&values))
}

/// JSON.ARRINSERT key path index value [value …]
pub(crate) fn arrinsert(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let index = integer(call.arg(3))?;
    let values = values(call, 4)?;
    let path = path(call.args.get(2))?;
    reply_edit(call, tier, &path, &Edit::Insert(index, &values))
}

/// JSON.ARRTRIM key path start stop
pub(crate) fn arrtrim(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let (start, stop) = (integer(call.arg(3))?, integer(call.arg(4))?);
    let path = path(call.args.get(2))?;
    reply_edit(call, tier, &path, &Edit::Trim(start, stop))
}

/// `JSON.ARRPOP key [FORMAT STRINGS] [path [index]]`
pub(crate) fn arrpop(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let first = match (call.args.get(2), call.args.get(3)) {
        (Some(word), Some(format)) if word.eq_ignore_ascii_case(b"FORMAT") => {
            if !format.eq_ignore_ascii_case(b"STRINGS") {
                return Err(WRONG_FORMAT);
            }
            if !call.reply.is_resp3() {
                return Err(NO_FORMAT);
            }
            4
        }
        _ => 2,
    };
    let path = path(call.args.get(first))?;
    let index = call.args.get(first + 1).map_or(Ok(-1), integer)?;
    reply_edit(call, tier, &path, &Edit::Pop(index))
}

/// JSON.ARRLEN key [path]
pub(crate) fn arrlen(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let path = path(call.args.get(2))?;
    let len = |value: &[u8]| value.starts_with(b"[").then(|| count(value, 0) as i64);
    let lengths = each_found(call, tier, call.key(1), &path, len)?;
    reply_numbers(call, &path, lengths, NO_KEY, no_path_or(NOT_ARRAY))
}

/// `JSON.ARRINDEX key path value [start [stop]]`
pub(crate) fn arrindex(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    if call.args.len() > 6 {
        return Err(SYNTAX);
    }
    let path = path(call.args.get(2))?;
    let wanted = compact(call.arg(3))?;
    let bounds = (call.args.get(4).map_or(Ok(0), integer)?, call.args.get(5).map_or(Ok(0), integer)?);
    let mut work = 0;
    let found = read(call, tier, call.key(1), |_, text| {
        let index = |found: Found| match text[found.span.start] {
            b'[' => {
                let index = index_of(text, &found.span, &wanted, bounds, &mut work)?;
                Ok(Some(index.map_or(-1, |index| index as i64)))
            }
            _ => Ok(None),
        };
        find(call, text, &path)?.into_iter().map(index).collect::<Result<Vec<_>, CommandError>>()
    })?;
    reply_numbers(call, &path, Some(found.ok_or(NO_PATH)?), NO_PATH, expected("array"))
}
