//! `GET /v1/what-if`: the hit ratios that the groups would have at other sizes.
use crate::{
    messages::{
        problem_json::{Answer, Problem, ProblemKind},
        response_writer,
    },
    routing::route_request::RouteRequest,
};
use larder_engine::{WhatIf, WhatIfPoint};
use larder_proto::http::target;
use serde_json::{Value, json};

/// The hit ratio that is wanted if the client names none.
const USUAL_RATIO: f64 = 0.95;

/// `GET /v1/what-if?hit-ratio=`: `{"groups": [{"group", "max_memory", "max_keys", "reads",
/// "seconds", "hit_ratio", "sampled_share", "sampled_keys", "bytes", "sizes": [{"factor",
/// "max_memory", "max_keys", "hit_ratio", "lru_hit_ratio"}], "wanted": {"hit_ratio", "factor",
/// "max_memory", "max_keys"}}]}`.
pub(crate) fn what_if(request: &RouteRequest<'_>) -> Answer {
    let wanted = match target::parameter(request.query, "hit-ratio") {
        None | Some(b"") => USUAL_RATIO,
        Some(raw) => wanted_ratio(raw).ok_or_else(|| {
            Problem::of(ProblemKind::BadParameter, "`hit-ratio` is not a number from 0 to 1, such as 0.95")
        })?,
    };
    let groups: Vec<Value> = (request.worker.groups.iter())
        .filter_map(|group| {
            let cache = &group.cache;
            let curve = cache.what_if(request.now)?;
            Some(document(&group.name, &curve, (cache.max_memory(), cache.max_keys()), wanted))
        })
        .collect();
    response_writer::json_value(&json!({ "groups": groups }))
}

fn wanted_ratio(raw: &[u8]) -> Option<f64> {
    let ratio: f64 = std::str::from_utf8(raw).ok()?.parse().ok()?;
    (0.0..=1.0).contains(&ratio).then_some(ratio)
}

fn document(group: &str, curve: &WhatIf, bounds: (usize, Option<usize>), wanted: f64) -> Value {
    let (max_memory, max_keys) = bounds;
    let size = |point: &WhatIfPoint| {
        json!({
            "factor": point.factor,
            "max_memory": point.max_memory,
            "max_keys": point.max_keys,
            "hit_ratio": rounded(point.hit_ratio),
            "lru_hit_ratio": rounded(point.lru_hit_ratio),
        })
    };
    let sizes: Vec<Value> = curve.points.iter().map(size).collect();
    let factor = curve.factor_for(wanted).filter(|_| curve.reads > 0);
    let times = |bound: usize| factor.map(|factor| (bound as f64 * factor).ceil() as u64);
    json!({
        "group": group,
        "max_memory": max_memory,
        "max_keys": max_keys,
        "reads": curve.reads,
        "seconds": curve.span as f64 / 1e3,
        "hit_ratio": rounded(curve.hit_ratio),
        "sampled_share": curve.sampled_share,
        "sampled_keys": curve.sampled_keys,
        "bytes": curve.bytes,
        "sizes": sizes,
        "wanted": {
            "hit_ratio": wanted,
            "factor": factor.map(rounded),
            "max_memory": times(max_memory),
            "max_keys": max_keys.and_then(times),
        },
    })
}

/// Four digits: more would claim to be known.
fn rounded(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::wanted_ratio;

    #[test]
    fn a_ratio_is_from_0_to_1() {
        assert_eq!([&b"0.95"[..], b"0", b"1"].map(wanted_ratio), [Some(0.95), Some(0.0), Some(1.0)]);
        assert_eq!([&b"95"[..], b"-0.1", b"NaN", b"95%", b""].map(wanted_ratio), [None; 5]);
    }
}
