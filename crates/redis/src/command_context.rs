//! The context of a running command.
use crate::{
    command::{Command, CommandKind, Flags},
    command_counts::count,
    command_outcome::{CommandError, Done, Flow, NOT_IN_MULTI, TOO_LONG},
    session::{Backend, Session},
    slow_commands,
    upstream::replies::is_error,
    value_comparison::is_comparison,
};
use bytes::Bytes;
use larder_base::{buffers::BufferKind, special::Special};
use larder_core::{
    app::Worker,
    read::{Group, KeyEvent},
};
use larder_engine::{Cache, Expiry, Key, Millis, Tier};
use larder_proto::{
    output::{Output, Room},
    resp::{Args, Reply},
};
use larder_source::{RawReplies, RedisServer, UpstreamCommands};
use std::{
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
};

/// Everything that a command's function needs.
pub(super) struct CommandContext<'c> {
    pub(super) worker: &'c Worker,
    pub(super) session: &'c mut Session,
    pub(super) command: &'static Command,
    pub(super) args: Args<'c>,
    pub(super) now: Millis,
    /// Whether the command runs within EXEC.
    pub(super) nested: bool,
    pub(super) reply: Reply<'c>,
}

impl<'c> CommandContext<'c> {
    /// The context of a command of this client. The reply goes to `out`.
    #[inline]
    pub(super) fn new(
        worker: &'c Worker,
        session: &'c mut Session,
        command: &'static Command,
        args: Args<'c>,
        now: Millis,
        out: &'c mut Output,
    ) -> CommandContext<'c> {
        let reply = Reply::new(out, session.resp3);
        CommandContext { worker, session, command, args, now, nested: false, reply }
    }

    /// The group that the Redis protocol serves.
    #[inline]
    pub(super) fn group(&self) -> &'c Rc<Group> {
        self.worker.groups.default()
    }
    /// The Redis behind the group, if its source is one.
    #[inline]
    pub(super) fn redis(&self) -> Option<&'c dyn RedisServer> {
        self.group().source.as_redis()
    }
    /// That Redis's table of commands, if it is known.
    pub(super) fn known_commands(&self) -> Option<Arc<UpstreamCommands>> {
        self.redis()?.known_commands()
    }
    /// The memory tier of the group.
    #[inline]
    pub(super) fn cache(&self) -> &'c Cache {
        &self.group().cache
    }
    /// An argument that the arity guarantees.
    #[inline]
    pub(super) fn arg(&self, index: usize) -> &'c [u8] {
        self.args.get(index).expect("the arity was checked")
    }
    /// An argument, hashed as a key.
    #[inline]
    pub(super) fn key(&self, index: usize) -> Key<'c> {
        self.cache().key(self.arg(index))
    }

    /// Makes a forwarded command the client's last command in CLIENT LIST. A blocking command is
    /// shown only when Redis has it, because a client that sees it may unblock it.
    pub(super) fn show_forwarded(&self) {
        if self.command.kind == CommandKind::Forward {
            let client = &self.session.client;
            client.forwarded.set(&self.args[0], self.args.get(1));
            client.command.store(self.command.index, Relaxed);
        }
    }

    /// The expiry of an entry that a command stores without one.
    #[inline]
    pub(super) fn lifetime(&self, key: &[u8]) -> Expiry {
        self.group().lifetime(key)
    }

    /// Refuses keys that are too long, and tags that would be lost.
    #[inline(always)]
    pub(super) fn check_keys(&self) -> Result<(), CommandError> {
        if self.args.len() > 3 {
            self.check_tags()?;
        }
        let max = self.worker.app.settings.max_key;
        if self.command.keys.of(self.args).all(|key| key.len() <= max) { Ok(()) } else { Err(bad_key(max)) }
    }
    #[inline(never)]
    fn check_tags(&self) -> Result<(), CommandError> {
        if self.command.flags.has(Flags::TAGS) && !self.group().is_store() { refuse_tags(self.args) } else { Ok(()) }
    }

    /// Refuses values longer than `max-value`.
    #[inline]
    pub(super) fn check_len(&self, len: usize) -> Result<(), CommandError> {
        if len <= self.worker.app.settings.max_value { Ok(()) } else { Err(TOO_LONG) }
    }

    /// Notes an event of a key, if keyspace events are published. The locks of the key are held.
    #[inline]
    pub(super) fn note_event(&self, event: KeyEvent, key: &[u8]) {
        if self.worker.is_on(Special::KeyEvents) {
            self.keep_event(event, key);
        }
    }
    #[cold]
    fn keep_event(&self, event: KeyEvent, key: &[u8]) {
        match self.session.backend {
            Backend::LocalStore => {
                self.session.noted_events.borrow_mut().push((event, Bytes::copy_from_slice(key)));
            }
            _ => self.group().note_event(event, key),
        }
    }

    /// Notes that a value was written.
    #[inline]
    pub(super) fn note_written(&self, event: KeyEvent, key: &[u8], is_new: bool) {
        if is_new {
            self.note_event(KeyEvent::New, key);
        }
        self.note_event(event, key);
    }

    /// Locks the memory tier for this command. A command on several keys holds the locks of all of
    /// them.
    pub(super) fn lock(&self) -> Tier<'c> {
        let keys = self.command.keys.of(self.args);
        match keys.len() {
            0 => self.cache().tier(),
            // Events are noted before another client can change the key.
            1 if !self.worker.is_on(Special::KeyEvents) => self.cache().tier(),
            _ => self.cache().exclusive(keys.map(|key| self.cache().key(key))),
        }
    }
}

impl CommandContext<'_> {
    /// Runs `run`. If it fails, the output has the error and nothing else of the command.
    #[inline]
    pub(super) fn answering(&mut self, run: impl FnOnce(&mut Self) -> Done) -> Flow {
        let room = self.session.room.clone();
        let (mark, outer) = (self.reply.output().mark(), self.reply.output().ask(Some(room)));
        let done = run(self);
        match self.checked(done, outer) {
            Ok(flow) => flow,
            Err(fault) => {
                self.reply.output().truncate(mark);
                self.fail(&fault)
            }
        }
    }

    /// What a command came to: an error if its reply did not fit into the buffers. From now on the
    /// output asks `outer` for room.
    #[inline]
    pub(super) fn checked(&mut self, done: Done, outer: Option<Rc<dyn Room>>) -> Done {
        let out = self.reply.output();
        out.ask(outer);
        if out.is_refused() { Err(self.session.room.no_room()) } else { done }
    }

    /// Writes an error reply.
    #[cold]
    pub(super) fn fail(&mut self, fault: &CommandError) -> Flow {
        self.worker.counters.redis_error(fault.text());
        self.note_failure();
        // An error is short, and must fit.
        let room = self.reply.output().ask(None);
        fault.reply(&mut self.reply);
        self.reply.output().ask(room);
        Flow::Done
    }

    /// Counts the command as failed.
    fn note_failure(&self) {
        if let Some(row) = self.session.times.row() {
            self.worker.app.commands.failed(self.worker.id, row);
        }
    }

    /// Says that the command must run alone. Within a transaction that is an error.
    pub(super) fn alone(&self) -> Done {
        if self.nested { Err(NOT_IN_MULTI) } else { Ok(Flow::Alone(self.command)) }
    }

    pub(super) fn ok(&mut self) -> Done {
        self.reply.ok();
        Ok(Flow::Done)
    }
    pub(super) fn null(&mut self) -> Done {
        self.reply.null();
        Ok(Flow::Done)
    }
    pub(super) fn integer(&mut self, number: i64) -> Done {
        self.reply.integer(number);
        Ok(Flow::Done)
    }
    pub(super) fn bulk(&mut self, bytes: &[u8]) -> Done {
        self.reply.bulk(bytes);
        Ok(Flow::Done)
    }
    pub(super) fn simple(&mut self, text: &str) -> Done {
        self.reply.simple(text);
        Ok(Flow::Done)
    }
    pub(super) fn verbatim(&mut self, text: &[u8]) -> Done {
        self.reply.verbatim(text);
        Ok(Flow::Done)
    }

    /// A bulk string that was made for this reply.
    pub(super) fn reply_text(&mut self, text: Vec<u8>) {
        self.reply.shared(self.worker.app.buffers.count(BufferKind::RedisOutput, text));
    }

    /// Passes the replies of an upstream Redis on to the client.
    pub(super) fn pass_on(&mut self, replies: &RawReplies) {
        if replies.iter().any(is_error) {
            self.note_failure();
        }
        self.session.pass_on(replies, self.reply.output());
    }

    /// Runs a queued command. Its reply is written where this command's reply is.
    pub(super) fn nested(
        &mut self,
        command: &'static Command,
        args: Args<'_>,
        run: impl FnOnce(&mut CommandContext<'_>) -> Done,
    ) -> Flow {
        self.session.times.end_short(self.worker, &self.session.client);
        let outer = self.session.times;
        self.session.times.start();
        let flow = self.within(command, args).answering(run);
        end(self.worker, self.session, args);
        self.session.times = outer;
        flow
    }

    /// The context of a queued command. Its reply goes where this command's reply goes.
    pub(super) fn within<'a>(&'a mut self, command: &'static Command, args: Args<'a>) -> CommandContext<'a> {
        count(self.worker, &mut *self.session, command, args);
        let context =
            CommandContext::new(self.worker, &mut *self.session, command, args, self.now, self.reply.output());
        CommandContext { nested: true, ..context }
    }
}

/// The command is answered. Notes it for the slow log if it took long.
#[inline]
pub(super) fn end(worker: &Worker, session: &mut Session, args: Args<'_>) {
    if let Some((row, took)) = session.times.end(worker, &session.client) {
        slow_commands::note(worker, &session.client, row, took, args);
    }
}

#[cold]
fn bad_key(max: usize) -> CommandError {
    CommandError::from(format!("ERR a key has at most {max} bytes (max-key)"))
}

/// Refuses `SET … TAG` where a source keeps the value: a copy that is fetched again has no such
/// tags, so a clear would miss it.
#[cold]
pub(super) fn refuse_tags(args: Args<'_>) -> Result<(), CommandError> {
    let mut options = args.from(3);
    let has_tag = std::iter::from_fn(|| {
        let option = options.next()?;
        // What a condition compares with may be any word.
        let _skipped = if is_comparison(option) { options.next() } else { None };
        Some(option.eq_ignore_ascii_case(b"TAG"))
    })
    .any(|is_tag| is_tag);
    match has_tag {
        true => Err(CommandError::Static(
            "ERR SET takes no TAG here: the source keeps the value, without tags. LARDER.TAG tags the copy in memory",
        )),
        false => Ok(()),
    }
}
