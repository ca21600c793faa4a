//! LARDER.EXPLAIN: what is in memory for a key, and what a read of it would do.
use crate::{command_context::CommandContext, command_error::CommandError, command_flow::Flow};
use larder_core::read::{Fact, explain_key};

/// LARDER.EXPLAIN key: names and values. Times are in milliseconds. It counts as no read and
/// changes nothing.
pub(crate) fn explain(call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
    let is_up = call.worker.app.groups.default().source.health().is_up();
    let facts = explain_key(call.group(), call.key(1), is_up, call.now);
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
