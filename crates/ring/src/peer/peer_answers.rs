//! What an answer of another node says: a status as HTTP has it, and a body. The same whatever
//! carries it.
use super::{
    member::Member,
    messages::{GetResponse, KeyAnswer},
    transport::{PeerAnswer, PeerError},
};
use bytes::Bytes;
use http::StatusCode;
use larder_source::FreshUntil;
use larder_store::clock;
use prost::Message;

/// How a problem of an earlier Larder begins.
const PROBLEM: &[u8] = br#"{"type":"/problems/no-such-group""#;

/// The answer to a read of a key.
pub fn answer(member: &Member, status: StatusCode, body: Bytes) -> Result<PeerAnswer, PeerError> {
    match status {
        StatusCode::OK => {
            let message = GetResponse::decode(body)
                .map_err(|error| not_reached(member, format_args!("not a groupcache answer: {error}")))?;
            if message.metadata.is_some() {
                member.note_larder();
            }
            let now = clock::now();
            let fresh = match message.fresh_until(now) {
                _ if message.not_kept == Some(true) => FreshUntil::NotKept,
                Some(at) => FreshUntil::At(at),
                None => FreshUntil::Policy,
            };
            let mut metadata = message.copy_metadata(now);
            // Clients are told how long the owner's copy is fresh, and not how long one is here.
            if let (FreshUntil::At(at), None) = (fresh, &metadata.cache_control) {
                metadata.bound_max_age(at, now);
            }
            Ok(PeerAnswer::Found { value: message.value.unwrap_or_default(), fresh, metadata })
        }
        // The owner remembers it.
        StatusCode::NOT_FOUND => Ok(PeerAnswer::Absent),
        StatusCode::SERVICE_UNAVAILABLE => {
            Ok(PeerAnswer::Failed(format!("peer {}: {}", member.name, explanation(&body)).into()))
        }
        status => Err(not_reached(member, format_args!("{status}: {}", explanation(&body)))),
    }
}

/// The status of a [`KeyAnswer`]; of one that is none, one that is no answer.
pub(super) fn status_of(status: u32) -> StatusCode {
    let status = u16::try_from(status).ok().and_then(|status| StatusCode::from_u16(status).ok());
    status.unwrap_or(StatusCode::NOT_IMPLEMENTED)
}

/// The answers to a read of `asked` keys; `None`: to be asked for alone.
pub fn answers(member: &Member, asked: usize, answers: Vec<KeyAnswer>) -> Result<Vec<Option<PeerAnswer>>, PeerError> {
    if answers.len() != asked {
        return Err(not_reached(member, format_args!("{} answers to {asked} keys", answers.len())));
    }
    let read = |KeyAnswer { status, body }| answer(member, status_of(status), body).ok();
    Ok(answers.into_iter().map(read).collect())
}

/// How a node says that it lacks a group: in groupcache's words.
pub fn no_such_group(group: &str) -> String {
    format!("no such group: {group}")
}

/// The error if a response says that the node has no such group. Earlier Larders answered with a
/// problem.
pub(super) fn check_group(member: &Member, group: &str, status: StatusCode, body: &[u8]) -> Result<(), PeerError> {
    let is_status = matches!(status, StatusCode::NOT_FOUND | StatusCode::MISDIRECTED_REQUEST);
    let says_so = || body.trim_ascii_end() == no_such_group(group).as_bytes() || body.starts_with(PROBLEM);
    if is_status && says_so() { Err(lacks_group(member, group)) } else { Ok(()) }
}

/// The node has no such group.
pub(super) fn lacks_group(member: &Member, group: &str) -> PeerError {
    PeerError::NoGroup(format!("peer {}: it has no group `{group}`", member.name).into())
}

/// The node gave no answer that counts: another may be asked.
pub fn not_reached(member: &Member, reason: impl std::fmt::Display) -> PeerError {
    PeerError::NotReached(format!("peer {}: {reason}", member.name).into())
}

/// There is no room for the answer, here or there: see [`PeerError::NoRoom`].
pub(super) fn no_room(member: &Member, reason: impl std::fmt::Display) -> PeerError {
    PeerError::NoRoom(format!("peer {}: {reason}", member.name).into())
}

/// The node will never answer this.
pub(super) fn refused(member: &Member, reason: impl std::fmt::Display) -> PeerError {
    PeerError::Refused(format!("peer {}: {reason}", member.name).into())
}

/// The beginning of a body that explains an error.
pub(super) fn explanation(body: &[u8]) -> String {
    String::from_utf8_lossy(&body[..body.len().min(256)]).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_config::PeerAddress;

    #[test]
    fn a_missing_group_is_told_from_a_missing_key() {
        let member = Member::new("a:1".into(), "a:1".parse::<PeerAddress>().expect("an address").into(), false);
        let lacks = |status, body: &str| check_group(&member, "data", status, body.as_bytes()).is_err();
        let (absent, elsewhere) = (StatusCode::NOT_FOUND, StatusCode::MISDIRECTED_REQUEST);
        assert!(lacks(absent, "no such group: data\n"), "as groupcache's nodes say it");
        assert!(lacks(elsewhere, "no such group: data"), "as Larders say it");
        assert!(lacks(absent, r#"{"type":"/problems/no-such-group","title":"No such group","status":404}"#));
        for (status, body) in [
            (absent, "Key not found"),
            (absent, ""),
            (absent, "no such group: datax\n"),
            (absent, "record not found: no such group: data"),
            (elsewhere, "this node does not answer for its keys now\n"),
            (StatusCode::OK, "no such group: data"),
        ] {
            assert!(!lacks(status, body), "{status} {body}");
        }
    }
}
