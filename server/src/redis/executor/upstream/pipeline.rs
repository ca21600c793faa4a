//! Commands of one client that go to an upstream Redis together: in one write, their replies in one piece.
//!
//! Nothing of the client's that is not of this kind is begun before they are answered, and they are not begun while its reads wait for
//! the source: so its commands take effect in the order in which it sent them, though they travel on several connections.
use super::effects::{Answered, Effects};
use crate::{
    app::Worker,
    redis::{
        command::Kind, command_context::CommandContext, command_error::CommandError, flow::Joined, session::Session,
        upstream::requests,
    },
    source::{LocalFuture, RedisServer, SourceError},
};
use larder_proto::{
    output::Output,
    resp::{Reply, write_command},
};
use std::{
    mem,
    task::{Context, Poll},
};

/// Room for the commands of a pipeline, so that it need not grow often.
const ROOM: usize = 1024;

/// The commands, first put together, then on their way.
pub struct UpstreamPipeline {
    effects: Effects,
    encoded: Vec<u8>,
    len: usize,
    resp3: bool,
    /// They may keep the upstream busy for long, all of them or none; `None`: there are none yet.
    slow: Option<bool>,
    /// Once they are sent.
    answer: Option<LocalFuture<'static, Answered>>,
    answered: Option<Answered>,
}

impl UpstreamPipeline {
    /// None yet, from this client, `behind` others that are slow or are not.
    pub(in crate::redis) fn new(session: &Session, behind: Option<bool>) -> UpstreamPipeline {
        UpstreamPipeline {
            effects: Effects::default(),
            encoded: Vec::with_capacity(ROOM),
            len: 0,
            resp3: session.resp3,
            slow: behind,
            answer: None,
            answered: None,
        }
    }

    /// May more join?
    pub(in crate::redis) fn is_open(&self) -> bool {
        self.answer.is_none()
    }

    /// May they keep the upstream busy for long?
    pub(in crate::redis) fn is_slow(&self) -> bool {
        self.slow == Some(true)
    }

    /// Bytes of commands that have joined.
    pub(in crate::redis) fn bytes(&self) -> usize {
        self.len
    }

    /// Bytes of memory that they occupy. What is sent is on the account by itself if it is long.
    pub(in crate::redis) fn owned(&self) -> usize {
        self.encoded.capacity() + self.effects.owned()
    }

    /// Adds a command.
    pub(in crate::redis) fn join(&mut self, call: &CommandContext<'_>) -> Joined {
        let server = call.group().source.as_redis().filter(|_| call.command.kind == Kind::Forward);
        let known = server.and_then(RedisServer::known_commands);
        let (slow, mut joined) = (self.slow, Joined::Alone);
        let reach = self.effects.note(call, (call.command, call.args), known.as_deref(), |reach| {
            joined = match reach {
                reach if reach.everything || reach.blocks || reach.apart.is_some() => Joined::Alone,
                reach if slow.is_some_and(|slow| slow != reach.slow) => Joined::Not,
                _ => Joined::Yes,
            };
            joined == Joined::Yes
        });
        if joined == Joined::Yes {
            self.slow = reach.map(|reach| reach.slow);
            call.show_forwarded();
            self.effects.note_stored(call);
            write_command(&mut self.encoded, call.args.from(0));
            self.len = self.encoded.len();
        }
        joined
    }

    /// Sends them.
    pub(in crate::redis) fn send(&mut self, worker: &Worker, session: &Session) {
        if let Some(relay) = requests::way(worker, session) {
            let commands = mem::take(&mut self.encoded).into();
            let count = self.effects.count() as usize;
            self.answer = Some(match self.is_slow() {
                true => relay.relay_slow(commands, count, self.resp3),
                false => relay.relay(commands, count, self.resp3),
            });
        }
    }

    /// Ready once they are answered.
    pub(in crate::redis) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
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
    pub(in crate::redis) fn reply(mut self, session: &mut Session, out: &mut Output) {
        let mut effects = mem::take(&mut self.effects);
        let answered = self.answered.take();
        let answered = answered.unwrap_or_else(|| Err(requests::no_redis()));
        effects.settle(&answered);
        match answered {
            Ok(replies) => session.pass_on(&replies, out),
            Err(error) => {
                session.counters.redis_errors.add(effects.count().into());
                let fault = CommandError::from(error);
                (0..effects.count()).for_each(|_| fault.reply(&mut Reply::new(out, self.resp3)));
            }
        }
    }
}

impl Drop for UpstreamPipeline {
    /// A client that goes away does not end the writes that it has sent: they are seen to their end.
    fn drop(&mut self) {
        let mut effects = mem::take(&mut self.effects);
        if effects.count() == 0 {
            return;
        }
        match self.answer.take() {
            Some(answer) => drop(tokio::task::spawn_local(async move { effects.settle(&answer.await) })),
            // Never sent, or answered and not passed on.
            None => effects.settle(&self.answered.take().unwrap_or(Err(SourceError::Unavailable("not sent".into())))),
        }
    }
}
