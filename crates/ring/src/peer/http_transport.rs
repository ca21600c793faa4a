//! The transport over HTTP/1.1, by the [routes](super::node_routes) between nodes.
use super::{
    member::Member,
    messages::{GetKeysResponse, HottestKeys, OwnerAnswer},
    node_routes::{as_http, shown_secret, tell_of},
    peer_answers::{check_group, explanation, no_room, not_reached, refused},
    transport::{NodeReply, NodeRequest, PeerError, To, Transport},
};
use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::Full;
use larder_base::{
    buffers::Buffers,
    outbound::{HttpClient, HttpFailure, HttpServer, Resend},
    tls::{NodeProtocol, ServerTls},
};
use larder_config::{PeerAddress, PeerSettings};
use prost::Message;
use std::{sync::Arc, time::Duration};

/// What a message holds at most besides the value.
const LARGEST_REST: usize = 1 << 20;

/// One core's way to the other nodes.
pub(super) struct HttpTransport {
    client: HttpClient,
    connect_timeout: Duration,
    max_value: usize,
    buffers: Arc<Buffers>,
    /// `None`: the nodes speak plain HTTP.
    tls: Option<Arc<ServerTls>>,
    /// The header field that shows the secret.
    secret: Option<HeaderValue>,
}

impl HttpTransport {
    pub(super) fn new(
        settings: &PeerSettings,
        max_value: usize,
        buffers: Arc<Buffers>,
        tls: Option<Arc<ServerTls>>,
    ) -> HttpTransport {
        let (connect_timeout, secret) = (settings.connect_timeout, shown_secret(settings));
        HttpTransport { client: HttpClient::default(), connect_timeout, max_value, buffers, tls, secret }
    }

    /// Sends a request, and gives the status and the body of the response; an error if the node
    /// lacks the group.
    async fn exchange(
        &self,
        to: To<'_>,
        build: impl Fn() -> Request<Full<Bytes>>,
        resend: Resend,
    ) -> Result<(StatusCode, Bytes), PeerError> {
        let PeerAddress { host, port } = &to.member.address;
        let server = HttpServer {
            host,
            port: *port,
            tls: &|| self.tls.as_ref().map_or(Ok(None), |tls| tls.towards_node(host, NodeProtocol::Http1)),
            connect_timeout: self.connect_timeout,
            deadline: to.deadline,
            largest: self.max_value + LARGEST_REST,
            buffers: &self.buffers,
        };
        let answer = self.client.exchange(&server, build, resend).await;
        let (head, body) = answer.map_err(|failure| self.failed(to.member, &failure, resend))?.into_parts();
        check_group(to.member, to.group, head.status, &body)?;
        Ok((head.status, body))
    }

    fn failed(&self, member: &Member, failure: &HttpFailure, resend: Resend) -> PeerError {
        let reason = match failure {
            HttpFailure::NotConnected(None) => {
                format!("cannot connect: timed out after {:?} (a quarter of source-timeout)", self.connect_timeout)
            }
            HttpFailure::Late => "no answer in time (source-timeout)".to_owned(),
            failure => failure.to_string(),
        };
        let reason = format!("peer {}: {reason}", member.name).into();
        match failure {
            HttpFailure::Broken(_) if resend == Resend::IfUnanswered => PeerError::NotReached(reason),
            HttpFailure::NotConnected(_) => PeerError::NotReached(reason),
            HttpFailure::Broken(_) | HttpFailure::Late => PeerError::NoAnswer(reason),
            HttpFailure::Closed(_) => PeerError::Closed(reason),
            // It may have closed the connection that held the most, because its buffers are full. If it is gone,
            // the next request shows that.
            HttpFailure::BrokeOff(_) | HttpFailure::NoRoom => PeerError::NoRoom(reason),
            HttpFailure::TooLarge(_) => PeerError::Refused(reason),
        }
    }

    fn request(&self, to: To<'_>, request: &NodeRequest) -> Request<Full<Bytes>> {
        let (method, path, body) = as_http(to.group, request);
        let mut http = Request::new(Full::new(body));
        *http.method_mut() = method;
        // Escapes and literals alone.
        *http.uri_mut() = path.parse().unwrap_or_default();
        let headers = http.headers_mut();
        if let Ok(host) = HeaderValue::from_str(&to.member.address.to_string()) {
            headers.insert(header::HOST, host);
        }
        if let Some(secret) = &self.secret {
            headers.insert(header::AUTHORIZATION, secret.clone());
        }
        tell_of(request, to.asked_for, headers);
        http
    }
}

/// The error for a status that is no answer.
fn unanswered(member: &Member, status: StatusCode, body: &[u8]) -> PeerError {
    let reason = format_args!("{status}: {}", explanation(body));
    match status {
        StatusCode::SERVICE_UNAVAILABLE => no_room(member, reason),
        _ => not_reached(member, reason),
    }
}

fn of_owner(member: &Member, status: StatusCode, body: Bytes) -> Result<OwnerAnswer, PeerError> {
    let reason = |reason: String| format!("peer {}: {status}: {reason}", member.name).into();
    match status {
        StatusCode::OK => match OwnerAnswer::decode(body) {
            Ok(answer) if answer.status != 0 => Ok(answer),
            // groupcache-go takes the request for a read of a key.
            _ => Err(PeerError::Refused(reason("it is not a Larder".to_owned()))),
        },
        StatusCode::MISDIRECTED_REQUEST | StatusCode::TOO_MANY_REQUESTS => {
            Err(PeerError::NotReached(reason(explanation(&body))))
        }
        StatusCode::SERVICE_UNAVAILABLE => Err(unanswered(member, status, &body)),
        status if status.is_server_error() => Err(PeerError::NoAnswer(reason(explanation(&body)))),
        _ => Err(PeerError::Refused(reason(explanation(&body)))),
    }
}

#[async_trait(?Send)]
impl Transport for HttpTransport {
    async fn call(&self, to: To<'_>, request: NodeRequest) -> Result<NodeReply, PeerError> {
        let resend = match request {
            NodeRequest::AtOwner(_) => Resend::IfUnsent,
            _ => Resend::IfUnanswered,
        };
        let http = self.request(to, &request);
        let (status, body) = self.exchange(to, || http.clone(), resend).await?;
        let (member, is_ok, mut reply) = (to.member, status == StatusCode::OK, NodeReply::default());
        match request {
            NodeRequest::Get { .. } => return Ok(NodeReply::of_key(status, body)),
            NodeRequest::GetMany { .. } if is_ok => {
                reply.answers = GetKeysResponse::decode(body).map_err(|error| not_reached(member, error))?.answers;
            }
            NodeRequest::Tell(_) if is_ok || status == StatusCode::NO_CONTENT => {}
            NodeRequest::Tell(_) if status.is_client_error() => {
                return Err(refused(member, format_args!("{status}: {}", explanation(&body))));
            }
            NodeRequest::GetMany { .. } | NodeRequest::Tell(_) => return Err(unanswered(member, status, &body)),
            NodeRequest::AtOwner(_) => reply.of_owner = of_owner(member, status, body)?,
            NodeRequest::Hottest { .. } if is_ok => {
                reply.keys = HottestKeys::decode(body).map_err(|error| refused(member, error))?.keys;
            }
            NodeRequest::Hottest { .. } => {
                return Err(refused(member, format_args!("{status}: it hands nothing over")));
            }
            NodeRequest::Announce { .. } if is_ok => reply.hash = explanation(&body),
            NodeRequest::Announce { .. } => return Err(refused(member, status)),
        }
        Ok(reply)
    }
}
