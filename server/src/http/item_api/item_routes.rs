//! `POST`, `GET` and `DELETE` of an item.
use super::{
    super::{
        key_routes::{self, ReadOutcome},
        problem_json::{Problem, ProblemKind},
        read_responses::ReadRoute,
        response_body::ResponseBody,
        route_request::RouteRequest,
    },
    item_error::{ErrorCode, ItemError},
    item_request::ItemRequest,
    item_response, json_text,
    list_item_keys::full,
};
use crate::{
    read::Group,
    source::{SourceError, is_document},
    telemetry::RecordedOperation,
};
use bytes::Bytes;
use http::{Response, StatusCode};
use larder_engine::Millis;
use larder_store::clock;
use std::{borrow::Cow, rc::Rc};

/// `POST`: stores an item; 201 with the item.
pub(in crate::http) async fn post_item(request: &RouteRequest<'_>, body: Bytes) -> Response<ResponseBody> {
    post(request, &body).await.unwrap_or_else(ItemError::into_response)
}

async fn post(request: &RouteRequest<'_>, body: &Bytes) -> Result<Response<ResponseBody>, ItemError> {
    let settings = &request.worker.app.settings;
    let item = ItemRequest::parse(body, request.query)?;
    let value = item.compact_value()?;
    let (shortest, longest) = (settings.item_min_ttl.as_secs(), settings.item_max_ttl.as_secs());
    let ttl = u64::try_from(item.ttl).ok().filter(|ttl| (shortest..=longest).contains(ttl)).ok_or(ErrorCode::BadTtl)?;
    request.check_key(item.key.as_bytes()).map_err(|problem| ItemError::write_failed(&problem))?;
    if value.len() > settings.max_value {
        let detail = format!("the value exceeds the limit of {} bytes (setting `max-value`)", settings.max_value);
        return Err(ItemError::of(ErrorCode::CannotSet, detail));
    }
    let value = Bytes::from(value);
    request.note(RecordedOperation::Set(value.len()), item.key.as_bytes());
    let expiry = clock::now().saturating_add(ttl * 1000);
    store_document(request.group, item.key.as_bytes(), value.clone(), expiry)
        .await
        .map_err(|error| ItemError::write_failed(&Problem::source(&error)))?;
    let buffers = &request.worker.app.buffers;
    item_response::item(StatusCode::CREATED, &item, value, buffers).ok_or_else(|| full(buffers))
}

/// Stores compact JSON text: as a document where documents are kept, else as a string, which reads the same.
async fn store_document(group: &Rc<Group>, key: &[u8], text: Bytes, expiry: Millis) -> Result<(), SourceError> {
    match group.keeps_documents(key) {
        true => group.put_document(key, text, Some(expiry)).await.map(drop),
        false => group.put(key, text, Some(expiry)).await.map(drop),
    }
}

/// `GET`: 200 with the item, or with an element of its value.
pub(in crate::http) async fn get_item(request: &RouteRequest<'_>, body: Bytes) -> Response<ResponseBody> {
    get(request, &body).await.unwrap_or_else(ItemError::into_response)
}

async fn get(request: &RouteRequest<'_>, body: &[u8]) -> Result<Response<ResponseBody>, ItemError> {
    let wanted = ItemRequest::parse(body, request.query)?;
    let key = wanted.key.as_bytes();
    // No such key can have been stored.
    request.check_key(key).map_err(|_| ErrorCode::NotFound)?;
    request.note(RecordedOperation::Get, key);
    let (said, stored) = match key_routes::read(request, ReadRoute::Lookup, key).await {
        ReadOutcome::Found(_, said, value) => (said, value),
        ReadOutcome::Absent => return Err(ErrorCode::NotFound.into()),
        ReadOutcome::Failed(error) => return Err(ItemError::read_failed(&Problem::source(&error))),
        // Only routes that give bytes are passed any.
        ReadOutcome::PassesThrough(_) => {
            return Err(ItemError::read_failed(&Problem::new(ProblemKind::ValueTooLarge)));
        }
    };
    let text = match is_document(&said) {
        true => stored,
        false => match json_text::of_string(&stored) {
            Cow::Borrowed(_) => stored,
            Cow::Owned(text) => text.into(),
        },
    };
    let mut answered = ItemRequest { key: Cow::Borrowed(&wanted.key), ..ItemRequest::default() };
    let part = if !wanted.subkey.is_empty() {
        answered.subkey = Cow::Borrowed(&wanted.subkey);
        larder_document::find_member(&text, &wanted.subkey).ok_or(ErrorCode::NotFound)?
    } else if wanted.subindex != 0 {
        answered.subindex = wanted.subindex;
        let index = wanted.subindex.checked_sub(1).and_then(|index| usize::try_from(index).ok());
        index.and_then(|index| larder_document::find_element(&text, index)).ok_or(ErrorCode::NotFound)?
    } else {
        0..text.len()
    };
    let value = text.slice(part);
    let buffers = &request.worker.app.buffers;
    item_response::item(StatusCode::OK, &answered, value, buffers).ok_or_else(|| full(buffers))
}

/// `DELETE`: 204, whether there was an item or not.
pub(in crate::http) async fn delete_item(request: &RouteRequest<'_>, body: Bytes) -> Response<ResponseBody> {
    match delete(request, &body).await {
        Ok(()) => {
            let mut response = Response::new(ResponseBody::empty());
            *response.status_mut() = StatusCode::NO_CONTENT;
            response
        }
        Err(error) => error.into_response(),
    }
}

async fn delete(request: &RouteRequest<'_>, body: &[u8]) -> Result<(), ItemError> {
    let wanted = ItemRequest::parse(body, request.query)?;
    let key = wanted.key.as_bytes();
    // Nothing can be stored under a key that is too long, so it is gone already.
    if request.check_key(key).is_err() {
        return Ok(());
    }
    request.note(RecordedOperation::Del, key);
    let deleted = request.group.delete(key).await;
    deleted.map(drop).map_err(|error| ItemError::write_failed(&Problem::source(&error)))
}
