//! Strings: SET and related commands, GETEX, GETDEL, APPEND, ranges, MSET.
use crate::{
    command_context::CommandContext,
    command_outcome::{CommandError, CommandResult, Done, Flow, OFFSET, SYNTAX, WRONG_TYPE, arity, integer},
    commands::tags,
    value_comparison::{Comparison, is_comparison},
};
use bytes::Bytes;
use larder_base::special::Special;
use larder_core::read::KeyEvent;
use larder_engine::{
    Attributes, Change, Condition, Entry, Expiry, Key, MAX_EXPIRY, Millis, Stored, Tier, Value, Write,
};
use larder_proto::resp::{Args, parse_i64};
use larder_source::is_document;
use larder_store::clock;
use smallvec::SmallVec;

const KEY_COUNT: CommandError = CommandError::Static("ERR invalid numkeys value or out of range");

/// How a time argument is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lifetime<'a> {
    text: &'a [u8],
    seconds: bool,
    /// Relative to now, instead of to the epoch.
    relative: bool,
}
impl<'a> Lifetime<'a> {
    /// The lifetime that an option gives: EX, PX, EXAT or PXAT.
    pub(super) fn named(option: &[u8], text: &'a [u8]) -> Option<Lifetime<'a>> {
        let (seconds, relative) = unit(option)?;
        Some(Lifetime { text, seconds, relative })
    }
    pub(super) fn millis(text: &'a [u8], relative: bool) -> Lifetime<'a> {
        Lifetime { text, seconds: false, relative }
    }
    /// The absolute time. `command` is named in the error.
    pub(super) fn at(self, now: Millis, command: &str) -> Result<Millis, CommandError> {
        let invalid = || invalid_expire(command);
        let time = integer(self.text)?;
        if time <= 0 {
            return Err(invalid());
        }
        let millis = if self.seconds { time.checked_mul(1000).ok_or_else(invalid)? } else { time };
        let at = if self.relative { millis.checked_add_unsigned(now).ok_or_else(invalid)? } else { millis };
        check_latest(at, command)?;
        Ok(if self.relative { at as Millis } else { clock::of_wall(at as Millis) })
    }
}

/// Whether an option of a lifetime is in seconds, and relative to now.
fn unit(option: &[u8]) -> Option<(bool, bool)> {
    let is = |name: &str| option.eq_ignore_ascii_case(name.as_bytes());
    match () {
        () if is("EX") => Some((true, true)),
        () if is("PX") => Some((false, true)),
        () if is("EXAT") => Some((true, false)),
        () if is("PXAT") => Some((false, false)),
        () => None,
    }
}

pub(super) fn invalid_expire(command: &str) -> CommandError {
    CommandError::from(format!("ERR invalid expire time in '{command}' command"))
}

/// Refuses an expiry that Redis takes, but that no entry can have.
pub(super) fn check_latest(at: i64, command: &str) -> CommandResult {
    match at <= MAX_EXPIRY as i64 {
        true => Ok(()),
        false => Err(CommandError::from(format!(
            "ERR invalid expire time in '{command}' command: the latest is {MAX_EXPIRY} ms, in the year 6429"
        ))),
    }
}

/// The options of SET and GETEX.
#[derive(Debug, Default)]
struct Options<'a> {
    only_if: Option<Condition>,
    comparison: Option<Comparison<'a>>,
    get: bool,
    keep_ttl: bool,
    persist: bool,
    lifetime: Option<Lifetime<'a>>,
    tags: SmallVec<[&'a [u8]; 4]>,
}
impl<'a> Options<'a> {
    /// Parses the options from part `first` on. `set` says that the command is SET, not GETEX.
    fn parse(call: &CommandContext<'a>, first: usize, set: bool) -> Result<Options<'a>, CommandError> {
        let mut options = Options::default();
        let mut parts = call.args.from(first);
        while let Some(part) = parts.next() {
            let is = |name: &str| part.eq_ignore_ascii_case(name.as_bytes());
            let o = &mut options;
            // The same unit may be repeated (Redis takes the last), but two units may not be mixed.
            let timed = |seconds, relative| {
                let same = |old: Lifetime<'_>| old.seconds == seconds && old.relative == relative;
                !o.keep_ttl && !o.persist && o.lifetime.is_none_or(same)
            };
            if let Some((seconds, relative)) = unit(part) {
                let fits = timed(seconds, relative);
                let text = parts.next().filter(|_| fits).ok_or(SYNTAX)?;
                o.lifetime = Some(Lifetime { text, seconds, relative });
            } else if set && is("NX") && o.only_if != Some(Condition::IfPresent) && o.comparison.is_none() {
                o.only_if = Some(Condition::IfAbsent);
            } else if set && is("XX") && o.only_if != Some(Condition::IfAbsent) && o.comparison.is_none() {
                o.only_if = Some(Condition::IfPresent);
            } else if set && is_comparison(part) && o.only_if.is_none() && o.comparison.is_none() {
                o.comparison = Some(Comparison::parse(part, parts.next().ok_or(SYNTAX)?)?);
            } else if set && is("TAG") {
                o.tags.push(parts.next().ok_or(SYNTAX)?);
            } else if set && is("GET") {
                o.get = true;
            } else if set && is("KEEPTTL") && o.lifetime.is_none() {
                o.keep_ttl = true;
            } else if !set && is("PERSIST") && o.lifetime.is_none() {
                o.persist = true;
            } else {
                return Err(SYNTAX);
            }
        }
        Ok(options)
    }
    fn expiry(&self, call: &CommandContext<'_>, key: &[u8]) -> Result<Expiry, CommandError> {
        match self.lifetime {
            Some(lifetime) => Ok(Expiry::At(lifetime.at(call.now, call.command.name)?)),
            None if self.keep_ttl => Ok(Expiry::Keep),
            None => Ok(call.lifetime(key)),
        }
    }
}

/// `SET key value [NX | XX | IFEQ value | IFNE value | IFDEQ digest | IFDNE digest] [GET] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL] [TAG tag]…`
#[inline]
pub(crate) fn set(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let (key, value) = (call.key(1), call.arg(2));
    if call.args.len() == 3 {
        call.check_len(value.len())?;
        store(call, tier, key, value, call.lifetime(key.bytes()), Condition::Always)?;
        return call.ok();
    }
    let options = Options::parse(call, 3, true)?;
    let expiry = options.expiry(call, call.arg(1))?;
    call.check_len(value.len())?;
    let condition = options.only_if.unwrap_or(Condition::Always);
    if !options.tags.is_empty() {
        tags::check(&options.tags)?;
    }
    let attributes = Attributes { tags: &options.tags, ..Attributes::NONE };
    if options.get || options.comparison.is_some() {
        return exchange(call, tier, value, expiry, attributes, &options);
    }
    let stored = tier.set(key, Write { value, expiry, attributes, condition }, call.now)?;
    note_stored(call, key.bytes(), stored);
    match stored {
        Stored::Unmet => call.reply.null(),
        _ => {
            note_lifetime(call, key.bytes(), options.lifetime);
            call.reply.ok();
        }
    }
    Ok(Flow::Done)
}

/// SETNX key value
pub(crate) fn setnx(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let value = call.arg(2);
    call.check_len(value.len())?;
    let stored = store(call, tier, call.key(1), value, call.lifetime(call.arg(1)), Condition::IfAbsent)?;
    call.integer(i64::from(stored != Stored::Unmet))
}

/// SETEX key seconds value, PSETEX key milliseconds value
pub(crate) fn set_for(call: &mut CommandContext<'_>, tier: &mut Tier<'_>, seconds: bool) -> Done {
    let lifetime = Lifetime { text: call.arg(2), seconds, relative: true };
    let expiry = Expiry::At(lifetime.at(call.now, call.command.name)?);
    let value = call.arg(3);
    call.check_len(value.len())?;
    store(call, tier, call.key(1), value, expiry, Condition::Always)?;
    note_lifetime(call, call.arg(1), Some(lifetime));
    call.ok()
}

/// GETSET key value
pub(crate) fn getset(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let value = call.arg(2);
    call.check_len(value.len())?;
    let options = Options { get: true, ..Options::default() };
    exchange(call, tier, value, call.lifetime(call.arg(1)), Attributes::NONE, &options)
}

fn store(
    call: &CommandContext<'_>,
    tier: &mut Tier<'_>,
    key: Key<'_>,
    value: &[u8],
    expiry: Expiry,
    condition: Condition,
) -> Result<Stored, CommandError> {
    let write = Write { value, expiry, attributes: Attributes::NONE, condition };
    let stored = tier.set(key, write, call.now)?;
    note_stored(call, key.bytes(), stored);
    Ok(stored)
}

/// Notes the events of a SET.
#[inline]
fn note_stored(call: &CommandContext<'_>, key: &[u8], stored: Stored) {
    if stored != Stored::Unmet {
        call.note_written(KeyEvent::Set, key, matches!(stored, Stored::Created(_)));
    }
}

/// Notes that the client gave what it stored a lifetime, which may have ended already.
#[inline]
fn note_lifetime(call: &CommandContext<'_>, key: &[u8], lifetime: Option<Lifetime<'_>>) {
    let Some(lifetime) = lifetime.filter(|_| call.worker.is_on(Special::KeyEvents)) else { return };
    call.note_event(KeyEvent::Expire, key);
    if lifetime.at(call.now, call.command.name).is_ok_and(|at| at <= call.now) {
        call.note_event(KeyEvent::Expired, key);
    }
}

/// Stores a value if the conditions of the options hold. With GET it replies with the old one.
fn exchange(
    call: &mut CommandContext<'_>,
    tier: &mut Tier<'_>,
    value: &[u8],
    expiry: Expiry,
    attributes: Attributes<'_>,
    options: &Options<'_>,
) -> Done {
    let key = call.key(1);
    let reply = &mut call.reply;
    let is_new = tier.update(key, call.now, |entry, scratch| {
        if let Err(fault) = check_string(entry) {
            return (Change::Keep, Err(fault));
        }
        let is_met = match options.only_if {
            Some(Condition::IfAbsent) => entry.is_none(),
            Some(Condition::IfPresent) => entry.is_some(),
            _ => options.comparison.is_none_or(|comparison| comparison.holds(entry)),
        };
        match entry {
            Some(entry) if options.get => reply.value(entry.value),
            None if is_met && !options.get => reply.ok(),
            Some(_) if is_met => reply.ok(),
            _ => reply.null(),
        }
        if !is_met {
            return (Change::Keep, Ok(None));
        }
        scratch.extend_from_slice(value);
        (Change::Replace(expiry, attributes), Ok(Some(entry.is_none())))
    })??;
    if let Some(is_new) = is_new {
        call.note_written(KeyEvent::Set, key.bytes(), is_new);
        note_lifetime(call, key.bytes(), options.lifetime);
    }
    Ok(Flow::Done)
}

/// GETEX key [EX s | PX ms | EXAT s | PXAT ms | PERSIST]
pub(crate) fn getex(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let options = Options::parse(call, 2, false)?;
    let (key, now, name) = (call.key(1), call.now, call.command.name);
    let reply = &mut call.reply;
    let event = tier.update(key, now, |entry, _| {
        let Some(entry) = entry else {
            reply.null();
            return (Change::Keep, Ok(None));
        };
        if let Err(fault) = check_string(Some(entry)) {
            return (Change::Keep, Err(fault));
        }
        // An invalid time is an error only if the key exists.
        let (change, event) = match options.lifetime.map(|lifetime| lifetime.at(now, name)) {
            Some(Err(fault)) => return (Change::Keep, Err(fault)),
            Some(Ok(at)) if at <= now => (Change::Delete, Some(KeyEvent::Del)),
            Some(Ok(at)) => (Change::Expire(Expiry::At(at)), Some(KeyEvent::Expire)),
            None if options.persist && entry.expiry().is_some() => {
                (Change::Expire(Expiry::Never), Some(KeyEvent::Persist))
            }
            None => (Change::Keep, None),
        };
        reply.value(entry.value);
        (change, Ok(event))
    })??;
    event.into_iter().for_each(|event| call.note_event(event, key.bytes()));
    Ok(Flow::Done)
}

pub(crate) fn getdel(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let key = call.key(1);
    let reply = &mut call.reply;
    let is_deleted = tier.update(key, call.now, |entry, _| match (entry, check_string(entry)) {
        (_, Err(fault)) => (Change::Keep, Err(fault)),
        (Some(entry), _) => {
            reply.value(entry.value);
            (Change::Delete, Ok(true))
        }
        (None, _) => {
            reply.null();
            (Change::Keep, Ok(false))
        }
    })??;
    if is_deleted {
        call.note_event(KeyEvent::Del, key.bytes());
    }
    Ok(Flow::Done)
}

pub(crate) fn strlen(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let len = tier.get(call.key(1), call.now, |entry| check_string(Some(&entry)).map(|()| len(&entry)));
    call.integer(len.transpose()?.unwrap_or(0) as i64)
}

fn len(entry: &Entry<'_>) -> usize {
    entry.value.as_bytes().len()
}

/// GETRANGE key start end; SUBSTR is its old name
pub(crate) fn getrange(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let (start, end) = (integer(call.arg(2))?, integer(call.arg(3))?);
    let (key, reply) = (call.key(1), &mut call.reply);
    let found = tier.get(key, call.now, |entry| {
        check_string(Some(&entry))?;
        match (slice(entry.value.as_bytes(), start, end), entry.value) {
            (part, Value::Inline(_)) | (part @ [], _) => reply.bulk(part),
            (part, large) => reply.shared(large.to_bytes().slice_ref(part)),
        }
        Ok(Flow::Done)
    });
    found.unwrap_or_else(|| {
        reply.bulk(b"");
        Ok(Flow::Done)
    })
}

/// The bytes from `start` to `end`, both included. Negative positions count from the end.
fn slice(value: &[u8], start: i64, end: i64) -> &[u8] {
    if start < 0 && end < 0 && start > end {
        return b"";
    }
    let len = value.len() as i64;
    let position = |index: i64| if index < 0 { index.saturating_add(len).max(0) } else { index };
    let (start, end) = (position(start), position(end).min(len - 1));
    if start <= end { &value[start as usize..=end as usize] } else { b"" }
}

/// APPEND key value
pub(crate) fn append(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let value = call.arg(2);
    call.check_len(value.len())?;
    let (total, is_new) = tier.update(call.key(1), call.now, |entry, _| {
        let total = entry.map_or(0, len) + value.len();
        match check_string(entry).and_then(|()| call.check_len(total)) {
            Err(fault) => (Change::Keep, Err(fault)),
            Ok(()) => (Change::Append(value), Ok((total, entry.is_none()))),
        }
    })??;
    call.note_written(KeyEvent::Append, call.arg(1), is_new);
    call.integer(total as i64)
}

/// SETRANGE key offset value
pub(crate) fn setrange(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let offset = usize::try_from(integer(call.arg(2))?).map_err(|_| OFFSET)?;
    let value = call.arg(3);
    let (total, is_new) = tier.update(call.key(1), call.now, |entry, _| {
        let old = entry.map_or(0, len);
        if let Err(fault) = check_string(entry) {
            return (Change::Keep, Err(fault));
        }
        if value.is_empty() {
            return (Change::Keep, Ok((old, None)));
        }
        match call.check_len(offset.saturating_add(value.len())) {
            Err(fault) => (Change::Keep, Err(fault)),
            Ok(()) => (Change::Splice(offset, value), Ok((old.max(offset + value.len()), Some(entry.is_none())))),
        }
    })??;
    if let Some(is_new) = is_new {
        call.note_written(KeyEvent::SetRange, call.arg(1), is_new);
    }
    call.integer(total as i64)
}

/// MSET key value [key value …]
pub(crate) fn mset(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    check_pairs(call)?;
    store_pairs(call, tier)?;
    call.ok()
}

/// MSETNX key value [key value …]
pub(crate) fn msetnx(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    check_pairs(call)?;
    let cache = call.cache();
    let mut keys = call.command.keys.of(call.args);
    let exists = keys.any(|key| tier.peek(cache.key(key), call.now, |_| ()).is_some());
    if !exists {
        store_pairs(call, tier)?;
    }
    call.integer(i64::from(!exists))
}

/// `MSETEX numkeys key value [key value …] [NX | XX] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL]`
pub(crate) fn msetex(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let count = parse_i64(call.arg(1)).and_then(|count| i32::try_from(count).ok()).filter(|count| *count > 0);
    let end = count.ok_or(KEY_COUNT)? as usize * 2 + 2;
    if end > call.args.len() {
        return Err(SYNTAX);
    }
    let options = Options::parse(call, end, true)?;
    if options.get || options.comparison.is_some() || !options.tags.is_empty() {
        return Err(SYNTAX);
    }
    // An invalid time is an error whether it is needed or not.
    options.lifetime.map(|lifetime| lifetime.at(call.now, call.command.name)).transpose()?;
    let pairs = || (2..end).step_by(2).map(|at| (call.key(at), call.arg(at + 1)));
    pairs().try_for_each(|(_, value)| call.check_len(value.len()))?;
    let mut exists = |key| tier.peek(key, call.now, |_| ()).is_some();
    let is_met = match options.only_if {
        Some(Condition::IfAbsent) => !pairs().any(|(key, _)| exists(key)),
        Some(Condition::IfPresent) => pairs().all(|(key, _)| exists(key)),
        _ => true,
    };
    if is_met {
        for (key, value) in pairs() {
            store(call, tier, key, value, options.expiry(call, key.bytes())?, Condition::Always)?;
            note_lifetime(call, key.bytes(), options.lifetime);
        }
    }
    call.integer(i64::from(is_met))
}

fn check_pairs(call: &CommandContext<'_>) -> CommandResult {
    if call.args.len().is_multiple_of(2) {
        return Err(arity(call.command.name));
    }
    call.args.from(2).step_by(2).try_for_each(|value| call.check_len(value.len()))
}

fn store_pairs(call: &CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    for index in (1..call.args.len()).step_by(2) {
        let (key, value) = (call.key(index), call.arg(index + 1));
        store(call, tier, key, value, call.lifetime(key.bytes()), Condition::Always)?;
    }
    Ok(Flow::Done)
}

/// Whether this SET, MSET, SETEX or PSETEX replaces the whole entry and does not return the old
/// value.
pub(crate) fn overwrites(args: Args<'_>) -> bool {
    let timed =
        |option: &[u8]| ["ex", "px", "exat", "pxat"].iter().any(|unit| option.eq_ignore_ascii_case(unit.as_bytes()));
    !args[0].eq_ignore_ascii_case(b"set") || args.len() == 3 || args.len() == 5 && timed(&args[3])
}

/// What a SET stored that the source has taken. `None` if its options leave that open.
pub(crate) fn stored_by_set<'a>(call: &CommandContext<'a>) -> Option<(&'a [u8], Option<Millis>)> {
    let options = Options::parse(call, 3, true).ok()?;
    // With GET the reply is the old value, which may look like any reply.
    if options.keep_ttl || options.get {
        return None;
    }
    match options.lifetime {
        Some(lifetime) => Some((call.arg(2), Some(lifetime.at(call.now, call.command.name).ok()?))),
        None => Some((call.arg(2), None)),
    }
}
/// What a SETEX or PSETEX stored.
pub(crate) fn stored_for<'a>(call: &CommandContext<'a>, seconds: bool) -> Option<(&'a [u8], Option<Millis>)> {
    let lifetime = Lifetime { text: call.arg(2), seconds, relative: true };
    Some((call.arg(3), Some(lifetime.at(call.now, call.command.name).ok()?)))
}

/// Refuses what is no string; a key without an entry is fine.
#[inline]
pub(super) fn check_string(entry: Option<&Entry<'_>>) -> Result<(), CommandError> {
    match entry {
        Some(entry) if is_document(entry.metadata()) => Err(WRONG_TYPE),
        _ => Ok(()),
    }
}

const NO_OPTIONS: CommandError = CommandError::Static("ERR this source takes SET without options");

/// SET at a source that takes values.
pub(crate) async fn set_at_values(call: &mut CommandContext<'_>) -> Done {
    match call.args.len() {
        3 => store_at_values(call).await,
        _ => Err(NO_OPTIONS),
    }
}

/// MSET: one write after the other. If one fails, those before it stand and its error is the reply.
pub(crate) async fn mset_at_values(call: &mut CommandContext<'_>) -> Done {
    match call.args.len() % 2 {
        1 => store_at_values(call).await,
        _ => Err(arity(call.command.name)),
    }
}

/// DEL, key by key.
pub(crate) async fn del_at_values(call: &mut CommandContext<'_>) -> Done {
    let mut deleted = 0;
    for at in 1..call.args.len() {
        deleted += i64::from(call.group().delete(call.arg(at)).await?);
    }
    call.integer(deleted)
}

/// Stores the values of a list of keys and values.
async fn store_at_values(call: &mut CommandContext<'_>) -> Done {
    for at in (2..call.args.len()).step_by(2) {
        call.check_len(call.arg(at).len())?;
    }
    for at in (1..call.args.len()).step_by(2) {
        let value = Bytes::copy_from_slice(call.arg(at + 1));
        call.group().put(call.arg(at), value, None).await?;
    }
    call.ok()
}
