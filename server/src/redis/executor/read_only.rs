//! The executor of a source that has GET and MGET, and plain writes if it takes values: SET, MSET and DEL.
use super::{executor_trait::Executor, pipeline::ClientPipeline, tier_commands};
use crate::{
    app::Worker,
    redis::{
        command_context::CommandContext,
        command_error::{CommandError, arity},
        command_flow::{Flow, Later},
        session::Session,
        transaction,
    },
    source::Fetch,
};
use bytes::Bytes;

const REFUSED: CommandError = CommandError::Static("ERR this source takes no commands but GET and MGET");
const NO_OPTIONS: CommandError = CommandError::Static("ERR this source takes SET without options");
const PLAIN_WRITES_ONLY: CommandError =
    CommandError::Static("ERR this source takes no commands but GET, MGET, SET, MSET and DEL");

/// A write that a source of values can take.
enum PlainWrite {
    Set,
    MultiSet,
    Delete,
}
impl PlainWrite {
    fn of(call: &CommandContext<'_>) -> Result<PlainWrite, CommandError> {
        if !call.group().source.takes_values() {
            return Err(REFUSED);
        }
        match call.command.name {
            "set" if call.args.len() == 3 => Ok(PlainWrite::Set),
            "set" => Err(NO_OPTIONS),
            "mset" if call.args.len() % 2 == 1 => Ok(PlainWrite::MultiSet),
            "mset" => Err(arity("mset")),
            "del" => Ok(PlainWrite::Delete),
            _ => Err(PLAIN_WRITES_ONLY),
        }
    }
}

pub(super) struct ReadOnlyExecutor;

impl Executor for ReadOnlyExecutor {
    fn begin(&self, call: &mut CommandContext<'_>, _batch: &mut Vec<Fetch>) -> Result<Flow, CommandError> {
        call.check_keys()?;
        match tier_commands::answer_without_entries(call)? {
            true => Ok(Flow::Done),
            false => PlainWrite::of(call).map(|_| Flow::Alone(call.command)),
        }
    }
    fn multi(&self, call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
        Ok(transaction::begin(call))
    }
    fn watch(&self, _call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
        Err(REFUSED)
    }
    fn exec(&self, call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
        call.session.end_transaction();
        Err(REFUSED)
    }
    fn run<'a>(&'a self, call: &'a mut CommandContext<'_>) -> Later<'a> {
        Box::pin(run(call))
    }
    fn pipeline(&self, _worker: &Worker, _session: &Session, _behind: Option<bool>) -> Option<ClientPipeline> {
        None
    }
}

/// One write after the other: if one fails, those before it stand and its error is the reply.
async fn run(call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
    match PlainWrite::of(call)? {
        PlainWrite::Set | PlainWrite::MultiSet => {
            for at in (2..call.args.len()).step_by(2) {
                call.check_len(call.arg(at).len())?;
            }
            for at in (1..call.args.len()).step_by(2) {
                let value = Bytes::copy_from_slice(call.arg(at + 1));
                call.group().put(call.arg(at), value, None).await?;
            }
            call.reply.simple("OK");
        }
        PlainWrite::Delete => {
            let mut deleted = 0;
            for at in 1..call.args.len() {
                deleted += i64::from(call.group().delete(call.arg(at)).await?);
            }
            call.reply.integer(deleted);
        }
    }
    Ok(Flow::Done)
}
