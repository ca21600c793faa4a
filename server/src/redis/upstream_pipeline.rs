//! Commands of one client that go to a Redis source together: in one write, their replies in one piece.
//!
//! Nothing of the client's that is not of this kind is begun before they are answered, and they are not begun while its reads wait for
//! the source: so its commands take effect in the order in which it sent them, though they travel on several connections.
use super::{
    command::Run, command_context::CommandContext, command_error::CommandError, commands::strings, forwarded_commands,
    session::Session, upstream,
};
use crate::{
    app::Worker,
    config::Coherence,
    read::Group,
    source::{LocalFuture, RawReplies, RedisServer, SourceError},
};
use bytes::Bytes;
use larder_engine::Millis;
use larder_proto::{
    output::Output,
    resp::{Reply, write_command},
};
use larder_store::clock;
use std::{
    mem,
    rc::Rc,
    task::{Context, Poll},
};

/// ReplyBudget for the commands of a pipeline, so that it need not grow often.
const ROOM: usize = 1024;

/// The commands, first put together, then on their way.
pub struct UpstreamPipeline {
    effects: PendingEffects,
    encoded: Vec<u8>,
    len: usize,
    resp3: bool,
    /// They may keep the source busy for long, all of them or none; `None`: there are none yet.
    slow: Option<bool>,
    /// Once they are sent.
    answer: Option<LocalFuture<'static, Answer>>,
    answered: Option<Answer>,
}
type Answer = Result<RawReplies, SourceError>;

/// May a command go with others?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joined {
    /// It does.
    Yes,
    /// Not with these, which are answered first: slow commands travel apart from others.
    Not,
    /// With none.
    Alone,
}

/// What they do to the memory tier once the source has taken them.
#[derive(Default)]
struct PendingEffects {
    group: Option<Rc<Group>>,
    count: u32,
    /// The bytes of the keys, one behind the other.
    keys: Vec<u8>,
    touched: Vec<Touched>,
    /// What a command has stored, if it says `+OK`.
    stored: Vec<(u32, Bytes, Option<Millis>)>,
}
#[derive(Clone, Copy)]
struct Touched {
    command: u32,
    len: u32,
    written: bool,
    /// If its reply is an error, nothing was done: see [`upstream::is_whole`].
    whole: bool,
}

impl UpstreamPipeline {
    /// None yet, from this client, `behind` others that are slow or are not.
    pub fn new(session: &Session, behind: Option<bool>) -> UpstreamPipeline {
        UpstreamPipeline {
            effects: PendingEffects::default(),
            encoded: Vec::with_capacity(ROOM),
            len: 0,
            resp3: session.resp3,
            slow: behind,
            answer: None,
            answered: None,
        }
    }

    /// May more join?
    pub fn is_open(&self) -> bool {
        self.answer.is_none()
    }

    /// May they keep the source busy for long?
    pub fn is_slow(&self) -> bool {
        self.slow == Some(true)
    }

    /// Bytes of commands that have joined.
    pub fn bytes(&self) -> usize {
        self.len
    }

    /// Bytes of memory that they occupy. What is sent is on the account by itself if it is long.
    pub fn owned(&self) -> usize {
        let PendingEffects { keys, touched, stored, .. } = &self.effects;
        let values: usize = stored.iter().map(|(_, value, _)| value.len()).sum();
        self.encoded.capacity() + keys.capacity() + touched.capacity() * size_of::<Touched>() + values
    }

    /// Adds a command.
    pub(super) fn join(&mut self, call: &CommandContext<'_>) -> Joined {
        let group = call.group();
        let effects = &mut self.effects;
        let (keys, touched) = (effects.keys.len(), effects.touched.len());
        let forwarded = matches!(call.command.run, Run::Forward);
        let touch = |key: &[u8], written| {
            effects.keys.extend_from_slice(key);
            let len = key.len() as u32;
            effects.touched.push(Touched { command: effects.count, len, written, whole: false });
        };
        let server = group.source.as_redis().filter(|_| forwarded);
        let commands = server.and_then(RedisServer::known_commands);
        let reach = forwarded_commands::touched(call.command, commands.as_deref(), call.args, touch);
        let joins = reach.filter(|reach| !reach.everything && !reach.blocks && reach.apart.is_none());
        if joins.is_none_or(|reach| self.slow.is_some_and(|slow| slow != reach.slow)) {
            effects.keys.truncate(keys);
            effects.touched.truncate(touched);
            return if joins.is_some() { Joined::Not } else { Joined::Alone };
        }
        self.slow = reach.map(|reach| reach.slow);
        call.show_forwarded();
        let whole = upstream::is_whole(call.command, effects.touched.len() - touched);
        effects.touched[touched..].iter_mut().for_each(|key| key.whole = whole);
        if group.policy.coherence == Coherence::Ttl && effects.touched[touched..].iter().any(|key| key.written) {
            let mut at = keys;
            for key in &effects.touched[touched..] {
                let end = at + key.len as usize;
                if key.written {
                    group.writing(group.cache.key(&effects.keys[at..end])).detach();
                }
                at = end;
            }
            if let Some((value, expiry)) = strings::stored(call).filter(|_| call.session.is_at_home()) {
                effects.stored.push((effects.count, Bytes::copy_from_slice(value), expiry));
            }
        }
        effects.count += 1;
        effects.group.get_or_insert_with(|| group.clone());
        write_command(&mut self.encoded, call.args.from(0));
        self.len = self.encoded.len();
        Joined::Yes
    }

    /// Sends them.
    pub fn send(&mut self, worker: &Worker, session: &Session) {
        if let Some(relay) = upstream::way(worker, session) {
            let commands = mem::take(&mut self.encoded).into();
            let count = self.effects.count as usize;
            self.answer = Some(match self.is_slow() {
                true => relay.relay_slow(commands, count, self.resp3),
                false => relay.relay(commands, count, self.resp3),
            });
        }
    }

    /// Ready once they are answered.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(answer) = &mut self.answer else { return Poll::Ready(()) };
        match answer.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(answered) => {
                self.answer = None;
                self.answered = Some(answered);
                Poll::Ready(())
            }
        }
    }

    /// Writes the replies, once [`poll`](UpstreamPipeline::poll) was ready.
    pub fn reply(mut self, session: &mut Session, out: &mut Output) {
        let effects = mem::take(&mut self.effects);
        let answered = self.answered.take();
        let answered = answered.unwrap_or_else(|| Err(SourceError::Unavailable("it is no Redis".into())));
        effects.settle(&answered);
        match answered {
            Ok(replies) => {
                let errors = replies.iter().filter(|reply| upstream::is_error(reply)).count();
                session.counters.redis_errors.add(errors as u64);
                session.pass_replies(&replies, out);
            }
            Err(error) => {
                session.counters.redis_errors.add(effects.count.into());
                let fault = CommandError::from(error);
                (0..effects.count).for_each(|_| fault.reply(&mut Reply::new(out, self.resp3)));
            }
        }
    }
}

impl PendingEffects {
    /// Ends what was begun, and forgets what clients have seen anew.
    fn settle(&self, answered: &Answer) {
        let Some(group) = &self.group else { return };
        let mut replies = answered.as_ref().map(|replies| replies.iter().enumerate()).ok();
        let mut reply = replies.as_mut().and_then(Iterator::next);
        let mut begin = 0;
        for touched in &self.touched {
            let end = begin + touched.len as usize;
            let key = group.cache.key(&self.keys[begin..end]);
            begin = end;
            while reply.is_some_and(|(at, _)| at < touched.command as usize) {
                reply = replies.as_mut().and_then(Iterator::next);
            }
            let taken = reply.map(|(_, reply)| reply).filter(|reply| !upstream::is_error(reply));
            if !touched.written {
                if answered.is_ok() {
                    group.seen(key);
                }
                continue;
            }
            let writing = group.resume(key);
            let refused = touched.whole && reply.is_some_and(|(_, reply)| !upstream::is_unknown(reply));
            let stored = self.stored.iter().find(|(command, ..)| *command == touched.command);
            match (taken, stored) {
                (Some(b"+OK\r\n"), Some((_, value, expiry))) => {
                    writing.put(value, *expiry, clock::now());
                }
                (Some(_), _) => writing.forget(),
                (None, _) if !refused && upstream::may_be_done(answered) => writing.forget(),
                (None, _) => writing.refused(),
            }
        }
    }
}

impl Drop for UpstreamPipeline {
    /// A client that goes away does not end the writes that it has sent: they are seen to their end.
    fn drop(&mut self) {
        let effects = mem::take(&mut self.effects);
        if effects.count == 0 {
            return;
        }
        match self.answer.take() {
            Some(answer) => drop(tokio::task::spawn_local(async move { effects.settle(&answer.await) })),
            // Never sent, or answered and not passed on.
            None => effects.settle(&self.answered.take().unwrap_or(Err(SourceError::Unavailable("not sent".into())))),
        }
    }
}
