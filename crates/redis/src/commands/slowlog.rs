//! SLOWLOG: the latest commands of this process that took long, with every source.
use crate::{
    command_context::CommandContext,
    command_outcome::{CommandError, Done, Flow, integer},
};

/// Entries that SLOWLOG GET shows unless it says how many.
const SHOWN: usize = 10;

/// `SLOWLOG GET [count]`
pub(crate) fn get(call: &mut CommandContext<'_>) -> Done {
    const COUNT: CommandError = CommandError::Static("ERR count should be greater than or equal to -1");
    let count = match call.args.get(2) {
        None => SHOWN,
        Some(count) => match integer(count) {
            Ok(-1) => usize::MAX,
            Ok(count) => usize::try_from(count).map_err(|_| COUNT)?,
            Err(_) => return Err(COUNT),
        },
    };
    let entries = call.worker.app.telemetry.slow.latest(count);
    call.reply.array(entries.len());
    for entry in entries {
        call.reply.array(6);
        call.reply.integer(entry.id as i64);
        call.reply.integer(entry.at.as_secs() as i64);
        call.reply.integer(entry.took.as_micros() as i64);
        // They are kept as they are sent.
        call.reply.output().put(&entry.args);
        call.reply.bulk(entry.client.for_redis().as_bytes());
        call.reply.bulk(entry.name.as_bytes());
    }
    Ok(Flow::Done)
}

pub(crate) fn len(call: &mut CommandContext<'_>) -> Done {
    call.integer(call.worker.app.telemetry.slow.len() as i64)
}

pub(crate) fn reset(call: &mut CommandContext<'_>) -> Done {
    call.worker.app.telemetry.slow.reset();
    call.ok()
}
