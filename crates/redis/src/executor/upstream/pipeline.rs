//! Commands of one client that go to an upstream Redis in one write, and whose replies come back in
//! one piece.
//!
//! No other command of the client begins before they are answered, and they do not begin while
//! reads of the client wait for the source. So the client's commands take effect in the order in
//! which it sent them, although they use several connections.
use super::effects::{Answered, Effects};
use crate::{
    command::CommandKind,
    command_context::CommandContext,
    command_outcome::{CommandError, Flow},
    command_times::TimedCommand,
    session::Session,
    upstream::{replies::is_error, requests},
};
use bytes::Bytes;
use larder_core::app::Worker;
use larder_proto::{
    output::Output,
    resp::{Reply, write_command},
};
use larder_source::{BusyFor, LocalFuture, Pace, RedisServer, SourceError};
use smallvec::SmallVec;
use std::{
    mem,
    task::{Context, Poll},
    time::Instant,
};

/// Initial capacity for encoded commands, so that the buffer seldom grows.
const ROOM: usize = 1024;

/// The commands, encoded first, then sent.
pub struct UpstreamPipeline {
    effects: Effects,
    /// The commands, to be timed, each with the end of its arguments in `shown`.
    timed: SmallVec<[(TimedCommand, usize); 1]>,
    /// The arguments that the slow log shows, if there is one.
    shown: Vec<u8>,
    encoded: Vec<u8>,
    len: usize,
    resp3: bool,
    /// Whether the commands may keep the upstream busy for long: all of them, or none. `None` while
    /// the pipeline is empty.
    slow: Option<bool>,
    /// For how long the commands may keep the upstream busy.
    busy: Option<BusyFor>,
    /// A command may touch keys that it does not name.
    touches_others: bool,
    /// The answer to come, after they are sent.
    answer: Option<LocalFuture<'static, Answered>>,
    answered: Option<Answered>,
}

impl UpstreamPipeline {
    /// An empty pipeline of this client. `behind` says whether the pipeline before it is slow.
    pub(crate) fn new(session: &Session, behind: Option<bool>) -> UpstreamPipeline {
        UpstreamPipeline {
            effects: Effects::default(),
            timed: SmallVec::new(),
            shown: Vec::new(),
            encoded: Vec::with_capacity(ROOM),
            len: 0,
            resp3: session.resp3,
            slow: behind,
            busy: None,
            touches_others: false,
            answer: None,
            answered: None,
        }
    }

    /// Whether more commands may join.
    pub(crate) fn is_open(&self) -> bool {
        self.answer.is_none()
    }

    /// Whether the commands may keep the upstream busy for long.
    pub(crate) fn is_slow(&self) -> bool {
        self.slow == Some(true)
    }

    /// Bytes of the commands that have joined.
    pub(crate) fn bytes(&self) -> usize {
        self.len
    }

    /// Bytes of memory that the pipeline occupies. Long sent commands are accounted for elsewhere.
    pub(crate) fn owned(&self) -> usize {
        let timed = self.timed.capacity() * size_of::<(TimedCommand, usize)>();
        self.encoded.capacity() + self.effects.owned() + timed + self.shown.capacity()
    }

    /// Adds a command. Slow commands travel apart from fast ones.
    pub(crate) fn join(&mut self, call: &CommandContext<'_>) -> Flow {
        let server = call.redis().filter(|_| call.command.kind == CommandKind::Forward);
        let known = server.and_then(RedisServer::known_commands);
        let (slow, mut flow) = (self.slow, Flow::Alone(call.command));
        let subscribes = call.worker.app.tables.subscribes.any();
        let reach = self.effects.note(call, (call.command, call.args), known.as_deref(), |reach| {
            flow = match reach {
                reach if reach.everything || reach.blocks || reach.apart.is_some() => flow,
                // It waits for the subscriptions.
                reach if subscribes && reach.publishes => flow,
                reach if slow.is_some_and(|slow| slow != reach.slow) => Flow::Behind,
                _ => Flow::Waits,
            };
            flow == Flow::Waits
        });
        if flow == Flow::Waits {
            self.slow = reach.map(|reach| reach.slow);
            self.busy = self.busy.max(reach.and_then(|reach| reach.busy));
            self.touches_others |= reach.is_some_and(|reach| reach.touches_others);
            call.show_forwarded();
            let timed = call.session.times.later_shown(call.worker, call.args, &mut self.shown);
            self.timed.extend(timed.map(|timed| (timed, self.shown.len())));
            self.effects.note_stored(call);
            write_command(&mut self.encoded, call.args.from(0));
            self.len = self.encoded.len();
        }
        flow
    }

    pub(crate) fn send(&mut self, worker: &Worker, session: &Session) {
        if let Some(relay) = requests::connection_for(worker, session) {
            let commands = Bytes::from(mem::take(&mut self.encoded));
            let count = self.effects.count() as usize;
            let touches_others =
                self.touches_others.then(|| (worker.groups.default().source.clone(), commands.clone()));
            let answer = relay.relay_at(Pace { slow: self.is_slow(), busy: self.busy }, commands, count, self.resp3);
            self.answer = Some(match touches_others {
                None => answer,
                Some((source, commands)) => Box::pin(async move {
                    let answered = answer.await;
                    if let Some(upstream) = source.as_redis() {
                        upstream.announced(commands).await;
                    }
                    answered
                }),
            });
        }
    }

    /// Ready when the commands are answered.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
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

    /// Writes the replies, after [`poll`](UpstreamPipeline::poll) was ready.
    pub(crate) fn reply(mut self, worker: &Worker, session: &mut Session, out: &mut Output) {
        let mut effects = mem::take(&mut self.effects);
        let answered = self.answered.take();
        let answered = answered.unwrap_or_else(|| Err(requests::no_redis()));
        effects.settle(&answered);
        let now = Instant::now();
        let mut replies = answered.as_ref().map(|replies| replies.iter()).ok();
        let mut begin = 0;
        for (timed, end) in mem::take(&mut self.timed) {
            // A missing reply is an error.
            let reply = replies.as_mut().and_then(Iterator::next).unwrap_or_default();
            worker.app.commands.sent(worker.id, timed.row(), reply.len());
            timed.end_shown(worker, &session.client, now, &self.shown[begin..end], is_error(reply));
            begin = end;
        }
        drop(replies);
        match answered {
            Ok(replies) => session.pass_on(&replies, out),
            Err(error) => {
                let fault = CommandError::from(error);
                for _ in 0..effects.count() {
                    session.counters.redis_error(fault.text());
                    fault.reply(&mut Reply::new(out, self.resp3));
                }
            }
        }
    }
}

impl Drop for UpstreamPipeline {
    /// Waits for the answers in the background, because a client that disconnects does not end the
    /// writes that it has sent.
    fn drop(&mut self) {
        let mut effects = mem::take(&mut self.effects);
        if effects.count() == 0 {
            return;
        }
        match self.answer.take() {
            Some(answer) => drop(tokio::task::spawn_local(async move { effects.settle(&answer.await) })),
            // The commands were never sent, or their replies were not passed on.
            None => effects.settle(&self.answered.take().unwrap_or(Err(SourceError::Unavailable("not sent".into())))),
        }
    }
}
