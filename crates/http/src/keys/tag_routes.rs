//! Tags over HTTP: those of a `PUT`, and clears by tag, by prefix and of a whole group.
use crate::{
    messages::{
        problem_json::{Answer, Problem, ProblemKind},
        response_writer,
    },
    routing::route_request::{RouteRequest, decode_key},
};
use bytes::Bytes;
use http::HeaderMap;
use larder_core::read::check_tags;
use larder_proto::http::target;
use larder_ring::peer::ClearScope;
use larder_store::clock;

/// Headers that name tags: with commas between them (Cloudflare and others), with spaces (Fastly
/// and Varnish).
const CACHE_TAG: (&str, u8) = ("cache-tag", b',');
const SURROGATE_KEY: (&str, u8) = ("surrogate-key", b' ');

/// The tags of a `PUT`: each `?tag=`, and those in the headers. An entry that already has a tag is
/// not given it twice.
pub(crate) fn tags_of(request: &RouteRequest<'_>) -> Result<Vec<Box<[u8]>>, Problem> {
    let mut tags = in_query(request.query)?;
    in_headers(request.headers, &mut tags);
    tags.sort_unstable();
    tags.dedup();
    check_tags(&tags).map_err(|limit| Problem::of(ProblemKind::BadTag, limit))?;
    if !tags.is_empty() && !request.group.is_store() {
        return Err(Problem::of(
            ProblemKind::BadTag,
            "the source keeps the value, without tags; tags can be given to the copy in memory (LARDER.TAG), or by an HTTP origin",
        ));
    }
    Ok(tags)
}

fn in_query(query: &[u8]) -> Result<Vec<Box<[u8]>>, Problem> {
    target::pairs(query)
        .filter(|(name, _)| *name == b"tag")
        .map(|(_, raw)| decode_key(raw, target::decode_query).map(|tag| Box::from(&*tag)))
        .collect()
}

fn in_headers(headers: &HeaderMap, tags: &mut Vec<Box<[u8]>>) {
    for (name, separator) in [CACHE_TAG, SURROGATE_KEY] {
        let listed =
            headers.get_all(name).into_iter().flat_map(|value| value.as_bytes().split(move |b| *b == separator));
        tags.extend(listed.map(<[u8]>::trim_ascii).filter(|tag| !tag.is_empty()).map(Box::from));
    }
}

/// `DELETE /v1/tags/{tag}`: clears what carries a tag, in constant time.
pub(crate) async fn clear_tag(request: &RouteRequest<'_>) -> Answer {
    let tag = decode_key(request.key, target::decode_path)?;
    check_tags(&[&tag]).map_err(|limit| Problem::of(ProblemKind::BadTag, limit))?;
    let soft = is_soft(request)?;
    let clear = || {
        request.group.cache.tier().clear_tag(&tag, soft, clock::now());
    };
    clear_everywhere(request, ClearScope::Tag(Bytes::copy_from_slice(&tag)), soft, clear).await
}

/// `DELETE /v1/keys?prefix=`: clears the keys that begin so, in constant time. `?key=`: one key and
/// no other, also where the source takes no writes.
pub(crate) async fn clear_keys(request: &RouteRequest<'_>) -> Answer {
    if let Some(key) = request.key_parameter("key") {
        return clear_key(request, &key?).await;
    }
    let prefix = request.key_parameter("prefix").transpose()?.filter(|prefix| !prefix.is_empty()).ok_or_else(|| {
        Problem::of(ProblemKind::BadParameter, "`prefix` is missing: DELETE /v1/groups/{group} clears all keys")
    })?;
    request.check_key(&prefix)?;
    let soft = is_soft(request)?;
    let clear = || request.group.clear_keys(&prefix, soft, clock::now());
    clear_everywhere(request, ClearScope::Prefix(Bytes::copy_from_slice(&prefix)), soft, clear).await
}

/// Removes what memory has of a key, on all nodes.
async fn clear_key(request: &RouteRequest<'_>, key: &[u8]) -> Answer {
    if let Some(other) = ["prefix", "soft"].into_iter().find(|name| target::parameter(request.query, name).is_some()) {
        return Err(Problem::of(ProblemKind::BadParameter, format!("`key` and `{other}` do not go together")));
    }
    request.check_key(key)?;
    request.group.forget(key).await.map_err(|error| Problem::source(&error))?;
    Ok(response_writer::no_content())
}

/// `DELETE /v1/groups/{group}`: empties the memory tier of a group. Its source keeps what it has.
pub(crate) async fn clear_group(request: &RouteRequest<'_>) -> Answer {
    let soft = is_soft(request)?;
    let clear = || request.group.clear_keys(b"", soft, clock::now());
    clear_everywhere(request, ClearScope::Prefix(Bytes::new()), soft, clear).await
}

/// Clears here and at all nodes.
async fn clear_everywhere(request: &RouteRequest<'_>, scope: ClearScope, soft: bool, clear: impl Fn()) -> Answer {
    if matches!(scope, ClearScope::Prefix(_)) {
        request.group.make_room_to_clear().await;
    }
    match &request.group.peers {
        Some(peers) => {
            let cleared = peers.clear_everywhere(scope, soft, clear).await;
            cleared.map_err(|error| Problem::source(&error))?;
        }
        None => clear(),
    }
    Ok(response_writer::no_content())
}

/// `?soft`: what is cleared counts as out of date, and is served as the group's stale windows
/// allow.
pub(crate) fn is_soft(request: &RouteRequest<'_>) -> Result<bool, Problem> {
    match target::parameter(request.query, "soft") {
        None | Some(b"0" | b"false") => Ok(false),
        Some(b"" | b"1" | b"true") => Ok(true),
        Some(_) => Err(Problem::of(ProblemKind::BadParameter, "`soft` is neither true nor false")),
    }
}
