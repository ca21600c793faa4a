//! Commands on keys of one client that change the local store together.
use super::prepared::Prepared;
use crate::{
    command_context::CommandContext,
    command_outcome::{CommandError, Flow},
    command_queue::CommandQueue,
    command_times::TimedCommand,
    session::Session,
};
use larder_core::{
    app::Worker,
    read::{Group, KeyGuard},
};
use larder_proto::{output::Output, resp::Reply};
use larder_source::{LocalFuture, SourceError};
use std::{
    rc::Rc,
    task::{Context, Poll, ready},
    time::Instant,
};

/// Maximum commands in one pipeline. All their entries are in memory at the same time.
const MOST: usize = 256;
/// Maximum bytes of these commands. A single command may be longer.
const MOST_BYTES: usize = 1 << 20;

/// Commands of one client that run together.
pub struct StorePipeline {
    group: Rc<Group>,
    queue: CommandQueue,
    timed: Vec<TimedCommand>,
    state: State,
    replies: Output,
}
enum State {
    /// More commands may join, up to the maximum.
    Open,
    Loading(LocalFuture<'static, Result<(Rc<KeyGuard>, Prepared), SourceError>>),
    Storing(LocalFuture<'static, Result<(), SourceError>>),
    Over(Result<(), SourceError>),
}

impl StorePipeline {
    pub(crate) fn new(group: &Rc<Group>) -> StorePipeline {
        StorePipeline {
            group: group.clone(),
            queue: CommandQueue::default(),
            timed: Vec::new(),
            state: State::Open,
            replies: Output::default(),
        }
    }
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, State::Open) && self.queue.len() < MOST && self.queue.size() < MOST_BYTES
    }
    pub(crate) fn bytes(&self) -> usize {
        self.queue.size()
    }

    pub(crate) fn join(&mut self, call: &CommandContext<'_>) -> Flow {
        if call.command.is_keyspace() {
            return Flow::Alone(call.command);
        }
        self.queue.push(call.command, call.args);
        self.timed.extend(call.session.times.later(call.worker, call.args));
        Flow::Waits
    }

    /// Closes the pipeline for more commands and starts loading.
    fn begin(&mut self, worker: &Worker) -> State {
        State::Loading(Prepared::load(&self.group, &self.queue, worker.app.settings.max_value))
    }

    /// Starts the pipeline. Ready when the store has taken the changes. The pipelines of one client
    /// run one after the other, each with all commands that came while the one before was
    /// running.
    pub(crate) fn poll(&mut self, worker: &Worker, session: &mut Session, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            self.state = match &mut self.state {
                State::Open => self.begin(worker),
                State::Over(_) => return Poll::Ready(()),
                State::Loading(loading) => match ready!(loading.as_mut().poll(cx)) {
                    Err(error) => State::Over(Err(error)),
                    Ok((held, prepared)) => self.carry_out(worker, session, &held, prepared),
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
        mut prepared: Prepared,
    ) -> State {
        session.noted_events.take();
        for (at, (command, args)) in self.queue.iter().enumerate() {
            let (now, out) = (prepared.now(), &mut self.replies);
            // An error is counted under the command's own name.
            session.times.next();
            let row = self.timed.get(at).map(TimedCommand::row);
            row.iter().for_each(|row| session.times.found_before(*row));
            let before = out.len();
            CommandContext::new(worker, session, command, args, now, out).answering(|call| prepared.run(call));
            row.iter().for_each(|row| worker.app.commands.sent(worker.id, *row, out.len() - before));
        }
        let events = session.noted_events.take();
        State::Storing(Box::pin(self.group.commit(held, prepared.changes(), session.actor(), events)))
    }

    /// Writes the replies, after [`poll`](StorePipeline::poll) was ready.
    pub(crate) fn reply(mut self, worker: &Worker, session: &mut Session, out: &mut Output) {
        let now = Instant::now();
        let has_failed = matches!(self.state, State::Over(Err(_)));
        for timed in self.timed.drain(..) {
            timed.end(worker, &session.client, now, has_failed);
        }
        match self.state {
            State::Over(Ok(())) => out.append(&mut self.replies),
            State::Over(Err(error)) => {
                let fault = CommandError::from(error);
                for _ in 0..self.queue.len() {
                    session.counters.redis_error(fault.text());
                    fault.reply(&mut Reply::new(out, session.resp3));
                }
            }
            State::Open | State::Loading(_) | State::Storing(_) => {}
        }
    }
}
