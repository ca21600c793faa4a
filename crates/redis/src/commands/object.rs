//! The representation of an entry: OBJECT, MEMORY USAGE, LARDER.EXPLAIN.
use crate::{
    command_context::CommandContext,
    command_outcome::{Done, Flow, SYNTAX, integer},
};
use larder_core::read::{Fact, explain_key};
use larder_engine::Tier;
use larder_proto::resp::parse_i64;
use larder_source::is_document;

/// Redis keeps strings up to this length in one allocation with their header.
const EMBEDDED: usize = 44;

/// OBJECT ENCODING key: Redis's name for the encoding. Redis shows `raw` for values that were
/// appended to, whatever their length.
pub(crate) fn encoding(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let encoding = tier.peek(call.key(2), call.now, |entry| {
        let value = entry.value.as_bytes();
        match value.len() {
            // Like Redis for the types of modules.
            _ if is_document(entry.metadata()) => "raw",
            ..=20 if parse_i64(value).is_some() => "int",
            ..=EMBEDDED => "embstr",
            _ => "raw",
        }
    });
    match encoding {
        Some(name) => call.reply.bulk(name.as_bytes()),
        None => call.reply.null(),
    }
    Ok(Flow::Done)
}

pub(crate) fn refcount(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let found = tier.peek(call.key(2), call.now, |_| 1);
    integer_or_null(call, found);
    Ok(Flow::Done)
}

/// OBJECT IDLETIME key: counts from the last write, because reads leave no timestamp.
pub(crate) fn idletime(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let now = call.now;
    let idle = tier.peek(call.key(2), now, |entry| now.saturating_sub(entry.stored()) / 1000);
    integer_or_null(call, idle.map(|seconds| seconds as i64));
    Ok(Flow::Done)
}

/// OBJECT FREQ key: the policy's access count.
pub(crate) fn freq(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let found = tier.peek(call.key(2), call.now, |entry| i64::from(entry.frequency()));
    integer_or_null(call, found);
    Ok(Flow::Done)
}

/// MEMORY USAGE key [SAMPLES count]: bytes on the account of `max-memory`.
pub(crate) fn memory_usage(call: &mut CommandContext<'_>, tier: &mut Tier<'_>) -> Done {
    let mut parts = call.args.from(3);
    while let Some(part) = parts.next() {
        let samples = parts.next().filter(|_| part.eq_ignore_ascii_case(b"samples"));
        if integer(samples.ok_or(SYNTAX)?)? < 0 {
            return Err(SYNTAX);
        }
    }
    let found = tier.peek(call.key(2), call.now, |entry| entry.footprint() as i64);
    integer_or_null(call, found);
    Ok(Flow::Done)
}

fn integer_or_null(call: &mut CommandContext<'_>, value: Option<i64>) {
    match value {
        Some(value) => call.reply.integer(value),
        None => call.reply.null(),
    }
}

/// LARDER.EXPLAIN key: names and values. Times are in milliseconds. It counts as no read and
/// changes nothing.
pub(crate) fn explain(call: &mut CommandContext<'_>) -> Done {
    let source = call.worker.app.groups.default().source();
    let facts = explain_key(call.group(), call.key(1), source.health(), call.now);
    let reply = &mut call.reply;
    reply.map(facts.len());
    for (name, fact) in facts {
        reply.bulk(name.as_bytes());
        match fact {
            Fact::Text(text) => reply.bulk(text.as_bytes()),
            Fact::Number(Some(number)) => reply.integer(number.try_into().unwrap_or(i64::MAX)),
            Fact::Number(None) => reply.null(),
            Fact::Tags(tags) => {
                reply.array(tags.len());
                tags.iter().for_each(|tag| reply.bulk(tag));
            }
        }
    }
    Ok(Flow::Done)
}
