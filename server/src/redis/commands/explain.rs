//! LARDER.EXPLAIN: what is in memory for a key, and what a read of it would do.
use crate::{
    redis::{command_context::CommandContext, command_error::CommandError, command_flow::Flow},
    source::{KeyPolicy, Reads},
};
use larder_engine::{Explanation, HeldKind, Millis, NextRead};
use larder_proto::resp::Reply;

/// LARDER.EXPLAIN key: names and values. Times are in milliseconds. It counts as no read and changes nothing.
pub(in crate::redis) fn explain(call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
    let (group, key, now) = (call.group(), call.key(1), call.now);
    let known = group.cache.explain(key, now);
    let tags: Vec<Vec<u8>> =
        group.cache.peek_stale(key, now, |entry| entry.tags().map(<[u8]>::to_vec).collect()).unwrap_or_default();
    let policy = group.policy.of(key.bytes());
    let source = call.worker.app.sources[0].health();
    let reply = &mut call.reply;
    reply.map(17);
    text(reply, "held", held(&known));
    text(reply, "state", state(&known));
    let entry = known.held;
    number(reply, "age-ms", entry.map(|entry| now.saturating_sub(entry.stored)));
    number(reply, "left-ms", entry.and_then(|entry| Some(entry.end?.saturating_sub(now))));
    number(reply, "stale-ms", entry.and_then(|entry| Some(now.saturating_sub(entry.stale_since?))));
    let until = |which: usize| entry.and_then(|entry| Some(entry.served_until[which]?.saturating_sub(now)));
    number(reply, "served-for-ms", until(0));
    number(reply, "served-if-source-fails-for-ms", until(0).max(until(1)));
    number(reply, "bytes", entry.map(|entry| entry.bytes as u64));
    number(reply, "version", entry.map(|entry| entry.version));
    reply.bulk(b"tags");
    reply.array(tags.len());
    tags.iter().for_each(|tag| reply.bulk(tag));
    text(reply, "fetching", if known.is_fetching { "yes" } else { "no" });
    text(reply, "source", if source.is_up() { "up" } else { "down" });
    text(reply, "policy", &in_words(&policy));
    text(reply, "mode", group.policy.mode(key.bytes()).name());
    let (why, next) = match group.source.reads() {
        _ if !group.policy.serves(key.bytes()) => (Some(NOT_SERVED.to_owned()), "a read asks the source"),
        Reads::Tier => (None, if entry.is_some() { HIT } else { "a read answers that the key does not exist" }),
        Reads::Table(_) => (None, "a read answers from the table"),
        Reads::Through => (why(&known, now), next(&known)),
    };
    text(reply, "why", why.as_deref().unwrap_or("-"));
    text(reply, "next", next);
    text(reply, "held-off", if known.is_held_off { "yes" } else { "no" });
    Ok(Flow::Done)
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

fn text(reply: &mut Reply<'_>, name: &str, value: &str) {
    reply.bulk(name.as_bytes());
    reply.bulk(value.as_bytes());
}

fn number(reply: &mut Reply<'_>, name: &str, value: Option<u64>) {
    reply.bulk(name.as_bytes());
    match value {
        Some(value) => reply.integer(value.try_into().unwrap_or(i64::MAX)),
        None => reply.null(),
    }
}
