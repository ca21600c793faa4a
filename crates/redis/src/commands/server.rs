//! Commands on the server as a whole, and fixed replies for features that Larder does not have.
use crate::{
    command_context::CommandContext,
    command_error::{CommandError, NO_CLUSTER},
    command_flow::Flow,
};
use larder_store::clock;

type Done = Result<Flow, CommandError>;

/// TIME
pub(crate) fn time(call: &mut CommandContext<'_>) -> Done {
    // The time of the batch is less precise.
    let now = clock::since_epoch();
    call.reply.array(2);
    call.reply.bulk_unsigned(now.as_secs());
    call.reply.bulk_unsigned(u64::from(now.subsec_micros()));
    Ok(Flow::Done)
}

/// FUNCTION FLUSH, MEMORY PURGE: nothing to do.
pub(crate) fn nothing_to_do(call: &mut CommandContext<'_>) -> Done {
    call.reply.ok();
    Ok(Flow::Done)
}

/// CLUSTER …
pub(crate) fn cluster(_call: &mut CommandContext<'_>) -> Done {
    Err(NO_CLUSTER)
}

/// DEBUG …: refused, in Redis's default wording.
pub(crate) fn debug(_call: &mut CommandContext<'_>) -> Done {
    Err(CommandError::Static(
        "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you \
         can run it from a local connection, otherwise you need to set this option in the \
         configuration file, and then restart the server.",
    ))
}
