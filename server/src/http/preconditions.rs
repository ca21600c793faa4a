//! Conditional requests: `If-Match` and `If-None-Match` (RFC 9110 section 13).
use super::problem_json::{Problem, ProblemKind};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use larder_proto::http::etag::Tags;

/// `If-Match` and `If-None-Match` (RFC 9110 section 13).
#[derive(Debug, Default)]
pub(super) struct Preconditions {
    if_match: Option<Tags>,
    if_none_match: Option<Tags>,
}

impl Preconditions {
    /// # Errors
    /// A field is not a list of entity tags.
    pub(super) fn parse(headers: &HeaderMap) -> Result<Preconditions, Problem> {
        let tags = |name: HeaderName| {
            if !headers.contains_key(&name) {
                return Ok(None);
            }
            let lines = headers.get_all(&name).iter().map(HeaderValue::as_bytes);
            Tags::parse(lines).map(Some).ok_or_else(|| {
                Problem::of(ProblemKind::BadPrecondition, format!("{name} is not a list of entity tags"))
            })
        };
        Ok(Preconditions { if_match: tags(header::IF_MATCH)?, if_none_match: tags(header::IF_NONE_MATCH)? })
    }

    /// Does the request have an `If-Match`?
    pub(super) fn has_if_match(&self) -> bool {
        self.if_match.is_some()
    }

    /// Does the request have neither?
    pub(super) fn is_empty(&self) -> bool {
        self.if_match.is_none() && self.if_none_match.is_none()
    }

    /// For an entry that exists: is its value to be sent (or does the client have it)?
    pub(super) fn of_read(&self, tag: u64) -> Result<bool, Problem> {
        if self.if_match.as_ref().is_some_and(|tags| !tags.match_strongly(Some(tag))) {
            return Err(Problem::new(ProblemKind::PreconditionFailed));
        }
        Ok(!self.if_none_match.as_ref().is_some_and(|tags| tags.match_weakly(Some(tag))))
    }

    /// May an entry with this tag (`None`: no entry) be written?
    pub(super) fn of_write(&self, tag: Option<u64>) -> bool {
        self.if_match.as_ref().is_none_or(|tags| tags.match_strongly(tag))
            && !self.if_none_match.as_ref().is_some_and(|tags| tags.match_weakly(tag))
    }
}
