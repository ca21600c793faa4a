//! `GET /v1/peers`: the ring as this node sees it.
use crate::{
    messages::{
        problem_json::{Answer, Problem, ProblemKind},
        response_writer,
    },
    routing::route_request::RouteRequest,
};
use larder_config::Zone;
use larder_ring::peer::Member;
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// `{"self":NAME,"epoch":HEX,"hash":NAME,"agree":BOOL,"other_rings":[…],"peers":[…]}`; with `?key=`
/// also `"owner":NAME`. 404 on a node that shares nothing.
pub(crate) fn peers(request: &RouteRequest<'_>) -> Answer {
    let Some(peers) = &request.worker.app.peers else {
        return Err(Problem::of(ProblemKind::NoSuchRoute, "this node shares nothing: `peers` is not set"));
    };
    let (now, hash) = (peers.now(), peers.hash_name());
    let members = now.members().iter().zip(now.shares()).map(|(member, share)| {
        let count = |count: &AtomicU64| count.load(Relaxed);
        json!({
            "name": member.name,
            "url": member.address.url(),
            "zone": member.zone.as_ref().map(Zone::as_str),
            "self": member.is_self,
            "reachable": !member.is_out(),
            "groups_out": member.groups_out().iter().map(ToString::to_string).collect::<Vec<_>>(),
            "hash": if member.is_self { Some(hash.into()) } else { member.hash() },
            "share": (share * 1e6).round() / 1e6,
            "reads": count(&member.counts.reads),
            "failed_reads": count(&member.counts.failed_reads),
            "changes": count(&member.counts.changes),
            "failed_changes": count(&member.counts.failed_changes),
            "untold_changes": count(&member.counts.untold),
        })
    });
    let is_other = |member: &Arc<Member>| !member.is_self && member.hash().is_some_and(|theirs| *theirs != *hash);
    let others = peers.other_rings(request.now);
    let agree = others.is_empty() && !now.members().iter().any(is_other);
    let others = others.into_iter().map(|other| {
        json!({
            "epoch": other.epoch.map(|epoch| format!("{epoch:016x}")),
            "key": other.key.as_ref().map(|(key, _)| key),
            "owner": other.key.as_ref().map(|(_, owner)| owner),
            "seconds_ago": request.now.saturating_sub(other.latest) / 1000,
        })
    });
    let this = now.members().iter().find(|member| member.is_self).map(|member| member.name.to_string());
    let owner = request.key_parameter("key").transpose()?.map(|key| now.owner(&key).name.to_string());
    let mut document = json!({
        "self": this,
        "epoch": format!("{:016x}", now.epoch()),
        "hash": hash,
        "agree": agree,
        "other_rings": others.collect::<Vec<Value>>(),
        "peers": members.collect::<Vec<Value>>(),
    });
    if let Some(owner) = owner {
        document["owner"] = owner.into();
    }
    response_writer::json_value(&document)
}
