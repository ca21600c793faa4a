//! MULTI, EXEC, DISCARD, WATCH, UNWATCH without a source: EXEC locks everything that its commands and watched keys touch
//! and runs them as they would run alone. With a Redis source the queue goes there as it is (`relay`); for a store see `stored`.
use super::{
    Flow, arity,
    command::{Command, Flags, Run, Transaction},
    command_context::CommandContext,
    command_error::{CommandError, EXEC_ABORT},
    forwarded_commands, get,
    reply_budget::ReplyBudget,
    session::Session,
};
use larder_engine::{Cache, Key, Tier};
use larder_proto::resp::{Args, Reply};
use std::{mem, ops::Range};

/// Bytes of queued commands of one client, beyond a value of `max-value`.
const MAX_QUEUED: usize = 64 * 1024 * 1024;

/// A transaction that is being put together.
#[derive(Debug, Default)]
pub(super) struct OpenTransaction {
    pub(super) queue: CommandQueue,
    spoiled: bool,
}
impl OpenTransaction {
    /// A command could not be queued: EXEC will refuse.
    pub(super) fn spoil(&mut self) {
        self.spoiled = true;
        // Nothing of it will run.
        self.queue = CommandQueue::default();
    }
}

/// Commands to run later, with their arguments.
#[derive(Debug, Default)]
pub(super) struct CommandQueue {
    bytes: Vec<u8>,
    parts: Vec<Range<u32>>,
    commands: Vec<(&'static Command, Range<usize>)>,
}
impl CommandQueue {
    pub(super) fn len(&self) -> usize {
        self.commands.len()
    }
    /// Bytes that the arguments occupy.
    pub(super) fn size(&self) -> usize {
        self.bytes.len() + self.parts.len() * size_of::<Range<u32>>()
    }
    /// Bytes of memory that it occupies.
    pub(super) fn owned(&self) -> usize {
        self.bytes.capacity()
            + self.parts.capacity() * size_of::<Range<u32>>()
            + self.commands.capacity() * size_of::<(&Command, Range<usize>)>()
    }
    pub(super) fn push(&mut self, command: &'static Command, args: Args<'_>) {
        let first = self.parts.len();
        for part in args.from(0) {
            let start = self.bytes.len() as u32;
            self.bytes.extend_from_slice(part);
            self.parts.push(start..self.bytes.len() as u32);
        }
        self.commands.push((command, first..self.parts.len()));
    }
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (&'static Command, Args<'_>)> + Clone {
        self.commands.iter().map(|(command, parts)| (*command, Args::new(&self.bytes, &self.parts[parts.clone()])))
    }
}

/// Queues a command.
pub(super) fn queue(call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
    let limit = call.worker.app.settings.max_value.saturating_add(MAX_QUEUED).min(u32::MAX as usize);
    let size: usize = call.args.from(0).map(<[u8]>::len).sum();
    let fits = |multi: &OpenTransaction| multi.queue.size() + size <= limit;
    let checked = call.check_keys().and_then(|()| check_forwarded(call));
    let session = &mut *call.session;
    let multi = session.multi.as_mut().expect("queued within MULTI");
    if let Err(fault) = checked {
        multi.spoil();
        return Err(fault);
    }
    if !fits(multi) {
        multi.spoil();
        return Err(CommandError::Told(
            format!("ERR a transaction has at most {limit} bytes (follows from max-value)").into_bytes(),
        ));
    }
    if !multi.spoiled {
        multi.queue.push(call.command, call.args);
    }
    session.client.about.lock().queued = Some(multi.queue.len());
    call.reply.simple("QUEUED");
    Ok(Flow::Done)
}

/// Refuses what the source would not queue, by its table of commands, which MULTI has seen to.
fn check_forwarded(call: &CommandContext<'_>) -> Result<(), CommandError> {
    if !matches!(call.command.run, Run::Forward) {
        return Ok(());
    }
    let known = call.group().source.as_redis().and_then(|server| server.known_commands());
    let Some(known) = known.filter(|known| !known.is_empty()) else { return Ok(()) };
    forwarded_commands::check_queued(&known, call.args)
}

/// EXEC was refused before it began.
pub(super) fn abort(session: &mut Session, why: &CommandError, reply: &mut Reply<'_>) {
    session.end_transaction();
    let why = match why {
        CommandError::Said(text) => text.as_bytes(),
        CommandError::Told(text) => text,
    };
    let why = why.strip_prefix(b"ERR ").unwrap_or(why);
    reply.error(&[b"EXECABORT Transaction discarded because of: ", why].concat());
}

/// One of the commands around a transaction.
pub(super) fn step(call: &mut CommandContext<'_>, step: Transaction) -> Result<Flow, CommandError> {
    let within = call.session.multi.is_some();
    let source = &call.group().source;
    let alone = source.as_redis().is_some() || source.as_local().is_some();
    match step {
        Transaction::Multi if within => {
            return Err(CommandError::Said("ERR MULTI calls can not be nested"));
        }
        // Which commands are refused at once, the source's table says.
        Transaction::Multi
            if call.group().source.as_redis().is_some_and(|server| server.known_commands().is_none()) =>
        {
            return Ok(Flow::Alone);
        }
        Transaction::Multi => begin(call.session),
        Transaction::Discard if !within => return Err(CommandError::Said("ERR DISCARD without MULTI")),
        Transaction::Discard => call.session.end_transaction(),
        Transaction::Watch if within => {
            return Err(CommandError::Said("ERR WATCH inside MULTI is not allowed"));
        }
        Transaction::Watch => {
            call.check_keys()?;
            if alone {
                return Ok(Flow::Alone);
            }
            watch(call);
        }
        Transaction::Unwatch => call.session.unwatch(),
        Transaction::Exec => match &call.session.multi {
            None => return Err(CommandError::Said("ERR EXEC without MULTI")),
            Some(multi) if multi.spoiled => {
                call.session.end_transaction();
                return Err(EXEC_ABORT);
            }
            Some(_) if alone => return Ok(Flow::Alone),
            Some(_) => return Ok(exec(call)),
        },
    }
    call.reply.ok();
    Ok(Flow::Done)
}

/// MULTI.
pub(super) fn begin(session: &mut Session) {
    session.multi = Some(OpenTransaction::default());
    session.client.about.lock().queued = Some(0);
    session.settle();
}

fn watch(call: &mut CommandContext<'_>) {
    let (cache, now, mut tier) = (call.cache(), call.now, call.lock());
    for key in call.command.keys.of(call.args) {
        let watched = &mut call.session.watched;
        if !watched.iter().any(|(known, _)| **known == *key) {
            let version = version(&mut tier, cache.key(key), now);
            watched.push((key.into(), version));
        }
    }
}

/// Of the entry; 0 if there is none.
fn version(tier: &mut Tier<'_>, key: Key<'_>, now: u64) -> u64 {
    tier.peek(key, now, |entry| entry.version()).unwrap_or(0)
}

fn exec(call: &mut CommandContext<'_>) -> Flow {
    let queue = call.session.multi.take().unwrap_or_default().queue;
    let watched = mem::take(&mut call.session.watched);
    call.session.end_transaction();
    let cache = call.cache();
    let (id, tracks) = (call.session.client.id, call.session.tracker.is_some());
    let lock = || {
        let mut tier = lock(cache, &queue, &watched);
        if tracks {
            tier.act_as(id);
        }
        tier
    };
    let mut tier = Some(lock());
    let now = call.now;
    let unchanged =
        tier.as_mut().is_none_or(|tier| watched.iter().all(|(key, then)| version(tier, cache.key(key), now) == *then));
    if !unchanged {
        call.reply.null_array();
        return Flow::Done;
    }
    call.reply.array(queue.len());
    let mut close = false;
    let mut room = ReplyBudget::new(call.worker);
    for (command, args) in queue.iter() {
        let has_room = room.take(call.reply.output().owned());
        let flow = call.nested(command, args, |call| match command.run {
            _ if has_room.is_err() => has_room.map(|()| Flow::Done),
            Run::Tier(function) => function(call, tier.get_or_insert_with(lock)).map(|()| Flow::Done),
            Run::Get => get::get_in(call, tier.get_or_insert_with(lock)).map(|()| Flow::Done),
            Run::MultiGet => get::mget_in(call, tier.get_or_insert_with(lock)).map(|()| Flow::Done),
            Run::Local(function) => {
                if command.flags.has(Flags::UNLOCKED) {
                    // It takes the engine's locks itself: what comes after is atomic again.
                    tier = None;
                }
                function(call)
            }
            Run::Transaction(around) => step(call, around),
            Run::Container => Err(arity(command.name)),
            Run::Forward => Err(super::unknown(&call.args)),
        });
        // Still under the locks.
        call.session.note_read(command, args);
        close |= matches!(flow, Flow::Close);
    }
    match close {
        true => Flow::Close,
        false => Flow::Done,
    }
}

/// Everything that the commands and watched keys touch, locked.
fn lock<'c>(cache: &'c Cache, queue: &CommandQueue, watched: &[(Box<[u8]>, u64)]) -> Tier<'c> {
    let whole = |(command, _): (&Command, _)| command.flags.has(Flags::KEYSPACE);
    if queue.iter().any(whole) {
        return cache.exclusive_all();
    }
    let queued = queue.iter().flat_map(|(command, args)| command.keys.of(args));
    let watched = watched.iter().map(|(key, _)| &**key);
    cache.exclusive(queued.chain(watched).map(|key| cache.key(key)))
}

impl CommandContext<'_> {
    /// Runs a queued command: its reply is written where this one's is.
    pub(super) fn nested(
        &mut self,
        command: &'static Command,
        args: Args<'_>,
        run: impl FnOnce(&mut CommandContext<'_>) -> Result<Flow, CommandError>,
    ) -> Flow {
        self.within(command, args).answering(run)
    }

    /// A queued command: its reply goes where this one's does.
    pub(super) fn within<'a>(&'a mut self, command: &'static Command, args: Args<'a>) -> CommandContext<'a> {
        super::count(self.worker, self.session, command, args);
        let resp3 = self.session.resp3;
        CommandContext {
            worker: self.worker,
            session: &mut *self.session,
            command,
            args,
            now: self.now,
            nested: true,
            reply: Reply::new(self.reply.output(), resp3),
        }
    }
}
