//! Writes the replies of a transaction's commands in order.
use crate::{command::Command, command_context::CommandContext, command_error::CommandError, command_flow::Flow};
use larder_proto::resp::Args;

/// The state between the commands.
#[derive(Default)]
pub(super) struct TransactionReplies {
    closes: bool,
}
impl TransactionReplies {
    /// Runs one command. If there is no room for its reply, the reply is an error.
    pub(super) fn run(
        &mut self,
        call: &mut CommandContext<'_>,
        command: &'static Command,
        args: Args<'_>,
        run: impl FnOnce(&mut CommandContext<'_>) -> Result<Flow, CommandError>,
    ) {
        let fits = call.session.room.reserve_next(call.reply.output().owned());
        let flow = call.nested(command, args, |call| fits.and_then(|()| run(call)));
        self.closes |= matches!(flow, Flow::Close);
    }

    /// What the connection does after the transaction.
    pub(super) fn flow(self) -> Flow {
        if self.closes { Flow::Close } else { Flow::Done }
    }
}
