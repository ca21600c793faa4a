//! What is counted and timed, per thread and slice of time, and how that becomes the result of a
//! run.
use super::reply_kinds::ReplyKinds;
use hdrhistogram::Histogram;
use std::{ops::AddAssign, time::Duration};

/// What went wrong with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    /// A connection could not be made (counted per attempt; the requests wait).
    Connect,
    /// No reply within the time limit. Its latency up to then is recorded: a reply would have taken
    /// longer still.
    Timeout,
    /// The connection ended before the reply.
    Closed,
    /// The reply is none of the protocol.
    Protocol,
    /// An error reply of Redis or memcached.
    Server,
    /// HTTP status 400 to 499, where it counts as an error.
    Http4xx,
    /// Any other HTTP status that counts as an error.
    Http5xx,
}

impl ErrorKind {
    /// Name in results.
    pub(crate) const NAMES: [&'static str; 7] =
        ["connect", "timeout", "closed", "protocol", "server", "http_4xx", "http_5xx"];
}

/// Numbers that add up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LoadCounts {
    /// Requests that were answered, with whatever reply.
    pub(crate) requests: u64,
    /// By [`ErrorKind`].
    pub(crate) errors: [u64; ErrorKind::NAMES.len()],
    /// Keys that were read and there.
    pub(crate) found: u64,
    /// Keys that were read and not there.
    pub(crate) missing: u64,
    /// Replies in which a cache says that it had the value (`Cache-Status`), and that it had not.
    pub(crate) cache_hits: u64,
    pub(crate) cache_misses: u64,
    /// Bytes of the replies.
    pub(crate) bytes_in: u64,
    /// Bytes of the requests.
    pub(crate) bytes_out: u64,
}

impl LoadCounts {
    /// Counts an error.
    pub(crate) fn error(&mut self, kind: ErrorKind) {
        self.errors[kind as usize] += 1;
    }

    /// Requests without a reply.
    pub(crate) fn lost(&self) -> u64 {
        [ErrorKind::Timeout, ErrorKind::Closed, ErrorKind::Protocol].map(|kind| self.errors[kind as usize]).iter().sum()
    }

    /// All errors.
    pub(crate) fn all_errors(&self) -> u64 {
        self.errors.iter().sum()
    }
}

impl AddAssign<&LoadCounts> for LoadCounts {
    fn add_assign(&mut self, other: &LoadCounts) {
        self.requests += other.requests;
        self.errors.iter_mut().zip(other.errors).for_each(|(sum, more)| *sum += more);
        self.found += other.found;
        self.missing += other.missing;
        self.cache_hits += other.cache_hits;
        self.cache_misses += other.cache_misses;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
    }
}

/// A histogram of nanoseconds: three significant digits, any value.
pub(crate) fn histogram(digits: u8) -> Histogram<u64> {
    const MINUTE: u64 = 60_000_000_000;
    let mut histogram = Histogram::new_with_bounds(1, MINUTE, digits).expect("bounds and digits are in range");
    histogram.auto(true);
    histogram
}

/// A stretch of time of one thread, or of all.
#[derive(Debug, Clone)]
pub(crate) struct Slice {
    /// Its number, from 0 at the end of the warm-up.
    pub(crate) index: u64,
    /// What was counted.
    pub(crate) counts: LoadCounts,
    /// Intended start to the reply's last byte, ns.
    pub(crate) latency: Histogram<u64>,
    /// Write to the reply's last byte, ns.
    pub(crate) service: Histogram<u64>,
}

impl Slice {
    /// An empty one.
    pub(crate) fn new(index: u64) -> Slice {
        Slice { index, counts: LoadCounts::default(), latency: histogram(3), service: histogram(3) }
    }

    /// Adds what another thread did meanwhile.
    pub(crate) fn add(&mut self, other: &Slice) {
        self.counts += &other.counts;
        add(&mut self.latency, &other.latency);
        add(&mut self.service, &other.service);
    }
}

/// Adds one histogram to another; both resize themselves, so this cannot fail.
pub(crate) fn add(sum: &mut Histogram<u64>, more: &Histogram<u64>) {
    sum.add(more).expect("a histogram that resizes takes any other");
}

/// The parts of a request's time, ns.
#[derive(Debug, Clone)]
pub(crate) struct Phases {
    /// A connection's making, greeting included.
    pub(crate) connect: Histogram<u64>,
    /// Intended start to the write: waiting in the generator for a free place on a connection.
    pub(crate) queue: Histogram<u64>,
    /// Handing the request to the kernel.
    pub(crate) write: Histogram<u64>,
    /// From then on to the reply's first byte.
    pub(crate) wait: Histogram<u64>,
    /// From the first to the last byte.
    pub(crate) read: Histogram<u64>,
}

impl Phases {
    /// Nothing yet.
    pub(crate) fn new() -> Phases {
        Phases {
            connect: histogram(2),
            queue: histogram(2),
            write: histogram(2),
            wait: histogram(2),
            read: histogram(2),
        }
    }

    /// Their names and figures, in order.
    pub(crate) fn named(&self) -> [(&'static str, &Histogram<u64>); 5] {
        [
            ("connect", &self.connect),
            ("queue", &self.queue),
            ("write", &self.write),
            ("wait", &self.wait),
            ("read", &self.read),
        ]
    }

    fn add(&mut self, other: &Phases) {
        add(&mut self.connect, &other.connect);
        add(&mut self.queue, &other.queue);
        add(&mut self.write, &other.write);
        add(&mut self.wait, &other.wait);
        add(&mut self.read, &other.read);
    }
}

/// How the generator itself fared: whether it or the server made the figures.
#[derive(Debug, Clone)]
pub(crate) struct GeneratorHealth {
    /// How long after their intended start requests were noticed, ns: the generator's wake-ups,
    /// whatever the server does. Empty for a closed loop without think time and delay.
    pub(crate) lag: Histogram<u64>,
    /// CPU time of the threads, from the end of the warm-up to the end of the schedule.
    pub(crate) cpu: Duration,
    /// Share of that time that the busiest thread ran or waited for a core.
    pub(crate) busy: f64,
    /// It polls without sleeping, so that `busy` says nothing.
    pub(crate) spins: bool,
}

impl GeneratorHealth {
    /// Nothing yet.
    pub(crate) fn new(spins: bool) -> GeneratorHealth {
        GeneratorHealth { lag: histogram(3), cpu: Duration::ZERO, busy: 0.0, spins }
    }

    /// The 99th percentile of the lag from which on the generator is late.
    pub(crate) const LATE: Duration = Duration::from_millis(1);
    /// The share of time from which on a thread has no time left.
    pub(crate) const BUSY: f64 = 0.95;

    /// Was the generator the bottleneck? It was if a hundredth of the requests was noticed 1 ms or
    /// more after their time, or if a thread had less than 5 % of its time left. Neither
    /// happens because a server is slow: a request that waits for a reply or for a free connection
    /// costs the generator nothing.
    pub(crate) fn saturated(&self) -> bool {
        self.lag.value_at_quantile(0.99) >= GeneratorHealth::LATE.as_nanos() as u64
            || (!self.spins && self.busy > GeneratorHealth::BUSY)
    }

    fn add(&mut self, other: &GeneratorHealth) {
        add(&mut self.lag, &other.lag);
        self.cpu += other.cpu;
        self.busy = self.busy.max(other.busy);
    }
}

/// The result of a run, or of one of its threads, which hands out its slices before.
#[derive(Debug)]
pub(crate) struct LoadOutcome {
    /// From the end of the warm-up to the last reply, or to the end of the schedule if that is
    /// later.
    pub(crate) duration: Duration,
    /// All slices.
    pub(crate) total: Slice,
    /// See there.
    pub(crate) phases: Phases,
    /// See there.
    pub(crate) replies: ReplyKinds,
    /// See there.
    pub(crate) own: GeneratorHealth,
}

impl LoadOutcome {
    /// Of a run that did nothing.
    pub(crate) fn new(spins: bool) -> LoadOutcome {
        LoadOutcome {
            duration: Duration::ZERO,
            total: Slice::new(0),
            phases: Phases::new(),
            replies: ReplyKinds::default(),
            own: GeneratorHealth::new(spins),
        }
    }

    /// Adds a thread.
    pub(crate) fn add(&mut self, end: &LoadOutcome) {
        self.duration = self.duration.max(end.duration);
        self.phases.add(&end.phases);
        self.replies.add(&end.replies);
        self.own.add(&end.own);
    }

    /// Answered requests per second.
    pub(crate) fn throughput(&self) -> f64 {
        self.total.counts.requests as f64 / self.duration.as_secs_f64().max(1e-9)
    }
}
