//! How a command begins: it is found, checked, and passed to its function or to the executor of its
//! backend.
use crate::{
    auth::{self, DecidedBy},
    cached_replies,
    command::{Command, CommandKind, Flags, TransactionStep},
    command_context::{CommandContext, end},
    command_counts::{count, show as show_last},
    command_handlers::{at_source, at_source_in_multi, functions},
    command_lookup::{FoundCommand, find_for},
    command_outcome::{
        CommandError, Done, Flow, NO_AUTH, NOT_IN_MULTI, READ_ONLY_REPLICA, arity, redis_only, unknown, unknown_sub,
    },
    command_times::row_of,
    commands::{get, subscriptions},
    emulated_cluster::check_slots,
    executor::{self, memory::takes_turns},
    foreign_protocol::ForeignProtocol,
    forwarded_commands::{self, FORWARDED, is_forwarded, is_redis_only},
    forwarded_writes::{self, WritesGo},
    monitored_commands,
    session::{Backend, Outstanding, Session},
    tracked_reads, transaction, transaction_steps,
    waiting_replies::Waits,
};
use larder_base::special::Special;
use larder_core::app::Worker;
use larder_engine::Millis;
use larder_proto::{
    output::Output,
    resp::{Args, Reply},
};
use larder_source::CacheableReply;
use larder_store::clock;

/// Begins a command. Ends it too if it need not wait: without a source always, with a source on a
/// hit. What it has to wait for is put into `waits`.
#[inline]
pub fn begin(
    worker: &Worker,
    session: &mut Session,
    args: &Args<'_>,
    now: Millis,
    out: &mut Output,
    waits: &mut Waits<'_>,
) -> Flow {
    session.times.next();
    let before = out.len();
    let flow = begin_found(worker, session, args, now, out, waits);
    match flow {
        // These are not over yet.
        Flow::Waits | Flow::Alone(_) | Flow::Behind => {}
        _ => {
            note_sent(worker, session, before, out);
            end(worker, session, *args);
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
    waits: &mut Waits<'_>,
) -> Flow {
    if args.is_empty() {
        return Flow::Done;
    }
    session.note_changed_users(worker, now);
    match find_for(*args) {
        FoundCommand::Command(command)
            if !session.unusual
                && command.takes(args.len())
                && session.may_call(command, *args)
                && !args.is_inline() =>
        {
            count(worker, session, command, *args);
            let call = &mut CommandContext::new(worker, session, command, *args, now, out);
            let flow = call.answering(|call| {
                check_slots(call)?;
                start(call, waits)
            });
            if worker.is_on(Special::Monitors) {
                monitored_commands::show(worker, call.session, command, *args, &flow);
            }
            if call.session.unusual {
                call.session.command_over();
            }
            flow
        }
        FoundCommand::Unknown
            if session.backend == Backend::Upstream && !session.unusual && !session.restricted && !args.is_inline() =>
        {
            match cached_replies::cacheable(worker, *args, session.resp3) {
                Some(cacheable) => begin_cacheable(worker, session, (args, cacheable), now, out, waits),
                None => unusual(worker, session, FoundCommand::Unknown, args, now, out, waits),
            }
        }
        found => unusual(worker, session, found, args, now, out, waits),
    }
}

/// Begins a forwarded command whose reply may be in the reply cache.
fn begin_cacheable(
    worker: &Worker,
    session: &mut Session,
    (args, cacheable): (&Args<'_>, CacheableReply),
    now: Millis,
    out: &mut Output,
    waits: &mut Waits<'_>,
) -> Flow {
    count(worker, session, &FORWARDED, *args);
    let call = &mut CommandContext::new(worker, session, &FORWARDED, *args, now, out);
    let flow = match check_slots(call) {
        Ok(()) => cached_replies::begin_cached(call, cacheable, waits),
        Err(fault) => call.fail(&fault),
    };
    if worker.is_on(Special::Monitors) {
        monitored_commands::show(worker, call.session, &FORWARDED, *args, &flow);
    }
    flow
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
    let done = match functions(command).later {
        _ if forwarded_writes::is_forwarded(&call) => forwarded_writes::run(&mut call).await,
        // It has become a primary since the command began.
        None if call.session.backend == Backend::Memory && !takes_turns(command) => {
            make_room(&call).await;
            start_now(&mut call, &mut Waits::new(&mut Vec::new(), None))
        }
        Some(run) if command.kind == CommandKind::Local => run(&mut call).await,
        _ => executor::run(&mut call).await,
    };
    call.session.no_longer_subscribing();
    let flow = match call.checked(done, outer) {
        Ok(flow) => flow,
        Err(fault) => {
            call.reply.output().truncate(mark);
            call.fail(&fault)
        }
    };
    note_sent(worker, call.session, before, call.reply.output());
    end(worker, call.session, *args);
    // No run of short commands goes on over a wait.
    call.session.times.end_short(worker, &call.session.client);
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
fn start(call: &mut CommandContext<'_>, waits: &mut Waits<'_>) -> Done {
    if needs_room(call) { Ok(Flow::Alone(call.command)) } else { start_now(call, waits) }
}

#[inline]
fn start_now(call: &mut CommandContext<'_>, waits: &mut Waits<'_>) -> Done {
    match forwarded_writes::of_command(call.worker, call.session, call.command) {
        WritesGo::Here => {}
        WritesGo::ToPrimary => return Ok(Flow::Alone(call.command)),
        WritesGo::Nowhere => return Err(READ_ONLY_REPLICA),
    }
    match call.command.kind {
        CommandKind::Get => waits.read_by(call, get::get),
        CommandKind::MultiGet => waits.read_by(call, get::mget),
        CommandKind::Tier | CommandKind::Forward => executor::begin(call, waits),
        CommandKind::Local
            if call.session.backend == Backend::Upstream && at_source(call.worker, call.command, call.args) =>
        {
            let known = call.known_commands();
            forwarded_commands::check(call.session, known.as_deref(), call.args)?;
            call.command = &FORWARDED;
            Ok(waits.forward(call, Outstanding::Forwarded))
        }
        CommandKind::Local
            if call.session.backend == Backend::SharedStore
                && call.command.is_local_on_key()
                && call.command.flags.has(Flags::WRITE) =>
        {
            executor::begin(call, waits)
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
    waits: &mut Waits<'_>,
) -> Flow {
    if let Some(foreign) = ForeignProtocol::of(*args) {
        return foreign.refuse(worker, &session.client, out, session.outstanding == Outstanding::Nothing);
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
        FoundCommand::Unknown if is_redis_only(worker, args) => Err(redis_only(args)),
        FoundCommand::Unknown => Err(unknown(args)),
        FoundCommand::UnknownSub(parent) => Err(unknown_sub(parent.name, &args[1])),
        FoundCommand::Command(command) if !command.takes(args.len()) => Err(arity(command.name)),
        FoundCommand::Command(command) => match command.flags {
            flags if !session.authenticated && !flags.has(Flags::NO_AUTH) => Err(NO_AUTH),
            flags if session.multi.is_some() && flags.has(Flags::NO_MULTI) => Err(NOT_IN_MULTI),
            flags if session.is_subscriber() && !flags.has(Flags::SUBSCRIBER) => Err(CommandError::from(format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
                command.name.replace("forwarded", &String::from_utf8_lossy(&args[0]).to_lowercase()),
            ))),
            _ => check_access(worker, session, ours, command, args).and_then(|decided_by| {
                match forwarded_writes::of_command(worker, session, command) {
                    WritesGo::Nowhere => Err(READ_ONLY_REPLICA),
                    WritesGo::Here | WritesGo::ToPrimary => Ok((command, decided_by)),
                }
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
                check_slots(call)?;
                let forwarded = call.session.dedicated.is_some()
                    || call.session.outstanding == Outstanding::Forwarded
                    || decided_by == DecidedBy::Upstream;
                if forwarded && call.command.is_data() && !call.command.flags.has(Flags::FLUSH) {
                    call.check_keys()?;
                    return Ok(waits.forward(call, Outstanding::Forwarded));
                }
                if call.session.tracker.is_some()
                    && call.command.is_data()
                    && forwarded_writes::of_command(call.worker, call.session, call.command) == WritesGo::Here
                    && call.session.backend == Backend::Memory
                    && let Some(answered) = executor::memory::begin_tracked(call)
                {
                    return answered;
                }
                start(call, waits)
            });
            if worker.is_on(Special::Monitors) {
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
        Flow::Waits => {}
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
    if !session.authenticated {
        return Ok(DecidedBy::Larder);
    }
    let goes_upstream = command.is_data() || at_source(worker, command, *args);
    let row = known.as_ref().and_then(|known| known.find(*args));
    auth::Asked { worker, session, args: *args, ours, row }.check(command, goes_upstream)
}

/// Answers a command with `error` without beginning it (throttle, no room in the buffers).
#[cold]
pub fn refuse(worker: &Worker, session: &mut Session, args: &Args<'_>, error: String, out: &mut Output) -> Flow {
    let mark = out.mark();
    fail_early(worker, session, find_for(*args), &CommandError::from(error), out);
    if session.is_silent() {
        out.truncate(mark);
    }
    session.command_over();
    Flow::Done
}

/// Writes an error for a command that was not begun. An open transaction can then no longer be
/// executed.
fn fail_early(worker: &Worker, session: &mut Session, found: FoundCommand, fault: &CommandError, out: &mut Output) {
    worker.counters.redis_error(fault.text());
    session.no_longer_subscribing();
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
            if let Some(multi) = &mut session.change().multi {
                multi.spoil();
            }
            fault.reply(&mut reply);
        }
    }
}

/// Arguments of this length in all are large: the memory tier evicts in steps before it takes the value,
/// and other connections have their turns in between. To evict 200 MB of small entries takes over a second.
const LARGE: usize = 1 << 20;

/// Whether the command must run alone to make room first.
#[inline]
fn needs_room(call: &CommandContext<'_>) -> bool {
    call.args.span() >= LARGE
        && call.session.backend == Backend::Memory
        && call.command.flags.has(Flags::DENYOOM)
        && !call.nested
        && reserve(call).is_some_and(|_reservation| call.cache().is_shrinking())
}

/// Evicts what the command's arguments will take the place of.
async fn make_room(call: &CommandContext<'_>) {
    let Some(_reservation) = reserve(call) else { return };
    while call.cache().shrink(call.now).is_some() {
        tokio::task::yield_now().await;
    }
}

fn reserve(call: &CommandContext<'_>) -> Option<larder_engine::Reservation> {
    let cache = &call.group().cache;
    cache.reserve(call.command.keys.of(call.args).map(|key| cache.key(key)), call.args.span())
}
