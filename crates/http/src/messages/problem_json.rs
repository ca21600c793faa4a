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

pub(crate) type Answer = Result<Response<ResponseBody>, Problem>;

macro_rules! problem_kinds {
    ($($kind:ident = ($name:literal, $title:literal, $status:ident);)*) => {
        /// What went wrong. Clients tell the kinds apart by `type`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum ProblemKind {
            $($kind),*
        }

        impl ProblemKind {
            /// Last segment of `type`, title and status.
            fn describe(self) -> (&'static str, &'static str, StatusCode) {
                match self {
                    $(ProblemKind::$kind => ($name, $title, StatusCode::$status)),*
                }
            }
        }
    };
}

problem_kinds! {
    BackupExists = ("backup-exists", "There is a file of that name", CONFLICT);
    BackupFailed = ("backup-failed", "The backup failed", INTERNAL_SERVER_ERROR);
    BadBody = ("bad-body", "The body cannot be read", BAD_REQUEST);
    BadHost = ("bad-host", "The host cannot be read", BAD_REQUEST);
    BadKey = ("bad-key", "The key cannot be read", BAD_REQUEST);
    BadParameter = ("bad-parameter", "A parameter cannot be read", BAD_REQUEST);
    BadPatch = ("bad-patch", "The patch cannot be read", BAD_REQUEST);
    BadPrecondition = ("bad-precondition", "A precondition cannot be read", BAD_REQUEST);
    BadTag = ("bad-tag", "A tag cannot be kept", BAD_REQUEST);
    BodyTimeout = ("body-timeout", "The body came too slowly", REQUEST_TIMEOUT);
    BodyTooLarge = ("body-too-large", "The body is too large", PAYLOAD_TOO_LARGE);
    BuffersFull = ("buffers-full", "The buffers are full", SERVICE_UNAVAILABLE);
    ConfigRefused = ("config-refused", "The configuration is refused", UNPROCESSABLE_ENTITY);
    CrossSite = ("cross-site", "A page of another site asks for it", FORBIDDEN);
    FaultsNotAllowed = ("faults-not-allowed", "Faults are not allowed", FORBIDDEN);
    Forbidden = ("forbidden", "The rules of the user do not allow it", FORBIDDEN);
    HeadTimeout = ("head-timeout", "The head came too slowly", REQUEST_TIMEOUT);
    HeadTooLarge = ("head-too-large", "The head is too large", REQUEST_HEADER_FIELDS_TOO_LARGE);
    HostNotAllowed = ("host-not-allowed", "The host is not allowed", FORBIDDEN);
    KeyNotFound = ("key-not-found", "Key not found", NOT_FOUND);
    KeyTooLarge = ("key-too-large", "The key is too large", URI_TOO_LONG);
    LoginRequired = ("login-required", "A user must log in", UNAUTHORIZED);
    MethodNotAllowed = ("method-not-allowed", "Method not allowed", METHOD_NOT_ALLOWED);
    NoDocuments = ("no-documents", "The source keeps no documents", NOT_IMPLEMENTED);
    NoRange = ("no-range", "The source has no ranges", NOT_IMPLEMENTED);
    NoSnapshot = ("no-snapshot", "No snapshot was written", CONFLICT);
    NoSuchConnection = ("no-such-connection", "No such connection", NOT_FOUND);
    NoSuchElement = ("no-such-element", "The document has no such element", NOT_FOUND);
    NoSuchGroup = ("no-such-group", "No such group", NOT_FOUND);
    NoSuchRoute = ("no-such-route", "No such route", NOT_FOUND);
    NotEnoughReplicas = ("not-enough-replicas", "Not enough replicas have the write", GATEWAY_TIMEOUT);
    NotReady = ("not-ready", "Not ready", SERVICE_UNAVAILABLE);
    NoTier = ("no-tier", "The group has no tier before a source", CONFLICT);
    NotADocument = ("not-a-document", "The value is not a JSON document", CONFLICT);
    NotATable = ("not-a-table", "The source is not a table", CONFLICT);
    NotAPeer = ("not-a-peer", "The request is not from a node that shares this cache", UNAUTHORIZED);
    Overloaded = ("overloaded", "The server is overloaded", SERVICE_UNAVAILABLE);
    PatchFailed = ("patch-failed", "The patch does not fit the document", CONFLICT);
    PreconditionFailed = ("precondition-failed", "A precondition does not hold", PRECONDITION_FAILED);
    PrimaryUnavailable = ("primary-unavailable", "The primary does not answer", SERVICE_UNAVAILABLE);
    ProxyHeader = ("proxy-header", "The PROXY header cannot be used", BAD_REQUEST);
    ReadOnly = ("read-only", "The source is read-only", METHOD_NOT_ALLOWED);
    ReadOnlyReplica = ("read-only-replica", "A replica takes no writes", METHOD_NOT_ALLOWED);
    SourceRefused = ("source-refused", "The source refused", BAD_GATEWAY);
    SourceUnavailable = ("source-unavailable", "The source is unavailable", SERVICE_UNAVAILABLE);
    TableRefused = ("table-refused", "The table is refused", UNPROCESSABLE_ENTITY);
    Throttled = ("throttled", "Too many requests", SERVICE_UNAVAILABLE);
    TooManyKeys = ("too-many-keys", "Too many keys", PAYLOAD_TOO_LARGE);
    TooManyLogins = ("too-many-logins", "Too many logins failed", TOO_MANY_REQUESTS);
    UnsupportedType = ("unsupported-type", "The media type is not supported", UNSUPPORTED_MEDIA_TYPE);
    ValueTooLarge = ("value-too-large", "The value is too large", PAYLOAD_TOO_LARGE);
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
    pub(crate) fn new(kind: ProblemKind) -> Problem {
        Problem { kind, detail: None, retry_after: None, allow: None, limit: None }
    }

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

    pub(crate) fn kind(&self) -> ProblemKind {
        self.kind
    }

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

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// The methods that the route exists for.
    pub(crate) fn allow(&self) -> Option<&HeaderValue> {
        self.allow.as_ref()
    }

    pub(crate) fn sentence(&self) -> String {
        let title = self.kind.describe().1;
        self.detail.as_ref().map_or_else(|| title.to_owned(), |detail| format!("{title}: {detail}"))
    }

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
pub(crate) const OVERLOAD_RETRY: Duration = Duration::from_secs(1);

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
