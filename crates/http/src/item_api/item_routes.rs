//! `POST`, `GET` and `DELETE` of an item.
use super::{
    item_error::{ErrorCode, ItemError},
    item_request::ItemRequest,
    item_response, json_text,
    list_item_keys::full,
};
use crate::{
    compat::read_routes::ReadRoute,
    keys::key_routes::{self, ReadOutcome},
    messages::{
        problem_json::{Answer, Problem, ProblemKind},
        response_body::ResponseBody,
        response_writer,
    },
    routing::route_request::{GroupRequest, RouteRequest},
};
use bytes::Bytes;
use http::{Response, StatusCode};
use larder_base::{identity::KeyAccess, telemetry::RecordedOperation};
use larder_engine::{MAX_EXPIRY, Millis};
use larder_source::is_document;
use larder_store::clock;
use std::{borrow::Cow, ops::RangeInclusive};

/// `POST`: stores an item; 201 with the item.
pub(crate) async fn post_item(request: &RouteRequest<'_>, body: Bytes) -> Answer {
    Ok(post(request, &body).await.unwrap_or_else(ItemError::into_response))
}

async fn post(request: &RouteRequest<'_>, body: &[u8]) -> Result<Response<ResponseBody>, ItemError> {
    // The body may have taken its time.
    let NewItem { item, value, expiry } = NewItem::parse(request, body, clock::now())?;
    let (group, key) = (request.group, item.key.as_bytes());
    // What is stored as a string reads the same.
    let stored = match group.keeps_documents(key) {
        true => group.put_document(key, value.clone(), Some(expiry)).await,
        false => group.put(key, value.clone(), Some(expiry)).await,
    };
    stored.map_err(|error| ItemError::write_failed(&Problem::source(&error)))?;
    let buffers = &request.worker.app.buffers;
    item_response::item(StatusCode::CREATED, &item, value, buffers).ok_or_else(|| full(buffers))
}

/// Checks a command on an item against the rules of the user.
fn allow(request: &GroupRequest<'_>, command: &'static str, key: &[u8], access: KeyAccess) -> Result<(), ItemError> {
    request.allow(command, key, access).map_err(|problem| ItemError::forbidden(&problem))
}

/// The answer to a write that the rules of the user refuse, before another process makes it.
pub(crate) fn refused_write(
    request: &GroupRequest<'_>,
    command: &'static str,
    body: &[u8],
) -> Option<Response<ResponseBody>> {
    let checked = ItemRequest::parse(body, request.query)
        .and_then(|item| allow(request, command, item.key.as_bytes(), KeyAccess::WRITE));
    checked.err().map(ItemError::into_response)
}

/// The lifetimes that GCache accepts: 5 seconds to 217 days.
const TTL_SECONDS: RangeInclusive<u64> = 5..=217 * 86_400;

pub(super) struct NewItem<'r> {
    pub(super) item: ItemRequest<'r>,
    /// Compact JSON text.
    pub(super) value: Bytes,
    pub(super) expiry: Millis,
}

impl<'r> NewItem<'r> {
    /// Reads a request that came at `now`, and shows it to the recorder.
    ///
    /// # Errors
    /// The request cannot be read, or the item is outside of a limit.
    pub(super) fn parse(request: &GroupRequest<'r>, body: &'r [u8], now: Millis) -> Result<NewItem<'r>, ItemError> {
        let settings = &request.worker.app.settings;
        let item = ItemRequest::parse(body, request.query)?;
        let value = item.compact_value()?;
        let ttl = u64::try_from(item.ttl).ok().filter(|ttl| TTL_SECONDS.contains(ttl));
        let expiry = ttl.and_then(|ttl| now.checked_add(ttl * 1000)).filter(|at| *at <= MAX_EXPIRY);
        let expiry = expiry.ok_or(ErrorCode::BadTtl)?;
        request.check_key(item.key.as_bytes()).map_err(|problem| ItemError::write_failed(&problem))?;
        allow(request, "set", item.key.as_bytes(), KeyAccess::WRITE)?;
        if value.len() > settings.max_value {
            let detail = format!("the value exceeds the limit of {} bytes (setting `max-value`)", settings.max_value);
            return Err(ItemError::of(ErrorCode::CannotSet, detail));
        }
        request.note(RecordedOperation::Set(value.len()), item.key.as_bytes());
        Ok(NewItem { item, value: value.into(), expiry })
    }
}

/// `GET`: 200 with the item, or with an element of its value.
pub(crate) async fn get_item(request: &RouteRequest<'_>, body: Bytes) -> Answer {
    Ok(get(request, &body).await.unwrap_or_else(ItemError::into_response))
}

/// Reads a request for an item, and shows it to the recorder.
pub(super) fn to_read<'r>(request: &GroupRequest<'r>, body: &'r [u8]) -> Result<ItemRequest<'r>, ItemError> {
    let wanted = ItemRequest::parse(body, request.query)?;
    let key = wanted.key.as_bytes();
    // No such key can have been stored.
    request.check_key(key).map_err(|_| ErrorCode::NotFound)?;
    allow(request, "get", key, KeyAccess::READ)?;
    request.note(RecordedOperation::Get, key);
    Ok(wanted)
}

async fn get(request: &RouteRequest<'_>, body: &[u8]) -> Result<Response<ResponseBody>, ItemError> {
    let wanted = to_read(request, body)?;
    let key = wanted.key.as_bytes();
    let (said, stored) = match key_routes::read(request, ReadRoute::Lookup, key).await {
        ReadOutcome::Found(_, said, value) => (said, value),
        ReadOutcome::Absent => return Err(ErrorCode::NotFound.into()),
        ReadOutcome::Failed(error) => return Err(ItemError::read_failed(&Problem::source(&error))),
        // Only routes that give bytes are passed any.
        ReadOutcome::PassesThrough(_) => {
            return Err(ItemError::read_failed(&Problem::new(ProblemKind::ValueTooLarge)));
        }
    };
    found(request, &wanted, stored, is_document(&said))
}

/// The answer to a read that has found this value.
pub(super) fn found(
    request: &GroupRequest<'_>,
    wanted: &ItemRequest<'_>,
    stored: Bytes,
    is_document: bool,
) -> Result<Response<ResponseBody>, ItemError> {
    let text = match is_document {
        true => stored,
        false => match json_text::of_string(&stored) {
            Cow::Borrowed(_) => stored,
            Cow::Owned(text) => text.into(),
        },
    };
    let value = text.slice(wanted.part_of(&text)?);
    let buffers = &request.worker.app.buffers;
    item_response::item(StatusCode::OK, &wanted.echoed(), value, buffers).ok_or_else(|| full(buffers))
}

/// `DELETE`: 204, whether there was an item or not.
pub(crate) async fn delete_item(request: &RouteRequest<'_>, body: Bytes) -> Answer {
    let deleted = delete(request, &body).await;
    Ok(deleted.map_or_else(ItemError::into_response, |()| response_writer::no_content()))
}

async fn delete(request: &RouteRequest<'_>, body: &[u8]) -> Result<(), ItemError> {
    let Some(wanted) = to_delete(request, body)? else { return Ok(()) };
    let deleted = request.group.delete(wanted.key.as_bytes()).await;
    deleted.map(drop).map_err(|error| ItemError::write_failed(&Problem::source(&error)))
}

/// Reads a request to delete an item, and shows it to the recorder. `None`: nothing can be stored
/// under a key that is too long, so it is gone already.
pub(super) fn to_delete<'r>(request: &GroupRequest<'r>, body: &'r [u8]) -> Result<Option<ItemRequest<'r>>, ItemError> {
    let wanted = ItemRequest::parse(body, request.query)?;
    let key = wanted.key.as_bytes();
    if request.check_key(key).is_err() {
        return Ok(None);
    }
    allow(request, "del", key, KeyAccess::WRITE)?;
    request.note(RecordedOperation::Del, key);
    Ok(Some(wanted))
}
