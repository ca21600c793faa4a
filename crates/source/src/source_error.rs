//! Why a source gave no answer.
use bytes::Bytes;
use std::{fmt, sync::Arc, time::Duration};

/// Why a source gave no answer. [`Display`](fmt::Display) is the whole text for a client, to follow
/// `-` or `-ERR ` (see each variant).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceError {
    /// Not reachable, connection lost, deadline passed, too many fetches in flight: nothing was
    /// changed and the client may retry. The text reads `source unavailable: ` and the reason;
    /// Redis clients get it after `-ERR `.
    Unavailable(Arc<str>),
    /// It asked for a pause of this length (`Retry-After`). Reads as `Unavailable`.
    Throttled(Arc<str>, Duration),
    /// A write was sent and no reply came: it may have been applied. Reads as `Unavailable`.
    Lost(Arc<str>),
    /// The source answered with an error of its own (`WRONGTYPE …`, code included). It is relayed
    /// unchanged.
    Refused(Arc<str>),
    /// The source has a value larger than `max-value`, or an encoded one: it is only streamed. Reads
    /// as `Refused`.
    OnlyStreamed(Arc<str>),
    /// The source never accepts writes; it is what this says (`a table`). The text follows `-ERR `.
    ReadOnly(&'static str),
}
impl SourceError {
    /// Why the source gave no answer, if it gave none.
    pub(super) fn reason(&self) -> Option<&Arc<str>> {
        match self {
            SourceError::Unavailable(reason) | SourceError::Lost(reason) | SourceError::Throttled(reason, _) => {
                Some(reason)
            }
            SourceError::Refused(_) | SourceError::OnlyStreamed(_) | SourceError::ReadOnly(_) => None,
        }
    }
    /// How long the source asked not to be asked again.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            SourceError::Throttled(_, wait) => Some(*wait),
            _ => None,
        }
    }
    /// Whether the source gave no answer (HTTP 503), instead of refusing.
    pub fn is_unavailable(&self) -> bool {
        !matches!(self, SourceError::Refused(_) | SourceError::OnlyStreamed(_) | SourceError::ReadOnly(_))
    }
    /// The text that the engine carries to a flight's waiters;
    /// [`of_outcome`](SourceError::of_outcome) parses it.
    pub(crate) fn to_outcome(&self) -> Arc<str> {
        match self {
            SourceError::Refused(text) | SourceError::OnlyStreamed(text) => text.clone(),
            // Reads never get `ReadOnly`.
            unavailable => unavailable.to_string().into(),
        }
    }
    /// Redis's own errors begin with a code and those of an HTTP origin with its name, so none is
    /// mistaken for [`UNAVAILABLE`] or [`ONLY_STREAMED`].
    pub fn of_outcome(text: Arc<str>) -> SourceError {
        match text.strip_prefix(UNAVAILABLE) {
            Some(reason) => SourceError::Unavailable(reason.into()),
            None if is_only_streamed(&text) => SourceError::OnlyStreamed(text),
            None => SourceError::Refused(text),
        }
    }
    /// The error of a node that refused to answer. What is only streamed there is only streamed here.
    pub fn refused_by_peer(reason: &str) -> SourceError {
        match reason.find(ONLY_STREAMED) {
            Some(at) if is_only_streamed(&reason[at..]) => SourceError::OnlyStreamed(reason[at..].into()),
            _ => SourceError::Refused(format!("ERR {reason}").into()),
        }
    }
    /// The error as a reply of the Redis protocol.
    pub(crate) fn to_reply(&self) -> Bytes {
        let code = if matches!(self, SourceError::Refused(_) | SourceError::OnlyStreamed(_)) { "" } else { "ERR " };
        format!("-{code}{self}\r\n").into()
    }
}
impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SourceError::Unavailable(reason) | SourceError::Lost(reason) | SourceError::Throttled(reason, _) => {
                write!(f, "{UNAVAILABLE}{reason}")
            }
            SourceError::Refused(text) | SourceError::OnlyStreamed(text) => f.write_str(text),
            SourceError::ReadOnly(what) => write!(f, "the source is {what}, which is read-only"),
        }
    }
}
impl std::error::Error for SourceError {}

/// How the error about a value that is only streamed begins; it names `max-value` or
/// `Content-Encoding`.
pub(super) const ONLY_STREAMED: &str = "ERR the source's value ";

fn is_only_streamed(text: &str) -> bool {
    text.starts_with(ONLY_STREAMED) && (text.contains("(max-value)") || text.contains("(Content-Encoding)"))
}

/// Prefix of the text of an unavailable source.
pub const UNAVAILABLE: &str = "source unavailable: ";
