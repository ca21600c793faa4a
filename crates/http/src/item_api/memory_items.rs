//! Items of a group whose only store is this node's memory, where no answer waits for anything: for
//! the fast path.
//!
//! What they mean is in `item_routes`, for both paths. This writes the short answers without
//! allocating for them.
use super::{
    item_error::{ErrorCode, ItemError, error_response},
    item_request::ItemRequest,
    item_response::put_item,
    item_routes::{self, NewItem},
    json_text,
};
use crate::{
    messages::{problem_json::Problem, response_body::ResponseBody},
    routing::route_request::GroupRequest,
};
use http::{Method, Response, StatusCode};
use larder_config::Settings;
use larder_core::read::{DocumentChange, HeldValue, KeyEvent, StartedRead};
use larder_engine::Expiry;
use larder_proto::http::head::BodyMethod;
use larder_source::is_document;

/// Values up to this length are written under the shard's lock.
const SHORT: usize = 4 << 10;

pub(crate) enum DirectAnswer {
    /// The JSON document that was written: an item, or an error.
    Written(StatusCode),
    /// 204
    Deleted,
    /// A short response, with headers of its own.
    Error(Response<ResponseBody>),
    /// One that may be long.
    Long(Response<ResponseBody>),
}

/// Whether a body is within the limits. The general path says which one it exceeds.
pub(crate) fn is_within_limits(settings: &Settings, method: BodyMethod, body: &[u8]) -> bool {
    match method {
        // The value alone is compared again.
        BodyMethod::Post => body.len() <= settings.max_value,
        _ => body.len() <= settings.max_body,
    }
}

/// The answer to a request that was refused before it was read.
pub(crate) fn refused(method: BodyMethod, problem: Problem) -> Response<ResponseBody> {
    let method = match method {
        BodyMethod::Get => Method::GET,
        BodyMethod::Put => Method::PUT,
        BodyMethod::Post => Method::POST,
        BodyMethod::Delete => Method::DELETE,
    };
    error_response(&method, problem)
}

/// Answers a request for an item. The group has no source, and no other node has a part in it.
/// `text` is empty, and gets the document.
pub(crate) fn answer_from_memory(
    request: &GroupRequest<'_>,
    method: BodyMethod,
    body: &[u8],
    text: &mut Vec<u8>,
) -> DirectAnswer {
    let answered = match method {
        BodyMethod::Post => post(request, body, text),
        BodyMethod::Delete => delete(request, body),
        BodyMethod::Get | BodyMethod::Put => get(request, body, text),
    };
    answered.unwrap_or_else(|error| match error.write(text) {
        Ok(status) => DirectAnswer::Written(status),
        Err(error) => DirectAnswer::Error(error.into_response()),
    })
}

fn post(request: &GroupRequest<'_>, body: &[u8], text: &mut Vec<u8>) -> Result<DirectAnswer, ItemError> {
    let NewItem { item, value, expiry } = NewItem::parse(request, body, request.now)?;
    let change = |_: Option<HeldValue<'_>>| (DocumentChange::Store(value.clone()), ());
    let stored = request.group.change_document_here(item.key.as_bytes(), Expiry::At(expiry), change);
    stored.map_err(|error| ItemError::write_failed(&Problem::source(&error)))?;
    put_item(text, &item, &value);
    Ok(DirectAnswer::Written(StatusCode::CREATED))
}

fn delete(request: &GroupRequest<'_>, body: &[u8]) -> Result<DirectAnswer, ItemError> {
    if let Some(wanted) = item_routes::to_delete(request, body)? {
        let key = request.group.cache.key(wanted.key.as_bytes());
        let mut tier = request.group.tier_for_change(key);
        if tier.delete(key, request.now) {
            request.group.note_event(KeyEvent::Del, key.bytes());
        }
    }
    Ok(DirectAnswer::Deleted)
}

fn get(request: &GroupRequest<'_>, body: &[u8], text: &mut Vec<u8>) -> Result<DirectAnswer, ItemError> {
    let wanted = item_routes::to_read(request, body)?;
    let key = wanted.key.as_bytes();
    let cache = &request.group.cache;
    let found = request.group.begin(cache.key(key), request.now, &mut Vec::new(), |entry| {
        let (stored, is_document) = (entry.value.as_bytes(), is_document(entry.metadata()));
        match stored.len() {
            ..=SHORT => Ok(put_found(text, &wanted, stored, is_document)),
            _ => Err((entry.value.to_bytes(), is_document)),
        }
    });
    match found {
        StartedRead::Hit(Ok(written)) => {
            written.map(|()| DirectAnswer::Written(StatusCode::OK)).map_err(ItemError::from)
        }
        StartedRead::Hit(Err((stored, is_document))) => {
            item_routes::found(request, &wanted, stored, is_document).map(DirectAnswer::Long)
        }
        // Without a source no read waits.
        StartedRead::Absent | StartedRead::Wait(_) => Err(ErrorCode::NotFound.into()),
    }
}

/// Writes the answer to a read that has found this value.
fn put_found(out: &mut Vec<u8>, wanted: &ItemRequest<'_>, stored: &[u8], is_document: bool) -> Result<(), ErrorCode> {
    let owned;
    let text = match is_document {
        true => stored,
        false => {
            owned = json_text::of_string(stored);
            &*owned
        }
    };
    let part = wanted.part_of(text)?;
    put_item(out, &wanted.echoed(), &text[part]);
    Ok(())
}
