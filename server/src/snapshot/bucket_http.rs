//! The HTTP client of `object_store`, which brings none of its own here: hyper over our TLS, one
//! connection that serves one request after the other.
use crate::{config::TlsClientSettings, tls::ClientTls};
use async_trait::async_trait;
use http::{HeaderValue, Request, Uri, header, uri::Scheme};
use http_body::{Body, Frame, SizeHint};
use hyper::{
    body::Incoming,
    client::conn::http1::{SendRequest, handshake},
};
use hyper_util::rt::TokioIo;
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
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::Mutex,
    time::{Instant, Sleep, sleep, timeout},
};

/// To reach the storage, TLS included.
const CONNECT: Duration = Duration::from_secs(5);
/// From a request to its answer, or from one part of the answer to the next. The longest request is
/// a part of an upload.
const ANSWER: Duration = Duration::from_secs(60);

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
        tls.map(Connector).map_err(|error| format!("snapshot-s3-ca: {error}"))
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
        let mut sender = match idle {
            Some(sender) => sender,
            None => self.open(&host).await?,
        };
        let sent = timeout(ANSWER, sender.send_request(Request::from_parts(parts, body))).await;
        let answer = sent.map_err(|_| no_answer())?;
        let answer = answer.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error))?;
        *self.idle.lock().await = Some((host, sender));
        Ok(answer.map(|body| HttpResponseBody::new(TimedBody { body, left: Box::pin(sleep(ANSWER)) })))
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
        let failed = |error: io::Error| HttpError::new(HttpErrorKind::Connect, error);
        let name = host.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let is_tls = host.scheme() == Some(&Scheme::HTTPS);
        let port = host.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let opened = timeout(CONNECT, async {
            let tcp = TcpStream::connect((name, port)).await.map_err(failed)?;
            tcp.set_nodelay(true).map_err(failed)?;
            if !is_tls {
                return speak(tcp).await;
            }
            let tls = self.tls.towards(name).map_err(|error| failed(io::Error::other(error)))?;
            speak(tls.connect(tcp).await.map_err(failed)?).await
        });
        opened.await.map_err(|_| failed(io::ErrorKind::TimedOut.into()))?
    }
}

async fn speak<S>(stream: S) -> Result<SendRequest<HttpRequestBody>, HttpError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let spoken = handshake(TokioIo::new(stream)).await;
    let (sender, connection) = spoken.map_err(|error| HttpError::new(HttpErrorKind::Connect, error))?;
    // Its error is that of the request.
    tokio::spawn(connection);
    Ok(sender)
}

/// An answer of which some part comes in time, or it ends with an error.
struct TimedBody {
    body: Incoming,
    left: Pin<Box<Sleep>>,
}

impl Body for TimedBody {
    type Data = bytes::Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<bytes::Bytes>, HttpError>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            ready!(self.left.as_mut().poll(cx));
            return Poll::Ready(Some(Err(no_answer())));
        };
        self.left.as_mut().reset(Instant::now() + ANSWER);
        Poll::Ready(frame.map(|frame| frame.map_err(|error| HttpError::new(HttpErrorKind::Interrupted, error))))
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
