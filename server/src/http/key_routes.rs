//! One key: reading it in three wordings, storing and deleting it.
use super::{
    problem::{Kind, Problem},
    read_answer::{self, About, Reading},
    response_body::Body,
    router::Call,
};
use crate::{
    lifecycle::throttle::Throttled,
    read::{Group, StartedRead},
    source::SourceError,
    telemetry::Operation,
};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use larder_engine::{Entry, Millis, Stored};
use larder_proto::http::{etag::Tags, target};
use larder_store::clock;
use larder_units::parse_duration;
use std::{borrow::Cow, time::Duration};

impl Call<'_> {
    /// The key in the path.
    fn key(&self) -> Result<Cow<'_, [u8]>, Problem> {
        let key = decode(self.key, target::decode_path)?;
        self.check_key(&key)?;
        Ok(key)
    }

    /// The key in the query; `None` if there is none.
    fn key_parameter(&self, name: &str) -> Option<Result<Cow<'_, [u8]>, Problem>> {
        target::parameter(self.query, name).map(|raw| decode(raw, target::decode_query))
    }

    /// The same, within the limits of a key.
    pub(super) fn parameter_key(&self, name: &str) -> Result<Cow<'_, [u8]>, Problem> {
        let missing = || Problem::of(Kind::BadKey, format!("parameter `{name}` is missing"));
        let key = self.key_parameter(name).ok_or_else(missing)??;
        self.check_key(&key)?;
        Ok(key)
    }

    /// Shows an operation to who records them.
    pub(super) fn note(&self, operation: Operation, key: &[u8]) {
        self.worker.app.telemetry.tap.note(self.worker.id, operation, key);
    }

    /// Is this within the limits of a key?
    pub(super) fn check_key(&self, key: &[u8]) -> Result<(), Problem> {
        let max = self.worker.app.settings.max_key;
        if key.is_empty() {
            Err(Problem::of(Kind::BadKey, "the key is empty"))
        } else if key.len() > max {
            Err(Problem::over(Kind::KeyTooLarge, "the key", "max-key", max))
        } else {
            Ok(())
        }
    }
}

type Decode = for<'a> fn(&'a [u8], &'a mut Vec<u8>) -> Result<&'a [u8], target::Malformed>;

pub(super) fn decode(raw: &[u8], decode: Decode) -> Result<Cow<'_, [u8]>, Problem> {
    let mut scratch = Vec::new();
    match decode(raw, &mut scratch) {
        Err(target::Malformed) => Err(Problem::of(Kind::BadKey, "a % is not followed by two hexadecimal digits")),
        // The decoder hands back what it was given if there is nothing to decode.
        Ok(same) if std::ptr::eq(same, raw) => Ok(Cow::Borrowed(raw)),
        Ok(_) => Ok(Cow::Owned(scratch)),
    }
}

/// What came of reading a key.
pub(super) enum Read {
    Found(Option<About>, Bytes),
    Absent,
    Failed(SourceError),
}

/// The answer to a read of one key.
pub(super) async fn get(call: &Call<'_>, reading: Reading) -> Response<Body> {
    let key = match reading {
        Reading::Kv => call.key(),
        Reading::Entity => call.parameter_key(reading.parameter()),
        Reading::Lookup | Reading::Text => match call.key_parameter(reading.parameter()) {
            None => Err(Problem::of(Kind::BadKey, "parameter `key` is missing")),
            Some(Ok(key)) if !key.is_empty() => match call.check_key(&key) {
                Ok(()) => Ok(key),
                Err(problem) => return reading.failed(Some(&key), problem),
            },
            Some(Ok(_)) => Err(Problem::of(Kind::BadKey, "the key is empty")),
            Some(Err(problem)) => Err(problem),
        },
    };
    let key = match key {
        Ok(key) => key,
        Err(problem) => return reading.failed(None, problem),
    };
    let preconditions = match reading {
        Reading::Kv => match Preconditions::parse(call.headers) {
            Ok(preconditions) => preconditions,
            Err(problem) => return problem.into_response(),
        },
        Reading::Lookup | Reading::Text | Reading::Entity => Preconditions::default(),
    };
    call.note(Operation::Get, &key);
    match read(call.group, &key, call.now).await {
        Read::Found(about, value) => {
            let instance = call.worker.app.instance;
            let version = about.map(|about| about.version).unwrap_or_default();
            match preconditions.of_read(version ^ instance) {
                Ok(true) => reading.found(&key, value, about, instance),
                Ok(false) => not_modified(about, instance),
                Err(problem) => problem.into_response(),
            }
        }
        Read::Absent => match preconditions.if_match {
            Some(_) => Problem::new(Kind::PreconditionFailed).into_response(),
            None => reading.absent(&key),
        },
        Read::Failed(error) => reading.failed(Some(&key), Problem::source(&error)),
    }
}

/// Reads a key through its group.
async fn read(group: &Group, key: &[u8], now: Millis) -> Read {
    let mut batch = Vec::new();
    let begun = group.begin(group.cache.key(key), now, &mut batch, |entry| {
        Read::Found(Some(About::hit(&entry, now)), entry.value.to_bytes())
    });
    if !batch.is_empty() {
        group.source.fetch(&mut batch);
    }
    match begun {
        StartedRead::Hit(found) => found,
        StartedRead::Absent => Read::Absent,
        StartedRead::Wait(wait) => fetched(group, key, Group::end(wait).await),
    }
}

/// What a fetch came to. If the tier now holds the key, it says more about it than the source did.
pub(super) fn fetched(group: &Group, key: &[u8], ended: Result<Option<Bytes>, SourceError>) -> Read {
    match ended {
        Ok(Some(value)) => {
            let now = clock::now();
            let look = |entry: Entry<'_>| Read::Found(Some(About::fetched(&entry, now)), entry.value.to_bytes());
            group.cache.tier().peek(group.cache.key(key), now, look).unwrap_or(Read::Found(None, value))
        }
        Ok(None) => Read::Absent,
        Err(error) => Read::Failed(error),
    }
}

/// A read over the rate; the key is echoed where the route's clients expect it.
pub(super) fn throttled(reading: Reading, query: &[u8], throttled: &Throttled) -> Response<Body> {
    let mut scratch = Vec::new();
    let key = target::parameter(query, reading.parameter()).filter(|raw| !raw.is_empty());
    let key = key.and_then(|raw| target::decode_query(raw, &mut scratch).ok());
    reading.failed(key, Problem::throttled(throttled))
}

fn not_modified(about: Option<About>, instance: u64) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    if let Some(about) = about {
        about.insert_into(response.headers_mut(), instance);
    }
    response
}

/// `If-Match` and `If-None-Match` (RFC 9110 section 13).
#[derive(Debug, Default)]
struct Preconditions {
    if_match: Option<Tags>,
    if_none_match: Option<Tags>,
}

impl Preconditions {
    fn parse(headers: &HeaderMap) -> Result<Preconditions, Problem> {
        let tags = |name: HeaderName| {
            if !headers.contains_key(&name) {
                return Ok(None);
            }
            let lines = headers.get_all(&name).iter().map(HeaderValue::as_bytes);
            Tags::parse(lines)
                .map(Some)
                .ok_or_else(|| Problem::of(Kind::BadPrecondition, format!("{name} is not a list of entity tags")))
        };
        Ok(Preconditions { if_match: tags(header::IF_MATCH)?, if_none_match: tags(header::IF_NONE_MATCH)? })
    }

    fn is_empty(&self) -> bool {
        self.if_match.is_none() && self.if_none_match.is_none()
    }

    /// For an entry that exists: is its value to be sent (or does the client have it)?
    fn of_read(&self, tag: u64) -> Result<bool, Problem> {
        if self.if_match.as_ref().is_some_and(|tags| !tags.match_strongly(Some(tag))) {
            return Err(Problem::new(Kind::PreconditionFailed));
        }
        Ok(!self.if_none_match.as_ref().is_some_and(|tags| tags.match_weakly(Some(tag))))
    }

    /// May an entry with this tag (`None`: no entry) be written?
    fn of_write(&self, tag: Option<u64>) -> bool {
        self.if_match.as_ref().is_none_or(|tags| tags.match_strongly(tag))
            && !self.if_none_match.as_ref().is_some_and(|tags| tags.match_weakly(tag))
    }
}

/// `PUT`: everything but the value, checked before the value is read.
pub(super) struct Put<'r> {
    key: Cow<'r, [u8]>,
    ttl: Option<Duration>,
    preconditions: Preconditions,
}

impl<'r> Put<'r> {
    pub(super) fn parse(call: &'r Call<'_>) -> Result<Put<'r>, Problem> {
        Ok(Put { key: call.key()?, ttl: ttl(call.query)?, preconditions: Preconditions::parse(call.headers)? })
    }

    /// Stores the value: 201 for a key that had no entry, 204 otherwise.
    pub(super) async fn run(self, call: &Call<'_>, value: Bytes) -> Result<Response<Body>, Problem> {
        let instance = call.worker.app.instance;
        call.note(Operation::Set(value.len()), &self.key);
        // The body may have taken its time.
        let expiry = self.ttl.map(|ttl| clock::now().saturating_add(ttl.as_millis() as u64));
        let stored = if self.preconditions.is_empty() {
            call.group.put(&self.key, value, expiry).await
        } else {
            let holds = |version: Option<u64>| self.preconditions.of_write(version.map(|version| version ^ instance));
            call.group.put_if(&self.key, value, expiry, holds).await
        };
        put(stored.map_err(|error| refused(call, error))?, instance)
    }
}

/// What a `PUT` is answered.
pub(super) fn put(stored: Stored, instance: u64) -> Result<Response<Body>, Problem> {
    let (status, version) = match stored {
        Stored::Created(version) => (StatusCode::CREATED, version),
        Stored::Replaced(version) => (StatusCode::NO_CONTENT, version),
        Stored::Unmet => return Err(Problem::new(Kind::PreconditionFailed)),
    };
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    // 0: the tier keeps no copy, so there is nothing that a tag could be compared with.
    if version != 0 {
        response.headers_mut().insert(header::ETAG, read_answer::tag(version, instance));
    }
    Ok(response)
}

/// `PUT` and `DELETE` of `/v0/entity`: 201 or 202, whatever was there before.
pub(super) async fn overwrite(call: &Call<'_>, key: &[u8], value: Option<Bytes>) -> Result<Response<Body>, Problem> {
    let (operation, response) = match &value {
        Some(value) => (Operation::Set(value.len()), overwritten()),
        None => (Operation::Del, empty(StatusCode::ACCEPTED)),
    };
    call.note(operation, key);
    call.group.overwrite(key, value).await.map_err(|error| refused(call, error))?;
    Ok(response)
}
/// What a `PUT` of `/v0/entity` is answered.
pub(super) fn overwritten() -> Response<Body> {
    empty(StatusCode::CREATED)
}
fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

fn refused(call: &Call<'_>, error: SourceError) -> Problem {
    match error {
        // Nobody but the tier can have refused.
        SourceError::Refused(why) if !call.group.source.reads_through() => Problem::of(Kind::ValueTooLarge, &*why),
        error => Problem::source(&error),
    }
}

/// `?ttl=10s`
fn ttl(query: &[u8]) -> Result<Option<Duration>, Problem> {
    let Some(raw) = target::parameter(query, "ttl") else { return Ok(None) };
    let mut scratch = Vec::new();
    let text = target::decode_query(raw, &mut scratch).unwrap_or(raw);
    let text = String::from_utf8_lossy(text);
    match parse_duration(&text) {
        Ok(ttl) if ttl.is_zero() => Err(Problem::of(Kind::BadParameter, "`ttl` is 0: use DELETE")),
        Ok(ttl) => Ok(Some(ttl)),
        Err(error) => Err(Problem::of(Kind::BadParameter, format!("`ttl`: {error}"))),
    }
}

/// `DELETE`: 204, or 404 if there was no such key.
pub(super) async fn delete(call: &Call<'_>) -> Result<Response<Body>, Problem> {
    let key = call.key()?;
    call.note(Operation::Del, &key);
    let preconditions = Preconditions::parse(call.headers)?;
    let instance = call.worker.app.instance;
    let deleted = if preconditions.is_empty() {
        call.group.delete(&key).await.map(Some)
    } else {
        let holds = |version: Option<u64>| preconditions.of_write(version.map(|version| version ^ instance));
        call.group.delete_if(&key, holds).await
    };
    match deleted.map_err(|error| Problem::source(&error))? {
        None => Err(Problem::new(Kind::PreconditionFailed)),
        Some(false) => Err(Problem::new(Kind::KeyNotFound)),
        Some(true) => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NO_CONTENT;
            Ok(response)
        }
    }
}
