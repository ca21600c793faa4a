//! `GET /v1/contents`: what the memory tiers hold and evict, by prefix.
use super::hot_key_lists::name_text;
use crate::{messages::problem_json::Answer, routing::route_request::RouteRequest};
use larder_core::read::{Group, TierContents, TierPart};
use larder_engine::Millis;
use serde_json::{Value, json};

/// Prefixes of each group if the client names no `count`.
const USUAL_PREFIXES: usize = 20;
const MOST_PREFIXES: usize = 500;
/// Entries of each group that are looked at: the larger, the longer it takes.
const SAMPLE: usize = 1000;

/// `GET /v1/contents?count=`: `{"groups":[{"group","entries","sampled","age_seconds",…,
/// "prefixes":[{"prefix","share",…},…]},…]}`.
pub(crate) fn contents(request: &RouteRequest<'_>) -> Answer {
    let count = request.count(USUAL_PREFIXES, 1..=MOST_PREFIXES)?;
    let (groups, now) = (&request.worker.groups, request.now);
    let stats: Vec<_> = groups.iter().map(|group| group.cache.stats()).collect();
    let is_sample = stats.iter().any(|stats| stats.entries > SAMPLE as u64);
    // A few changes do not make a sample wrong.
    let state = if is_sample { 0 } else { stats.iter().map(|stats| stats.changes).sum() };
    Ok(request.context.http.contents.or_make((count, state), now, || {
        let documents: Vec<Value> = groups.iter().map(|group| of_group(group, count, now)).collect();
        json!({ "groups": documents }).to_string()
    }))
}

fn of_group(group: &Group, count: usize, now: Millis) -> Value {
    let contents = TierContents::sample(group, SAMPLE, || fastrand::u64(..), now);
    let all = &contents.all;
    let mut document = times(all);
    document["group"] = (&*group.name).into();
    document["entries"] = group.cache.stats().entries.into();
    document["sampled"] = all.ages.len().into();
    document["sampled_bytes"] = all.bytes.into();
    document["sampled_evictions"] = all.evicted_ages.len().into();
    document["evictions_seconds"] = contents.evicted_since.map(|since| seconds(now.saturating_sub(since))).into();
    let prefixes = contents.prefixes.iter().take(count).map(|(prefix, part)| {
        let mut row = times(part);
        row["prefix"] = name_text(prefix);
        row["share"] = share(part.ages.len() as f64, all.ages.len() as f64);
        row["bytes_share"] = share(part.bytes as f64, all.bytes as f64);
        row["evictions_share"] = share(part.evicted_ages.len() as f64, all.evicted_ages.len() as f64);
        row
    });
    document["prefixes"] = prefixes.collect();
    document
}

fn times(part: &TierPart) -> Value {
    json!({
        "age_seconds": quantiles(&part.ages),
        "left_seconds": quantiles(&part.lefts),
        "expiring_share": share(part.lefts.len() as f64, part.ages.len() as f64),
        "evicted_age_seconds": quantiles(&part.evicted_ages),
    })
}

fn quantiles(ascending: &[u64]) -> Value {
    let at = |share: f64| {
        let at = ((ascending.len() as f64 * share).ceil() as usize).saturating_sub(1);
        ascending.get(at).map(|millis| seconds(*millis))
    };
    json!({"p50": at(0.5), "p90": at(0.9)})
}

fn seconds(millis: u64) -> f64 {
    millis as f64 / 1e3
}

/// `null` if there is nothing to have a share of.
fn share(part: f64, all: f64) -> Value {
    match all > 0.0 {
        true => ((part / all * 1e4).round() / 1e4).into(),
        false => Value::Null,
    }
}
