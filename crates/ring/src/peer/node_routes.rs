//! The routes between nodes over HTTP/1.1: groupcache's own, `/_groupcache/{group}/{key}`, as
//! groupcache-go v3 and mailgun's groupcache serve them, and a few that Larders alone have.
use super::{
    messages::{GetKeysRequest, RemoveKeysRequest, SetRequest, to_expire},
    transport::{AskedFor, ClearScope, NodeRequest, PeerChange},
};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use larder_config::PeerSettings;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use prost::Message;

/// The epoch of the asking node's ring, 16 hexadecimal digits.
pub const RING: HeaderName = HeaderName::from_static("larder-ring");
/// The path of all routes between nodes.
pub const BASE_PATH: &str = "/_groupcache/";
/// What follows the group in the path of a removal of several keys.
pub const REMOVE_KEYS: &str = "_remove-keys/";
/// What follows the group in the path of a read of several keys.
pub const GET_KEYS: &str = "_get-keys/";
/// What follows the group in the path of a clear.
pub const CLEAR: &str = "_clear/";
/// What follows the group in the path of commands that the owner of keys runs.
pub const AT_OWNER: &str = "_at-owner/";
/// What follows the group in the path of a question for the hottest keys.
pub const HOTTEST: &str = "_hottest/";
/// What follows the group in the path of what a node says about itself.
pub const MEMBER: &str = "_member/";

/// What a path segment may have unescaped, as Go's `url.PathEscape` has it.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b':')
    .remove(b'=')
    .remove(b'@');

/// What a node shows another as its `Authorization`.
pub fn bearer(secret: &str) -> String {
    format!("Bearer {secret}")
}

/// What a node shows another as its `Authorization`, if the settings have a secret.
pub(super) fn shown_secret(settings: &PeerSettings) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&bearer(settings.secret.as_deref()?)).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The path of a route: `rest` is what follows the group.
fn path(group: &str, rest: &str) -> String {
    format!("{BASE_PATH}{}/{rest}", percent_encode(group.as_bytes(), SEGMENT))
}

fn path_of_key(group: &str, key: &[u8]) -> String {
    path(group, &percent_encode(key, SEGMENT).to_string())
}

/// A request as method, path and body.
pub(super) fn as_http(group: &str, request: &NodeRequest) -> (Method, String, Bytes) {
    let post = |rest: &str, body: Vec<u8>| (Method::POST, path(group, rest), body.into());
    let escaped = |bytes: &[u8]| percent_encode(bytes, NON_ALPHANUMERIC).to_string();
    match request {
        NodeRequest::Get { key, .. } => (Method::GET, path_of_key(group, key), Bytes::new()),
        NodeRequest::GetMany { keys, held_only, .. } => {
            let message = GetKeysRequest { keys: keys.clone(), held_only: held_only.then_some(true) };
            post(GET_KEYS, message.encode_to_vec())
        }
        NodeRequest::Tell(PeerChange::Set { key, value, expiry }) => {
            let message = SetRequest {
                group: Some(Bytes::copy_from_slice(group.as_bytes())),
                key: Some(key.clone()),
                value: Some(value.clone()),
                expire: Some(to_expire(*expiry)),
            };
            (Method::PUT, path_of_key(group, key), message.encode_to_vec().into())
        }
        NodeRequest::Tell(PeerChange::Remove(key)) => (Method::DELETE, path_of_key(group, key), Bytes::new()),
        NodeRequest::Tell(PeerChange::Clear { scope, soft }) => {
            let (name, bytes) = match scope {
                ClearScope::Prefix(prefix) => ("prefix", prefix),
                ClearScope::Tag(tag) => ("tag", tag),
            };
            post(&format!("{CLEAR}?{name}={}&soft={soft}", escaped(bytes)), Vec::new())
        }
        NodeRequest::AtOwner(request) => post(AT_OWNER, request.encode_to_vec()),
        NodeRequest::Hottest { of, max_bytes } => {
            post(&format!("{HOTTEST}?of={}&bytes={max_bytes}", escaped(of.as_bytes())), Vec::new())
        }
        NodeRequest::Announce { of, what, hash } => {
            post(&format!("{MEMBER}?of={}&is={}&hash={hash}", escaped(of.as_bytes()), what.name()), Vec::new())
        }
    }
}

/// Adds the fields beside what a request asks: the epoch of our ring, and whom it is for.
pub(super) fn tell_of(request: &NodeRequest, asked_for: AskedFor<'_>, headers: &mut HeaderMap) {
    if let NodeRequest::Get { epoch, .. } | NodeRequest::GetMany { epoch, .. } = request
        && let Ok(epoch) = HeaderValue::from_str(&format!("{epoch:016x}"))
    {
        headers.insert(RING, epoch);
    }
    asked_for.tell(headers);
}

/// The keys of a removal of several, as JSON.
///
/// # Errors
/// A text that says what is wrong with it.
pub fn parse_remove_keys(body: &[u8]) -> Result<Vec<Bytes>, String> {
    let request: RemoveKeysRequest =
        serde_json::from_slice(body).map_err(|error| format!("invalid request: {error}"))?;
    Ok(request.keys.into_iter().map(Bytes::from).collect())
}
