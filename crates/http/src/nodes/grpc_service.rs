//! What Larders ask each other over gRPC (`larder_peers.proto`), on the HTTP listener: the same
//! requests as those of `peer_routes`.
use super::peer_routes;
use crate::{
    messages::{
        problem_json::{Answer, ProblemKind},
        response_body::ResponseBody,
    },
    routing::route_request::RouteRequest,
};
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use larder_core::read::PeerRequest;
use larder_ring::peer::{
    Announced, Announcement, Change, ChangeKind, Clear, ClearScope, Done, GetKeysResponse, HottestPart, HottestRequest,
    KeyAnswer, KeyRequest, KeysRequest, MemberMove, NodeReply, NodeRequest, PeerChange, Set,
};
use larder_store::clock;
use prost::Message;
use std::vec;
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
    async fn get(self, KeyRequest { group, key }: KeyRequest) -> GrpcAnswer<KeyAnswer> {
        let mut reply = self.read(&group, NodeRequest::Get { key, epoch: 0 }).await?;
        answered(reply.answers.pop().unwrap_or_default())
    }

    async fn get_keys(self, KeysRequest { group, keys, held_only }: KeysRequest) -> GrpcAnswer<GetKeysResponse> {
        let reply = self.read(&group, NodeRequest::GetMany { keys, held_only, epoch: 0 }).await?;
        answered(GetKeysResponse { answers: reply.answers })
    }

    async fn tell(self, message: Change) -> GrpcAnswer<Done> {
        let change = match message.what {
            None => return Err(Status::invalid_argument("nothing is said to change")),
            Some(ChangeKind::Remove(key)) => PeerChange::Remove(key),
            Some(ChangeKind::Set(Set { key, value, expiry })) => {
                PeerChange::Set { key, value, expiry: Some(expiry).filter(|expiry| *expiry > 0).map(clock::of_wall) }
            }
            Some(ChangeKind::Clear(Clear { is_tag: true, name, soft })) => {
                PeerChange::Clear { scope: ClearScope::Tag(name), soft }
            }
            Some(ChangeKind::Clear(Clear { is_tag: false, name, soft })) => {
                PeerChange::Clear { scope: ClearScope::Prefix(name), soft }
            }
        };
        self.run(&message.group, NodeRequest::Tell(change)).await?;
        answered(Done {})
    }

    async fn announce(self, message: Announcement) -> GrpcAnswer<Announced> {
        let Announcement { group, of, is, hash } = message;
        let what = MemberMove::from_name(is.as_bytes());
        let what = what.ok_or_else(|| Status::invalid_argument("`is` must be serving, leaving or left"))?;
        answered(Announced { hash: self.run(&group, NodeRequest::Announce { of, what, hash }).await?.hash })
    }

    async fn hottest(self, HottestRequest { group, of, max_bytes }: HottestRequest) -> GrpcAnswer<Parts<HottestPart>> {
        let max_bytes = usize::try_from(max_bytes).unwrap_or(usize::MAX);
        let keys = self.run(&group, NodeRequest::Hottest { of, max_bytes }).await?.keys;
        let parts: Vec<_> = keys.chunks(PART).map(|keys| Ok(HottestPart { keys: keys.to_vec() })).collect();
        answered(tokio_stream::iter(parts))
    }

    async fn read(self, group: &str, what: NodeRequest) -> Result<NodeReply, Status> {
        match self.asked(group)?.is_answered() {
            true => self.run(group, what).await,
            false => Err(Status::unavailable("this node does not answer for its keys now")),
        }
    }

    async fn run(self, group: &str, what: NodeRequest) -> Result<NodeReply, Status> {
        peer_routes::run(self.0, self.asked(group)?, what).await.map_err(|problem| match problem.kind() {
            ProblemKind::ValueTooLarge => Status::out_of_range(problem.sentence()),
            ProblemKind::NoSuchRoute => Status::failed_precondition(problem.sentence()),
            _ => Status::invalid_argument(problem.sentence()),
        })
    }

    fn asked(self, name: &str) -> Result<PeerRequest<'r>, Status> {
        let group = self.0.worker.groups.named(name.as_bytes());
        let group = group.ok_or_else(|| Status::not_found(format!("there is no group `{name}`")))?;
        Ok(PeerRequest { group, ..peer_routes::asked(self.0) })
    }
}

fn answered<R>(answer: R) -> GrpcAnswer<R> {
    Ok(tonic::Response::new(answer))
}
