//! Larders' own service over gRPC (`larder_peers.proto`): many requests share a connection of
//! HTTP/2. groupcache's nodes do not speak it.
use super::{
    grpc_messages::{
        Announced, Announcement, Change, Done, GRPC_PATH, HottestPart, HottestRequest, KeyRequest, KeysRequest,
    },
    http_transport::HttpTransport,
    member::Member,
    messages::GetKeysResponse,
    node_routes::{shown_secret, tell_of},
    peer_answers::{lacks_group, no_room, not_reached, refused},
    transport::{AskedFor, NodeReply, NodeRequest, PeerError, To, Transport},
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

    fn metadata(&self, request: &NodeRequest, asked_for: AskedFor<'_>) -> MetadataMap {
        let mut headers = HeaderMap::new();
        if let Some(secret) = &self.secret {
            headers.insert(header::AUTHORIZATION, secret.clone());
        }
        tell_of(request, asked_for, &mut headers);
        MetadataMap::from_headers(headers)
    }

    /// Has a method called on a connection; on another one if it turns out that the node has closed
    /// that: it has then not seen the request, and all may be sent twice anyhow.
    async fn call_method<Q: Message + Clone + 'static, R>(
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
        self.call_method(to, metadata, message, async |client, request| {
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
    async fn call(&self, to: To<'_>, request: NodeRequest) -> Result<NodeReply, PeerError> {
        let (metadata, group, mut reply) =
            (self.metadata(&request, to.asked_for), to.group.to_owned(), NodeReply::default());
        let of_read = |failure: Failure| failure.of_read(to);
        let of_change = |failure: Failure| failure.of_change(to);
        match request {
            NodeRequest::Get { key, .. } => {
                let answer = self.unary(to, "Get", metadata, KeyRequest { group, key }).await.map_err(of_read)?;
                to.member.note_larder();
                reply.answers.push(answer);
            }
            NodeRequest::GetMany { keys, held_only, .. } => {
                let message = KeysRequest { group, keys, held_only };
                let all: GetKeysResponse = self.unary(to, "GetKeys", metadata, message).await.map_err(of_read)?;
                reply.answers = all.answers;
            }
            NodeRequest::Tell(change) => {
                let Done {} = self.unary(to, "Tell", metadata, Change::of(group, change)).await.map_err(of_change)?;
            }
            NodeRequest::AtOwner(_) => return self.http.call(to, request).await,
            NodeRequest::Hottest { of, max_bytes } => {
                let message = HottestRequest { group, of, max_bytes: max_bytes as u64 };
                let read = self.call_method(to, metadata, message, async |client, request| {
                    let codec = ProstCodec::<HottestRequest, HottestPart>::default();
                    let mut parts = client.server_streaming(request, path("Hottest"), codec).await?.into_inner();
                    let mut keys = Vec::new();
                    while let Some(part) = parts.message().await? {
                        keys.extend(part.keys);
                    }
                    Ok(keys)
                });
                reply.keys = read.await.map_err(of_change)?;
            }
            NodeRequest::Announce { of, what, hash } => {
                let message = Announcement { group, of, is: what.name().to_owned(), hash };
                let said: Announced = self.unary(to, "Announce", metadata, message).await.map_err(of_change)?;
                reply.hash = said.hash;
            }
        }
        Ok(reply)
    }
}
