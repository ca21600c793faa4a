//! What the JSON commands share: arguments, reading and changing a document, errors in RedisJSON's
//! words.
use crate::{
    command_context::CommandContext,
    command_outcome::{CommandError, CommandResult, Done, Flow, TOO_LONG, WRONG_TYPE},
};
use larder_base::buffers::BufferCharge;
use larder_core::read::KeyEvent;
use larder_document::{Edit, EditError, Edited, Found, JsonError, LocateError, Outcome, Path, compact};
use larder_engine::{Change, Entry, Expiry, Key, Tier, Value};
use larder_source::is_document;
use std::borrow::Cow;

pub(super) const NO_KEY: CommandError =
    CommandError::Static("ERR could not perform this operation on a key that doesn't exist");
pub(super) const NO_PATH: CommandError = CommandError::Static("ERR Path does not exist");
pub(super) const NO_FORMAT: CommandError = CommandError::Static("ERR FORMAT argument is not supported on RESP2");
pub(super) const WRONG_FORMAT: CommandError = CommandError::Static("ERR wrong reply format");
pub(super) const NOT_AT_ROOT: CommandError = CommandError::Static("ERR new objects must be created at the root");

/// No value at the path, or none of the kind that the command is for.
pub(super) fn no_path_or(what: &str) -> CommandError {
    CommandError::from(format!("ERR Path does not exist or {what}"))
}

/// A value of another kind.
pub(super) fn expected(kind: &str) -> CommandError {
    CommandError::from(format!("WRONGTYPE wrong type of path value - expected {kind}"))
}

impl From<JsonError> for CommandError {
    fn from(error: JsonError) -> CommandError {
        CommandError::from(format!("ERR {error}"))
    }
}
impl From<EditError> for CommandError {
    fn from(error: EditError) -> CommandError {
        match error {
            EditError::TooLarge(_) => TOO_LONG,
            error => CommandError::from(format!("ERR {error}")),
        }
    }
}
impl From<LocateError> for CommandError {
    fn from(error: LocateError) -> CommandError {
        let setting = if let LocateError::TooLarge(_) = error { " (max-document-query)" } else { "" };
        CommandError::from(format!("ERR {error}{setting}"))
    }
}

/// A path argument; without one, the whole document in the older syntax.
pub(super) fn path(text: Option<&[u8]>) -> Result<Path, CommandError> {
    let Some(text) = text else { return Ok(Path::legacy_root()) };
    let read = std::str::from_utf8(text).map_err(|_| "it is not UTF-8".to_owned());
    let read = read.and_then(|text| Path::parse(text).map_err(|error| error.to_string()));
    read.map_err(|error| CommandError::quoting("ERR invalid path '", text, 128, &format!("': {error}")))
}

/// JSON arguments, compact.
pub(super) fn values(call: &CommandContext<'_>, first: usize) -> Result<Vec<Vec<u8>>, CommandError> {
    call.args.from(first).map(|text| Ok(compact(text)?)).collect()
}

pub(super) fn find(call: &CommandContext<'_>, text: &[u8], path: &Path) -> Result<Vec<Found>, CommandError> {
    Ok(larder_document::find(text, path, call.worker.app.settings.max_document_query)?)
}

/// Like [`find`], for one of several paths or documents of a command. `work`: the bytes that those
/// before it have read.
pub(super) fn find_within(
    call: &CommandContext<'_>,
    text: &[u8],
    path: &Path,
    work: &mut usize,
) -> Result<Vec<Found>, CommandError> {
    Ok(larder_document::find_within(text, path, call.worker.app.settings.max_document_query, work)?)
}

/// The text of a document. Other values are refused.
pub(super) fn text_of<'e>(entry: &Entry<'e>) -> Result<&'e [u8], CommandError> {
    if is_document(entry.metadata()) { Ok(entry.value.as_bytes()) } else { Err(WRONG_TYPE) }
}

/// Reads a document; `None`: there is no such key.
pub(super) fn read<R>(
    call: &CommandContext<'_>,
    tier: &mut Tier<'_>,
    key: Key<'_>,
    read: impl FnOnce(&Entry<'_>, &[u8]) -> Result<R, CommandError>,
) -> Result<Option<R>, CommandError> {
    tier.get(key, call.now, |entry| read(&entry, text_of(&entry)?)).transpose()
}

/// What `each` says of each value that a path finds; `None`: there is no such key.
pub(super) fn each_found<T>(
    call: &CommandContext<'_>,
    tier: &mut Tier<'_>,
    key: Key<'_>,
    path: &Path,
    each: impl Fn(&[u8]) -> T,
) -> Result<Option<Vec<T>>, CommandError> {
    read(call, tier, key, |_, text| {
        Ok(find(call, text, path)?.into_iter().map(|found| each(&text[found.span])).collect())
    })
}

/// Replies with a number for each value, null for a value of another kind. For a path in the older
/// syntax it is that of the first value.
pub(super) fn reply_numbers(
    call: &mut CommandContext<'_>,
    path: &Path,
    numbers: Option<Vec<Option<i64>>>,
    no_key: CommandError,
    wrong_kind: CommandError,
) -> Done {
    match (numbers, path.is_legacy()) {
        (None, true) => call.null(),
        (None, false) => Err(no_key),
        (Some(numbers), true) => call.integer(numbers.first().ok_or(NO_PATH)?.ok_or(wrong_kind)?),
        (Some(numbers), false) => reply_integers(call, numbers),
    }
}

/// An array of integers, null where there is none.
pub(super) fn reply_integers(call: &mut CommandContext<'_>, numbers: Vec<Option<i64>>) -> Done {
    call.reply.array(numbers.len());
    for number in numbers {
        match number {
            Some(number) => call.reply.integer(number),
            None => call.reply.null(),
        }
    }
    Ok(Flow::Done)
}

/// A copy of all values that a path finds, of a document that must exist.
pub(super) fn found_texts(
    call: &CommandContext<'_>,
    tier: &mut Tier<'_>,
    path: &Path,
) -> Result<Option<FoundTexts>, CommandError> {
    read(call, tier, call.key(1), |_, text| {
        let found = find(call, text, path)?;
        // One value in the older syntax. Several may overlap.
        let most = if path.is_legacy() { 1 } else { usize::MAX };
        let bytes = found.iter().take(most).map(|found| found.span.len()).sum();
        bounded(call, bytes)?;
        let charge = call.session.room.charge(bytes)?;
        Ok(FoundTexts {
            texts: found.into_iter().take(most).map(|found| text[found.span].to_vec()).collect(),
            _charge: charge,
        })
    })
}

/// Copies of values, on the account of the buffers.
pub(super) struct FoundTexts {
    pub(super) texts: Vec<Vec<u8>>,
    _charge: BufferCharge,
}

/// Refuses a reply that is much longer than any document, or for which the buffers have no room.
pub(super) fn bounded(call: &CommandContext<'_>, bytes: usize) -> CommandResult {
    let most = longest_reply(call);
    match bytes <= most {
        true => call.session.room.check(bytes),
        false => Err(CommandError::from(format!("ERR the reply is longer than {most} bytes (max-value)"))),
    }
}

/// Bytes of the longest reply: a document with something around it.
pub(super) fn longest_reply(call: &CommandContext<'_>) -> usize {
    const AROUND: usize = 1 << 20;
    call.worker.app.settings.max_value.saturating_add(AROUND)
}

/// Changes all values that a path finds. For each the outcome, `None` for a value of another kind;
/// no outcomes: there is no such key.
pub(super) fn edit(
    call: &CommandContext<'_>,
    tier: &mut Tier<'_>,
    path: &Path,
    edit: &Edit<'_>,
) -> Result<Option<Vec<Option<Outcome>>>, CommandError> {
    let edited = tier.update(call.key(1), call.now, |entry, scratch| {
        let Some(entry) = entry else { return (Change::Keep, Ok(None)) };
        let edited = text_of(entry).and_then(|text| {
            let found = find(call, text, path)?;
            let most = call.worker.app.settings.max_value;
            // Appending to a list that was appended to last does not look at what is in it.
            let known = entry.note().filter(|_| path.is_root()).and_then(|count| usize::try_from(count).ok());
            let (edited, mut outcomes) = match (known, *edit) {
                (Some(count), Edit::Append(values)) => Edit::AppendKnowing(count, values).apply(text, &found, most)?,
                _ => edit.apply(text, &found, most)?,
            };
            call.check_len(edited.len_after(text.len()))?;
            if path.is_legacy() && matches!(edit, Edit::Insert(..) | Edit::Pop(_) | Edit::Trim(..)) {
                let last = larder_document::changed_last(text, &found);
                outcomes = last.and_then(|last| outcomes.into_iter().nth(last)).into_iter().collect();
            }
            Ok((edited, outcomes))
        });
        match edited {
            Ok((edited, outcomes)) => {
                let is_changed = !matches!(edited, Edited::Same);
                let count = match (*edit, &*outcomes) {
                    (Edit::Append(_), [Some(Outcome::Integer(count))]) if path.is_root() => u64::try_from(*count).ok(),
                    _ => None,
                };
                let change = match change(edited, entry, scratch) {
                    Change::Part(from, to, _) => Change::Part(from, to, count),
                    change => change,
                };
                (change, Ok(Some((outcomes, is_changed))))
            }
            Err(fault) => (Change::Keep, Err(fault)),
        }
    })??;
    if edited.as_ref().is_some_and(|(_, is_changed)| *is_changed) {
        note_changed(call, call.arg(1), false);
    }
    Ok(edited.map(|(outcomes, _)| outcomes))
}

/// Notes that this command changed a document.
pub(super) fn note_changed(call: &CommandContext<'_>, key: &[u8], is_new: bool) {
    let name = call.command.name;
    let name = if name == "json.forget" { "json.del" } else { name };
    call.note_written(KeyEvent::Document(name), key, is_new);
}

/// The change of the entry. A large document is changed in place.
pub(super) fn change(edited: Edited, entry: &Entry<'_>, scratch: &mut Vec<u8>) -> Change<'static> {
    match (edited, entry.value) {
        (Edited::Same, _) => return Change::Keep,
        (Edited::Part(splice), Value::Large(_)) => {
            scratch.extend_from_slice(&splice.with);
            return Change::Part(splice.at.start, splice.at.end, None);
        }
        (Edited::Part(splice), Value::Inline(text)) => {
            scratch.extend_from_slice(&text[..splice.at.start]);
            scratch.extend_from_slice(&splice.with);
            scratch.extend_from_slice(&text[splice.at.end..]);
        }
        (Edited::Whole(text), _) => *scratch = text,
    }
    Change::Put(Expiry::Keep)
}

/// Replies to a change: for a path in the older syntax with the outcome of the last value of the
/// right kind, else with all of them.
pub(super) fn reply_outcomes(
    call: &mut CommandContext<'_>,
    path: &Path,
    outcomes: Option<Vec<Option<Outcome>>>,
    wrong_kind: &str,
    write: impl Fn(&mut CommandContext<'_>, Outcome),
) -> Done {
    let outcomes = outcomes.ok_or(NO_KEY)?;
    if path.is_legacy() {
        let outcome = outcomes.into_iter().flatten().next_back();
        write(call, outcome.ok_or_else(|| no_path_or(wrong_kind))?);
        return Ok(Flow::Done);
    }
    call.reply.array(outcomes.len());
    for outcome in outcomes {
        match outcome {
            Some(outcome) => write(call, outcome),
            None => call.reply.null(),
        }
    }
    Ok(Flow::Done)
}

/// Replies with an outcome as itself.
pub(super) fn write_outcome(call: &mut CommandContext<'_>, outcome: Outcome) {
    match outcome {
        Outcome::Integer(number) => call.reply.integer(number),
        Outcome::Number(number) => call.reply.bulk(number.as_bytes()),
        Outcome::Taken(Some(text)) => call.reply.bulk(&text),
        Outcome::Taken(None) | Outcome::Done | Outcome::Unchanged => call.reply.null(),
    }
}

/// The text that a JSON string stands for; `None`: the value is no string.
pub(super) fn string(value: &[u8]) -> Option<Cow<'_, [u8]>> {
    match value {
        [b'"', inside @ .., b'"'] => Some(larder_document::unescaped(inside)),
        _ => None,
    }
}
