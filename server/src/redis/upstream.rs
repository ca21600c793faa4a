//! Commands on a Redis source: sent as they came, the reply passed on as it came. What writes is registered with the group
//! first, so that neither a fetch nor another write that overlaps it leaves an older value in the tier.
use super::{
    Flow, blocking,
    command::{Command, Flags, Run, Transaction},
    command_context::CommandContext,
    command_error::{Answer, CommandError},
    commands::strings,
    dedicated,
    forwarded_commands::{self, Apart, Reach},
    merged_replies,
    reply_budget::ReplyBudget,
    session::{Outstanding, Session},
    transaction::{self, CommandQueue},
};
use crate::{
    app::Worker,
    read::PendingWrite,
    source::{RawReplies, RedisServer, Relay, SourceError, UNAVAILABLE},
};
use bytes::Bytes;
use larder_engine::{Key, Tier};
use larder_proto::{
    output::Output,
    resp::{Args, View, encode, view, write_command},
};
use larder_store::clock;

/// Answers from the tier if the command reads one string and the tier has a copy of it, or if it concerns no entry.
pub(super) fn copy_will_do(
    call: &mut CommandContext<'_>,
    function: fn(&mut CommandContext<'_>, &mut Tier<'_>) -> Answer,
) -> Result<Flow, CommandError> {
    let source = &call.group().source;
    if source.as_redis().is_none() {
        if !call.command.flags.has(Flags::KEYSPACE) && call.command.keys.first == 0 {
            function(call, &mut call.lock())?;
            return Ok(Flow::Done);
        }
        if source.as_local().is_none() {
            return Err(CommandError::Said("ERR this source takes no commands but GET and MGET"));
        }
    }
    if call.command.flags.has(Flags::COPY_WILL_DO) {
        let key = call.key(1);
        let mut tier = call.cache().exclusive([key]);
        if tier.peek(key, call.now, |_| ()).is_some() {
            function(call, &mut tier)?;
            return Ok(Flow::Done);
        }
    }
    Ok(if call.command.flags.has(Flags::FLUSH) { Flow::Alone } else { Flow::Relay(Outstanding::Forwarded) })
}

/// Runs a command that goes to the source.
pub(super) async fn run(call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
    match call.command.run {
        Run::Transaction(Transaction::Exec) => exec(call).await,
        Run::Transaction(Transaction::Multi) => {
            // A source that cannot tell now says so when it is needed.
            let _ = shared(call)?.commands().await;
            transaction::begin(call.session);
            call.reply.ok();
            Ok(Flow::Done)
        }
        Run::Transaction(_) => watch(call).await.map(|()| Flow::Done),
        Run::Local(_) if call.command.name == "client|unblock" => blocking::unblocked(call).await,
        Run::Local(_) if call.command.flags.has(Flags::MERGED) => merged_replies::run(call).await,
        Run::Local(_) => dedicated::run(call).await,
        _ => command(call).await.map(|()| Flow::Done),
    }
}

async fn command(call: &mut CommandContext<'_>) -> Answer {
    let group = call.group();
    let (mut writings, mut seen) = (Vec::new(), Vec::new());
    let reach = touched(call, call.command, call.args, &mut writings, &mut seen).await?;
    let encoded = encoded(call.args);
    let sent = match reach.blocks {
        true => blocking::block(call, encoded).await,
        false => {
            call.show_forwarded();
            send_its_way(call, encoded, 1, &reach).await
        }
    };
    let taken = match &sent {
        Ok(replies) => replies.iter().next().filter(|reply| !is_error(reply)),
        Err(_) => None,
    };
    if taken == Some(b"+OK\r\n") {
        note_password(call);
    }
    match taken {
        Some(b"+OK\r\n") => match strings::stored(call).filter(|_| call.session.is_at_home()) {
            Some((value, expiry)) => writings.into_iter().for_each(|writing| {
                writing.put(value, expiry, clock::now());
            }),
            None => forget(writings),
        },
        Some(_) => forget(writings),
        None if is_whole(call.command, writings.len()) && sent.as_ref().is_ok_and(|said| !is_unknown(&said.last())) => {
            writings.into_iter().for_each(PendingWrite::refused);
        }
        None => not_taken(writings, &sent),
    }
    if sent.is_ok() {
        seen.into_iter().for_each(|key| group.seen(key));
    }
    if reach.everything && may_be_done(&sent) {
        group.flushed();
    }
    pass_on(call, &sent?);
    Ok(())
}

/// `CONFIG SET requirepass`, with `forward-admin`: Larder's own next connection must say the new password.
fn note_password(call: &CommandContext<'_>) {
    let names = |at: usize, name: &[u8]| call.args.get(at).is_some_and(|part| part.eq_ignore_ascii_case(name));
    let Some(server) = call.group().source.as_redis().filter(|_| names(0, b"config") && names(1, b"set")) else {
        return;
    };
    let mut parts = call.args.from(2);
    while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
        if name.eq_ignore_ascii_case(b"requirepass") {
            server.note_password(value);
        }
    }
}

async fn exec(call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
    let queue = call.session.multi.take().unwrap_or_default().queue;
    let group = call.group();
    let data = queue.iter().filter(|(command, _)| goes_there(command)).count();
    if queue.iter().any(|(command, _)| command.name == "select")
        && let Err(error) = pin(call).await
    {
        call.session.end_transaction();
        return Err(error);
    }
    let mut together = Reach::default();
    let mut writings = Vec::new();
    let mut seen = Vec::new();
    let mut encoded = Vec::new();
    write_command(&mut encoded, [&b"MULTI"[..]].into_iter());
    for (command, args) in queue.iter().filter(|(command, _)| goes_there(command)) {
        write_command(&mut encoded, args.from(0));
        let reach = match touched(call, command, args, &mut writings, &mut seen).await {
            Ok(reach) => reach,
            Err(error) => {
                call.session.end_transaction();
                return Err(error);
            }
        };
        together.everything |= reach.everything;
        together.slow |= reach.slow;
        together.apart = together.apart.max(reach.apart);
    }
    write_command(&mut encoded, [&b"EXEC"[..]].into_iter());
    together.apart = together.apart.max(Apart::of_size(encoded.len()));
    let flushes = together.everything;
    let sent = match data == 0 && call.session.pinned.is_none() {
        // Nothing in it concerns the source.
        true => Ok(Bytes::from_static(b"*0\r\n")),
        false => {
            let sent = send_its_way(call, encoded, data + 2, &together).await;
            // EXEC has ended the watch, whatever came of it.
            call.session.watching &= sent.is_err();
            call.session.skip_replies(data + 1, call.reply.output());
            sent.map(|replies| replies.last())
        }
    };
    note_databases(call, &queue, &sent);
    call.session.end_transaction();
    let result = match &sent {
        Ok(reply) => Some(reply).filter(|reply| !is_error(reply)),
        Err(_) => None,
    };
    let Some(reply) = result else {
        not_taken(writings, &sent);
        if flushes && may_be_done(&sent) {
            group.flushed();
        }
        // An error of EXEC's own.
        pass_part(call.session, sent?, call.reply.output());
        return Ok(Flow::Done);
    };
    let Ok(View::Array(mut values)) = view(reply) else {
        // A watched key was written.
        writings.into_iter().for_each(PendingWrite::refused);
        let reply = reply.clone();
        pass_part(call.session, reply, call.reply.output());
        return Ok(Flow::Done);
    };
    forget(writings);
    seen.into_iter().for_each(|key| group.seen(key));
    if flushes {
        group.flushed();
    }
    // Commands that are none of the source's business run here, in their places.
    call.reply.array(queue.len());
    let (mut close, mut room) = (false, ReplyBudget::new(call.worker));
    for (command, args) in queue.iter() {
        match command.run {
            Run::Local(function) if !goes_there(command) => {
                let has_room = room.take(call.reply.output().owned());
                let flow = call.nested(command, args, |call| has_room.and_then(|()| function(call)));
                close |= matches!(flow, Flow::Close);
            }
            Run::Transaction(around) => {
                call.nested(command, args, |call| transaction::step(call, around));
            }
            _ => match values.next_raw() {
                Some(raw) => pass_part(call.session, reply.slice_ref(raw), call.reply.output()),
                None => return Err(CommandError::Said("ERR source unavailable: short reply to EXEC")),
            },
        }
    }
    match close {
        true => Ok(Flow::Close),
        false => Ok(Flow::Done),
    }
}

/// Is it carried out by the source, within a transaction?
fn goes_there(command: &Command) -> bool {
    command.is_data() || command.name == "select"
}

/// Where SELECTs in a transaction have led to.
fn note_databases(call: &mut CommandContext<'_>, queue: &CommandQueue, sent: &Result<Bytes, SourceError>) {
    if let Ok(reply) = sent
        && let Ok(View::Array(mut values)) = view(reply)
    {
        for (command, args) in queue.iter().filter(|(command, _)| goes_there(command)) {
            let Some(reply) = values.next_raw() else { return };
            if command.name == "select" {
                dedicated::note_database(call, args, reply);
            }
        }
    }
}

async fn watch(call: &mut CommandContext<'_>) -> Answer {
    pin(call).await?;
    call.session.watching = true;
    match send(call, encoded(call.args), 1).await {
        Ok(replies) => pass_on(call, &replies),
        Err(error) => {
            call.session.unwatch();
            return Err(error.into());
        }
    }
    Ok(())
}

/// Registers the keys that a command writes, and notes those that it reads.
async fn touched<'c>(
    call: &CommandContext<'c>,
    command: &Command,
    args: Args<'c>,
    writings: &mut Vec<PendingWrite<'c>>,
    seen: &mut Vec<Key<'c>>,
) -> Result<Reach, CommandError> {
    let known = match command.run {
        Run::Forward => Some(shared(call)?.commands().await?),
        _ => None,
    };
    if known.is_some() {
        forwarded_commands::check(call.session, known.as_deref(), args)?;
    }
    let group = call.group();
    let each = |key, written| {
        let key = group.cache.key(key);
        if written {
            writings.push(group.writing(key));
        } else {
            seen.push(key);
        }
    };
    let reach = forwarded_commands::touched(command, known.as_deref(), args, each);
    Ok(reach.expect("the source's table is known"))
}

/// Sends encoded commands over the pinned connection if there is one, else over the worker's.
pub(super) async fn send(
    call: &CommandContext<'_>,
    commands: Vec<u8>,
    count: usize,
) -> Result<RawReplies, SourceError> {
    let resp3 = call.session.resp3;
    let relay = way(call.worker, call.session).ok_or_else(no_redis)?;
    relay.relay(commands.into(), count, resp3).await
}
/// The same for commands that may be slow, or may not share a connection.
async fn send_its_way(
    call: &CommandContext<'_>,
    commands: Vec<u8>,
    count: usize,
    reach: &Reach,
) -> Result<RawReplies, SourceError> {
    let resp3 = call.session.resp3;
    match (reach.apart, reach.slow, &call.session.pinned) {
        (None, false, _) => send(call, commands, count).await,
        (Some(_), _, Some(own)) => own.relay_slow(commands.into(), count, resp3).await,
        (Some(apart), _, None) => {
            shared(call)?.relay_isolated(commands.into(), count, resp3, apart == Apart::Alone).await
        }
        (None, true, _) => {
            let relay = way(call.worker, call.session).ok_or_else(no_redis)?;
            relay.relay_slow(commands.into(), count, resp3).await
        }
    }
}

/// The connection for a client's commands: its own, if it has one, else its worker's.
pub(super) fn way<'c>(worker: &'c Worker, session: &'c Session) -> Option<&'c dyn Relay> {
    match &session.pinned {
        Some(pinned) => Some(&**pinned),
        None => worker.groups[0].source.as_redis().map(|server| server as _),
    }
}

/// Gives the client a connection of its own, unless it has one.
pub(super) async fn pin(call: &mut CommandContext<'_>) -> Answer {
    if call.session.pinned.is_none() {
        let pinned = shared(call)?.open_dedicated(call.args, call.session.resp3).await?;
        call.session.pin(pinned);
    }
    Ok(())
}

pub(super) fn shared<'c>(call: &CommandContext<'c>) -> Result<&'c dyn RedisServer, SourceError> {
    let group = call.group();
    group.source.as_redis().ok_or_else(no_redis)
}
pub(super) fn no_redis() -> SourceError {
    SourceError::Unavailable("it is no Redis".into())
}

pub(super) fn pass_on(call: &mut CommandContext<'_>, replies: &RawReplies) {
    let errors = replies.iter().filter(|reply| is_error(reply)).count();
    call.session.counters.redis_errors.add(errors as u64);
    call.session.pass_replies(replies, call.reply.output());
}
/// A reply, or a part of one, that is no connection's own.
pub(super) fn pass_part(session: &Session, reply: Bytes, out: &mut Output) {
    session.counters.redis_errors.add(u64::from(is_error(&reply)));
    out.put_bytes(reply);
}

/// The command as it goes over the wire.
pub(super) fn encoded(args: Args<'_>) -> Vec<u8> {
    encode(&args.from(0).collect::<Vec<_>>())
}

pub(super) fn is_error(reply: &[u8]) -> bool {
    matches!(reply.first(), Some(b'-' | b'!') | None)
}
/// Is it done or not, and nothing between? A script that fails may have written before, and of several keys some may have been written (in a cluster).
pub(super) fn is_whole(command: &Command, keys: usize) -> bool {
    !matches!(command.run, Run::Forward) && keys == 1
}
/// Does an error say that nobody knows: a node of several was lost, or the source of another Larder?
pub(super) fn is_unknown(error: &[u8]) -> bool {
    error.strip_prefix(b"-ERR ").is_some_and(|text| text.starts_with(UNAVAILABLE.as_bytes()))
}
/// May it have been carried out, if only in part?
pub(super) fn may_be_done<T>(sent: &Result<T, SourceError>) -> bool {
    matches!(sent, Ok(_) | Err(SourceError::Lost(_)))
}
/// The source took a write of which we do not know the result.
fn forget(writings: Vec<PendingWrite<'_>>) {
    writings.into_iter().for_each(PendingWrite::forget);
}
/// The source refused, was not reached, or did not say.
fn not_taken<T>(writings: Vec<PendingWrite<'_>>, sent: &Result<T, SourceError>) {
    match may_be_done(sent) {
        true => forget(writings),
        false => writings.into_iter().for_each(PendingWrite::refused),
    }
}
