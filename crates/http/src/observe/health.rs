//! `/healthz` and `/readyz`: does the process answer, and can its groups be read?
use crate::{
    messages::{
        problem_json::{Answer, Problem, ProblemKind},
        response_writer,
    },
    routing::route_request::RouteRequest,
};
use http::StatusCode;
use larder_ring::peer::Standing;
use larder_store::clock;

pub(crate) fn healthy(_: &RouteRequest<'_>) -> Answer {
    Ok(response_writer::text(StatusCode::OK, "ok\n"))
}

/// `GET /readyz`: 200 once every source has been reached and the snapshot is loaded, until the
/// drain begins, and while any group can be read. A source that is lost does not make the server
/// unready where copies outlive it: hits are still answered, which no other server could do better.
pub(crate) fn ready(request: &RouteRequest<'_>) -> Answer {
    let app = &request.worker.app;
    if app.drain.begun() {
        return Err(Problem::of(ProblemKind::NotReady, "the server is shutting down"));
    }
    if let Some(peers) = &app.peers {
        match peers.standing() {
            Standing::Joining => {
                return Err(Problem::of(ProblemKind::NotReady, "warming: keys are being taken over from peers"));
            }
            Standing::Serving => {}
            Standing::Leaving | Standing::Left => {
                return Err(Problem::of(ProblemKind::NotReady, "the server is shutting down"));
            }
        }
    }
    if app.snapshots.is_loading() {
        let detail = format!("loading: {} % of the snapshot is read", app.snapshots.loaded_per_cent());
        return Err(Problem::of(ProblemKind::NotReady, detail));
    }
    let (mut readable, mut lost) = (false, None);
    for group in request.worker.groups.iter() {
        let health = app.groups.of(group).source().health();
        let reason = || health.last_error().unwrap_or_else(|| "connecting".into());
        if !health.was_up() {
            let detail = format!("the source of group `{}` has not been reached yet: {}", group.name, reason());
            return Err(Problem::of(ProblemKind::NotReady, detail));
        }
        let lost_for = health.lost_for(clock::now());
        readable |= lost_for.is_none_or(|lost_for| group.policy.outlives_source(lost_for));
        if lost_for.is_some() {
            lost.get_or_insert_with(|| format!("the source of group `{}` is lost: {}", group.name, reason()));
        }
    }
    match lost {
        Some(lost) if !readable => Err(Problem::of(ProblemKind::NotReady, lost)),
        Some(lost) => Ok(response_writer::text(StatusCode::OK, &format!("degraded: {lost}\n"))),
        None => Ok(response_writer::text(StatusCode::OK, "ready\n")),
    }
}
