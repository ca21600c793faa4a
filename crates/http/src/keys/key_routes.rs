//! The routes of one key: reads, writes, deletions, and what memory has of it.
use super::{
    document_routes::{self, refused},
    tag_routes,
};
use crate::{
    compat::{entity::WantedAcks, read_routes::ReadRoute, start_page::start_page},
    messages::{
        content_codings,
        preconditions::Preconditions,
        problem_json::{Answer, Problem, ProblemKind},
        read_responses::{self, EntryMetadata},
        response_body::ResponseBody,
        response_writer,
    },
    routing::route_request::{RouteRequest, not_empty},
};
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use larder_base::telemetry::RecordedOperation;
use larder_core::read::{Fact, Group, StartedRead, explain_key};
use larder_document::Pointer;
use larder_engine::{Entry, Expiry, MAX_EXPIRY, Stored};
use larder_proto::http::target;
use larder_source::{CopyMetadataView, SourceError, ValueStream};
use larder_store::clock;
use larder_units::parse_duration;
use serde_json::Map;
use serde_json::Value;
use std::{borrow::Cow, time::Duration};

pub(crate) enum ReadOutcome {
    /// With what its source said about the copy.
    Found(Option<EntryMetadata>, Box<[u8]>, Bytes),
    /// Too large to be kept, or encoded.
    PassesThrough(ValueStream),
    Absent,
    Failed(SourceError),
}

pub(crate) async fn get(request: &RouteRequest<'_>, route: ReadRoute) -> Response<ResponseBody> {
    let key = match route {
        ReadRoute::Kv | ReadRoute::Peer => request.key(),
        ReadRoute::Data => request.key().and_then(not_empty),
        // This node has every write that its replicas have: more of them know nothing better.
        ReadRoute::Entity => WantedAcks::parse(request).and_then(|_| request.parameter_key(route.parameter())),
        ReadRoute::Lookup | ReadRoute::Text => match request.key_parameter(route.parameter()) {
            None if route == ReadRoute::Text => return start_page(request),
            None => Err(Problem::missing_key(route.parameter())),
            Some(Ok(key)) => match request.check_key(&key) {
                Ok(()) => not_empty(key),
                Err(problem) => return route.failed(Some(&key), problem),
            },
            Some(Err(problem)) => Err(problem),
        },
    };
    let (key, wanted) = match key.and_then(|key| Ok((key, wanted(request, route)?))) {
        Ok(parsed) => parsed,
        Err(problem) => return route.failed(None, problem),
    };
    request.note(RecordedOperation::Get, &key);
    respond(route, &key, read(request, route, &key).await, &wanted, request.worker.app.instance)
}

/// When a client wants the value, and which part of it.
pub(crate) type Wanted = (Preconditions, Option<Pointer>);

/// Clients of other servers know neither conditions nor parts.
fn wanted(request: &RouteRequest<'_>, route: ReadRoute) -> Result<Wanted, Problem> {
    match route {
        ReadRoute::Kv => {
            Ok((Preconditions::parse(request.headers)?, document_routes::pointer(request.query).transpose()?))
        }
        _ => Ok(Wanted::default()),
    }
}

/// The response to a read that has ended.
pub(crate) fn respond(
    route: ReadRoute,
    key: &[u8],
    outcome: ReadOutcome,
    (preconditions, pointer): &Wanted,
    instance: u64,
) -> Response<ResponseBody> {
    let answer = || match outcome {
        ReadOutcome::Found(about, said, value) => {
            let version = about.map(|about| about.version).unwrap_or_default();
            // It is read once for all of the response.
            let (kept, said) = (&said[..], &CopyMetadataView::read(&said));
            if !preconditions.of_read(version ^ instance, said)? {
                return Ok(not_modified(about, said, instance));
            }
            let Some(pointer) = pointer else { return Ok(route.found(key, value, about, (kept, said), instance)) };
            let part = document_routes::part(&value, kept, pointer)?;
            let mut response = route.found(key, part, about, (kept, said), instance);
            response_writer::insert_own_type(response.headers_mut(), document_routes::JSON_TYPE);
            Ok(response)
        }
        ReadOutcome::PassesThrough(_) if pointer.is_some() => {
            Err(Problem::of(ProblemKind::ValueTooLarge, "a part is read only of values up to `max-value`"))
        }
        ReadOutcome::PassesThrough(value) => {
            let said = value.metadata.encode();
            let said = CopyMetadataView::read(&said);
            if preconditions.of_read(0, &said)? {
                return Ok(route.passed_through(value, clock::now()));
            }
            let mut response = not_modified(None, &said, 0);
            read_responses::insert_vary(response.headers_mut(), &value);
            Ok(response)
        }
        ReadOutcome::Absent if preconditions.has_if_match() => Err(Problem::new(ProblemKind::PreconditionFailed)),
        ReadOutcome::Absent => Ok(route.absent(key)),
        ReadOutcome::Failed(error) => Ok(route.failed(Some(key), Problem::source(&error))),
    };
    answer().unwrap_or_else(Problem::into_response)
}

pub(crate) async fn read(request: &RouteRequest<'_>, route: ReadRoute, key: &[u8]) -> ReadOutcome {
    let (group, now) = (request.group, request.now);
    let mut batch = Vec::new();
    let begun = group.begin(group.cache.key(key), now, &mut batch, |entry| {
        if entry.stale_since().is_some() {
            request.trace.iter().for_each(|trace| trace.is_answered_stale());
        }
        ReadOutcome::Found(Some(EntryMetadata::hit(&entry, now)), entry.metadata().into(), entry.value.to_bytes())
    });
    if !matches!(begun, StartedRead::Wait(_)) {
        request.answered_by_tier(key);
    }
    if !batch.is_empty() {
        request.follow(&mut batch);
        request.worker.fetch(group, &mut batch);
    }
    match begun {
        StartedRead::Hit(found) => found,
        StartedRead::Absent => ReadOutcome::Absent,
        StartedRead::Wait(mut wait) => {
            let ended = Group::ended((&mut wait).await);
            let accepted = request.headers.get_all(header::ACCEPT_ENCODING).iter().map(HeaderValue::as_bytes);
            let accepted = accepted.collect::<Vec<_>>().join(&b","[..]);
            finish_read(group, route, key, ended, wait.metadata(), &accepted).await
        }
    }
}

/// How a read that had to fetch ended. A value that is too large to be kept, or encoded, is asked for
/// once more, by each reader for itself. `accept_encoding`: the codings that the client accepts.
pub(crate) async fn finish_read(
    group: &Group,
    route: ReadRoute,
    key: &[u8],
    ended: Result<Option<Bytes>, SourceError>,
    said: Option<Bytes>,
    accept_encoding: &[u8],
) -> ReadOutcome {
    if let Err(SourceError::OnlyStreamed(_)) = ended
        && route.gives_bytes()
        && let Some(stream) = group.source.stream(key, &group.policy)
    {
        return match stream.await {
            Ok(Some(value)) => match content_codings::for_client(value, accept_encoding) {
                Ok(value) => ReadOutcome::PassesThrough(value),
                Err(error) => ReadOutcome::Failed(error),
            },
            Ok(None) => ReadOutcome::Absent,
            Err(error) => ReadOutcome::Failed(error),
        };
    }
    fetched(group, key, ended, said)
}

/// If the tier now holds the key, its entry has metadata that the source does not send.
fn fetched(group: &Group, key: &[u8], ended: Result<Option<Bytes>, SourceError>, said: Option<Bytes>) -> ReadOutcome {
    match ended {
        Ok(Some(value)) => {
            let now = clock::now();
            // The source has answered, and not failed, if it said something.
            let look = |entry: Entry<'_>| {
                let about = EntryMetadata::fetched(&entry, now, said.is_some());
                ReadOutcome::Found(Some(about), entry.metadata().into(), entry.value.to_bytes())
            };
            // It is not necessarily fresh: the fetch may have failed, or taken too long.
            let look_stale = |entry: Entry<'_>| {
                (entry.stale_since().is_none() || entry.value.as_bytes() == value).then(|| look(entry))
            };
            let held = match group.policy.serves(key) {
                true => group.cache.peek_stale(group.cache.key(key), now, look_stale).flatten(),
                false => None,
            };
            held.unwrap_or_else(|| ReadOutcome::Found(None, said.unwrap_or_default()[..].into(), value))
        }
        Ok(None) => ReadOutcome::Absent,
        Err(error) => ReadOutcome::Failed(error),
    }
}

/// A read that is refused before it begins; the key is echoed where the route's clients expect it.
pub(crate) fn failed_early(route: ReadRoute, query: &[u8], problem: Problem) -> Response<ResponseBody> {
    let mut scratch = Vec::new();
    let key = target::parameter(query, route.parameter()).filter(|raw| !raw.is_empty());
    let key = key.and_then(|raw| target::decode_query(raw, &mut scratch).ok());
    route.failed(key, problem)
}

fn not_modified(about: Option<EntryMetadata>, said: &CopyMetadataView<'_>, instance: u64) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    match about {
        Some(about) => about.insert_into(response.headers_mut(), instance, said),
        None => read_responses::insert_said(response.headers_mut(), said, None, clock::now()),
    }
    response
}

/// `PUT`: everything but the value, checked before the value is read.
pub(crate) struct PutRequest<'r> {
    key: Cow<'r, [u8]>,
    ttl: Option<Duration>,
    tags: Vec<Box<[u8]>>,
    preconditions: Preconditions,
    is_document: bool,
}

impl<'r> PutRequest<'r> {
    /// Whether the request has nothing but a value and a lifetime.
    pub(crate) fn is_plain(request: &RouteRequest<'_>) -> bool {
        let is_empty = |put: PutRequest<'_>| put.tags.is_empty() && put.preconditions.is_empty() && !put.is_document;
        PutRequest::parse(request).is_ok_and(is_empty)
    }

    pub(crate) fn parse(request: &'r RouteRequest<'_>) -> Result<PutRequest<'r>, Problem> {
        Ok(PutRequest {
            key: request.key()?,
            ttl: ttl(request.query)?,
            tags: tag_routes::tags_of(request)?,
            preconditions: Preconditions::parse(request.headers)?,
            is_document: document_routes::stores_document(request.query)?,
        })
    }

    /// Stores the value: 201 for a key that had no entry, 204 otherwise.
    pub(crate) async fn run(self, request: &RouteRequest<'_>, value: Bytes) -> Answer {
        let instance = request.worker.app.instance;
        request.note(RecordedOperation::Set(value.len()), &self.key);
        // The body may have taken its time.
        let expiry = self.ttl.map(|ttl| clock::now().saturating_add(ttl.as_millis() as u64));
        if self.is_document {
            if !self.tags.is_empty() {
                return Err(Problem::of(ProblemKind::BadTag, "documents are stored without tags"));
            }
            let end = expiry.map_or_else(|| request.group.policy.lifetime(&self.key), Expiry::At);
            let stored = document_routes::put(request, (&self.key, end), &self.preconditions, &value).await?;
            return put(stored, instance);
        }
        let stored = if self.preconditions.is_empty() {
            request.group.put_tagged(&self.key, value, expiry, &self.tags).await
        } else {
            let holds = |version: Option<u64>| self.preconditions.of_write(version.map(|version| version ^ instance));
            request.group.put_if(&self.key, value, expiry, &self.tags, holds).await
        };
        put(stored.map_err(|error| refused(request, &error))?, instance)
    }
}

pub(crate) fn put(stored: Stored, instance: u64) -> Answer {
    let (status, version) = match stored {
        Stored::Created(version) => (StatusCode::CREATED, version),
        Stored::Replaced(version) => (StatusCode::NO_CONTENT, version),
        Stored::Unmet => return Err(Problem::new(ProblemKind::PreconditionFailed)),
    };
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = status;
    // 0: the tier keeps no copy, so there is nothing that a tag could be compared with.
    if version != 0 {
        response.headers_mut().insert(header::ETAG, read_responses::tag(version, instance));
    }
    Ok(response)
}

/// `?ttl=10s`
fn ttl(query: &[u8]) -> Result<Option<Duration>, Problem> {
    let Some(raw) = target::parameter(query, "ttl") else { return Ok(None) };
    let mut scratch = Vec::new();
    let text = target::decode_query(raw, &mut scratch).unwrap_or(raw);
    let text = String::from_utf8_lossy(text);
    match parse_duration(&text) {
        Ok(ttl) if ttl.is_zero() => Err(Problem::of(ProblemKind::BadParameter, "`ttl` is 0: use DELETE")),
        Ok(ttl) if clock::now().saturating_add(ttl.as_millis() as u64) > MAX_EXPIRY => {
            Err(Problem::of(ProblemKind::BadParameter, "`ttl` ends after the year 6429"))
        }
        Ok(ttl) => Ok(Some(ttl)),
        Err(error) => Err(Problem::of(ProblemKind::BadParameter, format!("`ttl`: {error}"))),
    }
}

/// `DELETE`: 204, or 404 if there was no such key.
pub(crate) async fn delete(request: &RouteRequest<'_>) -> Answer {
    let key = request.key()?;
    request.note(RecordedOperation::Del, &key);
    let preconditions = Preconditions::parse(request.headers)?;
    let instance = request.worker.app.instance;
    let deleted = if preconditions.is_empty() {
        request.group.delete(&key).await.map(Some)
    } else {
        let holds = |version: Option<u64>| preconditions.of_write(version.map(|version| version ^ instance));
        request.group.delete_if(&key, holds).await
    };
    match deleted.map_err(|error| Problem::source(&error))? {
        None => Err(Problem::new(ProblemKind::PreconditionFailed)),
        Some(false) => Err(Problem::new(ProblemKind::KeyNotFound)),
        Some(true) => Ok(response_writer::no_content()),
    }
}

/// `GET /v1/explain/{key}`: what is in memory for a key, and what a read of it would do.
///
/// The facts of LARDER.EXPLAIN as a JSON object, with `_` for `-` in their names. A tag that is not
/// UTF-8 is shown with U+FFFD.
pub(crate) fn explain(request: &RouteRequest<'_>) -> Answer {
    let key = request.key()?;
    let (group, app) = (request.group, &request.worker.app);
    let source = app.groups.of(group).source();
    let facts = explain_key(group, group.cache.key(&key), source.health(), request.now);
    let value = |fact: Fact| match fact {
        Fact::Text(text) => Value::from(text),
        Fact::Number(number) => Value::from(number),
        Fact::Tags(tags) => tags.iter().map(|tag| String::from_utf8_lossy(tag)).collect(),
    };
    let facts: Map<String, Value> =
        facts.into_iter().map(|(name, fact)| (name.replace('-', "_"), value(fact))).collect();
    Ok(response_writer::json(ResponseBody::full(Value::from(facts).to_string())))
}
