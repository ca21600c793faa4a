//! Conditional requests: `If-Match`, `If-None-Match` and `If-Modified-Since` (RFC 9110 section 13).
use super::problem_json::{Problem, ProblemKind};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use larder_proto::http::etag::{self, Tags};
use larder_source::CopyMetadataView;

/// `If-Match` and `If-None-Match` (RFC 9110 section 13).
#[derive(Debug, Default)]
pub(crate) struct Preconditions {
    if_match: Option<Tags>,
    if_none_match: Option<Tags>,
    /// The fields as they were sent, to be compared with tags and dates that are not Larder's.
    sent: HeaderMap,
}

impl Preconditions {
    /// # Errors
    /// A field is not a list of entity tags.
    pub(crate) fn parse(headers: &HeaderMap) -> Result<Preconditions, Problem> {
        let tags = |name: HeaderName| {
            if !headers.contains_key(&name) {
                return Ok(None);
            }
            let lines = headers.get_all(&name).iter().map(HeaderValue::as_bytes);
            Tags::parse(lines).map(Some).ok_or_else(|| {
                Problem::of(ProblemKind::BadPrecondition, format!("{name} is not a list of entity tags"))
            })
        };
        let (if_match, if_none_match) = (tags(header::IF_MATCH)?, tags(header::IF_NONE_MATCH)?);
        let mut sent = HeaderMap::new();
        for name in [header::IF_MATCH, header::IF_NONE_MATCH, header::IF_MODIFIED_SINCE] {
            for value in headers.get_all(&name) {
                sent.append(name.clone(), value.clone());
            }
        }
        Ok(Preconditions { if_match, if_none_match, sent })
    }

    pub(crate) fn has_if_match(&self) -> bool {
        self.if_match.is_some()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.if_match.is_none() && self.if_none_match.is_none()
    }

    /// For an entry that exists: is its value to be sent (or does the client have it)? Its tag is
    /// the source's, if that `said` one, else `tag`.
    pub(crate) fn of_read(&self, tag: u64, said: &CopyMetadataView<'_>) -> Result<bool, Problem> {
        let listed = |name: HeaderName, tags: &Tags, weakly: bool| match said.etag {
            Some(text) => etag::is_listed(self.sent.get_all(name).iter().map(HeaderValue::as_bytes), text, weakly),
            None if weakly => tags.match_weakly(Some(tag)),
            None => tags.match_strongly(Some(tag)),
        };
        if self.if_match.as_ref().is_some_and(|tags| !listed(header::IF_MATCH, tags, false)) {
            return Err(Problem::new(ProblemKind::PreconditionFailed));
        }
        Ok(match (&self.if_none_match, said.last_modified) {
            (Some(tags), _) => !listed(header::IF_NONE_MATCH, tags, true),
            (None, Some(modified)) => !self.is_not_newer(modified),
            (None, None) => true,
        })
    }

    /// Whether `If-Modified-Since` names this moment or a later one.
    fn is_not_newer(&self, modified: &[u8]) -> bool {
        let date = |text: &[u8]| httpdate::parse_http_date(std::str::from_utf8(text).ok()?).ok();
        let since = self.sent.get(header::IF_MODIFIED_SINCE).and_then(|since| date(since.as_bytes()));
        since.zip(date(modified)).is_some_and(|(since, modified)| modified <= since)
    }

    /// May an entry with this tag (`None`: no entry) be written?
    pub(crate) fn of_write(&self, tag: Option<u64>) -> bool {
        self.if_match.as_ref().is_none_or(|tags| tags.match_strongly(tag))
            && !self.if_none_match.as_ref().is_some_and(|tags| tags.match_weakly(tag))
    }
}
