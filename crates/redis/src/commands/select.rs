//! SELECT: the database of an upstream Redis.
use crate::{
    command_context::CommandContext,
    command_error::{CommandError, DB_INDEX, int},
    command_flow::{Flow, Later},
    upstream::requests,
};
use larder_proto::resp::Args;
use larder_source::RedisServer;

/// SELECT
pub(crate) fn select(call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
    let index = int(call.arg(1))?;
    let home = call.group().source.as_redis().map(RedisServer::database);
    match (home, u32::try_from(index)) {
        (None, Ok(0)) => {}
        (Some(home), Ok(index)) if index == call.session.upstream.database.unwrap_or(home) => {}
        (Some(_), Ok(_)) => return call.alone(),
        (_, Err(_)) | (None, Ok(_)) => return Err(DB_INDEX),
    }
    call.reply.ok();
    Ok(Flow::Done)
}

/// SELECT of another database, on the client's dedicated connection.
pub(crate) fn at_upstream<'a>(call: &'a mut CommandContext<'_>) -> Later<'a> {
    Box::pin(async move {
        let replies = requests::ask(call, requests::encoded(call.args)).await?;
        note_database(call, call.args, &replies[0]);
        call.pass_on(&replies);
        call.session.release_dedicated();
        Ok(Flow::Done)
    })
}

/// Notes the database after `SELECT index`, alone or in a transaction.
pub(crate) fn note_database(call: &mut CommandContext<'_>, args: Args<'_>, reply: &[u8]) {
    if reply == b"+OK\r\n" {
        let home = call.group().source.as_redis().map(RedisServer::database);
        let index = args.get(1).and_then(|index| u32::try_from(int(index).ok()?).ok());
        call.session.upstream.database = index.filter(|index| Some(*index) != home);
        call.session.client.about.lock().database = index.unwrap_or_default();
    }
}
