//! The transport over HTTP/1.1, by the [routes](super::node_routes) between nodes.
use super::{
    http_connections::HttpConnections,
    member::Member,
    messages::{GetKeysRequest, GetKeysResponse, HottestKeys, OwnerAnswer, OwnerRequest},
    node_routes::{AT_OWNER, GET_KEYS, HOTTEST, MEMBER, RING, path, path_of_key, shown_secret, told},
    peer_answers::{answer, answers, check_group, explanation, no_room, not_reached, refused},
    transport::{AskedFor, MemberMove, PeerAnswer, PeerChange, PeerError, To, Transport},
};
use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use larder_base::{buffers::Buffers, tls::ServerTls};
use larder_config::PeerSettings;
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use prost::Message;
use std::sync::Arc;

/// One core's way to the other nodes.
pub(super) struct HttpTransport {
    connections: HttpConnections,
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
        let connections = HttpConnections::new(settings.connect_timeout, max_value, buffers, tls);
        HttpTransport { connections, secret: shown_secret(settings) }
    }

    /// Sends a request, and gives the head and the body of the response; an error if the node lacks
    /// the group.
    async fn exchange(
        &self,
        to: To<'_>,
        build: impl Fn() -> Request<Full<Bytes>>,
    ) -> Result<(Response<()>, Bytes), PeerError> {
        let (head, body) = self.connections.exchange(to.member, build, to.deadline).await?;
        check_group(to.member, to.group, head.status(), &body)?;
        Ok((head, body))
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
        let (head, body) = self.exchange(to, build).await?;
        answer(to.member, head.status(), body)
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
        let (head, body) = self.exchange(to, build).await?;
        if head.status() != StatusCode::OK {
            return Err(unanswered(to.member, head.status(), &body));
        }
        let response = GetKeysResponse::decode(body).map_err(|error| not_reached(to.member, error))?;
        answers(to.member, asked, response.answers)
    }

    async fn tell(&self, to: To<'_>, change: &PeerChange) -> Result<(), PeerError> {
        let (method, path, body) = told(to.group, change);
        let build = || self.request(to.member, method.clone(), &path, body.clone());
        let (head, body) = self.exchange(to, build).await?;
        match head.status() {
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
        let (head, body) = self.connections.exchange_once(to.member, build, to.deadline).await?;
        check_group(to.member, to.group, head.status(), &body)?;
        let reason = |reason: String| format!("peer {}: {}: {reason}", to.member.name, head.status()).into();
        match head.status() {
            StatusCode::OK => match OwnerAnswer::decode(body) {
                Ok(answer) if answer.status != 0 => Ok(answer),
                // groupcache-go takes the request for a read of a key.
                _ => Err(PeerError::Refused(reason("it is not a Larder".to_owned()))),
            },
            StatusCode::MISDIRECTED_REQUEST | StatusCode::TOO_MANY_REQUESTS => {
                Err(PeerError::NotReached(reason(explanation(&body))))
            }
            status @ StatusCode::SERVICE_UNAVAILABLE => Err(unanswered(to.member, status, &body)),
            status if status.is_server_error() => Err(PeerError::NoAnswer(reason(explanation(&body)))),
            _ => Err(PeerError::Refused(reason(explanation(&body)))),
        }
    }

    async fn hottest(&self, to: To<'_>, this: &str, max_bytes: usize) -> Result<Vec<Bytes>, PeerError> {
        let this = percent_encode(this.as_bytes(), NON_ALPHANUMERIC);
        let path = path(to.group, &format!("{HOTTEST}?of={this}&bytes={max_bytes}"));
        let build = || self.request(to.member, Method::POST, &path, Bytes::new());
        let (head, body) = self.exchange(to, build).await?;
        if head.status() != StatusCode::OK {
            return Err(refused(to.member, format_args!("{}: it hands nothing over", head.status())));
        }
        Ok(HottestKeys::decode(body).map_err(|error| refused(to.member, error))?.keys)
    }

    async fn announce(&self, to: To<'_>, this: &str, what: MemberMove, hash: &str) -> Result<String, PeerError> {
        let this = percent_encode(this.as_bytes(), NON_ALPHANUMERIC);
        let path = path(to.group, &format!("{MEMBER}?of={this}&is={}&hash={hash}", what.name()));
        let build = || self.request(to.member, Method::POST, &path, Bytes::new());
        let (head, body) = self.exchange(to, build).await?;
        match head.status() {
            StatusCode::OK => Ok(explanation(&body)),
            status => Err(refused(to.member, status)),
        }
    }
}
