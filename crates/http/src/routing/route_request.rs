//! A request on its way to its handler, and the keys and numbers in its path and query.
use super::request_user::RequestUser;
use crate::{
    connection::connection_context::ConnectionContext,
    messages::problem_json::{Problem, ProblemKind},
};
use http::HeaderMap;
use larder_base::{identity::KeyAccess, telemetry::RecordedOperation};
use larder_core::{
    app::Worker,
    gate::{self, Door},
    read::Group,
};
use larder_engine::Millis;
use larder_proto::http::target;
use larder_source::{Fetch, RequestTrace};
use std::{
    borrow::Cow,
    ops::{Deref, RangeInclusive},
    rc::Rc,
    sync::Arc,
};

/// What a request asks of a group, whichever path it came by.
pub(crate) struct GroupRequest<'r> {
    pub(crate) worker: &'r Worker,
    pub(crate) group: &'r Rc<Group>,
    pub(crate) query: &'r [u8],
    pub(crate) now: Millis,
    pub(crate) user: Rc<RequestUser>,
    /// What goes with the request to those who are asked for its sake.
    pub(crate) trace: Option<Arc<RequestTrace>>,
}

pub(crate) struct RouteRequest<'r> {
    pub(crate) asked: GroupRequest<'r>,
    pub(crate) context: &'r ConnectionContext,
    /// The rest of the path, still encoded.
    pub(crate) key: &'r [u8],
    pub(crate) headers: &'r HeaderMap,
}

impl<'r> Deref for RouteRequest<'r> {
    type Target = GroupRequest<'r>;
    fn deref(&self) -> &GroupRequest<'r> {
        &self.asked
    }
}

impl RouteRequest<'_> {
    pub(crate) fn key(&self) -> Result<Cow<'_, [u8]>, Problem> {
        let key = decode_key(self.key, target::decode_path)?;
        self.check_key(&key)?;
        Ok(key)
    }
}

impl GroupRequest<'_> {
    /// The key in the query; `None` if there is none.
    pub(crate) fn key_parameter(&self, name: &str) -> Option<Result<Cow<'_, [u8]>, Problem>> {
        target::parameter(self.query, name).map(|raw| decode_key(raw, target::decode_query))
    }

    /// The key in the query, which must be there, within the limits of a key, and not empty.
    pub(crate) fn parameter_key(&self, name: &str) -> Result<Cow<'_, [u8]>, Problem> {
        let key = self.key_parameter(name).ok_or_else(|| Problem::missing_key(name))??;
        self.check_key(&key)?;
        not_empty(key)
    }

    /// Asks the gate about keys that were in the body.
    pub(crate) fn enter_keys<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Result<(), Problem> {
        match gate::has_rules(self.worker) {
            true => gate::enter_keys(self.worker, Door::Http, keys).map_err(Problem::refused),
            false => Ok(()),
        }
    }

    /// Checks a command on a key against the rules of the user.
    pub(crate) fn allow(&self, command: &'static str, key: &[u8], access: KeyAccess) -> Result<(), Problem> {
        self.user.check_key((self.worker, self.group), command, (key, access))
    }

    /// Whether a list may name a key of the group to the user.
    pub(crate) fn lists(&self, key: &[u8]) -> bool {
        self.user.knows_key(self.group, key)
    }

    /// Lets the fetch that was begun for the request, if one was, say so.
    pub(crate) fn follow(&self, batch: &mut [Fetch]) {
        if let (Some(trace), [.., fetch]) = (&self.trace, batch) {
            fetch.follow(trace.clone());
        }
    }
    pub(crate) fn answered_by_tier(&self, key: &[u8]) {
        if let Some(trace) = &self.trace {
            trace.is_answered_by(|| self.group.tier_name(key).into());
        }
    }

    /// Shows an operation to the recorder, and to a session of HOTKEYS.
    pub(crate) fn note(&self, operation: RecordedOperation, key: &[u8]) {
        gate::note(self.worker, operation, key);
        if let RecordedOperation::Set(bytes) = operation {
            self.group.policy.key_counts.note_write(key, bytes);
        }
    }

    pub(crate) fn check_key(&self, key: &[u8]) -> Result<(), Problem> {
        let max = self.worker.app.settings.max_key;
        match key.len() <= max {
            true => Ok(()),
            false => Err(Problem::over(ProblemKind::KeyTooLarge, "the key", "max-key", max)),
        }
    }

    /// A replica takes no writes to the groups that it copies.
    pub(crate) fn check_role(&self) -> Result<(), Problem> {
        let replication = &self.worker.app.replication;
        match replication.refuses_writes(self.group.number) {
            true => Err(Problem::of_replica(replication.primary().map(|primary| primary.to_string()))),
            false => Ok(()),
        }
    }

    /// A whole number in the query; `None` if it is missing or empty.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, Problem> {
        let Some(raw) = target::parameter(self.query, name) else { return Ok(None) };
        if raw.is_empty() {
            return Ok(None);
        }
        let number = std::str::from_utf8(raw).ok().and_then(|text| text.parse().ok());
        number
            .map(Some)
            .ok_or_else(|| Problem::of(ProblemKind::BadParameter, format!("`{name}` is not a whole number")))
    }

    /// How many rows the client wants: `count` in the query, or as many as is usual.
    pub(crate) fn count(&self, usual: usize, allowed: RangeInclusive<usize>) -> Result<usize, Problem> {
        match self.number("count")?.map(usize::try_from) {
            None => Ok(usual),
            Some(Ok(count)) if allowed.contains(&count) => Ok(count),
            Some(_) => {
                let detail = format!("`count` must be from {} to {}", allowed.start(), allowed.end());
                Err(Problem::of(ProblemKind::BadParameter, detail))
            }
        }
    }
}

/// Refuses the empty key where the clients of a route expect that: routes of other servers, whose
/// key is a parameter or may have been left out.
pub(crate) fn not_empty(key: Cow<'_, [u8]>) -> Result<Cow<'_, [u8]>, Problem> {
    match key.is_empty() {
        true => Err(Problem::of(ProblemKind::BadKey, "the key is empty")),
        false => Ok(key),
    }
}

type Decode = for<'a> fn(&'a [u8], &'a mut Vec<u8>) -> Result<&'a [u8], target::MalformedEscape>;

/// Decodes a key. It is borrowed if it has no escapes.
pub(crate) fn decode_key(raw: &[u8], decode: Decode) -> Result<Cow<'_, [u8]>, Problem> {
    let mut scratch = Vec::new();
    match decode(raw, &mut scratch) {
        Err(target::MalformedEscape) => {
            Err(Problem::of(ProblemKind::BadKey, "a % is not followed by two hexadecimal digits"))
        }
        // The decoder hands back what it was given if there is nothing to decode.
        Ok(same) if std::ptr::eq(same, raw) => Ok(Cow::Borrowed(raw)),
        Ok(_) => Ok(Cow::Owned(scratch)),
    }
}
