//! One thread of the generator: one event loop over its connections.
//!
//! ```text
//! notice what is due -> spread it over free connections -> write each once -> sleep until a reply or the next due time
//!                                                             ^                        |
//!                                                             └── take the replies <───┘
//! ```
use super::{
    connection::{Connection, RunClock, ThreadState},
    interrupt::Interrupt,
    latency_recorder::LatencyRecorder,
    measure::{ErrorKind, GeneratorHealth, LoadOutcome, Slice},
    schedule::Due,
    users::Turn,
};
use anyhow::{Context, bail, ensure};
use std::{
    fs,
    time::{Duration, Instant},
};

/// How often late replies and lost connections are looked for, ns.
const TICK: u64 = 10_000_000;

/// See the module.
pub(super) struct GeneratorThread {
    pub(super) connections: Vec<Connection>,
    pub(super) shared: ThreadState,
    /// Ends of the warm-up and of the schedule, ns since the start; the second is absent if the
    /// schedule ends by count.
    pub(super) warm_up: u64,
    pub(super) until: Option<u64>,
    pub(super) interrupt: Interrupt,
    /// Poll instead of sleeping.
    pub(super) spin: bool,
}

impl GeneratorThread {
    /// Makes all connections.
    pub(super) fn establish(&mut self) -> anyhow::Result<()> {
        let GeneratorThread { connections, shared, interrupt, .. } = self;
        connections.iter_mut().for_each(|connection| connection.connect(shared));
        let deadline = Instant::now() + shared.timeout;
        while !connections.iter().all(Connection::is_up) {
            ensure!(!interrupt.is_set(), "interrupted before all connections were made");
            ensure!(
                Instant::now() < deadline,
                "cannot connect to {}: {} of {} connections are up after {:?}{}{}",
                shared.target,
                shared.up,
                connections.len(),
                shared.timeout,
                shared.recorder.bad.map_or(String::new(), |why| format!("; it sent {why}")),
                shared.refused.as_ref().map_or(String::new(), |why| format!(": {why}"))
            );
            for event in 0..shared.poll.wait(TICK)? {
                let (token, writable) = shared.poll.event(event);
                connections[token].event(writable, shared);
            }
            let now = shared.clock.now();
            connections.iter_mut().for_each(|connection| connection.tick(now, shared));
        }
        Ok(())
    }

    /// Plays the schedule, then waits for the last replies.
    pub(super) fn run(mut self, start: Instant) -> anyhow::Result<LoadOutcome> {
        std::thread::sleep(start.saturating_duration_since(Instant::now()));
        self.shared.clock = RunClock(start);
        self.shared.started = true;
        let GeneratorThread { connections, shared, warm_up, until, interrupt, spin } = &mut self;
        let mut own = GeneratorHealth::new(*spin);
        let mut usage = Usage::new(*warm_up);
        let (mut cursor, mut dirty, mut tick) = (0, Vec::new(), 0);
        let mut over = None;
        // When the last connection was seen; without one a closed loop by count would not end.
        let mut alive = 0;
        let timeout = shared.timeout.as_nanos() as u64;
        loop {
            let now = shared.clock.now();
            shared.recorder.roll(now);
            shared.schedule.notice(now, |time| {
                if time >= *warm_up {
                    own.lag.saturating_record(now - time);
                }
            });
            while has_room(connections, shared)
                && let Some(due) = shared.schedule.take(now)
            {
                while !connections[cursor].has_room(shared) {
                    cursor = (cursor + 1) % connections.len();
                }
                if !connections[cursor].is_dirty() {
                    dirty.push(cursor);
                }
                connections[cursor].push(due, shared);
                cursor = (cursor + 1) % connections.len();
            }
            while let Some(Turn { at, since, user }) = shared.schedule.take_turn(now) {
                if at >= *warm_up {
                    own.lag.saturating_record(now - at);
                }
                if connections[user].has_room(shared) {
                    shared.schedule.sent(since);
                    connections[user].push(Due { intended: since, op: None }, shared);
                    dirty.push(user);
                } else {
                    shared.schedule.postpone(now + TICK, since, user);
                }
            }
            while let Some(&(due, index)) = shared.delayed.front()
                && due <= now
            {
                shared.delayed.pop_front();
                if due >= *warm_up {
                    own.lag.saturating_record(now - due);
                }
                connections[index].release(now);
                dirty.push(index);
            }
            dirty.drain(..).for_each(|index| connections[index].flush(shared));
            if now >= tick {
                connections.iter_mut().for_each(|connection| connection.tick(now, shared));
                usage.begin(now)?;
                tick = now + TICK;
                if shared.up > 0 {
                    alive = now;
                }
                let waits = shared.schedule.is_closed() || shared.schedule.next().is_none();
                let lost = until.is_none() && waits && now > alive + timeout;
                if lost && over.is_none() {
                    eprintln!("larder-bench: {} is gone: not all requests could be sent", shared.target);
                }
                if over.is_none() && (lost || interrupt.is_set()) {
                    shared.schedule.cut(now);
                    *until = Some(until.map_or(now, |until| until.min(now)));
                }
            }
            if shared.schedule.over(now) {
                let over = *over.get_or_insert(now);
                usage.end(now, &mut own)?;
                let idle = shared.in_flight == 0 && shared.schedule.ended(now);
                if idle || now > over + timeout {
                    break;
                }
            }
            let wait = match (*spin, shared.schedule.next()) {
                (true, _) => 0,
                // What is due already waits for a connection, which an event will tell of.
                (_, next) => {
                    let delayed = shared.delayed.front().map_or(u64::MAX, |(due, _)| *due);
                    next.unwrap_or(u64::MAX).min(tick).min(delayed).saturating_sub(shared.clock.now())
                }
            };
            for event in 0..shared.poll.wait(wait)? {
                let (token, writable) = shared.poll.event(event);
                connections[token].event(writable, shared);
                // Written when all replies are read: a server that is woken once for several requests, and answers
                // them in a row, costs both sides less.
                if connections[token].is_dirty() {
                    dirty.push(token);
                }
            }
            dirty.drain(..).for_each(|index| connections[index].flush(shared));
        }
        let now = shared.clock.now();
        connections.iter_mut().for_each(|connection| connection.abandon(shared));
        while let Some(due) = shared.schedule.take(now) {
            shared.recorder.lost(ErrorKind::Timeout, due.intended, None, now);
        }
        if let Some(why) = shared.recorder.bad {
            eprintln!("larder-bench: {} sent {why}", shared.target);
        }
        shared.recorder.hand_out(u64::MAX);
        let last = shared.recorder.last.max(until.unwrap_or(0)).saturating_sub(*warm_up);
        let LatencyRecorder { phases, replies, .. } = self.shared.recorder;
        Ok(LoadOutcome { duration: Duration::from_nanos(last), total: Slice::new(0), phases, replies, own })
    }
}

/// Can any connection take a request?
fn has_room(connections: &[Connection], shared: &ThreadState) -> bool {
    let is_below = shared.in_flight < shared.up * shared.pipeline;
    is_below && (!shared.batches || connections.iter().any(|connection| connection.has_room(shared)))
}

/// The thread's use of its core between the end of the warm-up and the end of the schedule.
struct Usage {
    warm_up: u64,
    /// When it began, the CPU time and the time of waiting for a core until then.
    begun: Option<(u64, [u64; 2])>,
    ended: bool,
}

impl Usage {
    fn new(warm_up: u64) -> Usage {
        Usage { warm_up, begun: None, ended: false }
    }

    fn begin(&mut self, now: u64) -> anyhow::Result<()> {
        if self.begun.is_none() && now >= self.warm_up {
            self.begun = Some((now, schedstat()?));
        }
        Ok(())
    }

    fn end(&mut self, now: u64, own: &mut GeneratorHealth) -> anyhow::Result<()> {
        if let Some((begun, [cpu, delay])) = self.begun.filter(|_| !self.ended) {
            let [cpu_now, delay_now] = schedstat()?;
            let (cpu, delay) = (cpu_now - cpu, delay_now - delay);
            own.cpu = Duration::from_nanos(cpu);
            own.busy = (cpu + delay) as f64 / (now - begun).max(1) as f64;
            self.ended = true;
        }
        Ok(())
    }
}

/// Nanoseconds that this thread ran, and that it waited for a core while it could have run
/// (proc(5), Linux's sched-stats).
fn schedstat() -> anyhow::Result<[u64; 2]> {
    let path = "/proc/thread-self/schedstat";
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    let mut fields = text.split_ascii_whitespace().map_while(|field| field.parse().ok());
    match (fields.next(), fields.next()) {
        (Some(cpu), Some(delay)) => Ok([cpu, delay]),
        _ => bail!("{path} reads {text:?}"),
    }
}
