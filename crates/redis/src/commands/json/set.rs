//! Storing documents and values in them: JSON.SET, MERGE, MSET.
use super::documents::{NOT_AT_ROOT, change, find, note_changed, path, text_of};
use crate::{
    command_context::CommandContext,
    command_outcome::{CommandError, Done, Flow, SYNTAX, arity},
};
use indexmap::{IndexMap, map::Entry};
use larder_document::{
    Edit, Edited, MOST_WORK, Path, Place, Span, Splice, apply, compact, key_and_value, parts, place_for,
};
use larder_engine::{Change, Expiry, Tier};
use larder_source::DOCUMENT_ATTRIBUTES;

const NOT_STATIC: CommandError = CommandError::Static("ERR wrong static path");
const OUT_OF_RANGE: CommandError = CommandError::Static("ERR array index out of range");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Only {
    Always,
    IfAbsent,
    IfPresent,
}

/// How a value comes to where it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Replace,
    Merge,
}

/// The types of `FPHA`, and the largest number of each.
const FLOATS: [(&[u8], f64); 4] =
    [(b"BF16", 3.389_531_389_251_535_5e38), (b"FP16", 65_504.0), (b"FP32", f32::MAX as f64), (b"FP64", f64::MAX)];

/// `JSON.SET key path value [NX | XX] [FPHA BF16 | FP16 | FP32 | FP64]`. Numbers are stored as they
/// were sent, so `FPHA` only bounds those of lists that are numbers alone.
pub(crate) fn set(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let (mut only, mut most) = (Only::Always, None);
    let mut options = call.args.from(4);
    while let Some(option) = options.next() {
        if option.eq_ignore_ascii_case(b"NX") && only == Only::Always {
            only = Only::IfAbsent;
        } else if option.eq_ignore_ascii_case(b"XX") && only == Only::Always {
            only = Only::IfPresent;
        } else if option.eq_ignore_ascii_case(b"FPHA") && most.is_none() {
            let name = options.next().ok_or_else(|| arity(call.command.name))?;
            let float = FLOATS.iter().find(|(float, _)| name.eq_ignore_ascii_case(float));
            most = Some(float.ok_or(CommandError::Static("ERR invalid FPHA type"))?.1);
        } else if option.eq_ignore_ascii_case(b"FORMAT") {
            match options.next() {
                Some(b"STRING" | b"JSON") => {}
                _ => return Err(CommandError::Static("ERR wrong format")),
            }
        } else {
            return Err(SYNTAX);
        }
    }
    if let Some(most) = most {
        let value = compact(call.arg(3))?;
        if !fits(&value, 0..value.len(), most) {
            return Err(CommandError::Static("ERR value out of range"));
        }
    }
    store(call, tier, How::Replace, only)
}

/// Whether the numbers of all lists that are numbers alone are at most `most`.
fn fits(text: &[u8], value: Span, most: f64) -> bool {
    let elements = match text[value.start] {
        b'[' => parts(text, value.start),
        b'{' => {
            let members = parts(text, value.start).into_iter();
            return members.filter_map(|member| key_and_value(text, member)).all(|(_, value)| fits(text, value, most));
        }
        _ => return true,
    };
    let number = |span: &Span| std::str::from_utf8(&text[span.clone()]).ok()?.parse::<f64>().ok();
    match elements.iter().map(number).collect::<Option<Vec<f64>>>() {
        Some(numbers) => numbers.into_iter().all(|number| number.abs() <= most),
        None => elements.into_iter().all(|element| fits(text, element, most)),
    }
}

/// JSON.MERGE key path value
pub(crate) fn merge(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    if call.args.len() > 4 {
        return Err(SYNTAX);
    }
    store(call, tier, How::Merge, Only::Always)
}

fn store(call: &mut CommandContext<'_>, tier: &mut Tier<'_>, how: How, only: Only) -> Done {
    let path = path(Some(call.arg(2)))?;
    let value = compact(call.arg(3))?;
    let key = call.key(1);
    let is_new = {
        let call = &*call;
        tier.update(key, call.now, |entry, scratch| match planned(call, entry, &path, &value, how, only) {
            Err(fault) => (Change::Keep, Err(fault)),
            Ok(None) => (Change::Keep, Ok(None)),
            Ok(Some(edited)) => (new_change(call, edited, entry, scratch), Ok(Some(entry.is_none()))),
        })??
    };
    match is_new {
        Some(is_new) => {
            note_changed(call, call.arg(1), is_new);
            call.reply.ok();
        }
        None => call.reply.null(),
    }
    Ok(Flow::Done)
}

/// The change of an entry, or its creation.
fn new_change(
    call: &CommandContext<'_>,
    edited: Edited,
    entry: Option<&larder_engine::Entry<'_>>,
    scratch: &mut Vec<u8>,
) -> Change<'static> {
    match (entry, edited) {
        (Some(entry), edited) => change(edited, entry, scratch),
        (None, Edited::Whole(text)) => {
            *scratch = text;
            Change::Replace(call.lifetime(call.arg(1)), DOCUMENT_ATTRIBUTES)
        }
        (None, Edited::Same | Edited::Part(_)) => Change::Keep,
    }
}

/// The document afterwards; `None`: the condition does not hold, or the place does not exist.
fn planned(
    call: &CommandContext<'_>,
    entry: Option<&larder_engine::Entry<'_>>,
    path: &Path,
    value: &[u8],
    how: How,
    only: Only,
) -> Result<Option<Edited>, CommandError> {
    let text = entry.map(text_of).transpose()?;
    let edited = plan(call, text, path, value, how, only)?;
    if let Some(edited) = &edited {
        call.check_len(edited.len_after(text.map_or(0, <[u8]>::len)))?;
    }
    Ok(edited)
}

fn plan(
    call: &CommandContext<'_>,
    text: Option<&[u8]>,
    path: &Path,
    value: &[u8],
    how: How,
    only: Only,
) -> Result<Option<Edited>, CommandError> {
    let Some(text) = text else {
        return match (path.is_root(), only) {
            (_, Only::IfPresent) => Ok(None),
            (true, _) => Ok(Some(Edited::Whole(value.to_vec()))),
            (false, _) => Err(NOT_AT_ROOT),
        };
    };
    if path.is_root() && how == How::Replace {
        return Ok((only != Only::IfAbsent).then(|| Edited::Whole(value.to_vec())));
    }
    let (found, most) = (find(call, text, path)?, call.worker.app.settings.max_value);
    if only == Only::IfAbsent && path.steps().is_none() {
        return Err(NOT_STATIC);
    }
    if !found.is_empty() {
        let edit = match how {
            How::Replace => Edit::Replace(value),
            How::Merge => Edit::Merge(value),
        };
        return match only {
            Only::IfAbsent => Ok(None),
            Only::Always | Only::IfPresent => Ok(Some(edit.apply(text, &found, most)?.0)),
        };
    }
    if only == Only::IfPresent {
        return Ok(None);
    }
    if path.steps().is_none() {
        return Err(NOT_STATIC);
    }
    match place_for(text, path) {
        Place::Member(parent, key) => Ok(Some(Edit::AddMember(key, value).apply(text, &[parent], most)?.0)),
        Place::NoElement => Err(OUT_OF_RANGE),
        Place::None => Ok(None),
    }
}

/// A document as a JSON.MSET will leave it.
struct Staged {
    /// `None`: there is none.
    text: Option<Vec<u8>>,
    is_changed: bool,
}

/// JSON.MSET key path value [key path value …]: all of them, or none where one is refused.
pub(crate) fn mset(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    if !(call.args.len() - 1).is_multiple_of(3) {
        return Err(arity(call.command.name));
    }
    // A document that is changed twice is listed once.
    let mut staged: IndexMap<&[u8], Staged> = IndexMap::new();
    let mut work = 0;
    for first in (1..call.args.len()).step_by(3) {
        let (key, value) = (call.arg(first), compact(call.arg(first + 2))?);
        let path = path(call.args.get(first + 1))?;
        let Staged { text, is_changed } = match staged.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let held = tier.peek(call.cache().key(key), call.now, |entry| text_of(&entry).map(<[u8]>::to_vec));
                place.insert(Staged { text: held.transpose()?, is_changed: false })
            }
        };
        // Each change copies its document.
        if work > MOST_WORK {
            return Err(CommandError::Static("ERR the changes go over too many bytes; send several commands"));
        }
        work += text.as_ref().map_or(0, Vec::len);
        let edited = plan(call, text.as_deref(), &path, &value, How::Replace, Only::Always)?;
        let before = text.as_ref().map_or(0, Vec::len);
        match edited {
            // A path that names no place is ignored, as in RedisJSON.
            None | Some(Edited::Same) => {}
            Some(edited) => {
                call.check_len(edited.len_after(before))?;
                *text = Some(changed(text.as_deref().unwrap_or_default(), edited));
                *is_changed = true;
            }
        }
    }
    for (key, Staged { text, is_changed }) in staged {
        let Some(text) = text.filter(|_| is_changed) else { continue };
        let is_new = tier.update(call.cache().key(key), call.now, |entry, scratch| {
            *scratch = text;
            match entry {
                Some(_) => (Change::Put(Expiry::Keep), false),
                None => (Change::Replace(call.lifetime(key), DOCUMENT_ATTRIBUTES), true),
            }
        })?;
        note_changed(call, key, is_new);
    }
    call.ok()
}

fn changed(text: &[u8], edited: Edited) -> Vec<u8> {
    let part = |splice: Splice| apply(text, &[splice]);
    match edited {
        Edited::Same => text.to_vec(),
        Edited::Part(splice) => part(splice),
        Edited::Whole(text) => text,
    }
}
