//! The items that are answered.
use super::{
    super::{
        response_body::{BodyWriter, REFERENCE, ResponseBody},
        response_writer,
    },
    item_request::ItemRequest,
    json_text,
};
use crate::buffers::{BufferKind, Buffers};
use bytes::Bytes;
use http::{Response, StatusCode};
use larder_proto::http::text::Sink;
use std::sync::Arc;

/// An item with a value: `{"key":…,"value":…,"subkey":…,"subindex":…,"ttl":…}` and a newline; what the request did not have is left out.
/// `None`: the buffers have no room for it.
pub(super) fn item(
    status: StatusCode,
    request: &ItemRequest<'_>,
    value: Bytes,
    buffers: &Arc<Buffers>,
) -> Option<Response<ResponseBody>> {
    let is_long = value.len() > REFERENCE;
    let is_copied = !is_long || json_text::needs_escapes(&value);
    let mut charge = buffers.charge(BufferKind::HttpOutput);
    if is_long && is_copied && !charge.try_resize(value.len()) {
        return None;
    }
    let text = if is_copied { value.len() } else { 0 };
    let mut body = BodyWriter::with_capacity(64 + request.key.len() + text);
    body.put(b"{\"key\":");
    json_text::put_string(&mut body, request.key.as_bytes());
    body.put(b",\"value\":");
    match is_copied {
        true => json_text::put_escaped(&mut body, &value),
        false => body.put_bytes(value),
    }
    if !request.subkey.is_empty() {
        body.put(b",\"subkey\":");
        json_text::put_string(&mut body, request.subkey.as_bytes());
    }
    for (name, number) in [(&b",\"subindex\":"[..], request.subindex), (b",\"ttl\":", request.ttl)] {
        if number != 0 {
            body.put(name);
            body.put(itoa::Buffer::new().format(number).as_bytes());
        }
    }
    body.put(b"}\n");
    if is_long {
        charge.resize(body.text());
    }
    let mut response = response_writer::json(if is_long { body.finish_charged(charge) } else { body.finish() });
    *response.status_mut() = status;
    Some(response)
}
