//! The items that are answered.
use super::{item_request::ItemRequest, json_text};
use crate::messages::{
    response_body::{BodyWriter, REFERENCE, ResponseBody},
    response_writer,
};
use bytes::Bytes;
use http::{Response, StatusCode};
use larder_base::buffers::{BufferKind, Buffers};
use larder_proto::http::text::Sink;
use std::sync::Arc;

/// An item with a value: `{"key":…,"value":…,"subkey":…,"subindex":…,"ttl":…}` and a newline; what
/// the request did not have is left out. `None`: the buffers have no room for it.
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
    put_before_value(&mut body, request);
    match is_copied {
        true => json_text::put_escaped(&mut body, &value),
        false => body.put_bytes(value),
    }
    put_after_value(&mut body, request);
    if is_long {
        charge.resize(body.text());
    }
    let mut response = response_writer::json(if is_long { body.finish_charged(charge) } else { body.finish() });
    *response.status_mut() = status;
    Some(response)
}

/// Writes the body of an item into `out`, its value included.
pub(super) fn put_item(out: &mut impl Sink, request: &ItemRequest<'_>, value: &[u8]) {
    put_before_value(out, request);
    json_text::put_escaped(out, value);
    put_after_value(out, request);
}

fn put_before_value(out: &mut impl Sink, request: &ItemRequest<'_>) {
    out.put(b"{\"key\":");
    json_text::put_string(out, request.key.as_bytes());
    out.put(b",\"value\":");
}

fn put_after_value(out: &mut impl Sink, request: &ItemRequest<'_>) {
    if !request.subkey.is_empty() {
        out.put(b",\"subkey\":");
        json_text::put_string(out, request.subkey.as_bytes());
    }
    for (name, number) in [(&b",\"subindex\":"[..], request.subindex), (b",\"ttl\":", request.ttl)] {
        if number != 0 {
            out.put(name);
            out.put(itoa::Buffer::new().format(number).as_bytes());
        }
    }
    out.put(b"}\n");
}
