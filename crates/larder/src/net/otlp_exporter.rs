//! Sends metrics and spans to an OpenTelemetry collector by OTLP over HTTP (`otlp-endpoint`), from
//! the control thread. Each message has a connection of its own: there are few of them.
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full};
use larder_base::{
    outbound::{connect_tcp, speak_http1},
    telemetry::{LogLimiter, OtlpResource, gzip, metrics_message, partial_success, traces_message},
    tls::ClientTls,
};
use larder_config::{OtlpSettings, TlsClientSettings, read_headers};
use larder_core::app::App;
use std::{cell::Cell, io, rc::Rc, sync::Arc, time::Duration};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

/// For one message, from the connection to the answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// For the last messages, when the process ends.
const LAST: Duration = Duration::from_secs(2);
/// How often spans are sent.
const SPANS: Duration = Duration::from_secs(1);
/// Between two messages with metrics.
const METRICS: Duration = Duration::from_secs(10);
/// Nothing is sent for this long after a failure, or longer if the collector asks for it.
const PAUSE: Duration = Duration::from_secs(5);
/// Nor longer than this, whatever the collector asks for.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Log lines about failures are at least this far apart.
const SAID: Duration = Duration::from_secs(60);
/// Of an answer, this much is read; the rest is ignored.
const LONGEST_ANSWER: usize = 64 << 10;

/// See the module.
pub(super) struct OtlpExporter {
    app: Arc<App>,
    settings: OtlpSettings,
    resource: OtlpResource,
    tls: ClientTls,
    /// Of each message.
    headers: HeaderMap,
    said: LogLimiter,
    /// Of messages that were taken in part: they must not hide that others were not taken.
    said_in_part: LogLimiter,
    /// What the latest message says about the next.
    pause: Cell<Duration>,
}

/// Why a message did not arrive.
enum NotSent {
    /// It may arrive when it is sent again.
    Later(io::Error),
    /// Like `Later`, but not before this time is over.
    After(StatusCode, Duration),
    /// The collector does not take it.
    Refused(StatusCode),
}

/// Begins to send, if there is a collector.
///
/// # Errors
/// TLS cannot be used.
pub(super) fn start(app: &Arc<App>) -> io::Result<Option<Rc<OtlpExporter>>> {
    let exporter = OtlpExporter::new(app)?.map(Rc::new);
    if let Some(exporter) = exporter.clone() {
        tokio::task::spawn_local(async move { exporter.export().await });
    }
    Ok(exporter)
}

impl OtlpExporter {
    fn new(app: &Arc<App>) -> io::Result<Option<OtlpExporter>> {
        let Some(settings) = app.settings.otlp.clone() else { return Ok(None) };
        let tls = TlsClientSettings { ca: settings.ca.clone(), ..TlsClientSettings::default() };
        let host = host(&settings.endpoint).to_owned();
        let tls =
            ClientTls::new(&tls, &host, &[]).map_err(|error| io::Error::other(format!("otlp-endpoint: {error}")))?;
        let headers = headers(&settings).map_err(io::Error::other)?;
        let instance = format!("{:016x}", fastrand::u64(..));
        let resource = OtlpResource::new(&instance, &settings.attributes);
        Ok(Some(OtlpExporter {
            app: app.clone(),
            settings,
            resource,
            tls,
            headers,
            said: LogLimiter::new(SAID),
            said_in_part: LogLimiter::new(SAID),
            pause: Cell::new(PAUSE),
        }))
    }

    /// Sends until the process ends.
    async fn export(&self) {
        let mut tick = interval(SPANS);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut due, mut paused) = (Instant::now(), Instant::now());
        loop {
            tick.tick().await;
            let now = Instant::now();
            if now < paused {
                continue;
            }
            let mut has_arrived = self.send_spans().await;
            if has_arrived && due <= now {
                due = now + METRICS;
                has_arrived = self.send_metrics().await;
            }
            if !has_arrived {
                paused = Instant::now() + self.pause.get();
            }
        }
    }

    /// Sends what there is, at the end of the process.
    pub(super) async fn finish(&self) {
        // What does not arrive now is lost.
        let _ = timeout(LAST, async { self.send_spans().await && self.send_metrics().await }).await;
    }

    /// Whether they need not be sent again.
    async fn send_spans(&self) -> bool {
        let (spans, lost) = self.app.telemetry.tracer.take();
        if lost > 0 && self.said.due(std::time::Instant::now()).is_some() {
            tracing::warn!(lost, "spans were lost: the collector takes them too slowly (otlp-sample)");
        }
        if spans.is_empty() {
            return true;
        }
        let has_arrived = self.send("v1/traces", traces_message(&self.resource, &spans)).await;
        if !has_arrived {
            self.app.telemetry.tracer.put_back(spans);
        }
        has_arrived
    }

    /// Metrics are sums since the start: the next ones replace what was not sent.
    async fn send_metrics(&self) -> bool {
        self.send("v1/metrics", metrics_message(&self.resource, &self.app.metrics())).await
    }

    async fn send(&self, path: &str, message: Vec<u8>) -> bool {
        // Collectors have to take gzip: https://opentelemetry.io/docs/specs/otlp/#otlphttp-request
        let Some(message) = gzip(&message) else { return true };
        let sent = timeout(PATIENCE, self.post(path, message.into())).await;
        let why = match sent.unwrap_or_else(|_| Err(NotSent::Later(io::ErrorKind::TimedOut.into()))) {
            Ok(body) => {
                self.note_left_out(path, &body);
                return true;
            }
            Err(why) => why,
        };
        self.pause.set(PAUSE);
        let (error, is_over) = match why {
            NotSent::Later(error) => (error.to_string(), false),
            NotSent::After(status, pause) => {
                self.pause.set(pause);
                (format!("it answered {status} and asks for a pause of {} s", pause.as_secs()), false)
            }
            NotSent::Refused(status) => (format!("it answered {status}"), true),
        };
        if self.said.due(std::time::Instant::now()).is_some() {
            let endpoint = &self.settings.endpoint;
            tracing::warn!(%endpoint, path, error, "the collector (otlp-endpoint) did not take a message");
        }
        is_over
    }

    /// A part that the collector has left out must not be sent again:
    /// <https://opentelemetry.io/docs/specs/otlp/#partial-success-1>
    fn note_left_out(&self, path: &str, body: &[u8]) {
        let Some(left_out) = partial_success(body) else { return };
        if self.said_in_part.due(std::time::Instant::now()).is_some() {
            let (endpoint, rejected, reason) = (&self.settings.endpoint, left_out.rejected, left_out.reason);
            tracing::warn!(%endpoint, path, rejected, reason, "the collector (otlp-endpoint) objects to a part of a message");
        }
    }

    /// Returns the body of the answer.
    async fn post(&self, path: &str, message: Bytes) -> Result<Vec<u8>, NotSent> {
        let endpoint = &self.settings.endpoint;
        let is_tls = endpoint.scheme_str() == Some("https");
        let port = endpoint.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let tls = is_tls.then_some(&self.tls);
        let stream = connect_tcp(host(endpoint), port, tls).await.map_err(NotSent::Later)?;
        let base = endpoint.path().trim_end_matches('/');
        let mut request = Request::new(Full::new(message));
        *request.method_mut() = Method::POST;
        *request.uri_mut() =
            format!("{base}/{path}").parse().map_err(|error| NotSent::Later(io::Error::other(error)))?;
        *request.headers_mut() = self.headers.clone();
        let failed = |error: hyper::Error| NotSent::Later(io::Error::other(error));
        let response = speak_http1(stream).await.map_err(failed)?.send_request(request).await.map_err(failed)?;
        let status = response.status();
        // The other form is a date, which would depend on both clocks.
        let pause = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let (mut frames, mut body) = (response.into_body(), Vec::new());
        while let Some(frame) = frames.frame().await {
            let data = frame.map_err(failed)?.into_data().unwrap_or_default();
            body.extend_from_slice(&data[..data.len().min(LONGEST_ANSWER - body.len())]);
        }
        match (status.as_u16(), pause) {
            (200..300, _) => Ok(body),
            // https://opentelemetry.io/docs/specs/otlp/#otlphttp-throttling
            (429 | 503, Some(pause)) => {
                Err(NotSent::After(status, Duration::from_secs(pause).clamp(PAUSE, LONGEST_PAUSE)))
            }
            // https://opentelemetry.io/docs/specs/otlp/#retryable-response-codes
            (429 | 502..=504, _) => Err(NotSent::Later(io::Error::other(format!("it answered {status}")))),
            _ => Err(NotSent::Refused(status)),
        }
    }
}

/// Those of the settings and of the protocol. A collector's address has characters of a header only.
fn headers(settings: &OtlpSettings) -> Result<HeaderMap, String> {
    let mut headers = read_headers("otlp-headers", &settings.headers)?;
    let authority = settings.endpoint.authority().map_or("", |authority| authority.as_str());
    headers.insert(header::HOST, HeaderValue::from_str(authority).map_err(|error| format!("otlp-endpoint: {error}"))?);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    let ours = HeaderValue::from_static(concat!("larder/", env!("CARGO_PKG_VERSION")));
    headers.entry(header::USER_AGENT).or_insert(ours);
    Ok(headers)
}

fn host(endpoint: &Uri) -> &str {
    endpoint.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
}
