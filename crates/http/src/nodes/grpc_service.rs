//! What Larders ask each other over gRPC (`larder_peers.proto`), on the HTTP listener: the same
//! requests as those of `peer_routes`.
use super::peer_routes;
use crate::{
    messages::{problem_json::Answer, response_body::ResponseBody},
    routing::route_request::RouteRequest,
};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use larder_base::telemetry::RecordedOperation;
use larder_core::read::{Group, PeerRequest, check_tags};
use larder_ring::peer::{
    Announced, Announcement, Change, ChangeKind, ClearScope, Done, GetKeysResponse, HottestPart, HottestRequest,
    KeyAnswer, KeyRequest, KeysRequest, MOST_KEYS, MemberMove, PeerGroup,
};
use larder_store::clock;
use prost::Message;
use std::{rc::Rc, vec};
use tonic::{
    Status,
    server::{Grpc, ServerStreamingService, UnaryService},
};
use tonic_prost::ProstCodec;

/// Keys of one piece of an answer to `Hottest`.
const PART: usize = 1_000;

/// Calls the method that the path names. `body` is its message, framed as gRPC has it.
pub(crate) async fn call(request: &RouteRequest<'_>, body: Bytes) -> Answer {
    let asked = Asked(request);
    let body = Request::new(Full::new(body));
    let response = match request.key {
        b"Get" => server().unary(Method(|message| asked.get(message)), body).await,
        b"GetKeys" => server().unary(Method(|message| asked.get_keys(message)), body).await,
        b"Tell" => server().unary(Method(|message| asked.tell(message)), body).await,
        b"Announce" => server().unary(Method(|message| asked.announce(message)), body).await,
        b"Hottest" => server().server_streaming(Method(|message| asked.hottest(message)), body).await,
        _ => Status::unimplemented("there is no such method").into_http(),
    };
    Ok(response.map(ResponseBody::framed))
}

/// The route has bounded the body already.
fn server<R: Message + 'static, Q: Message + Default + 'static>() -> Grpc<ProstCodec<R, Q>> {
    Grpc::new(ProstCodec::default()).max_decoding_message_size(usize::MAX)
}

struct Method<F>(F);

type GrpcAnswer<R> = Result<tonic::Response<R>, Status>;

impl<F: FnMut(Q) -> A, A: Future<Output = GrpcAnswer<R>>, Q, R> UnaryService<Q> for Method<F> {
    type Response = R;
    type Future = A;
    fn call(&mut self, request: tonic::Request<Q>) -> A {
        (self.0)(request.into_inner())
    }
}

impl<F: FnMut(Q) -> A, A: Future<Output = GrpcAnswer<Parts<R>>>, Q, R> ServerStreamingService<Q> for Method<F> {
    type Response = R;
    type ResponseStream = Parts<R>;
    type Future = A;
    fn call(&mut self, request: tonic::Request<Q>) -> A {
        (self.0)(request.into_inner())
    }
}

/// An answer in pieces.
type Parts<R> = tokio_stream::Iter<vec::IntoIter<Result<R, Status>>>;

/// A request, before its message says what it is about.
#[derive(Clone, Copy)]
struct Asked<'r>(&'r RouteRequest<'r>);

impl<'r> Asked<'r> {
    async fn get(self, message: KeyRequest) -> GrpcAnswer<KeyAnswer> {
        let asked = self.of_group(&message.group)?;
        self.check_keys(&asked, std::slice::from_ref(&message.key))?;
        let (status, body) = match asked.get(&message.key).await {
            Ok(Some(body)) => (StatusCode::OK, body),
            Ok(None) => (StatusCode::NOT_FOUND, Bytes::new()),
            Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string().into()),
        };
        answered(KeyAnswer { status: status.as_u16().into(), body })
    }

    async fn get_keys(self, message: KeysRequest) -> GrpcAnswer<GetKeysResponse> {
        let asked = self.of_group(&message.group)?;
        let count = message.keys.len();
        if count > MOST_KEYS {
            return Err(Status::invalid_argument(format!("{count} keys, and at most {MOST_KEYS}")));
        }
        self.check_keys(&asked, &message.keys)?;
        let answers = asked.get_many(&message.keys, message.held_only).await;
        answered(GetKeysResponse { answers })
    }

    /// Checks keys before they are read, and shows them to the recorder.
    fn check_keys(self, asked: &PeerRequest<'_>, keys: &[Bytes]) -> Result<(), Status> {
        if !asked.is_answered() {
            return Err(Status::unavailable("this node does not answer for its keys now"));
        }
        for key in keys {
            self.check_key(key)?;
            self.0.note(RecordedOperation::Get, key);
        }
        Ok(())
    }

    async fn tell(self, message: Change) -> GrpcAnswer<Done> {
        let asked = self.of_group(&message.group)?;
        match message.what {
            None => return Err(Status::invalid_argument("nothing is said to change")),
            Some(ChangeKind::Remove(key)) => {
                self.check_key(&key)?;
                self.0.note(RecordedOperation::Del, &key);
                asked.remove(&key);
            }
            Some(ChangeKind::Set(set)) => {
                self.check_key(&set.key)?;
                let max = self.0.worker.app.settings.max_value;
                if set.value.len() > max {
                    return Err(Status::out_of_range(format!("the value is longer than max-value, {max} bytes")));
                }
                self.0.note(RecordedOperation::Set(set.value.len()), &set.key);
                asked.set(&set.key, &set.value, Some(set.expiry).filter(|expiry| *expiry > 0).map(clock::of_wall));
            }
            Some(ChangeKind::Clear(clear)) => {
                let scope = match clear.is_tag {
                    true => {
                        check_tags(&[&*clear.name]).map_err(Status::invalid_argument)?;
                        ClearScope::Tag(clear.name)
                    }
                    false => ClearScope::Prefix(clear.name),
                };
                asked.clear(&scope, clear.soft).await;
            }
        }
        answered(Done {})
    }

    async fn announce(self, message: Announcement) -> GrpcAnswer<Announced> {
        let what = MemberMove::from_name(message.is.as_bytes());
        let what = what.ok_or_else(|| Status::invalid_argument("`is` must be serving, leaving or left"))?;
        let hash = self.shared(&message.group)?.announced(message.of.as_bytes(), what, &message.hash).await;
        answered(Announced { hash: hash.to_owned() })
    }

    async fn hottest(self, message: HottestRequest) -> GrpcAnswer<Parts<HottestPart>> {
        let max_bytes = usize::try_from(message.max_bytes).unwrap_or(usize::MAX);
        let keys = self.shared(&message.group)?.hottest_for(&message.of, max_bytes).await;
        let parts: Vec<_> = keys.chunks(PART).map(|keys| Ok(HottestPart { keys: keys.to_vec() })).collect();
        answered(tokio_stream::iter(parts))
    }

    fn group(self, name: &str) -> Result<&'r Rc<Group>, Status> {
        let group = self.0.worker.groups.named(name.as_bytes());
        group.ok_or_else(|| Status::not_found(format!("there is no group `{name}`")))
    }

    fn of_group(self, name: &str) -> Result<PeerRequest<'r>, Status> {
        Ok(PeerRequest { group: self.group(name)?, ..peer_routes::asked(self.0) })
    }

    fn shared(self, name: &str) -> Result<&'r Rc<PeerGroup>, Status> {
        let shared = self.group(name)?.peers.as_ref();
        shared.ok_or_else(|| Status::failed_precondition("this group shares nothing"))
    }

    fn check_key(self, key: &[u8]) -> Result<(), Status> {
        self.0.check_key(key).map_err(|problem| Status::invalid_argument(problem.sentence()))
    }
}

fn answered<R>(answer: R) -> GrpcAnswer<R> {
    Ok(tonic::Response::new(answer))
}
