//! The client over HTTP/1.1: the native routes (docs/reference/http.md).
use super::client_request::{ClientRequest, RequestOutcome, ValueSink};
use crate::cli::output::Reader;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{Method, Response, StatusCode, Uri, body::Incoming, header::HeaderValue};
use larder_base::{
    outbound::{connect_tcp, speak_http1, with_cause},
    tls::ClientTls,
};
use larder_config::{Secret, TlsClientSettings};
use larder_units::show_duration;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use std::{future::Future, io, time::Duration};
use tokio::time;

/// RFC 3986's unreserved characters stay as they are.
const KEY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Of an error's text, as much as is worth showing.
const MAX_ERROR: usize = 64 << 10;
/// A ring of tens of thousands of nodes takes less.
const MAX_DOCUMENT: usize = 16 << 20;

/// `http://[USER:PASSWORD@]HOST[:PORT][/BASE]`, `https://…` or `HOST:PORT`
#[derive(Debug, Clone)]
pub(super) struct HttpUrl {
    /// For the `Host` header.
    authority: String,
    /// For the `Authorization` header.
    credentials: Option<Secret>,
    /// To connect to; IPv6 without brackets.
    host: String,
    port: u16,
    /// What stands before `/v1`, without a slash at the end.
    base: String,
    /// `None`: without TLS.
    pub(super) tls: Option<TlsClientSettings>,
}

impl HttpUrl {
    pub(super) fn parse(text: &str) -> Result<HttpUrl, String> {
        let uri: Uri = text.parse().map_err(|error| format!("not a URL: {error}; write http://HOST:PORT"))?;
        let authority = uri.authority().ok_or("the host is missing: write http://HOST:PORT")?;
        let is_tls = uri.scheme_str() == Some("https");
        // HOST:PORT alone is a URL without a scheme.
        let is_http = is_tls || uri.scheme_str() == Some("http") || uri.scheme().is_none() && uri.port().is_some();
        if !is_http && uri.scheme().is_some() {
            return Err("this command asks over HTTP: write the admin or HTTP listener, http://HOST:PORT".to_owned());
        }
        let (user, shown) = match authority.as_str().rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority.as_str()),
        };
        if !is_http || user.is_some_and(|user| !user.contains(':')) || uri.query().is_some() {
            return Err("write http://HOST:PORT or https://HOST:PORT, or USER:PASSWORD@ before HOST".to_string());
        }
        let basic = |user: &str| {
            let pair: Vec<u8> = percent_decode_str(user).collect();
            Secret::from(format!("Basic {}", BASE64_STANDARD.encode(pair)))
        };
        Ok(HttpUrl {
            authority: shown.to_owned(),
            credentials: user.map(basic),
            host: authority.host().trim_matches(['[', ']']).to_string(),
            port: authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 }),
            base: uri.path().trim_end_matches('/').to_string(),
            tls: is_tls.then(TlsClientSettings::default),
        })
    }
}

/// Sends the request and takes the answer; `timeout` bounds every wait, not the whole, so that a
/// large value may take its time.
pub(super) async fn send(
    url: &HttpUrl,
    key: &[u8],
    request: &ClientRequest,
    sink: &mut ValueSink,
    timeout: Duration,
) -> Result<RequestOutcome, String> {
    let (method, query, body) = match request {
        ClientRequest::Get => (Method::GET, String::new(), Bytes::new()),
        ClientRequest::Del => (Method::DELETE, String::new(), Bytes::new()),
        ClientRequest::Set { value, ttl } => {
            let query = ttl.map_or(String::new(), |ttl| format!("?ttl={}", show_duration(ttl)));
            (Method::PUT, query, value.clone())
        }
    };
    let path = format!("{}/v1/kv/{}{query}", url.base, percent_encode(key, KEY));
    let request_head = hyper::Request::builder()
        .method(method)
        .uri(path)
        .header(hyper::header::HOST, &url.authority)
        .body(Full::new(body))
        .map_err(|error| format!("the key is too long for a URL: {error}"))?;

    let at = |error: &dyn std::fmt::Display| format!("{}: {error}", url.authority);
    let other_protocol = |error: String| match error.ends_with(NO_HTTP) {
        true => format!("{error} For the Redis protocol write redis://{}", url.authority),
        false => error,
    };
    let answer = exchange(url, request_head, timeout).await.map_err(other_protocol)?;
    match (request, answer.status()) {
        (ClientRequest::Get, StatusCode::OK) => copy_out(answer, sink, timeout).await.map_err(|error| at(&error)),
        (ClientRequest::Set { .. }, StatusCode::CREATED | StatusCode::NO_CONTENT) => Ok(RequestOutcome::Done),
        (ClientRequest::Del, StatusCode::NO_CONTENT) => Ok(RequestOutcome::Done),
        (_, status) => {
            let problem = problem(answer, timeout).await;
            match (request, problem.kind()) {
                (ClientRequest::Get | ClientRequest::Del, "key-not-found") => Ok(RequestOutcome::Absent),
                _ => Err(at(&problem.text(status))),
            }
        }
    }
}

/// Sends a request on a connection of its own.
async fn exchange(
    url: &HttpUrl,
    mut request: hyper::Request<Full<Bytes>>,
    timeout: Duration,
) -> Result<Response<Incoming>, String> {
    if let Some(Ok(credentials)) = url.credentials.as_deref().map(HeaderValue::from_str) {
        request.headers_mut().insert(hyper::header::AUTHORIZATION, credentials);
    }
    let at = |error: &dyn std::fmt::Display| format!("{}: {error}", url.authority);
    let tls = url.tls.as_ref().map(|tls| ClientTls::new(tls, &url.host, &[b"http/1.1"])).transpose()?;
    let stream = within(timeout, connect_tcp(&url.host, url.port, tls.as_ref()))
        .await
        // A server without TLS may wait for more of what it takes for a request.
        .map_err(|late| if tls.is_some() { late + "; does the server speak TLS on this port?" } else { late })
        .and_then(|result| result.map_err(|error| not_connected(&error)))
        .map_err(|error| at(&error))?;
    let mut sender = speak_http1(stream).await.map_err(|error| at(&error))?;
    within(timeout, sender.send_request(request))
        .await
        .and_then(|result| result.map_err(|error| with_certificate_hint(with_cause(&error)) + hint(&error)))
        .map_err(|error| at(&error))
}

/// A port of another protocol closes the connection, or answers with other bytes.
fn hint(error: &hyper::Error) -> &'static str {
    let is_no_http = error.is_incomplete_message() || error.is_parse();
    if is_no_http { NO_HTTP } else { "" }
}

const NO_HTTP: &str = "; does the server speak HTTP on this port?";

/// What to say of an answer that no Larder gives.
const NO_LARDER: &str = "; does a Larder listen on this port?";
/// How a listener begins to say that it has no such route. A route that is not in use says why.
const NOTHING_AT: &str = "there is nothing at ";
/// The listener for HTTP has fewer routes.
const NO_ADMIN: &str = "; is this the admin listener?";

/// What to do where nothing listens.
pub(super) const REFUSED: &str = "is Larder running there? Name another address with --url or LARDER_URL";

fn not_connected(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => format!("connection refused: {REFUSED}"),
        _ => with_certificate_hint(error.to_string()),
    }
}

/// What to do about a certificate that is not trusted, or missing.
pub(super) fn with_certificate_hint(error: String) -> String {
    let is_refused = error.contains("invalid peer certificate");
    // `openssl req -x509` makes such a certificate, unless it is told otherwise.
    if is_refused && error.contains("CaUsedAsEndEntity") {
        return "the server shows the certificate of an authority (CA:TRUE): give it one with CA:FALSE, or use \
                --insecure for a test"
            .to_owned();
    }
    if is_refused {
        return error + "; name its authority with --cacert FILE, or use --insecure for a test";
    }
    match error.contains("CertificateRequired") {
        true => error + "; show yours with --client-cert FILE and --client-key FILE",
        false => error,
    }
}

/// Asks for a path below that of the URL.
async fn ask(url: &HttpUrl, path: &str, timeout: Duration) -> Result<Response<Incoming>, String> {
    let request = hyper::Request::builder()
        .uri(format!("{}{path}", url.base))
        .header(hyper::header::HOST, &url.authority)
        .body(Full::default())
        .map_err(|error| format!("{}: {error}", url.authority))?;
    exchange(url, request, timeout).await
}

/// Reads a document of the server.
pub(super) async fn document(url: &HttpUrl, path: &str, timeout: Duration) -> Result<serde_json::Value, String> {
    let at = |error: &dyn std::fmt::Display| format!("{}: {error}", url.authority);
    let answer = ask(url, path, timeout).await?;
    let status = answer.status();
    if status != StatusCode::OK {
        return Err(at(&problem(answer, timeout).await.refusal(status)));
    }
    let body = within(timeout, Limited::new(answer.into_body(), MAX_DOCUMENT).collect()).await?;
    let body = body.map_err(|error| at(&error))?.to_bytes();
    serde_json::from_slice(&body).map_err(|error| at(&format!("not JSON: {error}")))
}

/// What an answer other than a text says.
pub(super) fn refusal(status: StatusCode, body: &str) -> String {
    Problem(serde_json::from_str(body).unwrap_or_default()).refusal(status)
}

/// A short text of the server, with its status.
pub(super) async fn text(url: &HttpUrl, path: &str, timeout: Duration) -> Result<(StatusCode, String), String> {
    let at = |error: &dyn std::fmt::Display| format!("{}: {error}", url.authority);
    let answer = ask(url, path, timeout).await?;
    let status = answer.status();
    let body =
        within(timeout, Limited::new(answer.into_body(), MAX_ERROR).collect()).await.map_err(|error| at(&error))?;
    let body = body.map_err(|error| at(&error))?.to_bytes();
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

/// A key as part of a URL.
pub(super) fn escaped(key: &[u8]) -> String {
    percent_encode(key, KEY).to_string()
}

async fn within<T>(timeout: Duration, wait: impl Future<Output = T>) -> Result<T, String> {
    let late = || format!("no answer within {}", show_duration(timeout));
    time::timeout(timeout, wait).await.map_err(|_| late())
}

async fn copy_out(
    answer: Response<Incoming>,
    sink: &mut ValueSink,
    timeout: Duration,
) -> Result<RequestOutcome, String> {
    let mut body = answer.into_body();
    while let Some(frame) = within(timeout, body.frame()).await? {
        if let Ok(bytes) = frame.map_err(|error| with_cause(&error))?.into_data()
            && sink.put(&bytes)? == Reader::Gone
        {
            break;
        }
    }
    Ok(RequestOutcome::Done)
}

/// A problem document (RFC 9457), or nothing where the answer is none.
struct Problem(serde_json::Value);
impl Problem {
    /// The last segment of its `type`. A 404 without it is no word on the key: it may come from
    /// anything else on that port.
    fn kind(&self) -> &str {
        self.member("type").and_then(|kind| kind.rsplit('/').next()).unwrap_or_default()
    }
    /// The text of an answer other than 200 to a question about the server.
    fn refusal(&self, status: StatusCode) -> String {
        let hint = match self.kind() {
            "" => NO_LARDER,
            "no-such-route" if self.member("detail").is_some_and(|detail| detail.starts_with(NOTHING_AT)) => NO_ADMIN,
            _ => "",
        };
        self.text(status) + hint
    }
    fn text(&self, status: StatusCode) -> String {
        match self.member("detail").or(self.member("title")) {
            Some(detail) => format!("{status}: {detail}"),
            None => status.to_string(),
        }
    }
    fn member(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }
}

async fn problem(answer: Response<Incoming>, timeout: Duration) -> Problem {
    let limited = Limited::new(answer.into_body(), MAX_ERROR);
    let document = match within(timeout, limited.collect()).await {
        Ok(Ok(body)) => serde_json::from_slice(&body.to_bytes()).unwrap_or_default(),
        _ => serde_json::Value::Null,
    };
    Problem(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_with_a_user() {
        let url = HttpUrl::parse("http://shop:p%40ss@cache.internal:8080").unwrap();
        assert_eq!((url.authority.as_str(), url.host.as_str()), ("cache.internal:8080", "cache.internal"));
        assert_eq!(url.credentials.as_deref(), Some("Basic c2hvcDpwQHNz"));
        assert!(!format!("{url:?}").contains("c2hvcDpwQHNz"));
    }

    #[test]
    fn urls() {
        let url = HttpUrl::parse("https://cache.internal").unwrap();
        assert_eq!((url.port, url.tls.is_some()), (443, true));
        for (text, host, port, base) in [
            ("http://127.0.0.1:8080", "127.0.0.1", 8080, ""),
            ("http://[::1]:1/", "::1", 1, ""),
            ("HTTP://cache.internal/larder/", "cache.internal", 80, "/larder"),
            ("cache.internal:8081", "cache.internal", 8081, ""),
            ("[::1]:8081", "::1", 8081, ""),
        ] {
            let url = HttpUrl::parse(text).unwrap();
            assert_eq!((url.host.as_str(), url.port, url.base.as_str()), (host, port, base));
        }
        for text in ["http://", "http://u@h", "http://h/?a", "http:h", "http://a b", "h", "redis://h:1", ""] {
            HttpUrl::parse(text).unwrap_err();
        }
    }
}
