//! SAVE, BGSAVE, LASTSAVE: snapshots of the memory tiers. A Redis source answers them itself.
use crate::{
    command_context::CommandContext,
    command_error::CommandError,
    command_flow::{Flow, Later},
};
use larder_core::snapshot::SaveRefused;

/// `BGSAVE [SCHEDULE]`
pub(crate) fn bgsave(call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
    let schedules = match call.args.get(1) {
        None => false,
        Some(word) if word.eq_ignore_ascii_case(b"schedule") && call.args.len() == 2 => true,
        Some(_) => return Err(CommandError::Static("ERR syntax error")),
    };
    match call.worker.app.snapshots.begin_save() {
        Ok(()) => call.reply.simple("Background saving started"),
        // Redis waits for another child process only, never for a save under way. What that one does is what was asked
        // for.
        Err(SaveRefused::InProgress) if schedules => call.reply.simple("Background saving scheduled"),
        Err(refused) => return Err(said(refused)),
    }
    Ok(Flow::Done)
}

/// SAVE: as BGSAVE, and answers when it is done. Other clients are served meanwhile.
pub(crate) fn save(call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
    call.alone()
}

/// The rest of SAVE.
pub(crate) fn run_save<'a>(call: &'a mut CommandContext<'_>) -> Later<'a> {
    Box::pin(async move {
        match call.worker.app.snapshots.save_and_wait().await {
            Ok(_) => call.reply.ok(),
            Err(why) => return Err(CommandError::Owned(format!("ERR {why}").into_bytes())),
        }
        Ok(Flow::Done)
    })
}

/// LASTSAVE
pub(crate) fn lastsave(call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
    let seconds = call.worker.app.snapshots.status().last_success / 1000;
    call.reply.integer(i64::try_from(seconds).unwrap_or(i64::MAX));
    Ok(Flow::Done)
}

fn said(refused: SaveRefused) -> CommandError {
    match refused {
        SaveRefused::InProgress => CommandError::Static("ERR Background save already in progress"),
        refused => CommandError::Owned(format!("ERR {refused}").into_bytes()),
    }
}
