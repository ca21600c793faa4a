//! groupcache's own protocol over HTTP/1.1: `/_groupcache/{group}/{key}`, as groupcache-go v3 and mailgun's groupcache serve it, and a few
//! routes that Larders alone have.
use super::{
    asked_for::AskedFor,
    member::Member,
    messages::{
        GetKeysRequest, GetKeysResponse, HottestKeys, OwnerAnswer, OwnerRequest, RemoveKeysRequest, SetRequest,
        to_expire,
    },
    peer_answers::{answer, answers, explanation, not_reached, refused},
    transport::{ClearScope, MemberMove, PeerAnswer, PeerChange, PeerError, Transport},
};
use crate::{
    buffers::{BufferKind, Buffers, GrowingBuffer},
    config::{PeerAddress, PeerSettings},
    source::{LocalFuture, connect_tcp},
    tls::{NodeProtocol, ServerTls},
};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::{Body, Incoming},
    client::conn::http1::{SendRequest, handshake},
};
use hyper_util::rt::TokioIo;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use prost::Message;
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout_at},
};

/// The epoch of the asking node's ring, 16 hexadecimal digits.
pub const RING: HeaderName = HeaderName::from_static("larder-ring");
/// The path of all routes between nodes.
pub const BASE_PATH: &str = "/_groupcache/";
/// What follows the group in the path of a removal of several keys.
pub const REMOVE_KEYS: &str = "_remove-keys/";
/// What follows the group in the path of a read of several keys.
pub const GET_KEYS: &str = "_get-keys/";
/// What follows the group in the path of a clear.
pub const CLEAR: &str = "_clear/";
/// The same of what the owner of keys is to run.
pub const AT_OWNER: &str = "_at-owner/";
/// The same of a question for the hottest keys.
pub const HOTTEST: &str = "_hottest/";
/// The same of what a node says about itself.
pub const MEMBER: &str = "_member/";

/// What a path segment may have unescaped, as Go's `url.PathEscape` has it.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b':')
    .remove(b'=')
    .remove(b'@');

/// Connections that a core has to a node; what needs one more waits.
const MAX_CONNECTIONS: usize = 64;
/// A connection that was idle for longer is not used again.
const MAX_IDLE_TIME: Duration = Duration::from_secs(60);
/// What a message holds at most besides the value.
const LARGEST_REST: usize = 1 << 20;

type Connection = SendRequest<Full<Bytes>>;

/// How often a request may have been sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    AsOftenAsNeeded,
    No,
    Once,
}
impl Sent {
    fn again(self) -> Sent {
        if self == Sent::No { Sent::Once } else { self }
    }
}

/// One core's connections to the other nodes.
pub(super) struct HttpTransport {
    connect_timeout: Duration,
    max_value: usize,
    buffers: Arc<Buffers>,
    /// `None`: the nodes speak plain HTTP.
    tls: Option<Arc<ServerTls>>,
    /// The header field that shows the secret.
    secret: Option<HeaderValue>,
    pools: RefCell<HashMap<PeerAddress, Rc<Pool>>>,
}

/// One core's connections to a node.
struct Pool {
    /// With the moment since when they are idle; the latest is last.
    idle: RefCell<Vec<(Connection, Instant)>>,
    under_way: Semaphore,
}
impl Default for Pool {
    fn default() -> Pool {
        Pool { idle: RefCell::default(), under_way: Semaphore::new(MAX_CONNECTIONS) }
    }
}
impl Pool {
    async fn take_idle(&self) -> Option<Connection> {
        loop {
            let (mut connection, since) = self.idle.borrow_mut().pop()?;
            if since.elapsed() < MAX_IDLE_TIME && connection.ready().await.is_ok() {
                return Some(connection);
            }
        }
    }
    fn give_back(&self, connection: Connection) {
        if !connection.is_closed() {
            self.idle.borrow_mut().push((connection, Instant::now()));
        }
    }
}

impl HttpTransport {
    pub(super) fn new(
        settings: &PeerSettings,
        max_value: usize,
        buffers: Arc<Buffers>,
        tls: Option<Arc<ServerTls>>,
    ) -> HttpTransport {
        let secret = settings.secret.as_deref().and_then(|secret| {
            let mut value = HeaderValue::from_str(&bearer(secret)).ok()?;
            value.set_sensitive(true);
            Some(value)
        });
        let connect_timeout = settings.connect_timeout;
        HttpTransport { connect_timeout, max_value, buffers, tls, secret, pools: RefCell::default() }
    }

    fn pool(&self, address: &PeerAddress) -> Rc<Pool> {
        if let Some(pool) = self.pools.borrow().get(address) {
            return pool.clone();
        }
        self.pools.borrow_mut().entry(address.clone()).or_default().clone()
    }

    async fn connect(&self, member: &Member, deadline: Instant) -> Result<Connection, PeerError> {
        let PeerAddress { host, port } = &member.address;
        let connecting = async {
            let tls = match &self.tls {
                Some(tls) => tls.towards_node(host, NodeProtocol::Http1)?,
                None => None,
            };
            let stream = connect_tcp(host, *port, tls.as_ref()).await.map_err(|error| error.to_string())?;
            handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())
        };
        let until = deadline.min(Instant::now() + self.connect_timeout);
        let reason = match timeout_at(until, connecting).await {
            Ok(Ok((sender, connection))) => {
                tokio::task::spawn_local(async move {
                    // The request that is under way gets the error, too.
                    let _ = connection.await;
                });
                return Ok(sender);
            }
            Ok(Err(reason)) => reason,
            Err(_) => format!("timed out after {:?} (peer-connect-timeout)", self.connect_timeout),
        };
        Err(PeerError::NotReached(format!("peer {}: cannot connect: {reason}", member.name).into()))
    }

    /// Sends a request, twice if need be, and gives the head and the body of the response.
    async fn exchange(
        &self,
        member: &Member,
        request: impl Fn() -> Request<Full<Bytes>>,
        deadline: Instant,
    ) -> Result<(Response<()>, Bytes), PeerError> {
        self.exchange_sent(member, request, deadline, &Cell::new(Sent::AsOftenAsNeeded)).await
    }

    /// The same for a request that must not arrive twice: `NoAnswer` if it may have arrived.
    async fn exchange_once(
        &self,
        member: &Member,
        request: impl Fn() -> Request<Full<Bytes>>,
        deadline: Instant,
    ) -> Result<(Response<()>, Bytes), PeerError> {
        let sent = Cell::new(Sent::No);
        self.exchange_sent(member, request, deadline, &sent).await.map_err(|error| match error {
            PeerError::NotReached(reason) if sent.get() == Sent::Once => PeerError::NoAnswer(reason),
            error => error,
        })
    }

    async fn exchange_sent(
        &self,
        member: &Member,
        request: impl Fn() -> Request<Full<Bytes>>,
        deadline: Instant,
        sent: &Cell<Sent>,
    ) -> Result<(Response<()>, Bytes), PeerError> {
        let pool = self.pool(&member.address);
        let exchange = async {
            // Never closed.
            let _under_way = pool.under_way.acquire().await;
            // An idle connection may have been closed by the other side. Most requests may be sent twice.
            if let Some(mut connection) = pool.take_idle().await {
                match connection.try_send_request(request()).await {
                    Ok(response) => {
                        sent.set(sent.get().again());
                        return self.finish(member, &pool, connection, response).await;
                    }
                    Err(mut error) => {
                        let is_unsent = error.take_message().is_some();
                        let error = error.into_error();
                        if error.is_timeout() || !is_unsent && sent.get() != Sent::AsOftenAsNeeded {
                            sent.set(sent.get().again());
                            return Err(self.broken(member, &error));
                        }
                    }
                }
            }
            let mut connection = self.connect(member, deadline).await?;
            sent.set(sent.get().again());
            match connection.send_request(request()).await {
                Ok(response) => self.finish(member, &pool, connection, response).await,
                Err(error) => Err(self.broken(member, &error)),
            }
        };
        match timeout_at(deadline, exchange).await {
            Ok(answer) => answer,
            Err(_) => {
                Err(PeerError::NoAnswer(format!("peer {}: no answer in time (source-timeout)", member.name).into()))
            }
        }
    }

    fn broken(&self, member: &Member, error: &hyper::Error) -> PeerError {
        // The cause may be an alert: that the node takes no certificate of ours.
        let cause = std::error::Error::source(error).map_or(String::new(), |cause| format!(": {cause}"));
        not_reached(member, format_args!("{error}{cause}"))
    }

    async fn finish(
        &self,
        member: &Member,
        pool: &Pool,
        connection: Connection,
        response: Response<Incoming>,
    ) -> Result<(Response<()>, Bytes), PeerError> {
        let (head, mut body) = response.into_parts();
        let largest = self.max_value + LARGEST_REST;
        let too_large = |size: usize| {
            let reason = format!("peer {}: an answer of {size} bytes is larger than max-value allows", member.name);
            PeerError::Refused(reason.into())
        };
        let announced = body.size_hint().exact().map(|size| usize::try_from(size).unwrap_or(usize::MAX));
        if let Some(size) = announced.filter(|size| *size > largest) {
            return Err(too_large(size));
        }
        let mut all = GrowingBuffer::default();
        let mut charge = self.buffers.charge(BufferKind::Fetched);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| self.broken(member, &error))?;
            let Ok(data) = frame.into_data() else { continue };
            let size = all.len() + data.len();
            if size > largest {
                return Err(too_large(size));
            }
            if !charge.try_resize(size) {
                let reason = format!("peer {}: no room for its answer (max-buffers)", member.name);
                return Err(PeerError::NoAnswer(reason.into()));
            }
            all.extend(&data, announced.unwrap_or(size));
        }
        drop(charge);
        pool.give_back(connection);
        Ok((Response::from_parts(head, ()), self.buffers.count(BufferKind::Fetched, all)))
    }
}

/// What a node shows another as its `Authorization`.
pub fn bearer(secret: &str) -> String {
    format!("Bearer {secret}")
}

/// The path of a key, or of what follows the group in one of the other routes.
fn path(group: &str, rest: &str) -> String {
    format!("{BASE_PATH}{}/{rest}", percent_encode(group.as_bytes(), SEGMENT))
}

impl HttpTransport {
    fn request(&self, member: &Member, method: Method, path: &str, body: Bytes) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        // Escapes and literals alone.
        *request.uri_mut() = path.parse().unwrap_or_default();
        if let Ok(host) = HeaderValue::from_str(&member.address.to_string()) {
            request.headers_mut().insert(header::HOST, host);
        }
        if let Some(secret) = &self.secret {
            request.headers_mut().insert(header::AUTHORIZATION, secret.clone());
        }
        request
    }
}

fn with_epoch(mut request: Request<Full<Bytes>>, epoch: u64) -> Request<Full<Bytes>> {
    if let Ok(epoch) = HeaderValue::from_str(&format!("{epoch:016x}")) {
        request.headers_mut().insert(RING, epoch);
    }
    request
}

impl Transport for HttpTransport {
    fn get<'a>(
        &'a self,
        member: &'a Member,
        group: &'a str,
        key: &'a [u8],
        epoch: u64,
        asked_for: AskedFor<'a>,
        deadline: Instant,
    ) -> LocalFuture<'a, Result<PeerAnswer, PeerError>> {
        Box::pin(async move {
            let path = path(group, &percent_encode(key, SEGMENT).to_string());
            let build = || {
                let mut request = with_epoch(self.request(member, Method::GET, &path, Bytes::new()), epoch);
                asked_for.tell(request.headers_mut());
                request
            };
            let (head, body) = self.exchange(member, build, deadline).await?;
            answer(member, head.status(), body)
        })
    }

    fn get_many<'a>(
        &'a self,
        member: &'a Member,
        group: &'a str,
        keys: Vec<Bytes>,
        held_only: bool,
        epoch: u64,
        deadline: Instant,
    ) -> LocalFuture<'a, Result<Vec<Option<PeerAnswer>>, PeerError>> {
        Box::pin(async move {
            let (path, asked) = (path(group, GET_KEYS), keys.len());
            let body = Bytes::from(GetKeysRequest { keys, held_only: held_only.then_some(true) }.encode_to_vec());
            let build = || with_epoch(self.request(member, Method::POST, &path, body.clone()), epoch);
            let (head, body) = self.exchange(member, build, deadline).await?;
            if head.status() != StatusCode::OK {
                return Err(not_reached(member, format_args!("{}: {}", head.status(), explanation(&body))));
            }
            let response = GetKeysResponse::decode(body).map_err(|error| not_reached(member, error))?;
            answers(member, asked, response.answers)
        })
    }

    fn tell<'a>(
        &'a self,
        member: &'a Member,
        group: &'a str,
        change: &'a PeerChange,
        deadline: Instant,
    ) -> LocalFuture<'a, Result<(), PeerError>> {
        Box::pin(async move {
            let (method, path, body) = told(group, change);
            let build = || self.request(member, method.clone(), &path, body.clone());
            let (head, body) = self.exchange(member, build, deadline).await?;
            match head.status() {
                StatusCode::OK | StatusCode::NO_CONTENT => Ok(()),
                status => {
                    let reason = format_args!("{status}: {}", explanation(&body));
                    Err(if status.is_client_error() { refused(member, reason) } else { not_reached(member, reason) })
                }
            }
        })
    }

    fn at_owner<'a>(
        &'a self,
        member: &'a Member,
        group: &'a str,
        request: &'a OwnerRequest,
        deadline: Instant,
    ) -> LocalFuture<'a, Result<OwnerAnswer, PeerError>> {
        Box::pin(async move {
            let (path, body) = (path(group, AT_OWNER), Bytes::from(request.encode_to_vec()));
            let build = || self.request(member, Method::POST, &path, body.clone());
            let (head, body) = self.exchange_once(member, build, deadline).await?;
            let reason = |reason: String| format!("peer {}: {}: {reason}", member.name, head.status()).into();
            match head.status() {
                StatusCode::OK => match OwnerAnswer::decode(body) {
                    Ok(answer) if answer.status != 0 => Ok(answer),
                    // groupcache-go takes the request for a read of a key.
                    _ => Err(PeerError::Refused(reason("it is no Larder".to_owned()))),
                },
                StatusCode::MISDIRECTED_REQUEST | StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                    Err(PeerError::NotReached(reason(explanation(&body))))
                }
                status if status.is_server_error() => Err(PeerError::NoAnswer(reason(explanation(&body)))),
                _ => Err(PeerError::Refused(reason(explanation(&body)))),
            }
        })
    }

    fn hottest<'a>(
        &'a self,
        member: &'a Member,
        group: &'a str,
        this: &'a str,
        max_bytes: usize,
        deadline: Instant,
    ) -> LocalFuture<'a, Result<Vec<Bytes>, PeerError>> {
        Box::pin(async move {
            let this = percent_encode(this.as_bytes(), NON_ALPHANUMERIC);
            let path = path(group, &format!("{HOTTEST}?of={this}&bytes={max_bytes}"));
            let build = || self.request(member, Method::POST, &path, Bytes::new());
            let (head, body) = self.exchange(member, build, deadline).await?;
            if head.status() != StatusCode::OK {
                return Err(refused(member, format_args!("{}: it hands nothing over", head.status())));
            }
            Ok(HottestKeys::decode(body).map_err(|error| refused(member, error))?.keys)
        })
    }

    fn announce<'a>(
        &'a self,
        member: &'a Member,
        group: &'a str,
        this: &'a str,
        what: MemberMove,
        deadline: Instant,
    ) -> LocalFuture<'a, Result<(), PeerError>> {
        Box::pin(async move {
            let this = percent_encode(this.as_bytes(), NON_ALPHANUMERIC);
            let path = path(group, &format!("{MEMBER}?of={this}&is={}", what.name()));
            let build = || self.request(member, Method::POST, &path, Bytes::new());
            let (head, _) = self.exchange(member, build, deadline).await?;
            match head.status() {
                StatusCode::OK => Ok(()),
                status => Err(refused(member, status)),
            }
        })
    }
}

/// A change as a request.
fn told(group: &str, change: &PeerChange) -> (Method, String, Bytes) {
    match change {
        PeerChange::Set { key, value, expiry } => {
            let message = SetRequest {
                group: Some(Bytes::copy_from_slice(group.as_bytes())),
                key: Some(key.clone()),
                value: Some(value.clone()),
                expire: Some(to_expire(*expiry)),
            };
            (Method::PUT, path(group, &percent_encode(key, SEGMENT).to_string()), message.encode_to_vec().into())
        }
        PeerChange::Remove(key) => {
            (Method::DELETE, path(group, &percent_encode(key, SEGMENT).to_string()), Bytes::new())
        }
        PeerChange::Clear { scope, soft } => {
            let (name, bytes) = match scope {
                ClearScope::Prefix(prefix) => ("prefix", prefix),
                ClearScope::Tag(tag) => ("tag", tag),
            };
            let rest = format!("{CLEAR}?{name}={}&soft={soft}", percent_encode(bytes, NON_ALPHANUMERIC));
            (Method::POST, path(group, &rest), Bytes::new())
        }
    }
}

/// The keys of a removal of several, as JSON.
///
/// # Errors
/// A text that says what is wrong with it.
pub fn parse_remove_keys(body: &[u8]) -> Result<Vec<Bytes>, String> {
    let request: RemoveKeysRequest =
        serde_json::from_slice(body).map_err(|error| format!("invalid request: {error}"))?;
    Ok(request.keys.into_iter().map(Bytes::from).collect())
}
