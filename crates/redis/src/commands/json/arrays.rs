//! Arrays of documents: JSON.ARRAPPEND, ARRINDEX, ARRINSERT, ARRLEN, ARRPOP, ARRTRIM.
use super::{
    documents::{
        NO_FORMAT, NO_KEY, NO_PATH, WRONG_FORMAT, edit, expected, find, no_path_or, path, read, reply_outcomes, values,
        write_outcome,
    },
    reads::reply_integers,
};
use crate::{
    command_context::CommandContext,
    command_error::{CommandResult, SYNTAX, arity, integer},
};
use larder_document::{Edit, Path, compact, count, index_of};
use larder_engine::Tier;

const NOT_ARRAY: &str = "not an array";

fn reply_edit(call: &mut CommandContext<'_>, tier: &mut Tier<'_>, path: &Path, change: &Edit<'_>) -> CommandResult {
    let outcomes = edit(call, tier, path, change)?;
    reply_outcomes(call, path, outcomes, NOT_ARRAY, write_outcome)
}

/// JSON.ARRAPPEND key path value [value …]
pub(crate) fn arrappend(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> CommandResult {
    let values = values(call, 3)?;
    if values.is_empty() {
        return Err(arity(call.command.name));
    }
    let path = path(call.args.get(2))?;
    reply_edit(call, tier, &path, &Edit::Append(&values))
}

/// JSON.ARRINSERT key path index value [value …]
pub(crate) fn arrinsert(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> CommandResult {
    let index = integer(call.arg(3))?;
    let values = values(call, 4)?;
    let path = path(call.args.get(2))?;
    reply_edit(call, tier, &path, &Edit::Insert(index, &values))
}

/// JSON.ARRTRIM key path start stop
pub(crate) fn arrtrim(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> CommandResult {
    let (start, stop) = (integer(call.arg(3))?, integer(call.arg(4))?);
    let path = path(call.args.get(2))?;
    reply_edit(call, tier, &path, &Edit::Trim(start, stop))
}

/// `JSON.ARRPOP key [FORMAT STRINGS] [path [index]]`
pub(crate) fn arrpop(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> CommandResult {
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
pub(crate) fn arrlen(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> CommandResult {
    let path = path(call.args.get(2))?;
    let lengths = {
        let context = &*call;
        read(context, tier, context.key(1), |_, text| {
            let found = find(context, text, &path)?;
            let len = |at: usize| (text[at] == b'[').then(|| count(text, at) as i64);
            Ok(found.into_iter().map(|found| len(found.span.start)).collect::<Vec<_>>())
        })?
    };
    match (lengths, path.is_legacy()) {
        (None, true) => call.reply.null(),
        (None, false) => return Err(NO_KEY),
        (Some(lengths), true) => {
            let len = lengths.first().ok_or(NO_PATH)?.ok_or_else(|| no_path_or(NOT_ARRAY))?;
            call.reply.integer(len);
        }
        (Some(lengths), false) => reply_integers(call, lengths.into_iter()),
    }
    Ok(())
}

/// `JSON.ARRINDEX key path value [start [stop]]`
pub(crate) fn arrindex(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> CommandResult {
    if call.args.len() > 6 {
        return Err(SYNTAX);
    }
    let path = path(call.args.get(2))?;
    let wanted = compact(call.arg(3))?;
    let start = call.args.get(4).map_or(Ok(0), integer)?;
    let stop = call.args.get(5).map_or(Ok(0), integer)?;
    let found = {
        let context = &*call;
        read(context, tier, context.key(1), |_, text| {
            let found = find(context, text, &path)?;
            let index = |found: &larder_document::Found| {
                let is_array = text[found.span.start] == b'[';
                is_array.then(|| index_of(text, &found.span, &wanted, start, stop).map_or(-1, |index| index as i64))
            };
            Ok(found.iter().map(index).collect::<Vec<_>>())
        })?
    };
    let found = found.ok_or(NO_PATH)?;
    if path.is_legacy() {
        call.reply.integer(found.first().ok_or(NO_PATH)?.ok_or_else(|| expected("array"))?);
        return Ok(());
    }
    reply_integers(call, found.into_iter());
    Ok(())
}
