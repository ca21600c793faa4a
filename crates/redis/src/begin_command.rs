//! How a command begins: it is found, checked, and passed to its function or to the executor of its
//! backend.
use super::{
    auth::{self, DecidedBy},
    backend_kind::Backend,
    cached_replies,
    command::{Command, CommandKind, Flags, TransactionStep},
    command_context::CommandContext,
    command_counts::{count, show as show_last},
    command_error::{CommandError, NO_AUTH, NOT_IN_MULTI, READ_ONLY_REPLICA, arity, unknown, unknown_sub},
    command_flow::{Flow, Joined},
    command_handlers::{at_source, at_source_in_multi, handler},
    command_lookup::{FoundCommand, find_for},
    command_times::row_of,
    commands::{get, subscriptions},
    executor::{executor, memory::is_in_turns, pipeline::ClientPipeline},
    foreign_protocol::ForeignProtocol,
    forwarded_commands::{self, FORWARDED, is_forwarded},
    forwarded_writes::{self, WritesGo},
    monitored_commands, room_for_writes,
    session::{Outstanding, Session},
    slow_commands, tracked_reads, transaction, transaction_steps,
};
use larder_core::app::Worker;
use larder_engine::Millis;
use larder_proto::{
    output::Output,
    resp::{Args, Reply},
};
use larder_source::{CacheableReply, Fetch};
use larder_store::clock;

/// Begins a command. Ends it too if it need not wait: without a source always, with a source on a
/// hit. Fetches that it needs are pushed to `batch`.
#[inline]
pub fn begin(
    worker: &Worker,
    session: &mut Session,
    args: &Args<'_>,
    now: Millis,
    out: &mut Output,
    batch: &mut Vec<Fetch>,
) -> Flow {
    session.times.next();
    let before = out.len();
    let mut flow = begin_found(worker, session, args, now, out, batch);
    match &mut flow {
        Flow::Pending(read) => read.timed = session.times.later(worker, *args),
        // These are not over yet.
        Flow::Relay(..) | Flow::Alone(_) | Flow::Behind => {}
        _ => {
            note_sent(worker, session, before, out);
            if let Some((row, took)) = session.times.end(worker, &session.client) {
                slow_commands::note(worker, &session.client, row, took, *args);
            }
        }
    }
    flow
}

/// Counts the reply of the command that runs. Before it, the output had this length.
#[inline]
fn note_sent(worker: &Worker, session: &Session, before: usize, out: &Output) {
    if let Some(row) = session.times.row() {
        worker.app.commands.sent(worker.id, row, out.len().saturating_sub(before));
    }
}

#[inline]
fn begin_found(
    worker: &Worker,
    session: &mut Session,
    args: &Args<'_>,
    now: Millis,
    out: &mut Output,
    batch: &mut Vec<Fetch>,
) -> Flow {
    if args.is_empty() {
        return Flow::Done;
    }
    session.note_changed_users(worker, now);
    match find_for(*args) {
        FoundCommand::Command(command)
            if !session.is_unusual()
                && command.takes(args.len())
                && session.may_call(command, *args)
                && !args.is_inline() =>
        {
            count(worker, session, command, *args);
            let call = &mut CommandContext::new(worker, session, command, *args, now, out);
            let flow = call.answering(|call| start(call, batch));
            if worker.app.clients.monitors().any() {
                monitored_commands::show(worker, call.session, command, *args, &flow);
            }
            if call.session.is_unusual() {
                call.session.command_over();
            }
            flow
        }
        FoundCommand::Unknown
            if session.backend == Backend::Upstream
                && !session.is_unusual()
                && session.may_call_anything()
                && !args.is_inline() =>
        {
            match cached_replies::cacheable(worker, *args, session.resp3) {
                Some(cacheable) => begin_cacheable(worker, session, (args, cacheable), now, out, batch),
                None => unusual(worker, session, FoundCommand::Unknown, args, now, out, batch),
            }
        }
        found => unusual(worker, session, found, args, now, out, batch),
    }
}

/// Begins a forwarded command whose reply may be in the reply cache.
fn begin_cacheable(
    worker: &Worker,
    session: &mut Session,
    (args, cacheable): (&Args<'_>, CacheableReply),
    now: Millis,
    out: &mut Output,
    batch: &mut Vec<Fetch>,
) -> Flow {
    count(worker, session, &FORWARDED, *args);
    let call = &mut CommandContext::new(worker, session, &FORWARDED, *args, now, out);
    let flow = cached_replies::begin_cached(call, cacheable, batch);
    if worker.app.clients.monitors().any() {
        monitored_commands::show(worker, call.session, &FORWARDED, *args, &flow);
    }
    flow
}

/// An empty pipeline for commands that [`begin`] answered with [`Flow::Relay`]. `behind` says
/// whether the commands before it are slow.
pub fn pipeline(worker: &Worker, session: &Session, behind: Option<bool>) -> Option<ClientPipeline> {
    executor(session.backend).pipeline(worker, session, behind)
}

/// Adds such a command to a pipeline, if it may join.
pub fn join(
    worker: &Worker,
    session: &mut Session,
    (command, args): (&'static Command, &Args<'_>),
    now: Millis,
    pipeline: &mut ClientPipeline,
) -> Joined {
    let mut unused = Output::default();
    pipeline.join(&CommandContext::new(worker, session, command, *args, now, &mut unused))
}

/// Runs a command that [`begin`] answered with [`Flow::Alone`].
pub async fn run(
    worker: &Worker,
    session: &mut Session,
    (command, args): (&'static Command, &Args<'_>),
    out: &mut Output,
) -> Flow {
    let silent = session.is_silent();
    let (mark, before) = (out.mark(), out.len());
    session.times.start();
    session.times.found(worker, &session.client, row_of(worker, command, *args), command, *args);
    let mut call = CommandContext::new(worker, session, command, *args, clock::now(), out);
    let room = call.session.room.clone();
    let outer = call.reply.output().ask(Some(room));
    let done = match handler(command).later() {
        _ if forwarded_writes::is_forwarded(&call) => forwarded_writes::run(&mut call).await,
        // It has become a primary since the command began.
        None if call.session.backend == Backend::Memory && !is_in_turns(command) => {
            room_for_writes::make(&call).await;
            start_now(&mut call, &mut Vec::new())
        }
        Some(run) if command.kind == CommandKind::Local => run(&mut call).await,
        _ => executor(call.session.backend).run(&mut call).await,
    };
    call.session.upstream.subscribing = None;
    let flow = match call.checked(done, outer) {
        Ok(flow) => flow,
        Err(fault) => {
            call.reply.output().truncate(mark);
            call.fail(&fault)
        }
    };
    note_sent(worker, call.session, before, call.reply.output());
    if let Some((row, took)) = call.session.times.end(worker, &call.session.client) {
        slow_commands::note(worker, &call.session.client, row, took, *args);
    }
    if silent {
        let out = call.reply.output();
        out.truncate(mark);
        call.session.write_held_pushes(out);
    }
    call.session.command_over();
    flow
}

/// Begins a command that may run now, unless it must wait for room first.
#[inline]
fn start(call: &mut CommandContext<'_>, batch: &mut Vec<Fetch>) -> Result<Flow, CommandError> {
    match room_for_writes::is_needed(call) {
        true => Ok(Flow::Alone(call.command)),
        false => start_now(call, batch),
    }
}

#[inline]
fn start_now(call: &mut CommandContext<'_>, batch: &mut Vec<Fetch>) -> Result<Flow, CommandError> {
    match forwarded_writes::of_command(call.worker, call.session, call.command) {
        WritesGo::Here => {}
        WritesGo::ToPrimary => return Ok(Flow::Alone(call.command)),
        WritesGo::Nowhere => return Err(READ_ONLY_REPLICA),
    }
    match call.command.kind {
        CommandKind::Get => get::get(call, batch),
        CommandKind::MultiGet => get::mget(call, batch),
        CommandKind::Tier | CommandKind::Forward => executor(call.session.backend).begin(call, batch),
        CommandKind::Local
            if call.session.backend == Backend::Upstream && at_source(call.worker, call.command, call.args) =>
        {
            let known = call.group().source.as_redis().and_then(|server| server.known_commands());
            forwarded_commands::check(call.session, known.as_deref(), call.args)?;
            Ok(Flow::Relay(&FORWARDED, Outstanding::Forwarded))
        }
        CommandKind::Local
            if call.session.backend == Backend::SharedStore
                && call.command.is_local_on_key()
                && call.command.flags.has(Flags::WRITE) =>
        {
            executor(Backend::SharedStore).begin(call, batch)
        }
        CommandKind::Local => transaction::run_local(call),
        CommandKind::Transaction(step) => transaction_steps::step(call, step),
        CommandKind::Container => Err(arity(call.command.name)),
    }
}

/// Begins a command that is unknown, or whose client is in a special state.
#[cold]
fn unusual(
    worker: &Worker,
    session: &mut Session,
    found: FoundCommand,
    args: &Args<'_>,
    now: Millis,
    out: &mut Output,
    batch: &mut Vec<Fetch>,
) -> Flow {
    if let Some(foreign) = ForeignProtocol::of(*args) {
        return Flow::ForeignProtocol(foreign.name());
    }
    // Pushes that came before the command began go before its reply.
    if session.client.push_inbox.has_messages() {
        session.deliver(out);
    }
    let mark = out.mark();
    let ours = found;
    let found = match found {
        FoundCommand::Command(command)
            if !(at_source(worker, command, *args)
                || session.multi.is_some() && at_source_in_multi(command, *args)) =>
        {
            found
        }
        _ if is_forwarded(worker, args) => FoundCommand::Command(&FORWARDED),
        found => found,
    };
    let checked = match found {
        FoundCommand::Unknown => Err(unknown(args)),
        FoundCommand::UnknownSub(parent) => Err(unknown_sub(parent.name, &args[1])),
        FoundCommand::Command(command) if !command.takes(args.len()) => Err(arity(command.name)),
        FoundCommand::Command(command) => match command.flags {
            flags if !session.authenticated() && !flags.has(Flags::NO_AUTH) => Err(NO_AUTH),
            flags if session.multi.is_some() && flags.has(Flags::NO_MULTI) => {
                Err(NOT_IN_MULTI)
            }
            flags if session.is_subscriber() && !flags.has(Flags::SUBSCRIBER) => {
                Err(CommandError::Owned(format!(
                    "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
                    command.name.replace("forwarded", &String::from_utf8_lossy(&args[0]).to_lowercase()),
                ).into_bytes()))
            }
            _ => check_access(worker, session, ours, command, args)
                .and_then(|decided_by| match forwarded_writes::of_command(worker, session, command) {
                    WritesGo::Nowhere => Err(READ_ONLY_REPLICA),
                    WritesGo::Here | WritesGo::ToPrimary => Ok((command, decided_by)),
                }),
        },
    };
    let flow = match checked {
        Err(fault) => {
            fail_early(worker, session, found, &fault, out);
            Flow::Done
        }
        Ok((command, _))
            if !session.may_begin(command) && !cached_replies::joins_reads(worker, session, command, *args) =>
        {
            subscriptions::note_behind(worker, session, command);
            return Flow::Behind;
        }
        Ok((command, decided_by)) => {
            match session.multi.is_some() && !command.flags.has(Flags::NOT_QUEUED) {
                // It is counted when it runs.
                true => show_last(session, command),
                false => count(worker, session, command, *args),
            }
            let call = &mut CommandContext::new(worker, session, command, *args, now, out);
            let flow = call.answering(|call| {
                if call.session.tracker.is_some() && call.session.backend != Backend::Memory {
                    tracked_reads::note_first(call);
                }
                if call.session.multi.is_some() && !call.command.flags.has(Flags::NOT_QUEUED) {
                    return transaction::queue(call);
                }
                let forwarded = call.session.dedicated.is_some()
                    || call.session.has_outstanding(Outstanding::Forwarded)
                    || decided_by == DecidedBy::Upstream;
                if forwarded && call.command.is_data() && !call.command.flags.has(Flags::FLUSH) {
                    call.check_keys()?;
                    return Ok(Flow::Relay(call.command, Outstanding::Forwarded));
                }
                if call.session.tracker.is_some()
                    && call.command.is_data()
                    && forwarded_writes::of_command(call.worker, call.session, call.command) == WritesGo::Here
                    && let Some(answered) = executor(call.session.backend).begin_tracked(call)
                {
                    return answered;
                }
                start(call, batch)
            });
            if worker.app.clients.monitors().any() {
                monitored_commands::show(worker, call.session, command, *args, &flow);
            }
            flow
        }
    };
    if let FoundCommand::Command(command) = found {
        session.caching_over(command);
    }
    match flow {
        // These are not over yet.
        Flow::Alone(_) | Flow::Behind => return flow,
        // A command without a reply runs alone: a pipeline would have to leave its reply out.
        Flow::Relay(command, _) if session.is_silent() => return Flow::Alone(command),
        Flow::Relay(..) => {}
        Flow::Pending(_) if session.is_silent() => {
            out.truncate(mark);
            session.command_over();
            return Flow::Done;
        }
        _ if session.is_silent() => {
            out.truncate(mark);
            session.write_held_pushes(out);
        }
        _ => {}
    }
    session.command_over();
    // Pushes that the command caused go after its reply.
    if matches!(flow, Flow::Done) && session.client.push_inbox.has_messages() {
        session.deliver(out);
    }
    flow
}

/// Refuses a command that the client may not call, or that may not go to the source. `ours` is the
/// row of Larder's table, `command` is the row that will run.
fn check_access(
    worker: &Worker,
    session: &Session,
    ours: FoundCommand,
    command: &Command,
    args: &Args<'_>,
) -> Result<DecidedBy, CommandError> {
    if let FoundCommand::Command(ours) = ours {
        session.access.check(ours)?;
    }
    let known = match command.kind {
        CommandKind::Forward => worker.groups.default().source.as_redis().and_then(|server| server.known_commands()),
        _ => None,
    };
    if command.kind == CommandKind::Forward {
        forwarded_commands::check(session, known.as_deref(), *args)?;
    }
    // Before it has logged in, a client has the commands that need no login.
    if !session.authenticated() {
        return Ok(DecidedBy::Larder);
    }
    let goes_upstream = command.is_data() || at_source(worker, command, *args);
    let row = known.as_ref().and_then(|known| known.find(*args));
    auth::check_user(worker, session, (ours, row), (command, *args), goes_upstream)
}

/// Answers a command with `error` without beginning it (throttle, no room in the buffers).
#[cold]
pub fn refuse(worker: &Worker, session: &mut Session, args: &Args<'_>, error: String, out: &mut Output) {
    let mark = out.mark();
    fail_early(worker, session, find_for(*args), &CommandError::Owned(error.into_bytes()), out);
    if session.is_silent() {
        out.truncate(mark);
    }
    session.command_over();
}

/// Writes an error for a command that was not begun. An open transaction can then no longer be
/// executed.
fn fail_early(worker: &Worker, session: &mut Session, found: FoundCommand, fault: &CommandError, out: &mut Output) {
    worker.counters.redis_error(fault.text());
    session.upstream.subscribing = None;
    if let FoundCommand::Command(command) | FoundCommand::UnknownSub(command) = found
        && command.kind != CommandKind::Forward
    {
        worker.app.commands.rejected(worker.id, command.index);
    }
    let mut reply = Reply::new(out, session.resp3);
    match found {
        // A refused EXEC ends its transaction.
        FoundCommand::Command(command) if command.kind == CommandKind::Transaction(TransactionStep::Exec) => {
            transaction::abort(session, fault, &mut reply);
        }
        _ => {
            if let Some(multi) = &mut session.multi {
                multi.spoil();
            }
            fault.reply(&mut reply);
        }
    }
}
