//! What every executor does.
use super::pipeline::ClientPipeline;
use crate::{
    app::Worker,
    redis::{
        command_context::CommandContext,
        command_error::CommandError,
        flow::{Flow, Later},
        session::Session,
    },
    source::Fetch,
};

/// Carries out commands on data. GET and MGET begin elsewhere: they read through the group, whatever is behind it.
pub(in crate::redis) trait Executor {
    /// Begins a command on entries, and ends it if it need not wait. Fetches that it needs are pushed to `batch`.
    fn begin(&self, call: &mut CommandContext<'_>, batch: &mut Vec<Fetch>) -> Result<Flow, CommandError>;

    /// The same for any command on data of a client for which Larder tracks; `None` if nothing is to be done for that here.
    fn begin_tracked(&self, _call: &mut CommandContext<'_>) -> Option<Result<Flow, CommandError>> {
        None
    }

    /// MULTI; the rest of it is the same everywhere.
    fn multi(&self, call: &mut CommandContext<'_>) -> Result<Flow, CommandError>;

    /// WATCH, outside of MULTI.
    fn watch(&self, call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
        Ok(Flow::Alone(call.command))
    }

    /// EXEC of a transaction whose commands are all queued.
    fn exec(&self, call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
        Ok(Flow::Alone(call.command))
    }

    /// Runs a command on data, EXEC, WATCH or MULTI for which the above has said [`Flow::Alone`].
    fn run<'a>(&'a self, call: &'a mut CommandContext<'_>) -> Later<'a>;

    /// An empty pipeline for commands for which `begin` has said [`Flow::Relay`]; `behind` says whether those before them are slow.
    fn pipeline(&self, worker: &Worker, session: &Session, behind: Option<bool>) -> Option<ClientPipeline>;
}
