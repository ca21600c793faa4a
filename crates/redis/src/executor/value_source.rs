//! The executor of a source that has values and nothing else: commands that read keys, and SET,
//! MSET and DEL if it takes writes. A value that is JSON is a document for the JSON commands, and a
//! string for all others.
use super::tier_commands;
use crate::{
    command::{Command, Flags},
    command_context::CommandContext,
    command_handlers::{LaterFn, functions},
    command_outcome::{CommandError, Done, Flow, Later},
};
use larder_core::read::{Group, StartedRead};
use larder_engine::{Attributes, Condition, Expiry, Write};
use larder_source::{DOCUMENT_ATTRIBUTES, SourceKind, ValueWrites};
use std::future::ready;

pub(super) const READS_ONLY: CommandError = CommandError::Static("ERR this source takes only commands that read keys");
const PLAIN_WRITES_ONLY: CommandError =
    CommandError::Static("ERR this source takes only commands that read keys, SET, MSET and DEL");

pub(super) fn begin(call: &mut CommandContext<'_>) -> Done {
    call.check_keys()?;
    if tier_commands::answer_without_entries(call)? {
        Ok(Flow::Done)
    } else if reads_keys(call.command) {
        Ok(Flow::Alone(call.command))
    } else {
        write_of(call).map(|_| Flow::Alone(call.command))
    }
}
pub(super) fn exec(call: &mut CommandContext<'_>) -> Done {
    call.session.end_transaction();
    Err(READS_ONLY)
}
pub(super) fn run<'a>(call: &'a mut CommandContext<'_>) -> Later<'a> {
    if reads_keys(call.command) {
        return Box::pin(read(call));
    }
    match write_of(call) {
        Ok(write) => write(call),
        Err(error) => Box::pin(ready(Err(error))),
    }
}

/// Whether a command reads keys that it names.
fn reads_keys(command: &Command) -> bool {
    command.flags.has(Flags::READONLY) && command.keys.first > 0 && functions(command).tier.is_some()
}

/// Runs a command on a tier of its own that has the values of its keys, and nothing of how long
/// copies of them live.
async fn read(call: &mut CommandContext<'_>) -> Done {
    let group = call.group();
    let keys: Vec<&[u8]> = call.command.keys.of(call.args).collect();
    let mut batch = Vec::new();
    let begun: Vec<_> = keys
        .iter()
        .map(|key| group.begin(group.cache.key(key), call.now, &mut batch, |entry| entry.value.to_bytes()))
        .collect();
    if !batch.is_empty() {
        call.worker.fetch(group, &mut batch);
    }
    let is_of_documents = call.command.name.starts_with("json.");
    let mut found = Vec::new();
    for (key, begun) in keys.iter().zip(begun) {
        let value = match begun {
            StartedRead::Hit(value) => Some(value),
            StartedRead::Absent => None,
            StartedRead::Wait(wait) => Group::end(wait).await?,
        };
        let Some(value) = value else { continue };
        found.push(match is_of_documents.then(|| larder_document::compact(&value)) {
            Some(Ok(text)) => (*key, text.into(), DOCUMENT_ATTRIBUTES),
            _ => (*key, value, Attributes::NONE),
        });
    }
    let cache = group.cache.scratch();
    let mut tier = cache.tier();
    for (key, value, attributes) in found {
        let write = Write { value: &value, expiry: Expiry::Never, attributes, condition: Condition::Always };
        tier.set(cache.key(key), write, call.now)
            .map_err(|_| CommandError::Static("OOM the value is too large for this command"))?;
    }
    tier_commands::run_on(call, &mut tier)
}

/// The function of a command that writes values.
fn write_of(call: &CommandContext<'_>) -> Result<LaterFn, CommandError> {
    match call.group().source.kind() {
        SourceKind::Values(ValueWrites::Refused(_)) => Err(READS_ONLY),
        _ => functions(call.command).values.ok_or(PLAIN_WRITES_ONLY),
    }
}
