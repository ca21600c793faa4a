//! The parts of a transaction that are the same with every backend: begin, queue, end.
use crate::{
    command::Command,
    command_context::CommandContext,
    command_handlers::functions,
    command_outcome::{CommandError, Done, Flow, arity},
    command_queue::{CommandQueue, OpenTransaction},
    commands::tags,
    emulated_cluster::check_slots,
    forwarded_commands,
    session::{Session, Watch},
};
use larder_proto::resp::{Args, Reply};
use std::mem;

/// Maximum bytes of one client's queued commands, in addition to one value of `max-value`.
const MAX_QUEUED: usize = 64 * 1024 * 1024;

pub(super) fn queue(call: &mut CommandContext<'_>) -> Done {
    let limit = call.worker.app.settings.max_value.saturating_add(MAX_QUEUED).min(u32::MAX as usize);
    let size: usize = call.args.from(0).map(<[u8]>::len).sum();
    let fits = |multi: &OpenTransaction| multi.queue.size() + size <= limit;
    let checked = call
        .check_keys()
        .and_then(|()| check_slots(call))
        .and_then(|()| check_forwarded(call))
        .and_then(|()| tags::check_queued(call));
    let mut state = call.session.change();
    let multi = state.multi.as_mut().expect("queued within MULTI");
    if let Err(fault) = checked {
        multi.spoil();
        return Err(fault);
    }
    if !fits(multi) {
        multi.spoil();
        return Err(CommandError::from(format!(
            "ERR a transaction has at most {limit} bytes (follows from max-value)"
        )));
    }
    if !multi.spoiled {
        multi.queue.push(call.command, call.args);
    }
    let queued = multi.queue.len();
    drop(state);
    call.session.client.about.lock().queued = Some(queued);
    call.simple("QUEUED")
}

/// Refuses a command that the source would not queue: also one of Larder's own that an older source
/// does not have. MULTI has made sure that the source's command table is known.
fn check_forwarded(call: &CommandContext<'_>) -> Result<(), CommandError> {
    if !call.command.is_data() {
        return Ok(());
    }
    let known = call.known_commands();
    let Some(known) = known.filter(|known| !known.is_empty()) else { return Ok(()) };
    forwarded_commands::check_queued(&known, call.args)
}

/// Answers an EXEC that was refused before it began.
pub(super) fn abort(session: &mut Session, why: &CommandError, reply: &mut Reply<'_>) {
    session.end_transaction();
    let why = why.text();
    let why = why.strip_prefix(b"ERR ").unwrap_or(why);
    reply.error(&[b"EXECABORT Transaction discarded because of: ", why].concat());
}

/// MULTI.
pub(super) fn begin(call: &mut CommandContext<'_>) -> Flow {
    let session = &mut *call.session;
    session.change().multi = Some(OpenTransaction::default());
    session.client.about.lock().queued = Some(0);
    call.reply.ok();
    Flow::Done
}

pub(super) fn end(call: &mut CommandContext<'_>) -> (CommandQueue, Watch) {
    let queue = call.session.change().multi.take().unwrap_or_default().queue;
    let watch = mem::take(&mut call.session.watch);
    call.session.end_transaction();
    (queue, watch)
}

/// UNWATCH, the only transaction command that can be queued.
pub(super) fn unwatch(call: &mut CommandContext<'_>) -> Done {
    call.session.unwatch();
    call.ok()
}

/// Runs a queued command that concerns the connection or the server.
pub(super) fn run_local(call: &mut CommandContext<'_>) -> Done {
    match functions(call.command).local {
        Some(run) => run(call),
        None => Err(arity(call.command.name)),
    }
}

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
        run: impl FnOnce(&mut CommandContext<'_>) -> Done,
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
