//! Documents as nested replies, and what they take: JSON.RESP, JSON.DEBUG MEMORY.
use super::documents::{FoundTexts, NO_PATH, each_found, found_texts, path, string};
use crate::{
    command_context::CommandContext,
    command_outcome::{Done, Flow, arity},
};
use larder_document::{key_and_value, parts};
use larder_engine::Tier;

/// JSON.RESP key [path]: arrays begin with `[`, objects with `{`.
pub(crate) fn resp(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let path = path(call.args.get(2))?;
    let Some(FoundTexts { texts, .. }) = &found_texts(call, tier, &path)? else {
        return call.null();
    };
    if path.is_legacy() {
        put_value(call, texts.first().ok_or(NO_PATH)?);
        return Ok(Flow::Done);
    }
    call.reply.array(texts.len());
    texts.iter().for_each(|text| put_value(call, text));
    Ok(Flow::Done)
}

/// A value of a document, which is nested 128 deep at most.
fn put_value(call: &mut CommandContext<'_>, value: &[u8]) {
    if call.reply.output().is_refused() {
        return;
    }
    match value {
        [b'[', ..] => {
            let elements = parts(value, 0);
            call.reply.array(1 + elements.len());
            call.reply.simple("[");
            elements.into_iter().for_each(|element| put_value(call, &value[element]));
        }
        [b'{', ..] => {
            let members: Vec<_> =
                parts(value, 0).into_iter().filter_map(|member| key_and_value(value, member)).collect();
            call.reply.array(1 + 2 * members.len());
            call.reply.simple("{");
            for (key, member) in members {
                put_value(call, &value[key]);
                put_value(call, &value[member]);
            }
        }
        b"true" => call.reply.simple("true"),
        b"false" => call.reply.simple("false"),
        b"null" | b"" => call.reply.null(),
        text => match (string(text), std::str::from_utf8(text)) {
            (Some(string), _) => call.reply.bulk(&string),
            (None, Ok(number)) => match (number.parse::<i64>(), number.parse::<f64>()) {
                (Ok(integer), _) => call.reply.integer(integer),
                // The digits as they were sent, where there is room for them.
                (_, Ok(number)) if call.reply.is_resp3() => call.reply.double(number),
                _ => call.reply.bulk(text),
            },
            (None, Err(_)) => call.reply.null(),
        },
    }
}

/// JSON.DEBUG MEMORY key [path]: bytes of the text of each value. What the key, the entry's head
/// and the tier take besides is in MEMORY USAGE.
pub(crate) fn debug_memory(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    if call.args.len() > 4 {
        return Err(arity(call.command.name));
    }
    let path = path(call.args.get(3))?;
    let sizes = each_found(call, tier, call.key(2), &path, <[u8]>::len)?;
    match sizes {
        None if path.is_legacy() => call.reply.integer(0),
        Some(sizes) if path.is_legacy() => call.reply.integer(*sizes.first().ok_or(NO_PATH)? as i64),
        sizes => {
            let sizes = sizes.unwrap_or_default();
            call.reply.array(sizes.len());
            sizes.into_iter().for_each(|size| call.reply.integer(size as i64));
        }
    }
    Ok(Flow::Done)
}
