//! The Redis commands: one table of them (name, arity, flags, key positions, function), and how one is run.
//!
//! ```text
//! Args ─► find ─► arity, password, MULTI? ─► begin ─┬─ on the tier, under its locks ─► reply
//!                                                   ├─ GET, MGET: the group; misses ─► Pending
//!                                                   ├─ Redis source: Relay ─► UpstreamPipeline, with those before and behind it
//!                                                   └─ store on this machine: Relay ─► StorePipeline, likewise (`stored`)
//!            └─ unknown here, Redis source: forwarded ─► Relay ─► …      (EXEC, WATCH, what blocks: Alone ─► run)
//! ```
//!
//! Invariants:
//! - A command that answers with an error has changed nothing and written nothing else.
//! - With a source, whatever writes goes there first; the tier holds copies only.
//! - A command's function sees the tier under locks that cover all its keys; it never takes locks itself.
//!
//! A new command is a row in [`table`] and a function in one of the files of `commands`.
mod auth;
mod blocking;
mod cached_replies;
mod client_pause;
mod client_pipeline;
mod command;
mod command_access;
mod command_context;
mod command_error;
mod command_table;
mod commands;
mod dedicated;
mod foreign_protocol;
mod forwarded_commands;
mod get;
mod local_pubsub;
mod local_store;
mod long_double;
mod merged_replies;
mod monitor;
pub mod pipelined_gets;
mod push_messages;
mod reply_budget;
mod session;
mod tracking;
mod transaction;
mod upstream;
mod upstream_auth;
mod upstream_pipeline;

pub use client_pause::waits as waits_for_pause;
pub use client_pipeline::ClientPipeline;
pub use command::{Command, Flags, FoundCommand, Keys, find, find_for};
pub use command_access::CommandAccess;
pub use command_table::COMMANDS;
pub use get::Pending;
pub use local_store::StorePipeline;
pub use session::{Outstanding, Session};
pub use upstream_pipeline::{Joined, UpstreamPipeline};

use crate::{app::Worker, source::Fetch, telemetry::RecordedOperation};
use command::{Run, Transaction};
use command_context::CommandContext;
use command_error::{CommandError, NO_AUTH, NOT_IN_MULTI, c_str};
use commands::{
    config_larder::{self, Whose},
    info,
};
use foreign_protocol::ForeignProtocol;
use forwarded_commands::{FORWARDED, is_forwarded};
use larder_engine::Millis;
use larder_proto::{
    output::Output,
    resp::{Args, Reply},
};
use larder_store::clock;
use std::sync::atomic::Ordering::Relaxed;

/// What came of a command.
pub enum Flow {
    /// Its reply is in the output.
    Done,
    /// A read that waits for flights; its reply comes when [`Pending::poll`] says so.
    Pending(Pending),
    /// It goes to the source as it is: let it [`join`] others with the same arguments, and the session hold this until they are answered.
    Relay(Outstanding),
    /// What the session [holds](Session::hold) must be answered first: begin it again then.
    Behind,
    /// It must run alone, once everything before it is answered: call [`run`] with the same arguments.
    Alone,
    /// Its reply is in the output, and from now on commands may have to wait (CLIENT PAUSE).
    Paused,
    /// Its reply is in the output; close after sending it.
    Close,
    /// It is of another protocol, which is named: close without a word.
    ForeignProtocol(&'static str),
}

/// Begins a command, and ends it if it can be answered without waiting: everything without a source, hits with one.
/// Fetches that it needs are pushed to `batch`.
#[inline]
pub fn begin(
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
    match find_for(*args) {
        FoundCommand::Command(command)
            if !session.is_unusual() && command.takes(args.len()) && session.may_call(command) && !args.is_inline() =>
        {
            count(worker, session, command, *args);
            let call = &mut CommandContext {
                worker,
                command,
                args: *args,
                now,
                nested: false,
                reply: Reply::new(out, session.resp3),
                session,
            };
            let flow = call.answering(|call| call.begin(batch));
            if worker.app.clients.monitors().any() {
                monitor::show(worker, call.session, command, *args, &flow);
            }
            if call.session.is_unusual() {
                call.session.command_over();
            }
            flow
        }
        found => unusual(worker, session, found, args, now, out, batch),
    }
}

/// Adds a command for which [`begin`] said [`Flow::Relay`] to others, if it may go with them.
pub fn join(
    worker: &Worker,
    session: &mut Session,
    args: &Args<'_>,
    now: Millis,
    together: &mut ClientPipeline,
) -> Joined {
    let command = known_or_forwarded(args);
    let mut unused = Output::default();
    let reply = Reply::new(&mut unused, session.resp3);
    together.join(&CommandContext { worker, command, args: *args, now, nested: false, reply, session })
}

/// Is it Redis's to answer, if there is one?
fn at_source(command: &Command, args: Args<'_>) -> bool {
    match command.name {
        "config|get" | "config|set" => config_larder::whose(args) == Whose::Redis,
        _ => command.flags.has(Flags::AT_SOURCE),
    }
}
/// Within MULTI: is it Redis's to answer there?
fn at_source_in_multi(command: &Command, args: Args<'_>) -> bool {
    command.flags.has(Flags::MERGED)
        && match command.name {
            "info" => !info::is_ours_alone(args),
            "config|get" => config_larder::whose(args) != Whose::Larder,
            _ => true,
        }
}

fn known_or_forwarded(args: &Args<'_>) -> &'static Command {
    match find_for(*args) {
        FoundCommand::Command(command) if !at_source(command, *args) => command,
        // `begin` has said so.
        _ => &FORWARDED,
    }
}

/// Runs a command for which [`begin`] said [`Flow::Alone`].
pub async fn run(worker: &Worker, session: &mut Session, args: &Args<'_>, out: &mut Output) -> Flow {
    let command = known_or_forwarded(args);
    let silent = session.is_silent();
    let mark = out.mark();
    let mut call = CommandContext {
        worker,
        command,
        args: *args,
        now: clock::now(),
        nested: false,
        reply: Reply::new(out, session.resp3),
        session,
    };
    let done = match call.group().source.as_local() {
        Some(_) => local_store::run(&mut call).await,
        None => upstream::run(&mut call).await,
    };
    let flow = match done {
        Ok(flow) => flow,
        Err(fault) => {
            call.reply.output().truncate(mark);
            call.fail(&fault)
        }
    };
    if silent {
        let out = call.reply.output();
        out.truncate(mark);
        call.session.say_unasked(out);
    }
    call.session.command_over();
    flow
}

impl CommandContext<'_> {
    /// Runs `run`; if it fails, the error is all that is answered.
    #[inline]
    fn answering(&mut self, run: impl FnOnce(&mut Self) -> Result<Flow, CommandError>) -> Flow {
        let mark = self.reply.output().mark();
        match run(self) {
            Ok(flow) => flow,
            Err(fault) => {
                self.reply.output().truncate(mark);
                self.fail(&fault)
            }
        }
    }

    fn check_forwarded(&self) -> Result<(), CommandError> {
        let known = self.group().source.as_redis().and_then(|server| server.known_commands());
        forwarded_commands::check(self.session, known.as_deref(), self.args)
    }

    #[cold]
    fn fail(&mut self, fault: &CommandError) -> Flow {
        self.worker.counters.redis_errors.add(1);
        fault.reply(&mut self.reply);
        Flow::Done
    }

    #[inline]
    fn begin(&mut self, batch: &mut Vec<Fetch>) -> Result<Flow, CommandError> {
        match self.command.run {
            Run::Get => get::get(self, batch),
            Run::MultiGet => get::mget(self, batch),
            Run::Tier(function) => {
                self.check_keys()?;
                if self.group().source.reads_through() {
                    return match upstream::copy_will_do(self, function)? {
                        Flow::Relay(_) if self.command.flags.has(Flags::READONLY) => cached_replies::begin(self, batch),
                        flow => Ok(flow),
                    };
                }
                function(self, &mut self.lock())?;
                Ok(Flow::Done)
            }
            Run::Local(_) if at_source(self.command, self.args) && self.group().source.as_redis().is_some() => {
                self.check_forwarded()?;
                Ok(Flow::Relay(Outstanding::Forwarded))
            }
            Run::Local(function) => function(self),
            Run::Transaction(step) => transaction::step(self, step),
            Run::Forward => cached_replies::begin(self, batch),
            Run::Container => Err(arity(self.command.name)),
        }
    }
}

/// A command that is none, or comes from a client in a state that needs a look.
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
    // What was posted before the command began stands before its reply.
    if session.client.push_inbox.has_messages() {
        session.deliver(out);
    }
    let mark = out.mark();
    let ours = found;
    let found = match found {
        FoundCommand::Command(command)
            if !(at_source(command, *args) || session.multi.is_some() && at_source_in_multi(command, *args)) =>
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
                Err(CommandError::Told(format!(
                    "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
                    command.name.replace("forwarded", &String::from_utf8_lossy(&args[0]).to_lowercase()),
                ).into_bytes()))
            }
            _ => check_access(worker, session, ours, command, args).map(|()| command),
        },
    };
    let flow = match checked {
        Err(fault) => {
            fail_early(worker, session, found, &fault, out);
            Flow::Done
        }
        Ok(command) if !session.may_begin(command) && !cached_replies::joins_reads(worker, session, command, *args) => {
            return Flow::Behind;
        }
        Ok(command) => {
            count(worker, session, command, *args);
            let call = &mut CommandContext {
                worker,
                command,
                args: *args,
                now,
                nested: false,
                reply: Reply::new(out, session.resp3),
                session,
            };
            let flow = call.answering(|call| {
                if call.session.tracker.is_some() && call.group().source.reads_through() {
                    tracking::note_first(call);
                }
                if call.session.multi.is_some() && !call.command.flags.has(Flags::NOT_QUEUED) {
                    return transaction::queue(call);
                }
                let relayed = call.session.pinned.is_some() || call.session.holds(Outstanding::Forwarded);
                if relayed && call.command.is_data() && !call.command.flags.has(Flags::FLUSH) {
                    call.check_keys()?;
                    return Ok(Flow::Relay(Outstanding::Forwarded));
                }
                if call.session.tracker.is_some() && call.command.is_data() && !call.group().source.reads_through() {
                    return tracking::run(call);
                }
                call.begin(batch)
            });
            if worker.app.clients.monitors().any() {
                monitor::show(worker, call.session, command, *args, &flow);
            }
            flow
        }
    };
    if let FoundCommand::Command(command) = found {
        session.caching_over(command);
    }
    match flow {
        // Not over yet.
        Flow::Alone | Flow::Behind => return flow,
        // Whose reply will not be wanted is not worth the company.
        Flow::Relay(_) if session.is_silent() => return Flow::Alone,
        Flow::Relay(_) => {}
        Flow::Pending(_) if session.is_silent() => {
            out.truncate(mark);
            session.command_over();
            return Flow::Done;
        }
        _ if session.is_silent() => {
            out.truncate(mark);
            session.say_unasked(out);
        }
        _ => {}
    }
    session.command_over();
    // What the command itself caused stands behind it.
    if matches!(flow, Flow::Done) && session.client.push_inbox.has_messages() {
        session.deliver(out);
    }
    flow
}

/// Refuses what the client may not call, and what may not go to the source. `ours` is what the table here says, `command` what will be run.
fn check_access(
    worker: &Worker,
    session: &Session,
    ours: FoundCommand,
    command: &Command,
    args: &Args<'_>,
) -> Result<(), CommandError> {
    if let FoundCommand::Command(ours) = ours {
        session.access.check(ours)?;
    }
    match command.run {
        Run::Forward => {
            let known = worker.groups[0].source.as_redis().and_then(|server| server.known_commands());
            forwarded_commands::check(session, known.as_deref(), *args)
        }
        _ => Ok(()),
    }
}

/// Answers a command that is not even looked at, because its client has sent too many, with `error`.
#[cold]
pub fn refuse(worker: &Worker, session: &mut Session, args: &Args<'_>, error: String, out: &mut Output) {
    let mark = out.mark();
    fail_early(worker, session, find_for(*args), &CommandError::Told(error.into_bytes()), out);
    if session.is_silent() {
        out.truncate(mark);
    }
    session.command_over();
}

/// An error before the command was begun: a transaction that it was to be part of cannot be carried out.
fn fail_early(worker: &Worker, session: &mut Session, found: FoundCommand, fault: &CommandError, out: &mut Output) {
    worker.counters.redis_errors.add(1);
    let mut reply = Reply::new(out, session.resp3);
    match found {
        // An EXEC that is refused ends its transaction.
        FoundCommand::Command(command) if matches!(command.run, Run::Transaction(Transaction::Exec)) => {
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

/// Notes a command that is carried out.
#[inline]
fn count(worker: &Worker, session: &Session, command: &Command, args: Args<'_>) {
    // What a transaction queues is noted when it runs.
    if worker.app.telemetry.recorder.is_on() && session.multi.is_none() {
        note(worker, command, args);
    }
    count_calls(worker, session, command, 1);
}

/// Notes so many commands of one kind, except for who records operations.
#[inline]
fn count_calls(worker: &Worker, session: &Session, command: &Command, calls: u64) {
    worker.counters.redis_commands.add(calls);
    // Those that are forwarded are the source's to count.
    if !matches!(command.run, Run::Forward) {
        worker.app.calls.count(worker.id, command.index, calls);
        session.client.command.store(command.index, Relaxed);
    }
}

/// Shows a command to who records operations: what reads a key is a get, what removes it a del, what else writes it a set of as many bytes
/// as its longest argument behind the keys has.
#[cold]
fn note(worker: &Worker, command: &Command, args: Args<'_>) {
    let keys = command.keys.of(args);
    let operation = match command.name {
        "del" | "unlink" | "getdel" => RecordedOperation::Del,
        _ if command.flags.has(Flags::WRITE) => {
            let values = args.from(usize::from(command.keys.first) + 1);
            RecordedOperation::Set(values.map(<[u8]>::len).max().unwrap_or(0))
        }
        _ => RecordedOperation::Get,
    };
    keys.for_each(|key| worker.app.telemetry.recorder.note(worker.id, operation, key));
}

fn arity(name: &str) -> CommandError {
    CommandError::Told(format!("ERR wrong number of arguments for '{name}' command").into_bytes())
}

fn unknown(args: &Args<'_>) -> CommandError {
    /// How much is quoted, of the name and of the arguments.
    const QUOTED: usize = 128;
    let mut text = b"ERR unknown command '".to_vec();
    text.extend_from_slice(c_str(&args[0], QUOTED));
    text.extend_from_slice(b"', with args beginning with: ");
    let begin = text.len();
    for arg in args.from(1) {
        let used = text.len() - begin;
        if used >= QUOTED {
            break;
        }
        text.push(b'\'');
        text.extend_from_slice(c_str(arg, QUOTED - used));
        text.extend_from_slice(b"' ");
    }
    CommandError::Told(text)
}

fn unknown_sub(parent: &str, sub: &[u8]) -> CommandError {
    let after = format!("'. Try {} HELP.", parent.to_uppercase());
    CommandError::quoting("ERR unknown subcommand '", sub, 128, &after)
}

#[cfg(test)]
mod tests;
