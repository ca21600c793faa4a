//! CLIENT PAUSE and CLIENT UNPAUSE.
use crate::{
    command_context::CommandContext,
    command_error::{CommandError, integer},
    command_flow::Flow,
};
use larder_base::lifecycle::pause::Paused;

/// `CLIENT PAUSE milliseconds [WRITE | ALL]`
pub(crate) fn pause(call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
    let what = match call.args.get(3).map(<[u8]>::to_ascii_lowercase).as_deref() {
        _ if call.args.len() > 4 => {
            return Err(CommandError::quoting(
                "ERR unknown subcommand or wrong number of arguments for '",
                call.arg(1),
                128,
                "'. Try CLIENT HELP.",
            ));
        }
        None | Some(b"all") => Paused::All,
        Some(b"write") => Paused::Writes,
        Some(_) => return Err(CommandError::Static("ERR CLIENT PAUSE mode must be WRITE or ALL")),
    };
    let time =
        integer(call.arg(2)).map_err(|_| CommandError::Static("ERR timeout is not an integer or out of range"))?;
    let time = u64::try_from(time).map_err(|_| CommandError::Static("ERR timeout is negative"))?;
    call.worker.app.pause.begin(call.now.saturating_add(time), what);
    call.reply.ok();
    Ok(Flow::Paused)
}

/// CLIENT UNPAUSE
pub(crate) fn unpause(call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
    call.worker.app.pause.end();
    call.reply.ok();
    Ok(Flow::Done)
}
