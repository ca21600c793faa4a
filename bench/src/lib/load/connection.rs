//! One connection: requests wait in its buffer to be written, then in flight to be answered, in
//! order.
use super::{
    generator::Generator,
    latency_recorder::{InFlight, LatencyRecorder},
    measure::ErrorKind,
    poll::Poll,
    schedule::{Due, Schedule},
    target::TargetUrl,
    wire::{Expect, ReplyScan},
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::{
    collections::VecDeque,
    io::{ErrorKind as Io, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

/// First and longest wait before a connection that failed is tried again, ns.
const BACKOFF: (u64, u64) = (10_000_000, 1_000_000_000);

/// Nanoseconds since the start of the run.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunClock(pub(super) Instant);

impl RunClock {
    pub(super) fn now(self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

/// What a thread's connections share.
pub(super) struct ThreadState {
    pub(super) clock: RunClock,
    pub(super) schedule: Schedule,
    pub(super) generator: Generator,
    pub(super) recorder: LatencyRecorder,
    pub(super) target: TargetUrl,
    pub(super) poll: Poll,
    /// Most requests in flight on a connection.
    pub(super) pipeline: usize,
    /// A connection sends again when all its requests are answered.
    pub(super) batches: bool,
    /// How long a reply may take.
    pub(super) timeout: Duration,
    /// How long a written request is held back, ns.
    pub(super) delay: u64,
    /// When a request is due to be sent after its delay, and on which connection; in order of time.
    /// The connection may have lost it since.
    pub(super) delayed: VecDeque<(u64, usize)>,
    /// Where replies are read to.
    pub(super) input: Box<[u8]>,
    /// Requests in flight, and connections that are up, over all.
    pub(super) in_flight: usize,
    pub(super) up: usize,
    /// Why a connection could not be made, the last time that the system said so.
    pub(super) refused: Option<std::io::Error>,
    /// The schedule has begun; before, connections are made and nothing is sent.
    pub(super) started: bool,
}

/// Written requests that the modelled delay holds back: their bytes, and when each is due to be sent and how many bytes it has; in order.
#[derive(Default)]
struct HeldRequests {
    bytes: Vec<u8>,
    until: VecDeque<(u64, usize)>,
}

impl HeldRequests {
    /// How many there are.
    fn len(&self) -> usize {
        self.until.len()
    }

    /// Takes the bytes of `output` from `begin` on, and holds them until `until`.
    fn hold(&mut self, until: u64, begin: usize, output: &mut Vec<u8>) {
        let request = output.drain(begin..);
        self.until.push_back((until, request.len()));
        self.bytes.extend(request);
    }

    /// Gives those back to `output` whose time has come; says how many.
    fn release(&mut self, now: u64, output: &mut Vec<u8>) -> usize {
        let mut released = 0;
        while let Some(&(until, bytes)) = self.until.front()
            && until <= now
        {
            self.until.pop_front();
            output.extend(self.bytes.drain(..bytes));
            released += 1;
        }
        released
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Down {
        retry: u64,
    },
    Connecting,
    /// So many replies to the greeting are missing.
    Greeting(usize),
    Up,
}

/// See the module.
pub(super) struct Connection {
    token: usize,
    stream: Option<TcpStream>,
    state: State,
    since: u64,
    backoff: u64,
    output: Vec<u8>,
    /// How much of the output the kernel has.
    sent: usize,
    /// When the output was first offered to it.
    offered: u64,
    blocked: bool,
    /// The last so many in flight are not wholly written.
    unwritten: usize,
    flight: VecDeque<InFlight>,
    /// A whole pipeline was sent, and not all of it is answered.
    batch_is_open: bool,
    /// The last ones in flight, if there is a delay.
    held: HeldRequests,
    /// The beginning of a reply, and how many bytes it has at least.
    partial: Vec<u8>,
    least: usize,
    /// When that beginning came.
    first_byte: Option<u64>,
}

impl Connection {
    /// A connection that is not made yet; `token` names it in events.
    pub(super) fn new(token: usize) -> Connection {
        Connection {
            token,
            stream: None,
            state: State::Down { retry: 0 },
            since: 0,
            backoff: 0,
            output: Vec::new(),
            sent: 0,
            offered: 0,
            blocked: false,
            unwritten: 0,
            flight: VecDeque::new(),
            batch_is_open: false,
            held: HeldRequests::default(),
            partial: Vec::new(),
            least: 0,
            first_byte: None,
        }
    }

    pub(super) fn is_up(&self) -> bool {
        self.state == State::Up
    }

    pub(super) fn has_room(&self, shared: &ThreadState) -> bool {
        let waits = shared.batches && self.batch_is_open;
        shared.started && self.is_up() && self.flight.len() < shared.pipeline && !waits
    }

    /// Is something to be written that the kernel was not offered?
    pub(super) fn is_dirty(&self) -> bool {
        !self.blocked && !self.output.is_empty()
    }

    /// Begins to connect. A failure counts; the next attempt is due after a while.
    pub(super) fn connect(&mut self, shared: &mut ThreadState) {
        let begun = || -> std::io::Result<TcpStream> {
            let address = shared.target.address;
            let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let socket = socket_with(family, SocketType::STREAM, flags, None)?;
            match rustix::net::connect(&socket, &address) {
                Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
                Err(error) => return Err(error.into()),
            }
            let stream = TcpStream::from(socket);
            stream.set_nodelay(true)?;
            shared.poll.add(&stream, self.token, true)?;
            Ok(stream)
        };
        self.since = shared.clock.now();
        match begun() {
            Ok(stream) => {
                self.stream = Some(stream);
                self.state = State::Connecting;
                self.blocked = true;
            }
            Err(error) => self.failed(Some(error), shared),
        }
    }

    fn failed(&mut self, why: Option<std::io::Error>, shared: &mut ThreadState) {
        let now = shared.clock.now();
        shared.recorder.error(ErrorKind::Connect, now);
        shared.refused = why.or(shared.refused.take());
        let backoff = (self.backoff * 2).clamp(BACKOFF.0, BACKOFF.1);
        *self = Connection { backoff, state: State::Down { retry: now + backoff }, ..Connection::new(self.token) };
    }

    /// Periodic work: reconnect, give up on late replies.
    pub(super) fn tick(&mut self, now: u64, shared: &mut ThreadState) {
        let timeout = shared.timeout.as_nanos() as u64;
        match self.state {
            State::Down { retry } if retry <= now => self.connect(shared),
            State::Connecting | State::Greeting(_) if now > self.since + timeout => self.failed(None, shared),
            State::Up => {
                let written = |flight: &InFlight| if flight.written == 0 { self.offered } else { flight.written };
                if self.flight.front().is_some_and(|front| now > written(front) + timeout) {
                    self.lose(ErrorKind::Timeout, ErrorKind::Closed, shared);
                }
            }
            _ => {}
        }
    }

    /// Reacts to what happened to the socket. May leave something to be written.
    pub(super) fn event(&mut self, writable: bool, shared: &mut ThreadState) {
        if self.state == State::Connecting {
            let connected = self.stream.as_ref().map(TcpStream::take_error);
            if !matches!(connected, Some(Ok(None))) {
                return self.failed(connected.and_then(Result::ok).flatten(), shared);
            }
            let (greeting, replies) = shared.generator.wire().greeting(&shared.target);
            self.output.extend_from_slice(&greeting);
            self.state = State::Greeting(replies);
            self.blocked = false;
            let quiet = self.stream.as_ref().map(|stream| shared.poll.modify(stream, self.token, false));
            if !matches!(quiet, Some(Ok(()))) {
                return self.failed(None, shared);
            }
            self.greeted(shared);
            return self.flush(shared);
        }
        if writable && self.blocked {
            self.blocked = false;
            self.flush(shared);
        }
        if self.stream.is_some()
            && let Err(error) = self.receive(shared)
        {
            match self.state {
                State::Up => self.lose(error, ErrorKind::Closed, shared),
                _ => self.failed(None, shared),
            }
        }
    }

    /// Goes up when the greeting is answered.
    fn greeted(&mut self, shared: &mut ThreadState) {
        if self.state == State::Greeting(0) {
            let now = shared.clock.now();
            shared.recorder.connected(now - self.since);
            self.state = State::Up;
            self.backoff = 0;
            shared.up += 1;
        }
    }

    /// Appends a request; [`Connection::flush`] sends it.
    pub(super) fn push(&mut self, due: Due, shared: &mut ThreadState) {
        let op = due.op.unwrap_or_else(|| shared.generator.draw());
        let before = self.output.len();
        let asked = shared.generator.write(op, &mut self.output);
        let bytes = (self.output.len() - before) as u32;
        let intended = due.intended;
        self.fly(InFlight { intended, written: 0, write: 0, bytes, asked, op, second: false }, before, shared);
    }

    /// Puts a request in flight whose bytes are the output from `begin` on.
    fn fly(&mut self, mut request: InFlight, begin: usize, shared: &mut ThreadState) {
        shared.in_flight += 1;
        if shared.delay == 0 {
            self.unwritten += 1;
        } else {
            let now = shared.clock.now();
            // The delay belongs to the service time.
            if request.written == 0 {
                request.written = now;
            }
            self.held.hold(now + shared.delay, begin, &mut self.output);
            shared.delayed.push_back((now + shared.delay, self.token));
        }
        self.flight.push_back(request);
        self.batch_is_open |= self.flight.len() == shared.pipeline;
    }

    /// Lets requests go whose delay is over; [`Connection::flush`] sends them.
    pub(super) fn release(&mut self, now: u64) {
        self.unwritten += self.held.release(now, &mut self.output);
    }

    /// Hands the output to the kernel.
    pub(super) fn flush(&mut self, shared: &mut ThreadState) {
        let Some(stream) = self.stream.as_mut().filter(|_| !self.blocked && !self.output.is_empty()) else { return };
        let began = shared.clock.now();
        if self.sent == 0 {
            self.offered = began;
        }
        while self.sent < self.output.len() {
            match stream.write(&self.output[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == Io::WouldBlock => {
                    self.blocked = true;
                    if shared.poll.modify(&*stream, self.token, true).is_ok() {
                        return;
                    }
                    return self.lose(ErrorKind::Closed, ErrorKind::Closed, shared);
                }
                Err(error) if error.kind() == Io::Interrupted => {}
                Err(_) => return self.lose(ErrorKind::Closed, ErrorKind::Closed, shared),
            }
        }
        // Asked to be told of room for writing before? No longer.
        if self.offered != began && shared.poll.modify(&*stream, self.token, false).is_err() {
            return self.lose(ErrorKind::Closed, ErrorKind::Closed, shared);
        }
        let (offered, took) = (self.offered, shared.clock.now() - self.offered);
        for request in self.flight.iter_mut().rev().skip(self.held.len()).take(self.unwritten) {
            // The second request of an operation keeps the time of the first.
            if request.written == 0 {
                request.written = offered;
            }
            request.write += took;
        }
        self.unwritten = 0;
        self.sent = 0;
        self.output.clear();
    }

    fn receive(&mut self, shared: &mut ThreadState) -> Result<(), ErrorKind> {
        // Taken out of what is shared for as long as replies are read in it.
        let mut input = std::mem::take(&mut shared.input);
        let result = self.read(&mut input, shared);
        shared.input = input;
        result
    }

    fn read(&mut self, input: &mut [u8], shared: &mut ThreadState) -> Result<(), ErrorKind> {
        while let Some(stream) = &mut self.stream {
            let count = match stream.read(input) {
                Ok(0) => return Err(ErrorKind::Closed),
                Ok(count) => count,
                Err(error) if error.kind() == Io::WouldBlock => break,
                Err(error) if error.kind() == Io::Interrupted => continue,
                Err(_) => return Err(ErrorKind::Closed),
            };
            let now = shared.clock.now();
            if self.partial.is_empty() {
                let used = self.replies(&input[..count], now, shared)?;
                self.partial.extend_from_slice(&input[used..count]);
            } else {
                self.partial.extend_from_slice(&input[..count]);
                if self.partial.len() >= self.least {
                    let mut partial = std::mem::take(&mut self.partial);
                    let used = self.replies(&partial, now, shared)?;
                    partial.drain(..used);
                    self.partial = partial;
                }
            }
            // The next request of a closed loop, or one that waited.
            while self.has_room(shared)
                && let Some(due) = shared.schedule.take(now)
            {
                self.push(due, shared);
            }
            if count < input.len() {
                break;
            }
        }
        Ok(())
    }

    /// Takes the replies from the beginning of `bytes`; says how many bytes they have.
    fn replies(&mut self, bytes: &[u8], now: u64, shared: &mut ThreadState) -> Result<usize, ErrorKind> {
        let mut at = 0;
        while at < bytes.len() {
            let front = self.flight.front().copied();
            let (expect, asked) = match (self.state, front) {
                (State::Greeting(_), _) => (Expect::Plain, 1),
                // A request that is held back cannot be answered.
                (_, Some(request)) if self.flight.len() > self.held.len() => {
                    (shared.generator.expect(request.op, request.second), request.asked)
                }
                // No request is open.
                _ => return Err(ErrorKind::Protocol),
            };
            let reply = match shared.generator.wire().scan(expect, asked, &bytes[at..]) {
                ReplyScan::Done(reply) => reply,
                ReplyScan::More(least) => {
                    self.least = least;
                    self.first_byte.get_or_insert(now);
                    break;
                }
                ReplyScan::Bad(why) => {
                    shared.recorder.bad(why);
                    return Err(ErrorKind::Protocol);
                }
            };
            at += reply.len;
            let first_byte = self.first_byte.take().unwrap_or(now);
            if let State::Greeting(left) = self.state {
                if reply.error.is_some() {
                    shared.recorder.bad("an error reply to AUTH or SELECT");
                    return Err(ErrorKind::Server);
                }
                self.state = State::Greeting(left.saturating_sub(1));
                self.greeted(shared);
                continue;
            }
            let Some(mut request) = self.flight.pop_front() else { return Err(ErrorKind::Protocol) };
            shared.in_flight -= 1;
            self.batch_is_open &= !self.flight.is_empty();
            let sent = self.flight.len() - self.held.len();
            if sent < self.unwritten {
                // Answered before the kernel had taken all that was offered with it.
                self.unwritten = sent;
                request.written = if request.written == 0 { self.offered } else { request.written };
            }
            if reply.error.is_none() && !request.second && shared.generator.has_second(request.op) {
                let before = self.output.len();
                shared.generator.write_second(request.op, &mut self.output);
                request.second = true;
                request.bytes += (self.output.len() - before) as u32;
                self.fly(request, before, shared);
            } else {
                shared.recorder.done(&request, first_byte, now, &reply);
                shared.schedule.think(now, self.token);
            }
            if reply.close {
                return Err(ErrorKind::Closed);
            }
        }
        Ok(at)
    }

    /// Gives the connection up: the oldest request in flight failed in one way, those behind it in
    /// another. Connects again.
    fn lose(&mut self, first: ErrorKind, others: ErrorKind, shared: &mut ThreadState) {
        let now = shared.clock.now();
        shared.up -= usize::from(self.is_up());
        shared.in_flight -= self.flight.len();
        for (number, request) in self.flight.drain(..).enumerate() {
            let written = if request.written == 0 { self.offered } else { request.written };
            let kind = if number == 0 { first } else { others };
            shared.recorder.lost(kind, request.intended, Some(written), now);
            shared.schedule.think(now, self.token);
        }
        *self = Connection { backoff: self.backoff, ..Connection::new(self.token) };
        self.connect(shared);
    }

    /// The end of the run: what is in flight is not waited for any longer.
    pub(super) fn abandon(&mut self, shared: &mut ThreadState) {
        let now = shared.clock.now();
        shared.in_flight -= self.flight.len();
        for request in self.flight.drain(..) {
            shared.recorder.lost(ErrorKind::Timeout, request.intended, Some(request.written.max(1)), now);
        }
    }
}

#[test]
fn requests_go_in_order_when_their_time_has_come() {
    let (mut held, mut output) = (HeldRequests::default(), b"sent".to_vec());
    for (until, request) in [(10, b"one"), (20, b"two")] {
        let begin = output.len();
        output.extend_from_slice(request);
        held.hold(until, begin, &mut output);
    }
    assert_eq!((held.len(), output.as_slice()), (2, b"sent".as_slice()));
    assert_eq!((held.release(9, &mut output), held.release(10, &mut output), held.len()), (0, 1, 1));
    assert_eq!((held.release(20, &mut output), output.as_slice()), (1, b"sentonetwo".as_slice()));
}
