//! Larders' own service over gRPC (`larder_peers.proto`): many requests share a connection of
//! HTTP/2. groupcache's nodes do not speak it.
use super::{
    grpc_messages::{
        Announced, Announcement, Change, Done, GRPC_PATH, HottestPart, HottestRequest, KeyRequest, KeysRequest,
    },
    http_transport::HttpTransport,
    member::Member,
    messages::{GetKeysResponse, KeyAnswer, OwnerAnswer, OwnerRequest},
    node_routes::{RING, shown_secret},
    peer_answers::{answer, answers, lacks_group, no_room, not_reached, refused},
    transport::{AskedFor, MemberMove, PeerAnswer, PeerChange, PeerError, To, Transport},
};
use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri, header, uri::PathAndQuery};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, client::conn::http2::SendRequest};
use larder_base::{
    buffers::{BufferCharge, BufferKind, Buffers},
    outbound::{Http2Connections, Http2Stream, connect_tcp, with_cause},
    tls::{NodeProtocol, ServerTls},
};
use larder_config::{PeerAddress, PeerSettings};
use larder_source::LocalFuture;
use prost::Message;
use std::{
    cell::RefCell,
    collections::HashMap,
    error::Error,
    fmt, iter,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    sync::Mutex,
    time::{Instant, timeout_at},
};
use tonic::{Code, Extensions, Status, client::Grpc, metadata::MetadataMap};
use tonic_prost::ProstCodec;

/// A connection that was idle for longer is not used again.
const MAX_IDLE_TIME: Duration = Duration::from_secs(60);
/// What a message holds at most besides the value.
const LARGEST_REST: usize = 1 << 20;

/// One core's connections to the other nodes.
pub(super) struct GrpcTransport {
    connect_timeout: Duration,
    max_value: usize,
    buffers: Arc<Buffers>,
    tls: Option<Arc<ServerTls>>,
    /// What shows the secret.
    secret: Option<HeaderValue>,
    pools: RefCell<HashMap<PeerAddress, Rc<Pool>>>,
    /// For what must not be sent twice: HTTP/1.1 says whether a request has left.
    http: HttpTransport,
}

/// One core's connections to a node.
#[derive(Default)]
struct Pool {
    connections: Http2Connections,
    /// Held by the one request that connects. The others then share its connection.
    connecting: Mutex<()>,
}

impl GrpcTransport {
    pub(super) fn new(
        settings: &PeerSettings,
        max_value: usize,
        buffers: Arc<Buffers>,
        tls: Option<Arc<ServerTls>>,
    ) -> GrpcTransport {
        let secret = shown_secret(settings);
        let connect_timeout = settings.connect_timeout;
        let http = HttpTransport::new(settings, max_value, buffers.clone(), tls.clone());
        GrpcTransport { connect_timeout, max_value, buffers, tls, secret, pools: RefCell::default(), http }
    }

    fn pool(&self, address: &PeerAddress) -> Rc<Pool> {
        if let Some(pool) = self.pools.borrow().get(address) {
            return pool.clone();
        }
        self.pools.borrow_mut().entry(address.clone()).or_default().clone()
    }

    /// A place on a connection to the node, and whether that is new.
    async fn stream(&self, member: &Member, deadline: Instant) -> Result<(Http2Stream, bool), PeerError> {
        let pool = self.pool(&member.address);
        if let Some(stream) = pool.connections.take(MAX_IDLE_TIME) {
            return Ok((stream, false));
        }
        let PeerAddress { host, port } = &member.address;
        let connecting = async {
            let _only = pool.connecting.lock().await;
            if let Some(stream) = pool.connections.take(MAX_IDLE_TIME) {
                return Ok(stream);
            }
            let tls = match &self.tls {
                Some(tls) => tls.towards_node(host, NodeProtocol::Http2)?,
                None => None,
            };
            let stream = connect_tcp(host, *port, tls.as_ref()).await.map_err(|error| error.to_string())?;
            pool.connections.open(stream).await.map_err(|error| with_cause(&error))
        };
        let until = deadline.min(Instant::now() + self.connect_timeout);
        match timeout_at(until, connecting).await {
            Ok(Ok(stream)) => Ok((stream, true)),
            Ok(Err(reason)) => Err(not_reached(member, format_args!("cannot connect: {reason}"))),
            Err(_) => {
                let timeout = self.connect_timeout;
                let reason = format_args!("cannot connect: timed out after {timeout:?} (a quarter of source-timeout)");
                Err(not_reached(member, reason))
            }
        }
    }

    fn metadata(&self, epoch: Option<u64>, asked_for: AskedFor<'_>) -> MetadataMap {
        let mut headers = HeaderMap::new();
        if let Some(secret) = &self.secret {
            headers.insert(header::AUTHORIZATION, secret.clone());
        }
        if let Some(epoch) = epoch.and_then(|epoch| HeaderValue::from_str(&format!("{epoch:016x}")).ok()) {
            headers.insert(RING, epoch);
        }
        asked_for.tell(&mut headers);
        MetadataMap::from_headers(headers)
    }

    /// Has a method called on a connection; on another one if it turns out that the node has closed
    /// that: it has then not seen the request, and all may be sent twice anyhow.
    async fn call<Q: Message + Clone + 'static, R>(
        &self,
        to: To<'_>,
        metadata: MetadataMap,
        message: Q,
        call: impl AsyncFn(&mut Grpc<OneRequest>, tonic::Request<Q>) -> Result<R, Status>,
    ) -> Result<R, Failure> {
        let To { member, deadline, .. } = to;
        let calls = async {
            loop {
                let (mut stream, is_new) = self.stream(member, deadline).await?;
                let service =
                    OneRequest { sender: stream.sender(), charge: Some(self.buffers.charge(BufferKind::Fetched)) };
                let scheme = if self.tls.is_some() { "https" } else { "http" };
                let origin = Uri::builder().scheme(scheme).authority(member.address.to_string()).path_and_query("/");
                let origin = origin.build().map_err(|error| not_reached(member, error))?;
                let mut client =
                    Grpc::with_origin(service, origin).max_decoding_message_size(self.max_value + LARGEST_REST);
                let request = tonic::Request::from_parts(metadata.clone(), Extensions::new(), message.clone());
                match call(&mut client, request).await {
                    Err(status) if NoRoom::is_cause_of(&status) => {
                        return Err(no_room(member, status.message()).into());
                    }
                    // An error of the connection, not of the node.
                    Err(status) if status.source().is_some() && status.code() != Code::ResourceExhausted => {
                        if is_new {
                            return Err(not_reached(member, reason(&status)).into());
                        }
                    }
                    answered => {
                        stream.note_answered();
                        return answered.map_err(Failure::Status);
                    }
                }
            }
        };
        timeout_at(deadline, calls).await.unwrap_or_else(|_| {
            let reason = format!("peer {}: no answer in time (source-timeout)", member.name);
            Err(PeerError::NoAnswer(reason.into()).into())
        })
    }

    async fn unary<Q: Message + Clone + Sync + 'static, R: Message + Default + Sync + 'static>(
        &self,
        to: To<'_>,
        method: &'static str,
        metadata: MetadataMap,
        message: Q,
    ) -> Result<R, Failure> {
        self.call(to, metadata, message, async |client, request| {
            let response = client.unary(request, path(method), ProstCodec::<Q, R>::default()).await?;
            Ok(response.into_inner())
        })
        .await
    }
}

/// Why a call gave nothing.
enum Failure {
    Error(PeerError),
    /// The node says so.
    Status(Status),
}
impl From<PeerError> for Failure {
    fn from(error: PeerError) -> Failure {
        Failure::Error(error)
    }
}
impl Failure {
    /// Of a read: another node may be asked.
    fn of_read(self, To { member, group, .. }: To<'_>) -> PeerError {
        match self {
            Failure::Error(error) => error,
            Failure::Status(status) if status.code() == Code::NotFound => lacks_group(member, group),
            // What is too large here is too large from the next node, too.
            Failure::Status(status) if status.code() == Code::OutOfRange => refused(member, reason(&status)),
            Failure::Status(status) => not_reached(member, reason(&status)),
        }
    }
    /// Of anything else: a node that does not want it now will not want it later.
    fn of_change(self, To { member, group, .. }: To<'_>) -> PeerError {
        match self {
            Failure::Error(error) => error,
            Failure::Status(status) => match status.code() {
                Code::NotFound => lacks_group(member, group),
                Code::Unavailable | Code::ResourceExhausted | Code::Unknown | Code::Internal => {
                    not_reached(member, reason(&status))
                }
                _ => refused(member, reason(&status)),
            },
        }
    }
}

fn reason(status: &Status) -> String {
    format!("{:?}: {}", status.code(), status.message())
}

fn path(method: &'static str) -> PathAndQuery {
    PathAndQuery::from_maybe_shared(format!("{GRPC_PATH}{method}")).unwrap_or_else(|_| PathAndQuery::from_static("/"))
}

/// What tonic sends one request with.
struct OneRequest {
    sender: SendRequest<Full<Bytes>>,
    /// On which the response is.
    charge: Option<BufferCharge>,
}

/// See [`PeerError::NoRoom`].
#[derive(Debug)]
struct NoRoom(&'static str);
impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}
impl Error for NoRoom {}
impl NoRoom {
    fn is_cause_of(status: &Status) -> bool {
        iter::successors(status.source(), |cause: &&(dyn Error + 'static)| (**cause).source())
            .any(|cause| cause.is::<NoRoom>())
    }
}

type SendError = Box<dyn Error + Send + Sync>;

impl tower_service::Service<Request<tonic::body::Body>> for OneRequest {
    type Response = Response<ChargedBody>;
    type Error = SendError;
    type Future = LocalFuture<'static, Result<Response<ChargedBody>, SendError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        Poll::Ready(Ok(()))
    }
    fn call(&mut self, request: Request<tonic::body::Body>) -> Self::Future {
        let (mut sender, charge) = (self.sender.clone(), self.charge.take());
        Box::pin(async move {
            let (head, body) = request.into_parts();
            // It is there.
            let body = Full::new(body.collect().await?.to_bytes());
            let response = sender.send_request(Request::from_parts(head, body)).await?;
            if response.status() == StatusCode::SERVICE_UNAVAILABLE {
                return Err(NoRoom("503 Service Unavailable: its buffers are full, or it is overloaded").into());
            }
            Ok(response.map(|body| ChargedBody { body, bytes: 0, charge }))
        })
    }
}

/// A response, on the account of the buffers.
struct ChargedBody {
    body: Incoming,
    bytes: usize,
    charge: Option<BufferCharge>,
}

impl Body for ChargedBody {
    type Data = Bytes;
    type Error = SendError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, SendError>>> {
        let me = self.get_mut();
        let frame = ready!(Pin::new(&mut me.body).poll_frame(cx));
        if let Some(Ok(frame)) = &frame {
            me.bytes += frame.data_ref().map_or(0, Bytes::len);
            let bytes = me.bytes;
            if me.charge.as_mut().is_some_and(|charge| !charge.try_resize(bytes)) {
                return Poll::Ready(Some(Err(Box::new(NoRoom("no room for its answer (max-buffers)")))));
            }
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }
    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[async_trait(?Send)]
impl Transport for GrpcTransport {
    async fn get(&self, to: To<'_>, key: &[u8], epoch: u64, asked_for: AskedFor<'_>) -> Result<PeerAnswer, PeerError> {
        let metadata = self.metadata(Some(epoch), asked_for);
        let request = KeyRequest { group: to.group.to_owned(), key: Bytes::copy_from_slice(key) };
        let KeyAnswer { status, body } =
            self.unary(to, "Get", metadata, request).await.map_err(|failure| failure.of_read(to))?;
        let status = u16::try_from(status).ok().and_then(|status| StatusCode::from_u16(status).ok());
        to.member.note_larder();
        answer(to.member, status.unwrap_or(StatusCode::NOT_IMPLEMENTED), body)
    }

    async fn get_many(
        &self,
        to: To<'_>,
        keys: Vec<Bytes>,
        held_only: bool,
        epoch: u64,
    ) -> Result<Vec<Option<PeerAnswer>>, PeerError> {
        let (metadata, asked) = (self.metadata(Some(epoch), AskedFor::NOBODY), keys.len());
        let request = KeysRequest { group: to.group.to_owned(), keys, held_only };
        let response: GetKeysResponse =
            self.unary(to, "GetKeys", metadata, request).await.map_err(|failure| failure.of_read(to))?;
        answers(to.member, asked, response.answers)
    }

    async fn tell(&self, to: To<'_>, change: &PeerChange) -> Result<(), PeerError> {
        let metadata = self.metadata(None, AskedFor::NOBODY);
        let told = self.unary(to, "Tell", metadata, Change::of(to.group, change)).await;
        told.map(|Done {}| ()).map_err(|failure| failure.of_change(to))
    }

    async fn at_owner(&self, to: To<'_>, request: &OwnerRequest) -> Result<OwnerAnswer, PeerError> {
        self.http.at_owner(to, request).await
    }

    async fn hottest(&self, to: To<'_>, this: &str, max_bytes: usize) -> Result<Vec<Bytes>, PeerError> {
        let metadata = self.metadata(None, AskedFor::NOBODY);
        let of = this.to_owned();
        let request = HottestRequest { group: to.group.to_owned(), of, max_bytes: max_bytes as u64 };
        let read = self.call(to, metadata, request, async |client, request| {
            let codec = ProstCodec::<HottestRequest, HottestPart>::default();
            let mut parts = client.server_streaming(request, path("Hottest"), codec).await?.into_inner();
            let mut keys = Vec::new();
            while let Some(part) = parts.message().await? {
                keys.extend(part.keys);
            }
            Ok(keys)
        });
        read.await.map_err(|failure| failure.of_change(to))
    }

    async fn announce(&self, to: To<'_>, this: &str, what: MemberMove, hash: &str) -> Result<String, PeerError> {
        let metadata = self.metadata(None, AskedFor::NOBODY);
        let of = this.to_owned();
        let announcement =
            Announcement { group: to.group.to_owned(), of, is: what.name().to_owned(), hash: hash.to_owned() };
        let told = self.unary(to, "Announce", metadata, announcement).await;
        told.map(|Announced { hash }| hash).map_err(|failure| failure.of_change(to))
    }
}
