//! Writes the replies of a transaction's commands in order.
use crate::{
    app::Worker,
    redis::{
        command::Command, command_context::CommandContext, command_error::CommandError, command_flow::Flow,
        reply_budget::ReplyBudget,
    },
};
use larder_proto::resp::Args;

/// The state between the commands.
pub(super) struct TransactionReplies<'w> {
    budget: ReplyBudget<'w>,
    closes: bool,
}
impl<'w> TransactionReplies<'w> {
    pub(super) fn new(worker: &'w Worker) -> TransactionReplies<'w> {
        TransactionReplies { budget: ReplyBudget::new(worker), closes: false }
    }

    /// Runs one command. If there is no room for its reply, the reply is an error.
    pub(super) fn run(
        &mut self,
        call: &mut CommandContext<'_>,
        command: &'static Command,
        args: Args<'_>,
        run: impl FnOnce(&mut CommandContext<'_>) -> Result<Flow, CommandError>,
    ) {
        let fits = self.budget.take(call.reply.output().owned());
        let flow = call.nested(command, args, |call| fits.and_then(|()| run(call)));
        self.closes |= matches!(flow, Flow::Close);
    }

    /// What the connection does after the transaction.
    pub(super) fn flow(self) -> Flow {
        if self.closes { Flow::Close } else { Flow::Done }
    }
}
