//! Commands that write: what they are, how they are carried out where the tier is the only store,
//! and their replies.
use crate::{
    edits::{Edit, Outcome, What, Write},
    entry_view::EntryView,
    exptime::Expires,
    meta_replies::{self, Key},
    reads, replies,
};
use larder_core::read::{Group, KeyEvent};
use larder_engine::{Change, Condition, Expiry, Key as EngineKey, Millis, Stored, Tier, TooLarge};
use larder_proto::{
    memcached::{Meta, MetaCommand, MetaMode, Request, StoreMode},
    output::Output,
};
use larder_source::EncodedMark;

/// Flags of `ms` and `ma` that are about the entry.
const OF_SET: &[u8] = b"Okcs";
const OF_ARITHMETIC: &[u8] = b"Okct";

/// A write, and how it is answered.
pub(crate) struct WriteCommand<'r> {
    pub(crate) key: Key,
    pub(crate) write: Write<'r>,
    pub(crate) form: ReplyForm<'r>,
}

/// How a write is answered.
#[derive(Clone, Copy)]
pub(crate) enum ReplyForm<'r> {
    /// With this line if it was done.
    Classic {
        done: &'static str,
        is_quiet: bool,
    },
    Meta(Meta<'r>),
}

impl<'r> WriteCommand<'r> {
    /// The write that a request asks for; `None`: it is none. The error line if its key is none.
    pub(crate) fn of(request: &Request<'r>, now: Millis) -> Result<Option<WriteCommand<'r>>, &'static str> {
        let plain = |what| Write { what, if_version: None, new_version: None };
        let classic = |key: &[u8], what, done, is_quiet| WriteCommand {
            key: Key::from_slice(key),
            write: plain(what),
            form: ReplyForm::Classic { done, is_quiet },
        };
        Ok(Some(match *request {
            Request::Store(store) => {
                let expires = Expires::of(store.exptime, now);
                let (mode, flags, value) = (store.mode, store.flags, store.value);
                let what = What::Store { mode, flags, expires, value, is_stale: false, vivify: None };
                classic(store.key, what, "STORED", store.is_quiet)
            }
            Request::Arithmetic { key, delta, is_increment, is_quiet } => {
                let what = What::Arithmetic { is_increment, delta, initial: None, expires: None };
                classic(key, what, "", is_quiet)
            }
            Request::Delete { key, is_quiet } => classic(key, What::Delete, "DELETED", is_quiet),
            Request::Touch { key, exptime, is_quiet } => {
                classic(key, What::Touch(Expires::of(exptime, now)), "TOUCHED", is_quiet)
            }
            Request::Meta(meta) => return WriteCommand::of_meta(meta, now),
            _ => return Ok(None),
        }))
    }

    fn of_meta(meta: Meta<'r>, now: Millis) -> Result<Option<WriteCommand<'r>>, &'static str> {
        let flags = &meta.flags;
        let expires = flags.exptime.map(|exptime| Expires::of(exptime, now));
        let vivify = flags.vivify.map(|exptime| Expires::of(exptime, now));
        let what = match meta.command {
            MetaCommand::Get if expires.is_none() && vivify.is_none() && flags.recache.is_none() => return Ok(None),
            MetaCommand::Get => What::Claim { vivify, recache_at: recache_at(flags.recache, now), expires },
            MetaCommand::Set(value) => What::Store {
                mode: match flags.mode {
                    Some(MetaMode::Store(mode)) => mode,
                    _ => StoreMode::Set,
                },
                flags: flags.client_flags,
                expires: expires.unwrap_or(Expires::Default),
                value,
                is_stale: flags.invalidates,
                vivify,
            },
            MetaCommand::Delete if flags.invalidates => What::MarkStale { expires, keeps_value: !flags.removes_value },
            MetaCommand::Delete if flags.removes_value => What::Empty,
            MetaCommand::Delete => What::Delete,
            MetaCommand::Arithmetic => What::Arithmetic {
                is_increment: flags.mode != Some(MetaMode::Decrement),
                delta: flags.delta.unwrap_or(1),
                initial: vivify.map(|lifetime| (flags.initial, expires.unwrap_or(lifetime))),
                expires,
            },
            MetaCommand::Debug => return Ok(None),
        };
        let Some(key) = meta_replies::key_of(&meta) else { return Err(bad_key(&meta)) };
        let write = Write { what, if_version: flags.version, new_version: flags.new_version };
        Ok(Some(WriteCommand { key, write, form: ReplyForm::Meta(meta) }))
    }
}

/// The error line for a key that is not in base64.
pub(crate) fn bad_key(meta: &Meta<'_>) -> &'static str {
    match meta.command {
        MetaCommand::Get | MetaCommand::Set(_) => "CLIENT_ERROR error decoding key",
        MetaCommand::Delete | MetaCommand::Arithmetic => "CLIENT_ERROR invalid or duplicate flag",
        MetaCommand::Debug => "CLIENT_ERROR bad command line format",
    }
}

/// The client makes an entry again that expires before this moment.
fn recache_at(recache: Option<i64>, now: Millis) -> Option<Millis> {
    match Expires::of(recache?, now) {
        Expires::At(at) => Some(at),
        Expires::Default | Expires::Past => None,
    }
}

/// Stores a value whatever there is, where the tier is the only store: the most common write.
#[inline]
pub(crate) fn set_here(
    group: &Group,
    key: &[u8],
    value: &[u8],
    mark: EncodedMark,
    expires: Expires,
    now: Millis,
) -> Result<(), TooLarge> {
    let expiry = expires.in_tier(|| group.policy.lifetime(key));
    let write = larder_engine::Write { value, expiry, attributes: mark.attributes(), condition: Condition::Always };
    let key = group.cache.key(key);
    let mut tier = group.tier_for_change(key);
    let stored = tier.set(key, write, now).inspect_err(|_| forget(group, &mut tier, key, now))?;
    note_put(group, key.bytes(), Some(expires), matches!(stored, Stored::Created(_)));
    Ok(())
}

/// Deletes the value that the client has meant to replace by one that is too large. Like in
/// memcached, it is not served.
#[cold]
fn forget(group: &Group, tier: &mut Tier<'_>, key: EngineKey<'_>, now: Millis) {
    if tier.delete(key, now) {
        group.note_event(KeyEvent::Del, key.bytes());
    }
}

/// Forgets the old value of a `set` or `ms` whose value is longer than the limit, where the tier is the
/// only store.
#[cold]
pub(crate) fn forget_unstored(group: &Group, request: &Request<'_>, now: Millis) {
    if matches!(request, Request::Store(store) if store.mode != StoreMode::Set) {
        return;
    }
    let Ok(Some(command)) = WriteCommand::of(request, now) else { return };
    let key = group.cache.key(&command.key);
    forget(group, &mut group.tier_for_change(key), key, now);
}

/// Carries out a write where the tier is the only store, and answers it.
pub(crate) fn write_here(group: &Group, command: &WriteCommand<'_>, now: Millis, out: &mut Output) -> Option<Outcome> {
    let key = group.cache.key(&command.key);
    // The reply may tell of the entry as it is then.
    let mut tier = group.cache.exclusive([key]);
    let (mut encoded, mut held_expiry) = (None, None);
    let done = tier.update(key, now, |entry, scratch| {
        let held = entry.map(EntryView::of);
        held_expiry = held.as_ref().map(|held| held.expiry.is_some());
        let (edit, outcome) = command.write.apply(held.as_ref(), scratch);
        let lifetime = || group.policy.lifetime(key.bytes());
        let change = match edit {
            Edit::Keep => Change::Keep,
            Edit::Delete => Change::Delete,
            Edit::Expire(Expires::Past) => Change::Delete,
            Edit::Expire(expires) => Change::Expire(expires.in_tier(lifetime)),
            Edit::Put(Some(Expires::Past), _) if held.is_some() => Change::Delete,
            Edit::Put(Some(Expires::Past), _) => Change::Keep,
            Edit::Put(expires, mark) => {
                let expiry = expires.map_or(Expiry::Keep, |expires| expires.in_tier(lifetime));
                Change::Replace(expiry, encoded.insert(mark.encode()).attributes())
            }
        };
        (change, (edit, outcome))
    });
    let Ok((edit, outcome)) = done else {
        if matches!(command.write.what, What::Store { .. }) {
            forget(group, &mut tier, key, now);
        }
        refuse(out, command, replies::TOO_LARGE);
        return None;
    };
    note_events(group, command, edit, held_expiry);
    let wants_entry = matches!(command.form, ReplyForm::Meta(_));
    let answered = wants_entry
        .then(|| tier.peek(key, now, |entry| answer(out, command, outcome, Some(&EntryView::of(&entry)), now)))
        .flatten();
    if answered.is_none() {
        answer(out, command, outcome, None, now);
    }
    Some(outcome)
}

/// Notes the keyspace events of an edit. `held`: whether the entry had an expiry; `None`: there was no
/// entry.
fn note_events(group: &Group, command: &WriteCommand<'_>, edit: Edit, held: Option<bool>) {
    let key = &command.key;
    match (edit, held) {
        (Edit::Keep, _) | (Edit::Delete | Edit::Expire(_), None) => {}
        (Edit::Delete, Some(_)) => group.note_event(KeyEvent::Del, key),
        (Edit::Expire(expires), Some(had_expiry)) => note_touch(group, key, expires, had_expiry),
        (Edit::Put(expires, _), Some(had_expiry)) if command.write.what.keeps_value() => {
            expires.into_iter().for_each(|expires| note_touch(group, key, expires, had_expiry));
        }
        (Edit::Put(expires, _), _) => note_put(group, key, expires, held.is_none()),
    }
}

/// Notes that a client stored a value. One that has expired already leaves no entry.
#[inline]
fn note_put(group: &Group, key: &[u8], expires: Option<Expires>, is_new: bool) {
    match expires {
        Some(Expires::Past) if is_new => {}
        Some(Expires::Past) => group.note_event(KeyEvent::Del, key),
        _ => group.note_set(key, is_new, matches!(expires, Some(Expires::At(_)))),
    }
}

/// Notes that a client gave an entry another expiry.
pub(crate) fn note_touch(group: &Group, key: &[u8], expires: Expires, had_expiry: bool) {
    let event = match expires {
        Expires::Past => KeyEvent::Del,
        Expires::Default if matches!(group.policy.lifetime(key), Expiry::Never) => match had_expiry {
            true => KeyEvent::Persist,
            false => return,
        },
        Expires::At(_) | Expires::Default => KeyEvent::Expire,
    };
    group.note_event(event, key);
}

/// Writes an error line, unless the client wants no reply.
pub(crate) fn refuse(out: &mut Output, command: &WriteCommand<'_>, line: &str) {
    if !matches!(command.form, ReplyForm::Classic { is_quiet: true, .. }) {
        replies::line(out, line);
    }
}

/// Writes the reply. `entry` is what the key has now.
pub(crate) fn answer(
    out: &mut Output,
    command: &WriteCommand<'_>,
    outcome: Outcome,
    entry: Option<&EntryView<'_>>,
    now: Millis,
) {
    match &command.form {
        ReplyForm::Classic { is_quiet: true, .. } => {}
        ReplyForm::Classic { done, .. } => match outcome {
            Outcome::Stored | Outcome::Done | Outcome::Found { .. } => replies::line(out, done),
            Outcome::NotStored => replies::line(out, "NOT_STORED"),
            Outcome::Exists => replies::line(out, "EXISTS"),
            Outcome::NotFound => replies::line(out, "NOT_FOUND"),
            Outcome::NotANumber => replies::line(out, replies::NOT_A_NUMBER),
            Outcome::Number(number) | Outcome::Made(number) => {
                replies::number(out, number);
                out.put(b"\r\n");
            }
        },
        ReplyForm::Meta(meta) => answer_meta(out, meta, outcome, entry, now),
    }
}

fn answer_meta(out: &mut Output, meta: &Meta<'_>, outcome: Outcome, entry: Option<&EntryView<'_>>, now: Millis) {
    let is_quiet = meta.flags.is_quiet;
    match outcome {
        Outcome::Stored | Outcome::Done | Outcome::Number(_) if is_quiet => {}
        Outcome::Done => meta_replies::status(out, "HD", meta),
        Outcome::Stored => match entry {
            Some(entry) => {
                out.put(b"HD");
                meta_replies::entry_flags(out, meta, OF_SET, entry, now);
                out.put(b"\r\n");
            }
            None => meta_replies::status(out, "HD", meta),
        },
        Outcome::Number(number) | Outcome::Made(number) => {
            let mut buffer = itoa::Buffer::new();
            let digits = buffer.format(number).as_bytes();
            if meta.flags.with_value {
                out.put(b"VA ");
                replies::number(out, digits.len() as u64);
            } else {
                out.put(b"HD");
            }
            let gone = EntryView::at_source(digits, Default::default(), Some(now));
            meta_replies::entry_flags(out, meta, OF_ARITHMETIC, entry.unwrap_or(&gone), now);
            out.put(b"\r\n");
            if meta.flags.with_value {
                out.put(digits);
                out.put(b"\r\n");
            }
        }
        Outcome::Found { is_won, was_won } => {
            let gone = EntryView::at_source(b"", Default::default(), Some(now));
            let entry = entry.unwrap_or(&gone);
            let value = larder_engine::Value::Inline(entry.value);
            reads::meta_hit(out, meta, entry, &value, (is_won, was_won), now);
        }
        Outcome::NotFound if meta.command == MetaCommand::Get => reads::meta_miss(out, meta),
        Outcome::NotFound => meta_replies::status(out, "NF", meta),
        Outcome::NotStored => meta_replies::status(out, "NS", meta),
        Outcome::Exists => meta_replies::status(out, "EX", meta),
        Outcome::NotANumber => replies::line(out, replies::NOT_A_NUMBER),
    }
}
