//! `/v1/faults`: faults to order, for a rehearsal of an outage.
use crate::{
    messages::{
        problem_json::{Answer, Problem, ProblemKind},
        response_body::ResponseBody,
        response_writer,
    },
    routing::route_request::RouteRequest,
};
use bytes::Bytes;
use http::StatusCode;
use larder_base::lifecycle::faults::{
    FARTHEST_JUMP, Fault, FaultKind, FaultPlace, LONGEST_DELAY, LONGEST_FAULT, MOST_FAULTS,
};
use larder_engine::Millis;
use larder_store::clock;
use larder_units::{parse_duration, show_duration};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

/// `{"at": "source", "kind": "delay", "delay": "200ms", "share": 0.5, "duration": "30s", "group":
/// "default"}`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ordered {
    at: String,
    kind: String,
    delay: Option<String>,
    jump: Option<String>,
    #[serde(default = "all")]
    share: f64,
    duration: String,
    group: Option<String>,
}

fn all() -> f64 {
    1.0
}

/// `POST`: orders a fault; 201 with the fault. 403 names the setting without which there are none.
pub(crate) async fn order(request: &RouteRequest<'_>, body: Bytes) -> Answer {
    if !request.worker.app.settings.allow_faults {
        let detail = "set `allow-faults` to inject faults: they affect clients";
        return Err(Problem::of(ProblemKind::FaultsNotAllowed, detail));
    }
    let bad = |why: String| Problem::of(ProblemKind::BadBody, why);
    let ordered: Ordered = serde_json::from_slice(&body).map_err(|error| bad(error.to_string()))?;
    let begins = clock::now();
    let fault = checked(request, ordered, begins).map_err(bad)?;
    let lasts = fault.until - begins;
    let Some(fault) = request.worker.app.gate.faults.order(fault) else {
        return Err(bad(format!("there are {MOST_FAULTS} faults already, and no more at a time")));
    };
    let mut response = response_writer::json(ResponseBody::full(shown(&fault, fault.until - lasts).to_string()));
    *response.status_mut() = StatusCode::CREATED;
    Ok(response)
}

fn checked(request: &RouteRequest<'_>, ordered: Ordered, begins: Millis) -> Result<Fault, String> {
    let Ordered { at, kind, delay, jump, share, duration, group } = ordered;
    let names = || FaultPlace::ALL.map(FaultPlace::name).join(", ");
    let place = FaultPlace::ALL.into_iter().find(|place| place.name() == at);
    let place = place.ok_or_else(|| format!("`at`: {at:?} is none of {}", names()))?;
    if !place.kinds().contains(&&*kind) {
        return Err(format!("`kind`: {kind:?} is none of {}, which there are at {at}", place.kinds().join(", ")));
    }
    let time = |name: &str, text: &str, longest: Duration| {
        let time = parse_duration(text).map_err(|error| format!("`{name}`: {error}"))?;
        match !time.is_zero() && time <= longest {
            true => Ok(time),
            false => Err(format!("`{name}`: {text} is not above 0 and up to {}", show_duration(longest))),
        }
    };
    if jump.is_some() && kind != "jump" {
        return Err(format!("`jump` is not for faults of kind {kind}"));
    }
    let kind = match (&*kind, delay) {
        ("jump", None) => FaultKind::Jump(jump_of(&jump.ok_or("`jump` is missing")?, time)?),
        ("full", None) => FaultKind::Full,
        ("delay", Some(delay)) => FaultKind::Delay(time("delay", &delay, LONGEST_DELAY)?),
        ("delay", None) => return Err("`delay` is missing".into()),
        (_, Some(_)) => return Err(format!("`delay` is not for faults of kind {kind}")),
        ("error", None) => FaultKind::Error,
        _ => FaultKind::Cut,
    };
    if !(share > 0.0 && share <= 1.0) {
        return Err(format!("`share`: {share} is not above 0 and up to 1"));
    }
    if place == FaultPlace::Clock && share < 1.0 {
        return Err("`share` is not for faults at clock".into());
    }
    let groups = &request.worker.app.settings.groups;
    if let Some(group) = &group {
        if !matches!(place, FaultPlace::Source | FaultPlace::Disk) {
            return Err(format!("`group` is not for faults at {at}"));
        }
        if groups.iter().all(|known| known.name != *group) {
            return Err(format!("`group`: there is no group {group}"));
        }
    }
    let duration = time("duration", &duration, LONGEST_FAULT)?;
    let until = begins + u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    Ok(Fault { id: 0, place, group, kind, share, until, done: 0 })
}

/// `+1h` or `-10m`, in milliseconds.
fn jump_of(text: &str, time: impl Fn(&str, &str, Duration) -> Result<Duration, String>) -> Result<i64, String> {
    let (sign, length) = match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(length), _) => (1, length),
        (_, Some(length)) => (-1, length),
        _ => return Err(format!("`jump`: {text} begins with neither + nor -, as in +1h")),
    };
    Ok(sign * time("jump", length, FARTHEST_JUMP)?.as_millis() as i64)
}

/// `GET`: whether faults are allowed, and those that there are.
pub(crate) fn faults(request: &RouteRequest<'_>) -> Answer {
    let app = &request.worker.app;
    let list = app.gate.faults.list(request.now);
    let list: Vec<Value> = list.iter().map(|fault| shown(fault, request.now)).collect();
    let answer = json!({"allowed": app.settings.allow_faults, "faults": list});
    response_writer::json_value(&answer)
}

/// `DELETE`: ends all faults, or the one that `?id=` names.
pub(crate) fn clear(request: &RouteRequest<'_>) -> Answer {
    let id = request.number("id")?;
    let ended = request.worker.app.gate.faults.clear(id);
    response_writer::json_value(&json!({"ended": ended}))
}

fn shown(fault: &Fault, now: u64) -> Value {
    let delay = match fault.kind {
        FaultKind::Delay(delay) => Some(show_duration(delay)),
        _ => None,
    };
    let jump = match fault.kind {
        FaultKind::Jump(by) => {
            let sign = if by < 0 { '-' } else { '+' };
            Some(format!("{sign}{}", show_duration(Duration::from_millis(by.unsigned_abs()))))
        }
        _ => None,
    };
    json!({
        "id": fault.id,
        "at": fault.place.name(),
        "group": fault.group,
        "kind": fault.kind.name(),
        "jump": jump,
        "delay": delay.map(|delay| delay.to_string()),
        "share": fault.share,
        "seconds_left": fault.until.saturating_sub(now) as f64 / 1e3,
        "struck": fault.done,
    })
}
