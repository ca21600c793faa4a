//! The executor of a read-only source, which has GET and MGET.
use super::{executor_trait::Executor, pipeline::ClientPipeline, tier_commands};
use crate::{
    app::Worker,
    redis::{
        command_context::CommandContext,
        command_error::CommandError,
        command_flow::{Flow, Later},
        session::Session,
        transaction,
    },
    source::Fetch,
};

const REFUSED: CommandError = CommandError::Static("ERR this source takes no commands but GET and MGET");

pub(super) struct ReadOnlyExecutor;

impl Executor for ReadOnlyExecutor {
    fn begin(&self, call: &mut CommandContext<'_>, _batch: &mut Vec<Fetch>) -> Result<Flow, CommandError> {
        call.check_keys()?;
        match tier_commands::answer_without_entries(call)? {
            true => Ok(Flow::Done),
            false => Err(REFUSED),
        }
    }
    fn multi(&self, call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
        Ok(transaction::begin(call))
    }
    fn watch(&self, _call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
        Err(REFUSED)
    }
    fn exec(&self, call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
        call.session.end_transaction();
        Err(REFUSED)
    }
    fn run<'a>(&'a self, _call: &'a mut CommandContext<'_>) -> Later<'a> {
        Box::pin(async { Err(REFUSED) })
    }
    fn pipeline(&self, _worker: &Worker, _session: &Session, _behind: Option<bool>) -> Option<ClientPipeline> {
        None
    }
}
