//! Documents over HTTP: a part of one is read (`?pointer=`), one is stored (`PUT … ?type=json`) or
//! patched (`PATCH`).
use crate::{
    messages::{
        preconditions::Preconditions,
        problem_json::{Answer, Problem, ProblemKind},
        read_responses, response_writer,
    },
    routing::route_request::RouteRequest,
};
use bytes::Bytes;
use http::{HeaderValue, header};
use larder_base::telemetry::RecordedOperation;
use larder_core::read::{DocumentChange, HeldValue};
use larder_document::{Edited, Patch, PatchError, Pointer, apply, compact, compacted, find_pointer, merge};
use larder_engine::{Expiry, Stored};
use larder_proto::http::target;
use larder_source::{SourceError, is_document};
use std::borrow::Cow;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PatchKind {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
}

enum ParsedPatch {
    Json(Patch),
    Merge(Vec<u8>),
}

/// The pointer in a query; `None`: the whole value is asked for.
pub(crate) fn pointer(query: &[u8]) -> Option<Result<Pointer, Problem>> {
    let raw = target::parameter(query, "pointer")?;
    let mut scratch = Vec::new();
    let text = target::decode_query(raw, &mut scratch).unwrap_or(raw);
    let parsed = std::str::from_utf8(text).map_err(|_| "it is not UTF-8".to_owned());
    let parsed = parsed.and_then(|text| Pointer::parse(text).map_err(|error| error.to_string()));
    Some(parsed.map_err(|error| Problem::of(ProblemKind::BadParameter, format!("`pointer`: {error}"))))
}

/// The part of a value that a pointer names: of a document without a look at what lies behind it,
/// of other JSON texts after a check of the whole.
pub(crate) fn part(value: &Bytes, said: &[u8], pointer: &Pointer) -> Result<Bytes, Problem> {
    let lacking = || Problem::new(ProblemKind::NoSuchElement);
    if is_document(said) {
        return find_pointer(value, pointer).map(|found| value.slice(found.span)).ok_or_else(lacking);
    }
    let not_json = |error| Problem::of(ProblemKind::NotADocument, format!("the value is not JSON: {error}"));
    let text = compacted(value).map_err(not_json)?;
    let found = find_pointer(&text, pointer).ok_or_else(lacking)?;
    Ok(Bytes::copy_from_slice(&text[found.span]))
}

pub(crate) fn stores_document(query: &[u8]) -> Result<bool, Problem> {
    match target::parameter(query, "type") {
        None => Ok(false),
        Some(b"json") => Ok(true),
        Some(_) => Err(Problem::of(ProblemKind::BadParameter, "`type` is `json`, or left out for plain bytes")),
    }
}

/// Stores a document: 201 for a key that had no entry, 204 otherwise.
pub(crate) async fn put(
    request: &RouteRequest<'_>,
    (key, expiry): (&[u8], Expiry),
    preconditions: &Preconditions,
    body: &[u8],
) -> Result<Stored, Problem> {
    let bad = |error| Problem::of(ProblemKind::BadBody, format!("the body is not JSON: {error}"));
    let text: Bytes = compact(body).map_err(bad)?.into();
    let instance = request.worker.app.instance;
    check_place(request, key)?;
    let changed = request.group.change_document(key, expiry, |held| {
        match preconditions.of_write(held.map(|held| held.version ^ instance)) {
            true => (DocumentChange::Store(text.clone()), ()),
            false => (DocumentChange::Keep, ()),
        }
    });
    Ok(changed.await.map_err(|error| refused(request, &error))?.0)
}

/// `PATCH`: 204, or a problem and no change.
pub(crate) async fn patch(request: &RouteRequest<'_>, body: Bytes) -> Answer {
    let key = request.key()?;
    let preconditions = Preconditions::parse(request.headers)?;
    let bad = |error: &dyn std::fmt::Display| Problem::of(ProblemKind::BadPatch, error.to_string());
    let patch = match kind(request)? {
        PatchKind::Json => ParsedPatch::Json(Patch::parse(&body).map_err(|error| bad(&error))?),
        PatchKind::Merge => ParsedPatch::Merge(compact(&body).map_err(|error| bad(&error))?),
    };
    check_place(request, &key)?;
    request.note(RecordedOperation::Set(body.len()), &key);
    let instance = request.worker.app.instance;
    let max_value = request.worker.app.settings.max_value;
    let change = |held: Option<HeldValue<'_>>| {
        let version = held.map(|held| held.version ^ instance);
        let patched = match held {
            _ if !preconditions.of_write(version) => Err(Problem::new(ProblemKind::PreconditionFailed)),
            None => Err(Problem::new(ProblemKind::KeyNotFound)),
            Some(held) if !held.is_document => {
                Err(Problem::of(ProblemKind::NotADocument, "the value is plain bytes; store it with `?type=json`"))
            }
            Some(held) => patched(&patch, held.value, max_value),
        };
        match patched {
            Ok(Some(text)) => (DocumentChange::Store(text), Ok(0)),
            Ok(None) => (DocumentChange::Keep, Ok(held.map_or(0, |held| held.version))),
            Err(problem) => (DocumentChange::Keep, Err(problem)),
        }
    };
    let (stored, kept) =
        request.group.change_document(&key, Expiry::Keep, change).await.map_err(|error| refused(request, &error))?;
    let version = match stored {
        Stored::Created(version) | Stored::Replaced(version) => version,
        Stored::Unmet => kept?,
    };
    let mut response = response_writer::no_content();
    if version != 0 {
        response.headers_mut().insert(header::ETAG, read_responses::tag(version, instance));
    }
    Ok(response)
}

/// The text after a patch; `None`: it is the same.
fn patched(patch: &ParsedPatch, text: &[u8], max_value: usize) -> Result<Option<Bytes>, Problem> {
    let too_large = || Problem::over(ProblemKind::ValueTooLarge, "the document", "max-value", max_value);
    let changed: Cow<'_, [u8]> = match patch {
        ParsedPatch::Json(patch) => match patch.apply(text, max_value) {
            Ok(Edited::Same) => return Ok(None),
            Ok(Edited::Part(splice)) => apply(text, &[splice]).into(),
            Ok(Edited::Whole(text)) => text.into(),
            Err(PatchError::TooLarge(_)) => return Err(too_large()),
            Err(error @ PatchError::TooMuchWork(_)) => {
                return Err(Problem::of(ProblemKind::ValueTooLarge, error.to_string()));
            }
            Err(error) => return Err(Problem::of(ProblemKind::PatchFailed, error.to_string())),
        },
        ParsedPatch::Merge(patch) => merge(text, patch).into(),
    };
    if changed.len() > max_value {
        return Err(too_large());
    }
    Ok((changed != text).then(|| Bytes::from(changed.into_owned())))
}

fn kind(request: &RouteRequest<'_>) -> Result<PatchKind, Problem> {
    let sent = request.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match sent.split(';').next().unwrap_or_default().trim() {
        kind if kind.eq_ignore_ascii_case("application/json-patch+json") => Ok(PatchKind::Json),
        kind if kind.eq_ignore_ascii_case("application/merge-patch+json") => Ok(PatchKind::Merge),
        _ => Err(Problem::of(
            ProblemKind::UnsupportedType,
            "a patch is `application/json-patch+json` (RFC 6902) or `application/merge-patch+json` (RFC 7386)",
        )),
    }
}

fn check_place(request: &RouteRequest<'_>, key: &[u8]) -> Result<(), Problem> {
    match request.group.keeps_documents(key) {
        true => Ok(()),
        false => Err(Problem::of(
            ProblemKind::NoDocuments,
            "documents are kept without a source, or by a disk store, on the node that owns the key",
        )),
    }
}

/// A write that the source, or the tier, did not take.
pub(crate) fn refused(request: &RouteRequest<'_>, error: &SourceError) -> Problem {
    match error {
        // Only the tier can have refused.
        SourceError::Refused(why) if request.group.is_store() && why.starts_with("OOM ") => {
            Problem::of(ProblemKind::ValueTooLarge, &**why)
        }
        error => Problem::source(error),
    }
}

/// JSON, as a response's type.
pub(crate) const JSON_TYPE: HeaderValue = HeaderValue::from_static("application/json");
