//! What is in memory for a key, and what a read of it would do: LARDER.EXPLAIN and its route.
use super::Group;
use larder_engine::{Explanation, HeldKind, Key, Millis, NextRead};
use larder_source::{KeyPolicy, SourceHealth, SourceKind};
use std::borrow::Cow;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// Words.
    Text(Cow<'static, str>),
    /// Milliseconds or bytes; `None`: there is none.
    Number(Option<u64>),
    Tags(Vec<Vec<u8>>),
}

/// The facts about a key, each with its name, in an order that stays. Times are in milliseconds. It
/// counts as no read and changes nothing.
pub fn explain_key(group: &Group, key: Key<'_>, health: &SourceHealth, now: Millis) -> Vec<(&'static str, Fact)> {
    let known = group.cache.explain(key, now);
    let tags: Vec<Vec<u8>> =
        group.cache.peek_stale(key, now, |entry| entry.tags().map(<[u8]>::to_vec).collect()).unwrap_or_default();
    let policy = group.policy.of(key.bytes());
    let entry = known.held;
    let text = |text: &'static str| Fact::Text(text.into());
    let until = |which: usize| entry.and_then(|entry| Some(entry.served_until[which]?.saturating_sub(now)));
    let (why, next) = match group.source.kind() {
        _ if !group.policy.serves(key.bytes()) => (Some(NOT_SERVED.to_owned()), "a read asks the source"),
        SourceKind::Memory => (None, if entry.is_some() { HIT } else { "a read answers that the key does not exist" }),
        SourceKind::Table(_) => (None, "a read answers from the table"),
        SourceKind::Redis(_) | SourceKind::Store(_) | SourceKind::Values(_) => (why(&known, now), next(&known)),
    };
    vec![
        ("held", text(held(&known))),
        ("state", text(state(&known))),
        ("age-ms", Fact::Number(entry.map(|entry| now.saturating_sub(entry.stored)))),
        ("left-ms", Fact::Number(entry.and_then(|entry| Some(entry.end?.saturating_sub(now))))),
        ("stale-ms", Fact::Number(entry.and_then(|entry| Some(now.saturating_sub(entry.stale_since?))))),
        ("served-for-ms", Fact::Number(until(0))),
        ("served-if-source-fails-for-ms", Fact::Number(until(0).max(until(1)))),
        ("bytes", Fact::Number(entry.map(|entry| entry.bytes as u64))),
        ("version", Fact::Number(entry.map(|entry| entry.version))),
        ("tags", Fact::Tags(tags)),
        ("fetching", text(if known.is_fetching { "yes" } else { "no" })),
        ("source", text(if health.is_up() { "up" } else { "down" })),
        ("source-lag-ms", Fact::Number(Some(health.lag().0.max(health.replica_lag())).filter(|lag| *lag > 0))),
        ("policy", Fact::Text(in_words(&policy).into())),
        ("mode", text(group.policy.mode(key.bytes()).name())),
        ("why", Fact::Text(why.map_or("-".into(), Cow::Owned))),
        ("next", text(next)),
        ("held-off", text(if known.is_held_off { "yes" } else { "no" })),
    ]
}

const HIT: &str = "a read answers from memory";
const NOT_SERVED: &str = "the key's mode is not `cache`";

fn held(known: &Explanation) -> &'static str {
    match known.held.map(|entry| entry.kind) {
        Some(HeldKind::Value) => "value",
        Some(HeldKind::Absence) => "absence",
        Some(HeldKind::Derived) => "replies",
        None => "nothing",
    }
}

fn state(known: &Explanation) -> &'static str {
    match known.held {
        Some(entry) if entry.stale_since.is_some() => "stale",
        Some(_) => "fresh",
        None => "-",
    }
}

/// Why a read is not simply answered from memory.
fn why(known: &Explanation, now: Millis) -> Option<String> {
    match known.held {
        None if known.was_evicted => Some("it was evicted for room not long ago".into()),
        None => Some("it was not read yet, or it expired, changed, was cleared, or was evicted long ago".into()),
        Some(entry) if entry.kind == HeldKind::Derived => Some("only replies about the key are held".into()),
        Some(entry) => {
            let since = now.saturating_sub(entry.stale_since?);
            Some(format!(
                "it is out of date for {since} ms: its lifetime is over, it was cleared softly, or the source was lost"
            ))
        }
    }
}

fn next(known: &Explanation) -> &'static str {
    match known.next {
        NextRead::Hit => HIT,
        NextRead::HitAndRenew => "a read answers from memory and starts a fetch ahead of time",
        NextRead::Stale if known.is_held_off => "a read answers from memory; a fetch failed a moment ago",
        NextRead::Stale if known.is_fetching => "a read answers from memory; a fetch is under way",
        NextRead::Stale => "a read answers from memory and starts a fetch",
        NextRead::FetchOrStale => {
            "a read asks the source, and answers from memory if that fails or exceeds soft-timeout"
        }
        NextRead::Fetch => "a read asks the source",
    }
}

fn in_words(policy: &KeyPolicy) -> String {
    let millis = |name: &str, value: Option<u64>| match value {
        Some(value) => format!("{name}={value}ms"),
        None => format!("{name}=none"),
    };
    [
        millis("ttl", policy.ttl),
        millis("negative-ttl", policy.negative_ttl),
        millis("stale-while-revalidate", Some(policy.stale_while_revalidate)),
        millis("stale-if-error", Some(policy.stale_if_error)),
        millis("soft-timeout", policy.soft_timeout),
        millis("max-stale", policy.max_stale),
        policy.refresh_ahead.map_or("refresh-ahead=none".into(), |ahead| format!("refresh-ahead={ahead}")),
    ]
    .join(" ")
}
