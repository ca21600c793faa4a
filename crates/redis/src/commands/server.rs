//! Commands on the server as a whole (snapshots: SAVE, BGSAVE, LASTSAVE; a Redis source answers them itself), and fixed replies for features that Larder does not have.
use crate::{
    command_context::CommandContext,
    command_outcome::{CommandError, Done, Flow},
};
use larder_core::snapshot::SaveRefused;
use larder_store::clock;

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
    call.ok()
}

/// DEBUG …: refused, in Redis's default wording.
pub(crate) fn debug(_call: &mut CommandContext<'_>) -> Done {
    Err(CommandError::Static(
        "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you \
         can run it from a local connection, otherwise you need to set this option in the \
         configuration file, and then restart the server.",
    ))
}

/// `BGSAVE [SCHEDULE]`
pub(crate) fn bgsave(call: &mut CommandContext<'_>) -> Done {
    let schedules = match call.args.get(1) {
        None => false,
        Some(word) if word.eq_ignore_ascii_case(b"schedule") && call.args.len() == 2 => true,
        Some(_) => return Err(CommandError::Static("ERR syntax error")),
    };
    match call.worker.app.snapshots.begin_save() {
        Ok(()) => call.reply.simple("Background saving started"),
        // Redis waits for another child process only, never for a save under way, which is what the client
        // asked for.
        Err(SaveRefused::InProgress) if schedules => call.reply.simple("Background saving scheduled"),
        Err(refused) => return Err(said(refused)),
    }
    Ok(Flow::Done)
}

/// SAVE: like BGSAVE, but answers when it is done. Other clients are served meanwhile.
pub(crate) async fn save(call: &mut CommandContext<'_>) -> Done {
    match call.worker.app.snapshots.save_and_wait().await {
        Ok(_) => call.reply.ok(),
        Err(why) => return Err(CommandError::from(format!("ERR {why}"))),
    }
    Ok(Flow::Done)
}

pub(crate) fn lastsave(call: &mut CommandContext<'_>) -> Done {
    let seconds = call.worker.app.snapshots.status().last_success / 1000;
    call.integer(i64::try_from(seconds).unwrap_or(i64::MAX))
}

fn said(refused: SaveRefused) -> CommandError {
    match refused {
        SaveRefused::InProgress => CommandError::Static("ERR Background save already in progress"),
        refused => CommandError::from(format!("ERR {refused}")),
    }
}
