//! The transport over HTTP/1.1, by the [routes](super::node_routes) between nodes.
use super::{
    asked_for::AskedFor,
    http_connections::HttpConnections,
    member::Member,
    messages::{GetKeysRequest, GetKeysResponse, HottestKeys, OwnerAnswer, OwnerRequest},
    node_routes::{AT_OWNER, GET_KEYS, HOTTEST, MEMBER, RING, path, path_of_key, shown_secret, told},
    peer_answers::{answer, answers, check_group, explanation, not_reached, refused},
    transport::{MemberMove, PeerAnswer, PeerChange, PeerError, Transport},
};
use crate::{buffers::Buffers, config::PeerSettings, source::LocalFuture, tls::ServerTls};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use prost::Message;
use std::sync::Arc;
use tokio::time::Instant;

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
        member: &Member,
        group: &str,
        build: impl Fn() -> Request<Full<Bytes>>,
        deadline: Instant,
    ) -> Result<(Response<()>, Bytes), PeerError> {
        let (head, body) = self.connections.exchange(member, build, deadline).await?;
        check_group(member, group, head.status(), &body)?;
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
            let path = path_of_key(group, key);
            let build = || {
                let mut request = with_epoch(self.request(member, Method::GET, &path, Bytes::new()), epoch);
                asked_for.tell(request.headers_mut());
                request
            };
            let (head, body) = self.exchange(member, group, build, deadline).await?;
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
            let (head, body) = self.exchange(member, group, build, deadline).await?;
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
            let (head, body) = self.exchange(member, group, build, deadline).await?;
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
            let (head, body) = self.connections.exchange_once(member, build, deadline).await?;
            check_group(member, group, head.status(), &body)?;
            let reason = |reason: String| format!("peer {}: {}: {reason}", member.name, head.status()).into();
            match head.status() {
                StatusCode::OK => match OwnerAnswer::decode(body) {
                    Ok(answer) if answer.status != 0 => Ok(answer),
                    // groupcache-go takes the request for a read of a key.
                    _ => Err(PeerError::Refused(reason("it is not a Larder".to_owned()))),
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
            let (head, body) = self.exchange(member, group, build, deadline).await?;
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
        hash: &'a str,
        deadline: Instant,
    ) -> LocalFuture<'a, Result<String, PeerError>> {
        Box::pin(async move {
            let this = percent_encode(this.as_bytes(), NON_ALPHANUMERIC);
            let path = path(group, &format!("{MEMBER}?of={this}&is={}&hash={hash}", what.name()));
            let build = || self.request(member, Method::POST, &path, Bytes::new());
            let (head, body) = self.exchange(member, group, build, deadline).await?;
            match head.status() {
                StatusCode::OK => Ok(explanation(&body)),
                status => Err(refused(member, status)),
            }
        })
    }
}
