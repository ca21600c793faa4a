//! The executor of a source that has values and nothing else: GET and MGET, and SET, MSET and DEL
//! if it takes writes.
use super::{executor_trait::Executor, pipeline::ClientPipeline, tier_commands};
use crate::{
    command_context::CommandContext,
    command_error::CommandError,
    command_flow::{Flow, Later},
    command_handlers::{LaterFn, handler},
    session::Session,
    transaction,
};
use larder_core::app::Worker;
use larder_source::Fetch;
use std::future::ready;

const READS_ONLY: CommandError = CommandError::Static("ERR this source takes no commands but GET and MGET");
const PLAIN_WRITES_ONLY: CommandError =
    CommandError::Static("ERR this source takes no commands but GET, MGET, SET, MSET and DEL");

pub(super) struct ValueSourceExecutor;

impl Executor for ValueSourceExecutor {
    fn begin(&self, call: &mut CommandContext<'_>, _batch: &mut Vec<Fetch>) -> Result<Flow, CommandError> {
        call.check_keys()?;
        match tier_commands::answer_without_entries(call)? {
            true => Ok(Flow::Done),
            false => write_of(call).map(|_| Flow::Alone(call.command)),
        }
    }
    fn multi(&self, call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
        Ok(transaction::begin(call))
    }
    fn watch(&self, _call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
        Err(READS_ONLY)
    }
    fn exec(&self, call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
        call.session.end_transaction();
        Err(READS_ONLY)
    }
    fn run<'a>(&'a self, call: &'a mut CommandContext<'_>) -> Later<'a> {
        match write_of(call) {
            Ok(write) => write(call),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }
    fn pipeline(&self, _worker: &Worker, _session: &Session, _behind: Option<bool>) -> Option<ClientPipeline> {
        None
    }
}

/// The function of a command that writes values.
fn write_of(call: &CommandContext<'_>) -> Result<LaterFn, CommandError> {
    match call.group().source.takes_values() {
        true => handler(call.command).at_value_source().ok_or(PLAIN_WRITES_ONLY),
        false => Err(READS_ONLY),
    }
}
