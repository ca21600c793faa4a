//! The interface of every executor.
use crate::{
    command_context::CommandContext,
    command_outcome::{Done, Flow, Later},
    transaction,
    waiting_replies::Waits,
};

/// Runs commands on data. GET and MGET do not begin here: they read through the group, with any
/// backend.
pub(crate) trait Executor {
    /// Begins a command on entries, and ends it if it need not wait.
    fn begin(&self, call: &mut CommandContext<'_>, waits: &mut Waits<'_>) -> Done;

    /// Begins any command on data of a client for which Larder tracks. `None` if the backend needs
    /// no special step for tracking.
    fn begin_tracked(&self, _call: &mut CommandContext<'_>) -> Option<Done> {
        None
    }

    /// MULTI. Queueing is the same with every backend.
    fn multi(&self, call: &mut CommandContext<'_>) -> Done {
        Ok(transaction::begin(call))
    }

    /// WATCH, outside of MULTI.
    fn watch(&self, call: &mut CommandContext<'_>) -> Done {
        Ok(Flow::Alone(call.command))
    }

    /// EXEC, when all commands are queued.
    fn exec(&self, call: &mut CommandContext<'_>) -> Done {
        Ok(Flow::Alone(call.command))
    }

    /// Runs a command on data, EXEC, WATCH or MULTI for which a function above returned
    /// [`Flow::Alone`].
    fn run<'a>(&'a self, call: &'a mut CommandContext<'_>) -> Later<'a>;
}
