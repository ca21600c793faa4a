//! Keyed commands that change the store together: run on a scratch tier between what was and what is to be.
use super::{
    Changes, Command, CommandContext, CommandError, CommandQueue, FetchedValue, Flags, Flow, Group, KeyGuard, Run,
    SourceError, is_keyspace,
};
use crate::{
    app::Worker,
    redis::{arity, commands::strings, get, session::Session, upstream_pipeline::Joined},
    source::LocalFuture,
};
use bytes::Bytes;
use larder_engine::{Cache, Condition, Expiry, Key, Millis, Stored, Write};
use larder_proto::{
    output::Output,
    resp::{Args, Reply},
};
use larder_store::clock;
use std::{
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, ready},
};

/// Commands of one pipeline that go together, at most: what they look at is in memory at once.
const MOST: usize = 256;
/// Bytes of such commands, of which one may be longer.
const MOST_BYTES: usize = 1 << 20;

/// Keys of which it is only asked whether they exist, looked up at a time: their values are in memory meanwhile.
const EXISTENCES: usize = 64;

/// A key that commands touch.
pub(super) struct Wanted {
    key: Bytes,
    look: Look,
}
/// What commands look at of what a key had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Look {
    /// Nothing: it is only overwritten.
    Away,
    /// Whether there was something.
    Existence,
    Entry,
}

/// The keys of commands, each once.
pub(super) fn wanted<'a>(commands: impl Iterator<Item = (&'static Command, Args<'a>)>) -> Vec<Wanted> {
    let mut keys: Vec<Wanted> = commands
        .flat_map(|(command, args)| {
            let look = match command.flags {
                flags if flags.has(Flags::OVERWRITES) && strings::overwrites(args) => Look::Away,
                flags if flags.has(Flags::EXISTENCE) => Look::Existence,
                _ => Look::Entry,
            };
            command.keys.of(args).map(move |key| Wanted { key: Bytes::copy_from_slice(key), look })
        })
        .collect();
    keys.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    keys.dedup_by(|next, first| {
        let same = next.key == first.key;
        if same {
            first.look = first.look.max(next.look);
        }
        same
    });
    keys
}

/// Where commands run: a tier with the entries of their keys and nothing else. The keys are held.
pub(super) struct Scratch {
    cache: Arc<Cache>,
    keys: Vec<Wanted>,
    /// Version and expiry of each, as loaded. What is only overwritten begins as something that nobody looks at.
    before: Vec<Option<(u64, Option<Millis>)>>,
    now: Millis,
}

impl Scratch {
    pub(super) async fn load(group: &Group, keys: Vec<Wanted>) -> Result<Scratch, SourceError> {
        let of = |look| keys.iter().filter(move |key| key.look == look).map(|key| key.key.clone());
        let (entries, existences): (Vec<_>, Vec<_>) = (of(Look::Entry).collect(), of(Look::Existence).collect());
        let mut found = group.load(group.local()?, &entries).await?.into_iter();
        let mut exist = Vec::with_capacity(existences.len());
        for some in existences.chunks(EXISTENCES) {
            let found = group.load(group.local()?, some).await?;
            exist.extend(
                found.into_iter().map(|found| found.map(|found| FetchedValue { value: Bytes::new(), ..found })),
            );
        }
        let mut exist = exist.into_iter();
        let now = clock::now();
        let cache = group.cache.scratch();
        let mut tier = cache.tier();
        let before = keys.iter().map(|key| {
            let FetchedValue { value, expiry } = match key.look {
                Look::Away => Some(FetchedValue { value: Bytes::new(), expiry: None }),
                Look::Existence => exist.next().flatten(),
                Look::Entry => found.next().flatten(),
            }?;
            let write = Write {
                value: &value,
                expiry: expiry.map_or(Expiry::Never, Expiry::At),
                flags: 0,
                condition: Condition::Always,
            };
            match tier.set(cache.key(&key.key), write, now) {
                Ok(Stored::Created(version) | Stored::Replaced(version)) => Some((version, expiry)),
                Ok(Stored::Unmet) | Err(_) => None,
            }
        });
        let before = before.collect();
        drop(tier);
        Ok(Scratch { cache, keys, before, now })
    }

    /// Runs a command.
    pub(super) fn run(&mut self, call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
        call.now = self.now;
        let tier = &mut self.cache.tier();
        match call.command.run {
            Run::Tier(function) => function(call, tier)?,
            Run::Get => get::get_in(call, tier)?,
            Run::MultiGet => get::mget_in(call, tier)?,
            Run::Local(_) | Run::Transaction(_) | Run::Container | Run::Forward => {
                return Err(arity(call.command.name));
            }
        }
        Ok(Flow::Done)
    }

    /// What is not as it was.
    pub(super) fn changes(&self) -> Changes {
        let mut tier = self.cache.tier();
        let keys = self.keys.iter().zip(&self.before);
        keys.filter_map(|(wanted, before)| {
            let key: Key<'_> = self.cache.key(&wanted.key);
            let after = tier.peek(key, self.now, |entry| match (entry.version(), entry.expiry()) {
                same if Some(same) == *before => None,
                (_, expiry) => Some(FetchedValue { value: entry.value.to_bytes(), expiry }),
            });
            match (after, before) {
                (Some(None), _) => None,
                (Some(Some(found)), _) => Some((wanted.key.clone(), Some(found))),
                (None, None) => None,
                (None, Some(_)) => Some((wanted.key.clone(), None)),
            }
        })
        .collect()
    }
}

/// Commands of one client that are carried out together.
pub struct StorePipeline {
    group: Rc<Group>,
    queue: CommandQueue,
    state: State,
    replies: Output,
}
enum State {
    /// More may join, up to a limit.
    Open,
    Loading(LocalFuture<'static, Result<(Rc<KeyGuard>, Scratch), SourceError>>),
    Storing(LocalFuture<'static, Result<(), SourceError>>),
    Over(Result<(), SourceError>),
}

impl StorePipeline {
    /// None yet.
    pub(in crate::redis) fn new(group: &Rc<Group>) -> StorePipeline {
        StorePipeline {
            group: group.clone(),
            queue: CommandQueue::default(),
            state: State::Open,
            replies: Output::default(),
        }
    }
    pub(in crate::redis) fn is_open(&self) -> bool {
        matches!(self.state, State::Open) && self.queue.len() < MOST && self.queue.size() < MOST_BYTES
    }
    pub(in crate::redis) fn bytes(&self) -> usize {
        self.queue.size()
    }

    /// Adds a command.
    pub(in crate::redis) fn join(&mut self, call: &CommandContext<'_>) -> Joined {
        if is_keyspace(call.command) {
            return Joined::Alone;
        }
        self.queue.push(call.command, call.args);
        Joined::Yes
    }

    /// Nobody else may join from now on.
    fn begin(&mut self) -> State {
        let group = self.group.clone();
        let wanted = wanted(self.queue.iter());
        State::Loading(Box::pin(async move {
            let held = group.hold(wanted.iter().map(|wanted| &wanted.key)).await?;
            let scratch = Scratch::load(&group, wanted).await?;
            Ok((held, scratch))
        }))
    }

    /// Begins with what has joined, and is ready once the store has taken what they changed. Those of one client are carried out one after the
    /// other, each with all that came while the one before it was under way.
    pub(in crate::redis) fn poll(&mut self, worker: &Worker, session: &mut Session, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            self.state = match &mut self.state {
                State::Open => self.begin(),
                State::Over(_) => return Poll::Ready(()),
                State::Loading(loading) => match ready!(loading.as_mut().poll(cx)) {
                    Err(error) => State::Over(Err(error)),
                    Ok((held, scratch)) => self.carry_out(worker, session, &held, scratch),
                },
                State::Storing(storing) => State::Over(ready!(storing.as_mut().poll(cx))),
            };
        }
    }

    fn carry_out(
        &mut self,
        worker: &Worker,
        session: &mut Session,
        held: &Rc<KeyGuard>,
        mut scratch: Scratch,
    ) -> State {
        for (command, args) in self.queue.iter() {
            let reply = Reply::new(&mut self.replies, session.resp3);
            let mut call = CommandContext {
                worker,
                session: &mut *session,
                command,
                args,
                now: scratch.now,
                nested: false,
                reply,
            };
            call.answering(|call| scratch.run(call));
        }
        State::Storing(Box::pin(self.group.commit(held, scratch.changes(), session.actor())))
    }

    /// Writes the replies, once [`poll`](StorePipeline::poll) was ready.
    pub(in crate::redis) fn reply(mut self, session: &mut Session, out: &mut Output) {
        match self.state {
            State::Over(Ok(())) => out.append(&mut self.replies),
            State::Over(Err(error)) => {
                session.counters.redis_errors.add(self.queue.len() as u64);
                let fault = CommandError::from(error);
                (0..self.queue.len()).for_each(|_| fault.reply(&mut Reply::new(out, session.resp3)));
            }
            State::Open | State::Loading(_) | State::Storing(_) => {}
        }
    }
}
