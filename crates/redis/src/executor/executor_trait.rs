//! The interface of every executor.
use super::pipeline::ClientPipeline;
use crate::{
    command_context::CommandContext,
    command_error::CommandError,
    command_flow::{Flow, Later},
    session::Session,
};
use larder_core::app::Worker;
use larder_source::Fetch;

/// Runs commands on data. GET and MGET do not begin here: they read through the group, with any
/// backend.
pub(crate) trait Executor {
    /// Begins a command on entries, and ends it if it need not wait. Fetches that it needs are
    /// pushed to `batch`.
    fn begin(&self, call: &mut CommandContext<'_>, batch: &mut Vec<Fetch>) -> Result<Flow, CommandError>;

    /// Begins any command on data of a client for which Larder tracks. `None` if the backend needs
    /// no special step for tracking.
    fn begin_tracked(&self, _call: &mut CommandContext<'_>) -> Option<Result<Flow, CommandError>> {
        None
    }

    /// MULTI. Queueing is the same with every backend.
    fn multi(&self, call: &mut CommandContext<'_>) -> Result<Flow, CommandError>;

    /// WATCH, outside of MULTI.
    fn watch(&self, call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
        Ok(Flow::Alone(call.command))
    }

    /// EXEC, when all commands are queued.
    fn exec(&self, call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
        Ok(Flow::Alone(call.command))
    }

    /// Runs a command on data, EXEC, WATCH or MULTI for which a function above returned
    /// [`Flow::Alone`].
    fn run<'a>(&'a self, call: &'a mut CommandContext<'_>) -> Later<'a>;

    /// An empty pipeline for commands that `begin` answered with [`Flow::Relay`]. `behind` says
    /// whether the commands before it are slow.
    fn pipeline(&self, worker: &Worker, session: &Session, behind: Option<bool>) -> Option<ClientPipeline>;
}
