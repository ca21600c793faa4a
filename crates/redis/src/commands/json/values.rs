//! Changing single values of documents: JSON.NUMINCRBY, NUMMULTBY, NUMPOWBY, STRAPPEND, TOGGLE,
//! CLEAR, DEL.
use super::documents::{
    NO_KEY, change, edit, expected, find, note_changed, path, reply_outcomes, text_of, write_outcome,
};
use crate::{
    command_context::CommandContext,
    command_outcome::{CommandError, Done, Flow, arity},
};
use larder_document::{Edit, Edited, NumberEdit, Outcome, apply, compact};
use larder_engine::{Change, Tier};

const NOT_NUMBER: CommandError = CommandError::Static("ERR the increment or factor is not a JSON number");

/// JSON.NUMINCRBY, NUMMULTBY and NUMPOWBY key path number
pub(crate) fn number(call: &mut CommandContext<'_>, tier: &mut Tier<'_>, operation: NumberEdit) -> Done {
    let path = path(call.args.get(2))?;
    let by = compact(call.arg(3)).ok().filter(|by| matches!(by.first(), Some(b'-' | b'0'..=b'9')));
    let by = by.and_then(|by| String::from_utf8(by).ok()).ok_or(NOT_NUMBER)?;
    let outcomes = edit(call, tier, &path, &Edit::Number(operation, &by))?;
    if call.reply.is_resp3() {
        let outcomes = outcomes.ok_or(NO_KEY)?;
        call.reply.array(outcomes.len());
        for outcome in outcomes {
            let number = if let Some(Outcome::Number(number)) = outcome { Some(number) } else { None };
            match number.as_deref().map(|text| (text.parse::<i64>(), text.parse::<f64>())) {
                Some((Ok(integer), _)) => call.reply.integer(integer),
                Some((_, Ok(number))) => call.reply.double(number),
                _ => call.reply.null(),
            }
        }
        return Ok(Flow::Done);
    }
    if path.is_legacy() {
        return reply_outcomes(call, &path, outcomes, "does not contains a number", write_outcome);
    }
    // One text with all of them.
    let texts: Vec<String> = outcomes
        .ok_or(NO_KEY)?
        .into_iter()
        .map(|outcome| if let Some(Outcome::Number(number)) = outcome { number } else { "null".to_owned() })
        .collect();
    call.bulk(format!("[{}]", texts.join(",")).as_bytes())
}

/// JSON.STRAPPEND key [path] text
pub(crate) fn strappend(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let (path_text, more) = match call.args.len() {
        3 => (None, call.arg(2)),
        4 => (call.args.get(2), call.arg(3)),
        _ => return Err(arity(call.command.name)),
    };
    let path = path(path_text)?;
    let more = compact(more)?;
    let [b'"', inside @ .., b'"'] = &*more else { return Err(expected("string")) };
    let outcomes = edit(call, tier, &path, &Edit::AppendText(inside))?;
    reply_outcomes(call, &path, outcomes, "not a string", write_outcome)
}

/// JSON.TOGGLE key path
pub(crate) fn toggle(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let path = path(call.args.get(2))?;
    let outcomes = edit(call, tier, &path, &Edit::Toggle)?;
    let is_legacy = path.is_legacy();
    reply_outcomes(call, &path, outcomes, "not a bool", |call, outcome| match outcome {
        Outcome::Integer(truth) if is_legacy => call.reply.bulk(if truth == 1 { b"true" } else { b"false" }),
        outcome => write_outcome(call, outcome),
    })
}

/// JSON.CLEAR key [path]
pub(crate) fn clear(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    if call.args.len() > 3 {
        return Err(arity(call.command.name));
    }
    let path = path(call.args.get(2))?;
    let outcomes = edit(call, tier, &path, &Edit::Clear)?.ok_or(NO_KEY)?;
    call.integer(outcomes.iter().filter(|outcome| **outcome == Some(Outcome::Done)).count() as i64)
}

/// JSON.DEL key [path]. A document of which nothing is left goes, like with DEL.
pub(crate) fn del(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let path = path(call.args.get(2))?;
    let deleted = {
        let call = &*call;
        tier.update(call.key(1), call.now, |entry, scratch| {
            let Some(entry) = entry else { return (Change::Keep, Ok(0)) };
            let edited = text_of(entry).and_then(|text| {
                if path.is_root() {
                    return Ok((Edited::Same, 1, true));
                }
                let found = find(call, text, &path)?;
                let is_whole = found.iter().any(|found| found.depth == 0);
                let (edited, outcomes) = Edit::Delete.apply(text, &found, usize::MAX)?;
                let is_empty = match &edited {
                    Edited::Same => false,
                    Edited::Part(splice) => {
                        edited.len_after(text.len()) <= 2 && {
                            let left = apply(text, std::slice::from_ref(splice));
                            left == b"{}" || left == b"[]"
                        }
                    }
                    Edited::Whole(left) => left == b"{}" || left == b"[]",
                };
                Ok((edited, outcomes.len() as i64, is_whole || is_empty))
            });
            match edited {
                Err(fault) => (Change::Keep, Err(fault)),
                Ok((_, deleted, true)) => (Change::Delete, Ok(deleted)),
                Ok((edited, deleted, false)) => (change(edited, entry, scratch), Ok(deleted)),
            }
        })??
    };
    if deleted > 0 {
        note_changed(call, call.arg(1), false);
    }
    call.integer(deleted)
}
