//! Reading documents: JSON.GET, MGET, TYPE, STRLEN, OBJKEYS, OBJLEN.
use super::documents::{
    NO_FORMAT, NO_KEY, NO_PATH, WRONG_FORMAT, bounded, each_found, expected, find_within, found_texts, longest_reply,
    no_path_or, path, read, reply_numbers, string, text_of,
};
use crate::{
    command_context::CommandContext,
    command_outcome::{CommandError, Done, Flow, SYNTAX, WRONG_TYPE},
};
use larder_document::{
    Found, Layout, LocateError, MOST_WORK, Path, count, key_and_value, parts, push_key, unescaped_len, write_pretty,
};
use larder_engine::Tier;
use std::{borrow::Cow, collections::HashSet};

/// So many paths may be read of any document.
const FEW_PATHS: usize = 64;

/// `JSON.GET key [INDENT text] [NEWLINE text] [SPACE text] [path …]`
pub(crate) fn get(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let mut layout = Layout::default();
    let mut paths: Vec<(&[u8], Path)> = Vec::new();
    let mut args = call.args.from(2);
    while let Some(arg) = args.next() {
        let is = |name: &str| arg.eq_ignore_ascii_case(name.as_bytes());
        match () {
            () if is("INDENT") => layout.indent = args.next().ok_or(SYNTAX)?,
            () if is("NEWLINE") => layout.newline = args.next().ok_or(SYNTAX)?,
            () if is("SPACE") => layout.space = args.next().ok_or(SYNTAX)?,
            // It changes nothing in RedisJSON either.
            () if is("NOESCAPE") => {}
            () if is("FORMAT") => match args.next() {
                _ if !call.reply.is_resp3() => return Err(NO_FORMAT),
                Some(format) if format.eq_ignore_ascii_case(b"STRING") => {}
                _ => return Err(WRONG_FORMAT),
            },
            () => paths.push((arg, path(Some(arg))?)),
        }
    }
    let key = call.key(1);
    let whole = match &*paths {
        [] => true,
        [(_, path)] => path.is_root() && path.is_legacy(),
        _ => false,
    };
    if whole && layout.is_compact() {
        let reply = &mut call.reply;
        let found = tier.get(key, call.now, |entry| {
            text_of(&entry)?;
            reply.value(entry.value);
            Ok(Flow::Done)
        });
        return found.unwrap_or_else(|| {
            call.reply.null();
            Ok(Flow::Done)
        });
    }
    let context = &*call;
    let text = read(context, tier, key, |_, text| {
        let compact: Cow<'_, [u8]> = match &*paths {
            [] => text.into(),
            [(_, path)] => one_path(context, text, path, &mut 0)?.into(),
            _ => many_paths(context, text, &paths)?.into(),
        };
        if layout.is_compact() {
            return Ok(compact.into_owned());
        }
        // The length is known before the text is made.
        let (mut len, most) = (0, longest_reply(context));
        write_pretty(&compact, layout, |part| {
            len += part.len();
            len <= most
        });
        bounded(context, len)?;
        let mut pretty = Vec::with_capacity(len);
        write_pretty(&compact, layout, |part| {
            pretty.extend_from_slice(part);
            true
        });
        Ok(pretty)
    })?;
    match text {
        Some(text) => call.reply_text(text),
        None => call.reply.null(),
    }
    Ok(Flow::Done)
}

/// The value of a path in the older syntax, or the array of all values.
fn one_path(call: &CommandContext<'_>, text: &[u8], path: &Path, work: &mut usize) -> Result<Vec<u8>, CommandError> {
    let found = find_within(call, text, path, work)?;
    if path.is_legacy() {
        return found.first().map(|found| text[found.span.clone()].to_vec()).ok_or(NO_PATH);
    }
    let len = found.iter().map(|found| found.span.len() + 1).sum::<usize>();
    bounded(call, len)?;
    let mut out = Vec::with_capacity(len + 2);
    put_array(&mut out, text, found);
    Ok(out)
}

/// Appends the array of the values that were found.
fn put_array(out: &mut Vec<u8>, text: &[u8], found: Vec<Found>) {
    out.push(b'[');
    for (index, found) in found.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(&text[found.span]);
    }
    out.push(b']');
}

/// An object with the paths as keys. Where one path is a JSONPath, all are answered like one.
fn many_paths(call: &CommandContext<'_>, text: &[u8], paths: &[(&[u8], Path)]) -> Result<Vec<u8>, CommandError> {
    if paths.len() > FEW_PATHS && paths.len().saturating_mul(text.len()) > MOST_WORK {
        let text = format!("ERR {} paths are too many for a document of {} bytes", paths.len(), text.len());
        return Err(CommandError::from(text));
    }
    let all_legacy = paths.iter().all(|(_, path)| path.is_legacy());
    let mut out = vec![b'{'];
    let mut named = HashSet::with_capacity(paths.len());
    let mut work = 0;
    for (name, path) in paths {
        // The last of several with the same name would replace the others.
        if !named.insert(*name) {
            continue;
        }
        if out.len() > 1 {
            out.push(b',');
        }
        push_key(&mut out, name);
        out.push(b':');
        let found = find_within(call, text, path, &mut work)?;
        if all_legacy {
            let first = found.first().ok_or(NO_PATH)?;
            bounded(call, out.len() + first.span.len())?;
            out.extend_from_slice(&text[first.span.clone()]);
            continue;
        }
        bounded(call, out.len() + found.iter().map(|found| found.span.len() + 1).sum::<usize>())?;
        put_array(&mut out, text, found);
    }
    out.push(b'}');
    Ok(out)
}

/// JSON.MGET key [key …] path
pub(crate) fn mget(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let path = path(call.args.get(call.args.len() - 1))?;
    let keys = call.command.keys.of(call.args);
    call.reply.array(keys.len());
    let mut work = 0;
    for key in keys {
        if work > MOST_WORK {
            return Err(LocateError::TooMuchWork(MOST_WORK).into());
        }
        call.session.room.check_margin()?;
        let context = &*call;
        let answer = read(context, tier, context.cache().key(key), |_, text| one_path(context, text, &path, &mut work));
        // A key of another type, and one without such a path, are null like one that does not exist.
        match answer {
            Ok(Some(text)) => call.reply_text(text),
            Ok(None) => call.reply.null(),
            Err(error) if [WRONG_TYPE.text(), NO_PATH.text()].contains(&error.text()) => call.reply.null(),
            Err(error) => return Err(error),
        }
    }
    Ok(Flow::Done)
}

/// JSON.TYPE key [path]
pub(crate) fn type_of(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let path = path(call.args.get(2))?;
    let found = each_found(call, tier, call.key(1), &path, type_name)?;
    if call.reply.is_resp3() {
        call.reply.array(1);
    }
    match found {
        None => call.reply.null(),
        Some(names) if path.is_legacy() => match names.first() {
            Some(name) => call.reply.bulk(name.as_bytes()),
            None => call.reply.null(),
        },
        Some(names) => {
            call.reply.array(names.len());
            names.iter().for_each(|name| call.reply.bulk(name.as_bytes()));
        }
    }
    Ok(Flow::Done)
}

fn type_name(value: &[u8]) -> &'static str {
    match value.first() {
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b'"') => "string",
        Some(b't' | b'f') => "boolean",
        Some(b'n') | None => "null",
        Some(_) if value.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E')) => "number",
        Some(_) => "integer",
    }
}

/// JSON.STRLEN key [path]
pub(crate) fn strlen(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let path = path(call.args.get(2))?;
    let lengths = each_found(call, tier, call.key(1), &path, |value| match value {
        [b'"', inside @ .., b'"'] => Some(unescaped_len(inside) as i64),
        _ => None,
    })?;
    reply_numbers(call, &path, lengths, NO_KEY, expected("string"))
}

/// JSON.OBJLEN key [path]
pub(crate) fn objlen(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let path = path(call.args.get(2))?;
    let len = |value: &[u8]| value.starts_with(b"{").then(|| count(value, 0) as i64);
    let lengths = each_found(call, tier, call.key(1), &path, len)?;
    if path.is_legacy() && lengths.as_ref().is_some_and(Vec::is_empty) {
        return call.null();
    }
    reply_numbers(call, &path, lengths, no_path_or("not an object"), expected("object"))
}

/// JSON.OBJKEYS key [path]
pub(crate) fn objkeys(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let path = path(call.args.get(2))?;
    let texts = found_texts(call, tier, &path)?;
    match (texts.as_ref().map(|found| &found.texts), path.is_legacy()) {
        (None, true) => call.reply.null(),
        (None, false) => return Err(NO_KEY),
        (Some(texts), true) => match texts.first().map(|text| keys(text)) {
            None => call.reply.null(),
            Some(None) => return Err(no_path_or("not an object")),
            Some(Some(keys)) => reply_keys(call, &keys),
        },
        (Some(texts), false) => {
            call.reply.array(texts.len());
            for text in texts {
                match keys(text) {
                    Some(keys) => reply_keys(call, &keys),
                    None => call.reply.null(),
                }
            }
        }
    }
    Ok(Flow::Done)
}

/// The keys of an object; `None`: the value is none.
fn keys(value: &[u8]) -> Option<Vec<Vec<u8>>> {
    let key = |member| {
        let (key, _) = key_and_value(value, member)?;
        Some(string(&value[key])?.into_owned())
    };
    (value.first() == Some(&b'{')).then(|| parts(value, 0).into_iter().filter_map(key).collect())
}

fn reply_keys(call: &mut CommandContext<'_>, keys: &[Vec<u8>]) {
    call.reply.array(keys.len());
    keys.iter().for_each(|key| call.reply.bulk(key));
}
