//! The HTTP client of `object_store`, which brings none of its own here: hyper over our TLS, one
//! connection that serves one request after the other.
use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Uri, header, uri::Scheme};
use http_body::{Body, Frame, SizeHint};
use hyper::client::conn::http1::SendRequest;
use larder_base::{
    outbound::{connect_tcp, speak_http1},
    tls::ClientTls,
};
use larder_config::TlsClientSettings;
use object_store::{
    ClientOptions,
    client::{
        HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse,
        HttpResponseBody, HttpService,
    },
};
use std::{
    error::Error,
    io,
    path::Path,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    sync::Mutex,
    time::{Instant, Sleep, sleep, timeout},
};

/// To reach the storage, TLS included.
const CONNECT: Duration = Duration::from_secs(5);
/// From a request to its answer, or from one part of the answer to the next. The longest request is
/// a part of an upload.
const ANSWER: Duration = Duration::from_secs(60);
/// The slowest answer, in bytes per second. One that sends a byte now and then would hold up a
/// restore for ever.
const SLOWEST: u64 = 16 << 10;
/// The longest answer that is no object: those of S3 have some kilobytes, and `object_store` collects
/// them in memory.
const LONGEST: u64 = 1 << 20;

/// Makes the client.
#[derive(Clone)]
pub(super) struct Connector(ClientTls);

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connector")
    }
}

impl Connector {
    /// Trusts the authorities in a PEM file; without one, those that Mozilla trusts.
    pub(super) fn new(ca: Option<&Path>) -> Result<Connector, String> {
        let settings = TlsClientSettings { ca: ca.map(Into::into), ..TlsClientSettings::default() };
        // The name is that of each request.
        let tls = ClientTls::new(&settings, "localhost", &[]);
        tls.map(Connector).map_err(|error| format!("snapshot-file: ca=: {error}"))
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Client { tls: self.0.clone(), idle: Mutex::new(None) }))
    }
}

/// Sends one request after the other.
struct Client {
    tls: ClientTls,
    /// The connection of the last request, and to which host. It is ready when that one's answer
    /// has been read.
    idle: Mutex<Option<(Uri, SendRequest<HttpRequestBody>)>>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

#[async_trait]
impl HttpService for Client {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (mut parts, body) = request.into_parts();
        let (host, path) = split(&parts.uri)?;
        if !parts.headers.contains_key(header::HOST) {
            let name = host.authority().map_or("", |authority| authority.as_str());
            parts.headers.insert(header::HOST, HeaderValue::from_str(name).map_err(unknown)?);
        }
        parts.uri = path;
        let mut idle = self.idle.lock().await.take().filter(|(to, _)| *to == host).map(|(_, sender)| sender);
        if let Some(sender) = &mut idle
            && sender.ready().await.is_err()
        {
            idle = None;
        }
        let is_get = parts.method == Method::GET;
        let mut sender = match idle {
            Some(sender) => sender,
            None => self.open(&host).await?,
        };
        let sent = timeout(ANSWER, sender.send_request(Request::from_parts(parts, body))).await;
        let answer = sent.map_err(|_| no_answer())?;
        let answer = answer.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error))?;
        *self.idle.lock().await = Some((host, sender));
        let longest = if is_get && answer.status().is_success() { u64::MAX } else { LONGEST };
        Ok(answer.map(|body| HttpResponseBody::new(BoundedBody::new(body, longest))))
    }
}

/// Scheme and host, and what of the URL is sent.
fn split(uri: &Uri) -> Result<(Uri, Uri), HttpError> {
    let mut host = uri.clone().into_parts();
    let path = host.path_and_query.take();
    host.path_and_query = Some("/".parse().map_err(unknown)?);
    let path = path.map_or_else(|| Ok(Uri::from_static("/")), |path| Uri::try_from(path.as_str())).map_err(unknown)?;
    Ok((Uri::from_parts(host).map_err(unknown)?, path))
}

fn unknown(error: impl Error + Send + Sync + 'static) -> HttpError {
    HttpError::new(HttpErrorKind::Unknown, error)
}

fn no_answer() -> HttpError {
    HttpError::new(HttpErrorKind::Timeout, io::Error::from(io::ErrorKind::TimedOut))
}

impl Client {
    async fn open(&self, host: &Uri) -> Result<SendRequest<HttpRequestBody>, HttpError> {
        let name = host.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let is_tls = host.scheme() == Some(&Scheme::HTTPS);
        let port = host.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let opened = timeout(CONNECT, async {
            let tls = is_tls.then(|| self.tls.towards(name)).transpose();
            let stream = connect_tcp(name, port, tls.map_err(io::Error::other)?.as_ref()).await?;
            speak_http1(stream).await.map_err(io::Error::other)
        });
        opened
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            .map_err(|error: io::Error| HttpError::new(HttpErrorKind::Connect, error))
    }
}

/// An answer that comes in time and is not too long, or ends with an error.
struct BoundedBody<B> {
    body: B,
    left: Pin<Box<Sleep>>,
    begun: Instant,
    came: u64,
    longest: u64,
}

impl<B> BoundedBody<B> {
    fn new(body: B, longest: u64) -> BoundedBody<B> {
        BoundedBody { body, left: Box::pin(sleep(ANSWER)), begun: Instant::now(), came: 0, longest }
    }
}

impl<B> Body for BoundedBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Error + Send + Sync + 'static,
{
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            ready!(self.left.as_mut().poll(cx));
            return Poll::Ready(Some(Err(no_answer())));
        };
        let now = Instant::now();
        self.left.as_mut().reset(now + ANSWER);
        self.came += frame
            .as_ref()
            .map_or(0, |frame| frame.as_ref().ok().and_then(Frame::data_ref).map_or(0, |data| data.len() as u64));
        if self.came > self.longest {
            let text = format!("an answer has more than {} bytes", self.longest);
            return Poll::Ready(Some(Err(HttpError::new(HttpErrorKind::Unknown, io::Error::other(text)))));
        }
        if frame.is_some() && now - self.begun > ANSWER + Duration::from_secs(self.came / SLOWEST) {
            return Poll::Ready(Some(Err(no_answer())));
        }
        Poll::Ready(frame.map(|frame| frame.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error))))
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{convert::Infallible, future::poll_fn};

    /// Sends this many bytes, each so long after the last.
    struct Slow {
        pause: Duration,
        bytes: usize,
        next: Pin<Box<Sleep>>,
    }
    impl Body for Slow {
        type Data = Bytes;
        type Error = Infallible;
        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            ready!(self.next.as_mut().poll(cx));
            let pause = self.pause;
            self.next.as_mut().reset(Instant::now() + pause);
            Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![0; self.bytes])))))
        }
    }

    /// How many bytes of an endless answer are taken, and for how long.
    fn taken(pause: Duration, bytes: usize, longest: u64) -> (u64, Duration) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let begun = Instant::now();
            let mut body = BoundedBody::new(Slow { pause, bytes, next: Box::pin(sleep(pause)) }, longest);
            let mut came = 0;
            while let Some(Ok(_)) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
                came += bytes as u64;
                assert!(came < 1 << 30, "it goes on for ever");
            }
            (came, begun.elapsed())
        })
    }

    #[test]
    fn no_answer_is_endless() {
        let (ms, s) = (Duration::from_millis, Duration::from_secs);
        // One that says nothing, one that says a byte now and then, one that is just too slow.
        assert_eq!(taken(s(100_000), 1, u64::MAX), (0, ANSWER));
        assert!(taken(s(50), 1, u64::MAX).1 <= s(100));
        let (came, time) = taken(s(1), SLOWEST as usize / 2, u64::MAX);
        assert!((s(110)..s(130)).contains(&time), "{came} in {time:?}");
        // Errors, and what is said of uploads.
        assert_eq!(taken(ms(1), 1000, LONGEST).0, LONGEST - LONGEST % 1000);
    }
}
