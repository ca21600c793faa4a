//! Errors as `application/problem+json` (RFC 9457). The `type` of each kind is stable and described
//! in docs/reference/http.md.
use super::{
    response_body::ResponseBody,
    response_writer::{SANDBOX, insert_own_type},
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use larder_base::lifecycle::throttle::{Allowance, Throttled};
use larder_core::gate::Refused;
use larder_proto::http::json;
use larder_source::SourceError;
use larder_units::show_size;
use std::time::Duration;

/// What a route answers.
pub(crate) type Answer = Result<Response<ResponseBody>, Problem>;

/// What went wrong. Clients tell the kinds apart by `type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProblemKind {
    BackupExists,
    BackupFailed,
    BadBody,
    BadHost,
    BadKey,
    BadParameter,
    BadPatch,
    BadPrecondition,
    BadTag,
    BodyTimeout,
    BodyTooLarge,
    BuffersFull,
    ConfigRefused,
    CrossSite,
    FaultsNotAllowed,
    Forbidden,
    HeadTimeout,
    HeadTooLarge,
    HostNotAllowed,
    KeyNotFound,
    KeyTooLarge,
    LoginRequired,
    MethodNotAllowed,
    NoDocuments,
    NoRange,
    NoSnapshot,
    NoSuchConnection,
    NoSuchElement,
    NoSuchGroup,
    NoSuchRoute,
    NotEnoughReplicas,
    NotReady,
    NoTier,
    NotADocument,
    NotATable,
    NotAPeer,
    Overloaded,
    PatchFailed,
    PreconditionFailed,
    PrimaryUnavailable,
    ProxyHeader,
    ReadOnly,
    ReadOnlyReplica,
    SourceRefused,
    SourceUnavailable,
    TableRefused,
    Throttled,
    TooManyKeys,
    TooManyLogins,
    UnsupportedType,
    ValueTooLarge,
}

impl ProblemKind {
    /// Last segment of `type`, title and status.
    fn describe(self) -> (&'static str, &'static str, StatusCode) {
        use StatusCode as S;
        match self {
            ProblemKind::BackupExists => ("backup-exists", "There is a file of that name", S::CONFLICT),
            ProblemKind::BackupFailed => ("backup-failed", "The backup failed", S::INTERNAL_SERVER_ERROR),
            ProblemKind::BadBody => ("bad-body", "The body cannot be read", S::BAD_REQUEST),
            ProblemKind::BadHost => ("bad-host", "The host cannot be read", S::BAD_REQUEST),
            ProblemKind::BadKey => ("bad-key", "The key cannot be read", S::BAD_REQUEST),
            ProblemKind::BadParameter => ("bad-parameter", "A parameter cannot be read", S::BAD_REQUEST),
            ProblemKind::BadPrecondition => ("bad-precondition", "A precondition cannot be read", S::BAD_REQUEST),
            ProblemKind::BadPatch => ("bad-patch", "The patch cannot be read", S::BAD_REQUEST),
            ProblemKind::NotADocument => ("not-a-document", "The value is not a JSON document", S::CONFLICT),
            ProblemKind::NoDocuments => ("no-documents", "The source keeps no documents", S::NOT_IMPLEMENTED),
            ProblemKind::NoSuchElement => ("no-such-element", "The document has no such element", S::NOT_FOUND),
            ProblemKind::PatchFailed => ("patch-failed", "The patch does not fit the document", S::CONFLICT),
            ProblemKind::UnsupportedType => {
                ("unsupported-type", "The media type is not supported", S::UNSUPPORTED_MEDIA_TYPE)
            }
            ProblemKind::NotAPeer => {
                ("not-a-peer", "The request is not from a node that shares this cache", S::UNAUTHORIZED)
            }
            ProblemKind::BadTag => ("bad-tag", "A tag cannot be kept", S::BAD_REQUEST),
            ProblemKind::BodyTimeout => ("body-timeout", "The body came too slowly", S::REQUEST_TIMEOUT),
            ProblemKind::BodyTooLarge => ("body-too-large", "The body is too large", S::PAYLOAD_TOO_LARGE),
            ProblemKind::BuffersFull => ("buffers-full", "The buffers are full", S::SERVICE_UNAVAILABLE),
            ProblemKind::ConfigRefused => ("config-refused", "The configuration is refused", S::UNPROCESSABLE_ENTITY),
            ProblemKind::CrossSite => ("cross-site", "A page of another site asks for it", S::FORBIDDEN),
            ProblemKind::FaultsNotAllowed => ("faults-not-allowed", "Faults are not allowed", S::FORBIDDEN),
            ProblemKind::Forbidden => ("forbidden", "The rules of the user do not allow it", S::FORBIDDEN),
            ProblemKind::LoginRequired => ("login-required", "A user must log in", S::UNAUTHORIZED),
            ProblemKind::TooManyLogins => ("too-many-logins", "Too many logins failed", S::TOO_MANY_REQUESTS),
            ProblemKind::HeadTimeout => ("head-timeout", "The head came too slowly", S::REQUEST_TIMEOUT),
            ProblemKind::HeadTooLarge => {
                ("head-too-large", "The head is too large", S::REQUEST_HEADER_FIELDS_TOO_LARGE)
            }
            ProblemKind::HostNotAllowed => ("host-not-allowed", "The host is not allowed", S::FORBIDDEN),
            ProblemKind::KeyNotFound => ("key-not-found", "Key not found", S::NOT_FOUND),
            ProblemKind::KeyTooLarge => ("key-too-large", "The key is too large", S::URI_TOO_LONG),
            ProblemKind::MethodNotAllowed => ("method-not-allowed", "Method not allowed", S::METHOD_NOT_ALLOWED),
            ProblemKind::NoRange => ("no-range", "The source has no ranges", S::NOT_IMPLEMENTED),
            ProblemKind::NoSnapshot => ("no-snapshot", "No snapshot was written", S::CONFLICT),
            ProblemKind::NoSuchConnection => ("no-such-connection", "No such connection", S::NOT_FOUND),
            ProblemKind::NoSuchGroup => ("no-such-group", "No such group", S::NOT_FOUND),
            ProblemKind::NoSuchRoute => ("no-such-route", "No such route", S::NOT_FOUND),
            ProblemKind::NotEnoughReplicas => {
                ("not-enough-replicas", "Not enough replicas have the write", S::GATEWAY_TIMEOUT)
            }
            ProblemKind::NotReady => ("not-ready", "Not ready", S::SERVICE_UNAVAILABLE),
            ProblemKind::NoTier => ("no-tier", "The group has no tier before a source", S::CONFLICT),
            ProblemKind::NotATable => ("not-a-table", "The source is not a table", S::CONFLICT),
            ProblemKind::Overloaded => ("overloaded", "The server is overloaded", S::SERVICE_UNAVAILABLE),
            ProblemKind::PreconditionFailed => {
                ("precondition-failed", "A precondition does not hold", S::PRECONDITION_FAILED)
            }
            ProblemKind::PrimaryUnavailable => {
                ("primary-unavailable", "The primary does not answer", S::SERVICE_UNAVAILABLE)
            }
            ProblemKind::ProxyHeader => ("proxy-header", "The PROXY header cannot be used", S::BAD_REQUEST),
            ProblemKind::ReadOnly => ("read-only", "The source is read-only", S::METHOD_NOT_ALLOWED),
            ProblemKind::ReadOnlyReplica => ("read-only-replica", "A replica takes no writes", S::METHOD_NOT_ALLOWED),
            ProblemKind::SourceRefused => ("source-refused", "The source refused", S::BAD_GATEWAY),
            ProblemKind::SourceUnavailable => {
                ("source-unavailable", "The source is unavailable", S::SERVICE_UNAVAILABLE)
            }
            ProblemKind::TableRefused => ("table-refused", "The table is refused", S::UNPROCESSABLE_ENTITY),
            ProblemKind::Throttled => ("throttled", "Too many requests", S::SERVICE_UNAVAILABLE),
            ProblemKind::TooManyKeys => ("too-many-keys", "Too many keys", S::PAYLOAD_TOO_LARGE),
            ProblemKind::ValueTooLarge => ("value-too-large", "The value is too large", S::PAYLOAD_TOO_LARGE),
        }
    }
}

/// An error and what is known about this occurrence of it.
#[derive(Debug)]
pub(crate) struct Problem {
    kind: ProblemKind,
    detail: Option<String>,
    retry_after: Option<Duration>,
    allow: Option<HeaderValue>,
    /// The limit that the client has reached. It is told so with 429, except on routes whose
    /// clients know 503.
    limit: Option<Box<Throttled>>,
}

impl Problem {
    /// Without a detail.
    pub(crate) fn new(kind: ProblemKind) -> Problem {
        Problem { kind, detail: None, retry_after: None, allow: None, limit: None }
    }

    /// With a sentence about this occurrence.
    pub(crate) fn of(kind: ProblemKind, detail: impl Into<String>) -> Problem {
        Problem { detail: Some(detail.into()), ..Problem::new(kind) }
    }

    /// Something exceeds the setting that bounds it.
    pub(crate) fn over(kind: ProblemKind, what: &str, setting: &str, limit: usize) -> Problem {
        Problem::of(kind, format!("{what} exceeds the limit of {limit} (setting `{setting}`)"))
    }

    /// What a source answered instead of a value.
    pub(crate) fn source(error: &SourceError) -> Problem {
        if matches!(error, SourceError::ReadOnly(_)) {
            Problem {
                allow: Some(HeaderValue::from_static("GET, HEAD")),
                ..Problem::of(ProblemKind::ReadOnly, error.to_string())
            }
        } else if error.is_unavailable() {
            Problem {
                retry_after: Some(SOURCE_RETRY),
                ..Problem::of(ProblemKind::SourceUnavailable, error.to_string())
            }
        } else {
            Problem::of(ProblemKind::SourceRefused, error.to_string())
        }
    }

    /// A write to a replica.
    pub(crate) fn of_replica(primary: Option<String>) -> Problem {
        let primary = primary.map_or(String::new(), |primary| format!(" of {primary}"));
        let detail = format!("this server is a read-only replica{primary}: write to its primary");
        Problem {
            allow: Some(HeaderValue::from_static("GET, HEAD")),
            ..Problem::of(ProblemKind::ReadOnlyReplica, detail)
        }
    }

    /// The request, or its answer, does not fit into what all buffers together may hold.
    pub(crate) fn buffers_full(what: &str, limit: usize) -> Problem {
        let limit = show_size(limit as u64);
        let detail = format!("{what} when all buffers together may hold {limit} (setting `max-buffers`)");
        Problem { retry_after: Some(BUFFERS_RETRY), ..Problem::of(ProblemKind::BuffersFull, detail) }
    }

    /// A request over the rate.
    pub(crate) fn refused(refused: Refused) -> Problem {
        match refused {
            Refused::Overloaded => Problem::overloaded(),
            Refused::Throttled(limit) => {
                let detail = format!("the rate allowed by setting `{}` is used up", limit.setting());
                let problem = Problem::of(ProblemKind::Throttled, detail);
                Problem { retry_after: Some(limit.retry_after), limit: Some(limit), ..problem }
            }
        }
    }

    /// A read without the parameter that has the key.
    pub(crate) fn missing_key(parameter: &str) -> Problem {
        Problem::of(ProblemKind::BadKey, format!("parameter `{parameter}` is missing"))
    }

    /// The core has more to do than it can answer in time.
    pub(crate) fn overloaded() -> Problem {
        let detail = "requests wait longer than setting `max-queue-delay` allows";
        Problem { retry_after: Some(OVERLOAD_RETRY), ..Problem::of(ProblemKind::Overloaded, detail) }
    }

    /// The address has failed to log in too often.
    pub(crate) fn too_many_logins(wait: Duration) -> Problem {
        let detail = "the logins of this address are not looked at for a while";
        Problem { retry_after: Some(wait), ..Problem::of(ProblemKind::TooManyLogins, detail) }
    }

    /// Whether the client should show who it is.
    pub(crate) fn asks_for_login(&self) -> bool {
        self.kind == ProblemKind::LoginRequired
    }

    /// There is no route at this path.
    pub(crate) fn no_such_route(path: &str) -> Problem {
        Problem::of(ProblemKind::NoSuchRoute, format!("there is nothing at {path}"))
    }

    /// The route exists for these methods.
    pub(crate) fn method_not_allowed(allow: &str) -> Problem {
        Problem { allow: HeaderValue::from_str(allow).ok(), ..Problem::new(ProblemKind::MethodNotAllowed) }
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.kind.describe().2
    }

    /// When to try again.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// The methods that the route exists for.
    pub(crate) fn allow(&self) -> Option<&HeaderValue> {
        self.allow.as_ref()
    }

    /// For people.
    pub(crate) fn sentence(&self) -> String {
        let title = self.kind.describe().1;
        self.detail.as_ref().map_or_else(|| title.to_owned(), |detail| format!("{title}: {detail}"))
    }

    /// The response.
    pub(crate) fn into_response(self) -> Response<ResponseBody> {
        let (name, title, mut status) = self.kind.describe();
        if self.limit.as_ref().is_some_and(|limit| limit.is_of_client) {
            status = StatusCode::TOO_MANY_REQUESTS;
        }
        let mut text = format!("{{\"type\":\"/problems/{name}\",\"title\":\"{title}\",\"status\":{}", status.as_u16())
            .into_bytes();
        if let Some(detail) = &self.detail {
            text.extend_from_slice(b",\"detail\":");
            json::write(&mut text, detail.as_bytes());
        }
        text.push(b'}');
        let mut response = Response::new(ResponseBody::full(text));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        insert_own_type(headers, HeaderValue::from_static("application/problem+json"));
        headers.insert(header::CONTENT_SECURITY_POLICY, SANDBOX);
        if let Some(wait) = self.retry_after {
            headers.insert(header::RETRY_AFTER, retry_after(wait));
        }
        if let Some(allow) = self.allow {
            headers.insert(header::ALLOW, allow);
        }
        if let Some(limit) = &self.limit {
            insert_rate_limit(headers, &limit.allowance);
        }
        response
    }
}

/// When a core may be less busy.
const OVERLOAD_RETRY: Duration = Duration::from_secs(1);

/// When there may be room again.
const BUFFERS_RETRY: Duration = Duration::from_secs(1);

/// When to try a source again that did not answer; sources reconnect with backoff, so sooner seldom
/// helps.
pub(crate) const SOURCE_RETRY: Duration = Duration::from_secs(1);

/// `Retry-After` in whole seconds, at least one.
pub(crate) fn retry_after(wait: Duration) -> HeaderValue {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    HeaderValue::from(seconds.max(1))
}

/// `RateLimit-Policy` and `RateLimit`: what a client may ask, and what is left of it
/// (draft-ietf-httpapi-ratelimit-headers-11).
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// Describes the budget that is closest to being used up. The setting is the policy's name.
///
/// `q` is the burst, `w` the seconds in which a used-up budget is whole again, `r` what is left of
/// it and `t` the seconds until it is whole.
pub(crate) fn insert_rate_limit(headers: &mut HeaderMap, allowance: &Allowance) {
    let Allowance { setting, burst, window, remaining } = allowance;
    let policy = format!("\"{setting}\";q={burst};w={}", whole_seconds(*window));
    let limit = format!("\"{setting}\";r={remaining};t={}", whole_seconds(allowance.whole_again()));
    for (name, value) in [(POLICY, policy), (LIMIT, limit)] {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    }
}

/// Rounded up.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_those_of_the_draft() {
        let mut headers = HeaderMap::new();
        let window = Duration::from_millis(2500);
        insert_rate_limit(&mut headers, &Allowance { setting: "throttle", burst: 50, window, remaining: 30 });
        assert_eq!(headers[POLICY], "\"throttle\";q=50;w=3");
        assert_eq!(headers[LIMIT], "\"throttle\";r=30;t=1");
    }
}
