//! The transport over HTTP/1.1, by the [routes](super::node_routes) between nodes.
use super::{
    member::Member,
    messages::{GetKeysRequest, GetKeysResponse, HottestKeys, OwnerAnswer, OwnerRequest},
    node_routes::{AT_OWNER, GET_KEYS, HOTTEST, MEMBER, RING, path, path_of_key, shown_secret, told},
    peer_answers::{answer, answers, check_group, explanation, no_room, not_reached, refused},
    transport::{AskedFor, MemberMove, PeerAnswer, PeerChange, PeerError, To, Transport},
};
use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::Full;
use larder_base::{
    buffers::Buffers,
    outbound::{HttpClient, HttpFailure, HttpServer, Resend},
    tls::{NodeProtocol, ServerTls},
};
use larder_config::{PeerAddress, PeerSettings};
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
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

/// The error for a status that is no answer.
fn unanswered(member: &Member, status: StatusCode, body: &[u8]) -> PeerError {
    let reason = format_args!("{status}: {}", explanation(body));
    match status {
        StatusCode::SERVICE_UNAVAILABLE => no_room(member, reason),
        _ => not_reached(member, reason),
    }
}

#[async_trait(?Send)]
impl Transport for HttpTransport {
    async fn get(&self, to: To<'_>, key: &[u8], epoch: u64, asked_for: AskedFor<'_>) -> Result<PeerAnswer, PeerError> {
        let path = path_of_key(to.group, key);
        let build = || {
            let mut request = with_epoch(self.request(to.member, Method::GET, &path, Bytes::new()), epoch);
            asked_for.tell(request.headers_mut());
            request
        };
        let (status, body) = self.exchange(to, build, Resend::IfUnanswered).await?;
        answer(to.member, status, body)
    }

    async fn get_many(
        &self,
        to: To<'_>,
        keys: Vec<Bytes>,
        held_only: bool,
        epoch: u64,
    ) -> Result<Vec<Option<PeerAnswer>>, PeerError> {
        let (path, asked) = (path(to.group, GET_KEYS), keys.len());
        let body = Bytes::from(GetKeysRequest { keys, held_only: held_only.then_some(true) }.encode_to_vec());
        let build = || with_epoch(self.request(to.member, Method::POST, &path, body.clone()), epoch);
        let (status, body) = self.exchange(to, build, Resend::IfUnanswered).await?;
        if status != StatusCode::OK {
            return Err(unanswered(to.member, status, &body));
        }
        let response = GetKeysResponse::decode(body).map_err(|error| not_reached(to.member, error))?;
        answers(to.member, asked, response.answers)
    }

    async fn tell(&self, to: To<'_>, change: &PeerChange) -> Result<(), PeerError> {
        let (method, path, body) = told(to.group, change);
        let build = || self.request(to.member, method.clone(), &path, body.clone());
        let (status, body) = self.exchange(to, build, Resend::IfUnanswered).await?;
        match status {
            StatusCode::OK | StatusCode::NO_CONTENT => Ok(()),
            status if status.is_client_error() => {
                Err(refused(to.member, format_args!("{status}: {}", explanation(&body))))
            }
            status => Err(unanswered(to.member, status, &body)),
        }
    }

    async fn at_owner(&self, to: To<'_>, request: &OwnerRequest) -> Result<OwnerAnswer, PeerError> {
        let (path, body) = (path(to.group, AT_OWNER), Bytes::from(request.encode_to_vec()));
        let build = || self.request(to.member, Method::POST, &path, body.clone());
        let (status, body) = self.exchange(to, build, Resend::IfUnsent).await?;
        let reason = |reason: String| format!("peer {}: {status}: {reason}", to.member.name).into();
        match status {
            StatusCode::OK => match OwnerAnswer::decode(body) {
                Ok(answer) if answer.status != 0 => Ok(answer),
                // groupcache-go takes the request for a read of a key.
                _ => Err(PeerError::Refused(reason("it is not a Larder".to_owned()))),
            },
            StatusCode::MISDIRECTED_REQUEST | StatusCode::TOO_MANY_REQUESTS => {
                Err(PeerError::NotReached(reason(explanation(&body))))
            }
            StatusCode::SERVICE_UNAVAILABLE => Err(unanswered(to.member, status, &body)),
            status if status.is_server_error() => Err(PeerError::NoAnswer(reason(explanation(&body)))),
            _ => Err(PeerError::Refused(reason(explanation(&body)))),
        }
    }

    async fn hottest(&self, to: To<'_>, this: &str, max_bytes: usize) -> Result<Vec<Bytes>, PeerError> {
        let this = percent_encode(this.as_bytes(), NON_ALPHANUMERIC);
        let path = path(to.group, &format!("{HOTTEST}?of={this}&bytes={max_bytes}"));
        let build = || self.request(to.member, Method::POST, &path, Bytes::new());
        let (status, body) = self.exchange(to, build, Resend::IfUnanswered).await?;
        if status != StatusCode::OK {
            return Err(refused(to.member, format_args!("{status}: it hands nothing over")));
        }
        Ok(HottestKeys::decode(body).map_err(|error| refused(to.member, error))?.keys)
    }

    async fn announce(&self, to: To<'_>, this: &str, what: MemberMove, hash: &str) -> Result<String, PeerError> {
        let this = percent_encode(this.as_bytes(), NON_ALPHANUMERIC);
        let path = path(to.group, &format!("{MEMBER}?of={this}&is={}&hash={hash}", what.name()));
        let build = || self.request(to.member, Method::POST, &path, Bytes::new());
        let (status, body) = self.exchange(to, build, Resend::IfUnanswered).await?;
        match status {
            StatusCode::OK => Ok(explanation(&body)),
            status => Err(refused(to.member, status)),
        }
    }
}
