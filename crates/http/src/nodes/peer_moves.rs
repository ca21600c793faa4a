//! What nodes that come and go ask and say: the routes of a handover between Larders (`peer::join`,
//! `peer::leave`).
use crate::{
    messages::{
        problem_json::{Problem, ProblemKind},
        read_responses::MESSAGE,
        response_body::ResponseBody,
        response_writer,
    },
    routing::route_request::RouteRequest,
};
use http::{Response, StatusCode, header};
use larder_proto::http::target;
use larder_ring::peer::{HottestKeys, MemberMove, PeerGroup};
use prost::Message;
use std::rc::Rc;

/// `POST _hottest/?of=NAME&bytes=N`: the hottest keys that a node is to have from this one.
pub(crate) async fn hottest(request: &RouteRequest<'_>) -> Result<Response<ResponseBody>, Problem> {
    let group = shared(request)?;
    let other = request.key_parameter("of").transpose()?.unwrap_or_default();
    let other = String::from_utf8_lossy(&other);
    let max_bytes = request.number("bytes")?.map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let keys = group.hottest_for(&other, max_bytes).await;
    let mut response = Response::new(ResponseBody::full(HottestKeys { keys }.encode_to_vec()));
    response.headers_mut().insert(header::CONTENT_TYPE, MESSAGE);
    Ok(response)
}

/// `POST _member/?of=NAME&is=serving|leaving|left&hash=HASH`: what a node says about itself. The
/// answer says how this node hashes keys. To `leaving` it comes once the keys of this group are here.
pub(crate) async fn announced(request: &RouteRequest<'_>) -> Result<Response<ResponseBody>, Problem> {
    let group = shared(request)?;
    let name = request.key_parameter("of").transpose()?.unwrap_or_default();
    let is = target::parameter(request.query, "is").and_then(MemberMove::from_name);
    let is = is.ok_or_else(|| Problem::of(ProblemKind::BadParameter, "`is` must be serving, leaving or left"))?;
    let hash = request.key_parameter("hash").transpose()?.unwrap_or_default();
    let ours = group.announced(&name, is, &String::from_utf8_lossy(&hash)).await;
    Ok(response_writer::text(StatusCode::OK, ours))
}

fn shared<'r>(request: &'r RouteRequest<'_>) -> Result<&'r Rc<PeerGroup>, Problem> {
    match &request.group.peers {
        Some(group) => Ok(group),
        None => Err(Problem::of(ProblemKind::NoSuchRoute, "this group shares nothing")),
    }
}
