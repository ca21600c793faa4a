//! The executor of a source that has values and nothing else: GET and MGET, and SET, MSET and DEL
//! if it takes writes.
use super::{executor_trait::Executor, tier_commands};
use crate::{
    command_context::CommandContext,
    command_handlers::{LaterFn, functions},
    command_outcome::{CommandError, Done, Flow, Later},
    waiting_replies::Waits,
};
use larder_source::{SourceKind, ValueWrites};
use std::future::ready;

const READS_ONLY: CommandError = CommandError::Static("ERR this source takes no commands but GET and MGET");
const PLAIN_WRITES_ONLY: CommandError =
    CommandError::Static("ERR this source takes no commands but GET, MGET, SET, MSET and DEL");

pub(super) struct ValueSourceExecutor;

impl Executor for ValueSourceExecutor {
    fn begin(&self, call: &mut CommandContext<'_>, _waits: &mut Waits<'_>) -> Done {
        call.check_keys()?;
        if tier_commands::answer_without_entries(call)? {
            Ok(Flow::Done)
        } else {
            write_of(call).map(|_| Flow::Alone(call.command))
        }
    }
    fn watch(&self, _call: &mut CommandContext<'_>) -> Done {
        Err(READS_ONLY)
    }
    fn exec(&self, call: &mut CommandContext<'_>) -> Done {
        call.session.end_transaction();
        Err(READS_ONLY)
    }
    fn run<'a>(&'a self, call: &'a mut CommandContext<'_>) -> Later<'a> {
        match write_of(call) {
            Ok(write) => write(call),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }
}

/// The function of a command that writes values.
fn write_of(call: &CommandContext<'_>) -> Result<LaterFn, CommandError> {
    match call.group().source.kind() {
        SourceKind::Values(ValueWrites::Refused(_)) => Err(READS_ONLY),
        _ => functions(call.command).values.ok_or(PLAIN_WRITES_ONLY),
    }
}
