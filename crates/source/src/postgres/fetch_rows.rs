//! Fetches: the rows of keys, one by one or several with one statement.
use super::{
    changes::Vouching,
    lookup::{Lookup, Plan},
    parameters::array_text,
    session::{InUse, Session, Which, is_of_class},
    session_pool::SessionPool,
    sql_error::describe,
};
use crate::{
    admission::FetchEnd,
    copy_metadata::{CopyMetadata, FreshUntil},
    fetch::Fetch,
    fetch_refusals::{no_room, timeout_reason, too_large},
    fetch_result::FetchAnswer,
    source_error::SourceError,
};
use bytes::Bytes;
use foldhash::quality::FixedState;
use larder_base::buffers::BufferKind;
use larder_store::clock;
use std::{
    cell::{Cell, RefCell},
    error::Error as _,
    hash::BuildHasher as _,
    rc::Rc,
    sync::Arc,
    time::Duration,
};
use tokio::time::{Instant, timeout_at};
use tokio_postgres::{
    Error, Row,
    types::{FromSql, Type},
};

/// Keys of one statement.
const MOST_KEYS: usize = 128;
/// A longer value is not sent with the first statement, but with one of its own when there is room.
const INLINE: usize = 64 * 1024;

/// The answer for a key.
type Answer = Result<FetchAnswer, SourceError>;

/// Sends fetches.
pub(super) fn fetch_all(pool: &Rc<SessionPool>, batch: &mut Vec<Fetch>) {
    if let Some(plan) = pool.settings.plan.get() {
        return dispatch(pool, plan, batch.drain(..));
    }
    let (pool, batch) = (pool.clone(), std::mem::take(batch));
    tokio::task::spawn_local(async move {
        let begun = Instant::now();
        let limit = pool.settings.limits.timeout;
        let plan = timeout_at(begun + limit, pool.plan()).await.unwrap_or_else(|_| Err(timed_out(&pool, limit)));
        match plan {
            Ok(plan) => dispatch(&pool, &plan, batch.into_iter()),
            Err(error) => batch.into_iter().for_each(|fetch| finish(&pool, fetch, Err(error.clone()), begun)),
        }
    });
}

fn dispatch(pool: &Rc<SessionPool>, plan: &Plan, batch: impl Iterator<Item = Fetch>) {
    let mut lists: Vec<(Arc<Lookup>, Vec<Fetch>)> = Vec::new();
    for mut fetch in batch {
        let lookup = plan.lookups.get(fetch.key());
        let Some(lookup) = lookup.filter(|lookup| lookup.parameters_of(fetch.key()).is_some()) else {
            // No row ever has this key.
            fetch.vouch();
            finish(pool, fetch, Ok(FetchAnswer::Absent { fresh: FreshUntil::Policy }), Instant::now());
            continue;
        };
        match lists.iter_mut().find(|(of, _)| Arc::ptr_eq(of, lookup)) {
            Some((_, fetches)) => fetches.push(fetch),
            None => lists.push((lookup.clone(), vec![fetch])),
        }
    }
    for (lookup, mut fetches) in lists {
        while !fetches.is_empty() {
            let (pool, lookup) = (pool.clone(), lookup.clone());
            if lookup.many.is_none() || fetches.len() == 1 {
                let fetch = fetches.pop().expect("not empty");
                tokio::task::spawn_local(async move { fetch_one(&pool, &lookup, fetch).await });
            } else {
                let some = fetches.split_off(fetches.len().saturating_sub(MOST_KEYS));
                tokio::task::spawn_local(async move { fetch_many(&pool, &lookup, some).await });
            }
        }
    }
}

fn finish(pool: &SessionPool, fetch: Fetch, answer: Answer, begun: Instant) {
    let health = &pool.settings.health;
    if let Some(reason) = answer.as_ref().err().and_then(SourceError::reason) {
        health.note_error(reason);
    }
    health.finished(FetchEnd::of(&answer), begun.elapsed() + fetch.held_back());
    fetch.finish_copy(answer, clock::now());
}

fn timed_out(pool: &SessionPool, limit: Duration) -> SourceError {
    pool.settings.unavailable(timeout_reason(limit, &pool.settings.limits))
}

/// A row as it was sent.
struct Found {
    /// Bytes of the value; `None`: there is none.
    length: Option<usize>,
    /// `None`: it is too long to be sent at once.
    value: Option<Bytes>,
    /// The number of its key, from 0.
    at: usize,
}
impl Found {
    fn read(row: &Row) -> Found {
        let length: Option<i32> = row.try_get(1).unwrap_or_default();
        let value: Option<RawBytes<'_>> = row.try_get(2).unwrap_or_default();
        let at: Option<i64> = if row.len() > 3 { row.try_get(3).unwrap_or_default() } else { None };
        Found {
            length: length.and_then(|length| usize::try_from(length).ok()),
            value: value.map(|value| Bytes::copy_from_slice(value.0)),
            at: at.and_then(|at| usize::try_from(at - 1).ok()).unwrap_or(0),
        }
    }
}

/// What the statement has seen.
fn seen_of(row: &Row) -> &str {
    row.try_get(0).unwrap_or_default()
}

/// The bytes of a column of any type.
struct RawBytes<'r>(&'r [u8]);
impl<'r> FromSql<'r> for RawBytes<'r> {
    fn from_sql(_: &Type, raw: &'r [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(RawBytes(raw))
    }
    fn accepts(_: &Type) -> bool {
        true
    }
}

fn copy_of(lookup: &Lookup, value: Bytes) -> FetchAnswer {
    let etag = format!("\"{:016x}\"", FixedState::with_seed(0).hash_one(&*value));
    let metadata = CopyMetadata {
        content_type: lookup.is_json.then(|| (*b"application/json").into()),
        etag: Some(etag.into_bytes().into()),
        ..CopyMetadata::default()
    };
    FetchAnswer::Copy { value, fresh: FreshUntil::Policy, metadata }
}

/// Runs something on a connection, again on another one if that is lost, within a time. A connection
/// that is late is given up: what waits on it would be late, too.
async fn in_time<R>(
    pool: &SessionPool,
    limit: Duration,
    mut run: impl AsyncFnMut(&Session) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let used: RefCell<Option<InUse>> = RefCell::default();
    let is_again = Cell::new(false);
    let attempts = async {
        loop {
            let session = pool.reader().await.map_err(Failure::Source)?;
            *used.borrow_mut() = Some(InUse::new(session.clone()));
            match run(&session).await {
                Err(Failure::Database(error))
                    if is_lost(&error) && !is_again.replace(true) && pool.settings.health.may_retry() => {}
                end => return end,
            }
        }
    };
    match timeout_at(Instant::now() + limit, attempts).await {
        Ok(end) => end,
        Err(_) => {
            if let Some(used) = used.borrow_mut().take() {
                used.0.close();
            }
            Err(Failure::Source(timed_out(pool, limit)))
        }
    }
}

/// Why there is no answer.
enum Failure {
    Source(SourceError),
    Database(Error),
}
impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Database(error)
    }
}
impl Failure {
    fn into_source(self, pool: &SessionPool) -> SourceError {
        match self {
            Failure::Source(error) => error,
            Failure::Database(error) => pool.settings.error(&error),
        }
    }
}

/// The connection is gone, or its server is about to be.
fn is_lost(error: &Error) -> bool {
    error.is_closed() || is_of_class(error, "57P") || error.as_db_error().is_none() && error.source().is_some()
}

async fn fetch_one(pool: &SessionPool, lookup: &Lookup, mut fetch: Fetch) {
    let begun = Instant::now();
    let limit = fetch.timeout(pool.settings.limits.timeout);
    let parameters = lookup.parameters_of(fetch.key()).unwrap_or_default();
    let parameters: Vec<&str> = parameters.iter().map(AsRef::as_ref).collect();
    let ticket = pool.changes.announced().begin();
    let mut seen = None;
    let read = async |session: &Session| read_value(pool, lookup, session, &parameters, &mut seen).await;
    let answer = in_time(pool, limit, read).await;
    let answer = answer.map_err(|failure| failure.into_source(pool));
    drop(parameters);
    let seen = seen.and_then(|seen: String| ticket.vouches(&seen));
    vouch(pool, lookup, &mut fetch, seen.as_ref());
    finish(pool, fetch, answer, begun);
}

/// The answer may be kept if it has seen all that was announced of the key, or if changes are not
/// announced and the copy lives for `ttl`.
fn vouch(pool: &SessionPool, lookup: &Lookup, fetch: &mut Fetch, seen: Option<&Vouching<'_>>) {
    let rest = fetch.key().get(lookup.prefix.len()..).unwrap_or_default();
    if !lookup.is_watched || seen.is_some_and(|seen| seen.vouches_for(pool.changes.group, &lookup.prefix, rest)) {
        fetch.vouch();
    }
}

async fn read_value(
    pool: &SessionPool,
    lookup: &Lookup,
    session: &Session,
    parameters: &[&str],
    seen: &mut Option<String>,
) -> Result<FetchAnswer, Failure> {
    let settings = &pool.settings;
    let max = settings.limits.max_value;
    let mut limit = INLINE.min(max);
    let mut charge = settings.buffers.charge(BufferKind::Relayed);
    // It may grow from one statement to the next, but not for ever.
    for _ in 0..4 {
        let mut found = None;
        let text = limit.to_string();
        let all: Vec<&str> = parameters.iter().copied().chain([text.as_str()]).collect();
        let note = |row: &Row| found = Some((seen_of(row).to_owned(), Found::read(row)));
        match session.read(lookup, Which::One, &all, note).await {
            Ok(()) => {}
            // Of the key, or of something in the query?
            Err(error) if is_of_class(&error, "22") => {
                return match session.takes(lookup, parameters).await? {
                    false => Ok(FetchAnswer::Absent { fresh: FreshUntil::Policy }),
                    true => Err(error.into()),
                };
            }
            Err(error) => return Err(error.into()),
        }
        let (length, value) = found.map_or((None, None), |(has_seen, found)| {
            *seen = Some(has_seen);
            (found.length, found.value)
        });
        match (length, value) {
            (None, _) => return Ok(FetchAnswer::Absent { fresh: FreshUntil::Policy }),
            (Some(_), Some(value)) => return Ok(copy_of(lookup, value)),
            (Some(length), None) if length > max => return Err(Failure::Source(too_large(length, max))),
            (Some(length), None) if charge.try_resize(length) => limit = length,
            (Some(length), None) => {
                return Err(Failure::Source(no_room(length, settings.buffers.limit())));
            }
        }
    }
    Err(Failure::Source(settings.unavailable("the value grows faster than it is read")))
}

async fn fetch_many(pool: &Rc<SessionPool>, lookup: &Arc<Lookup>, fetches: Vec<Fetch>) {
    let begun = Instant::now();
    let limit = pool.settings.limits.timeout;
    let keys: Vec<String> = fetches
        .iter()
        .map(|fetch| lookup.parameters_of(fetch.key()).and_then(|mut of| of.pop()).unwrap_or_default().into_owned())
        .collect();
    let array = array_text(keys.iter().map(String::as_str));
    let fetches: RefCell<Vec<Option<Fetch>>> = RefCell::new(fetches.into_iter().map(Some).collect());
    let inline = INLINE.min(pool.settings.limits.max_value).to_string();
    let ticket = pool.changes.announced().begin();
    let read = async |session: &Session| {
        let mut seen = None;
        let mut large = Vec::new();
        let note = |row: &Row| {
            let seen = seen.get_or_insert_with(|| ticket.vouches(seen_of(row)));
            let found = Found::read(row);
            let Some(value) = found.value else {
                large.extend(found.length.map(|_| found.at));
                return;
            };
            // A statement that was broken off may have answered some.
            let fetch = fetches.borrow_mut().get_mut(found.at).and_then(Option::take);
            if let Some(mut fetch) = fetch {
                vouch(pool, lookup, &mut fetch, seen.as_ref());
                finish(pool, fetch, Ok(copy_of(lookup, value)), begun);
            }
        };
        session.read(lookup, Which::Many, &[&array, &inline], note).await?;
        Ok((large, seen.flatten()))
    };
    let end = in_time(pool, limit, read).await;
    let left = fetches.into_inner().into_iter().enumerate().filter_map(|(at, fetch)| Some((at, fetch?)));
    let alone = |fetch: Fetch| {
        let (pool, lookup) = (pool.clone(), lookup.clone());
        tokio::task::spawn_local(async move { fetch_one(&pool, &lookup, fetch).await });
    };
    match end {
        Ok((large, seen)) => left.for_each(|(at, mut fetch)| match large.contains(&at) {
            true => alone(fetch),
            false => {
                vouch(pool, lookup, &mut fetch, seen.as_ref());
                finish(pool, fetch, Ok(FetchAnswer::Absent { fresh: FreshUntil::Policy }), begun);
            }
        }),
        // One of the keys is no value of its type: which?
        Err(Failure::Database(error)) if is_of_class(&error, "22") => left.for_each(|(_, fetch)| alone(fetch)),
        Err(failure) => {
            let error = failure.into_source(pool);
            left.for_each(|(_, fetch)| finish(pool, fetch, Err(error.clone()), begun));
        }
    }
}

impl super::postgres_settings::PostgresSettings {
    /// What the database's answer means for a read, or for a write that it has surely not made.
    pub(super) fn error(&self, error: &Error) -> SourceError {
        let refuses = error.as_db_error().is_some()
            // No connection, no room, told to end, a conflict that passes.
            && !["08", "53", "57", "40", "55P03", "XX"].iter().any(|class| is_of_class(error, class));
        match refuses {
            true => self.refused(describe(error)),
            false => self.unavailable(describe(error)),
        }
    }
}
