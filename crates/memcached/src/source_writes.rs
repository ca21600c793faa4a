//! Writes that go to a source first, and `gat` there.
use crate::{
    edits::{Edit, Outcome, What},
    entry_view::{EntryView, kind_of_mark},
    exptime::Expires,
    replies,
    writes::{WriteCommand, answer, refuse},
};
use bytes::Bytes;
use larder_core::{
    app::Worker,
    read::{Group, ValueEdit},
};
use larder_engine::{Millis, Value};
use larder_proto::{
    memcached::{Keys, StoreMode},
    output::Output,
};
use larder_source::{ClientMark, SourceError};
use larder_store::{StoredValue, ValueKind, clock};
use std::rc::Rc;

/// A value after a write, as far as its reply tells of it.
type After = Option<StoredValue>;

/// Carries out a write, and answers it.
pub(crate) async fn write(group: &Rc<Group>, command: &WriteCommand<'_>, out: &mut Output) -> Option<Outcome> {
    match change(group, command).await {
        Ok((outcome, after)) => {
            let now = clock::now();
            answer(out, command, outcome, after.as_ref().map(EntryView::of_stored).as_ref(), now);
            Some(outcome)
        }
        Err(error) => {
            refuse(out, command, &replies::source_error(&error));
            None
        }
    }
}

async fn change(group: &Rc<Group>, command: &WriteCommand<'_>) -> Result<(Outcome, After), SourceError> {
    let (key, mut write) = (&command.key[..], command.write);
    match &mut write.what {
        // Versions of a source's values have no order: none is older than another.
        What::Store { is_stale, .. } => *is_stale = false,
        // A store keeps no stale values.
        what @ What::MarkStale { .. } if group.source.as_local().is_some() => *what = What::Delete,
        _ => {}
    }
    let is_free = write.if_version.is_none() && write.new_version.is_none();
    match write.what {
        What::Store { flags, .. } if flags != 0 && !group.keeps_flags() => {
            let text = format!(
                "client flags {flags} cannot be kept: the source has values only; send flags 0 (docs/memcached.md)"
            );
            Err(SourceError::Refused(text.into()))
        }
        What::Store { mode: StoreMode::Set, flags: 0, expires, value, .. } if is_free => {
            let value = Bytes::copy_from_slice(value);
            let after = Some(StoredValue::string(value.clone(), moment(expires)));
            match expires {
                Expires::Past => drop(group.delete(key).await?),
                expires => drop(group.put(key, value, moment(expires)).await?),
            }
            Ok((Outcome::Stored, after))
        }
        What::Delete if is_free => Ok((done(group.delete(key).await?), None)),
        What::Touch(Expires::Past) => Ok((done(group.delete(key).await?), None)),
        What::Touch(expires) => Ok((done(group.expire(key, moment(expires)).await?), None)),
        // The next reader fetches the value again.
        What::MarkStale { .. } => {
            let outcome = match write.if_version {
                None => Outcome::Done,
                Some(_) => {
                    let held = read(group, key, None).await?;
                    write.apply(held.as_ref().map(EntryView::of_stored).as_ref(), &mut Vec::new()).1
                }
            };
            if outcome == Outcome::Done {
                group.cache.invalidate(group.cache.key(key));
            }
            Ok((outcome, None))
        }
        What::Claim { vivify, expires, .. } => {
            let after = read(group, key, expires).await?;
            Ok(match (&after, vivify) {
                (Some(_), _) => (Outcome::Found { is_won: false, was_won: false }, after),
                (None, Some(_)) => (Outcome::Found { is_won: true, was_won: false }, Some(absent())),
                (None, None) => (Outcome::NotFound, None),
            })
        }
        What::Store { .. } | What::Arithmetic { .. } | What::Delete | What::Empty => {
            let changed = group.change_value(key, |held| {
                let mut value = Vec::new();
                let (edit, outcome) = write.apply(held.map(EntryView::of_stored).as_ref(), &mut value);
                let expiry = held.and_then(|held| held.expiry);
                let (edit, after) = match edit {
                    Edit::Keep => (ValueEdit::Keep, None),
                    Edit::Delete | Edit::Expire(_) | Edit::Put(Some(Expires::Past), _) => (ValueEdit::Delete, None),
                    Edit::Put(expires, mark) => {
                        let expiry = expires.map_or(expiry, moment);
                        let stored = StoredValue { value: value.into(), expiry, kind: kind_of_mark(mark) };
                        (ValueEdit::Put(stored.clone()), Some(stored))
                    }
                };
                (edit, (outcome, after))
            });
            changed.await
        }
    }
}

fn absent() -> StoredValue {
    StoredValue::string(Bytes::new(), None)
}

fn done(existed: bool) -> Outcome {
    if existed { Outcome::Done } else { Outcome::NotFound }
}

fn moment(expires: Expires) -> Option<Millis> {
    match expires {
        Expires::Default => None,
        Expires::At(at) => Some(at),
        Expires::Past => Some(0),
    }
}

/// Reads a value through the tier, and gives it a new expiry if one is given.
async fn read(group: &Rc<Group>, key: &[u8], expires: Option<Expires>) -> Result<Option<StoredValue>, SourceError> {
    let now = clock::now();
    let Some(value) = group.read(key, now).await? else { return Ok(None) };
    let found = group
        .cache
        .tier()
        .peek(group.cache.key(key), now, |entry| (entry.expiry(), ClientMark::read(entry.metadata()).flags));
    let (mut expiry, flags) = found.unwrap_or_default();
    match expires {
        None => {}
        Some(Expires::Past) => drop(group.delete(key).await?),
        Some(expires) => {
            expiry = moment(expires);
            group.expire(key, expiry).await?;
        }
    }
    let kind = if flags == 0 { ValueKind::String } else { ValueKind::Flagged(flags) };
    Ok(Some(StoredValue { value, expiry, kind }))
}

/// `gat` and `gats`. Returns how many keys had no value.
pub(crate) async fn get_and_touch(
    worker: &Worker,
    keys: Keys<'_>,
    expires: Expires,
    with_version: bool,
    out: &mut Output,
) -> u64 {
    let group = worker.groups.default();
    let mut missed = 0;
    for key in keys {
        if !replies::may_grow(worker, out.owned()) {
            replies::no_room(worker, out);
            return missed;
        }
        match read(group, key, Some(expires)).await {
            Ok(None) => missed += 1,
            Ok(Some(found)) => {
                let view = EntryView::of_stored(&found);
                let version = with_version.then_some(view.version);
                replies::value(out, key, view.mark.flags, version, &Value::Inline(view.value));
            }
            Err(error) => {
                replies::line(out, &replies::source_error(&error));
                return missed;
            }
        }
    }
    out.put(b"END\r\n");
    missed
}
