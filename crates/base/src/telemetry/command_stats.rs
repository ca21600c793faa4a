//! What each Redis command did: calls, failures, times. For INFO commandstats and latencystats,
//! LATENCY HISTOGRAM and the metrics.
use super::{
    fine_histogram::{FineDistribution, FineHistogram},
    histogram::HistogramSample,
    thread_counter::Counter,
};
use parking_lot::Mutex;
use std::{sync::OnceLock, time::Duration};

/// The name of the row for commands that have none.
const OTHER: &str = "other";
/// Slots of the index of names: a power of two.
const SLOTS: usize = 2048;
const EMPTY: u16 = u16::MAX;

/// The numbers of every command, by worker: a single writer each, read by anyone.
///
/// The rows are fixed at the start, so clients cannot add any.
#[derive(Debug)]
pub struct CommandStats {
    names: Vec<&'static str>,
    classes: Vec<CommandClass>,
    /// Rows by hash of their names (open addressing).
    slots: Box<[u16]>,
    workers: Vec<Box<[CommandCounters]>>,
    /// The numbers at the latest CONFIG RESETSTAT.
    reset: Mutex<Vec<CommandNumbers>>,
}

/// Commands whose durations are shown together in the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CommandClass {
    /// They read keys.
    Read,
    /// They write keys.
    Write,
    /// Larder does not have them, and a Redis answers them.
    Forwarded,
    /// They concern the connection or the server.
    #[default]
    Other,
}
impl CommandClass {
    /// In the order of the metrics.
    pub const ALL: [CommandClass; 4] =
        [CommandClass::Read, CommandClass::Write, CommandClass::Forwarded, CommandClass::Other];
    /// The value of the label.
    pub fn name(self) -> &'static str {
        match self {
            CommandClass::Read => "read",
            CommandClass::Write => "write",
            CommandClass::Forwarded => "forwarded",
            CommandClass::Other => "other",
        }
    }
    /// The durations of the commands of this class.
    pub fn times(self, commands: &[CommandNumbers]) -> FineDistribution {
        let mut times = FineDistribution::default();
        let of_class = commands.iter().filter(|of| of.class == self);
        of_class.flat_map(|of| &of.times).for_each(|more| times.merge(more));
        times
    }
    /// What metrics show of them.
    pub fn sample(self, commands: &[CommandNumbers]) -> HistogramSample {
        let nanos = commands.iter().filter(|of| of.class == self).map(|of| of.nanos).sum();
        self.times(commands).sample(nanos)
    }
}

/// One worker's numbers of one command.
#[derive(Debug, Default)]
struct CommandCounters {
    calls: Counter,
    failed: Counter,
    rejected: Counter,
    nanos: Counter,
    received: Counter,
    sent: Counter,
    /// From the first call on.
    times: OnceLock<Box<FineHistogram>>,
}

/// The sums of one command's numbers at one moment.
#[derive(Debug, Clone, Default)]
pub struct CommandNumbers {
    /// In lower case; a subcommand is `parent|name`.
    pub name: &'static str,
    /// What it is counted with.
    pub class: CommandClass,
    /// Calls that began.
    pub calls: u64,
    /// Calls that were answered with an error.
    pub failed: u64,
    /// Calls that were refused before they began.
    pub rejected: u64,
    /// Time from the beginning of the calls to their replies, nanoseconds.
    pub nanos: u64,
    /// Bytes of their names and arguments, with what stands between these.
    pub received: u64,
    /// Bytes of their replies.
    pub sent: u64,
    /// The times of those that are over.
    pub times: Option<FineDistribution>,
}

impl CommandStats {
    /// For this many workers, and commands with these names in lower case.
    pub fn new(workers: usize, rows: impl IntoIterator<Item = (&'static str, CommandClass)>) -> CommandStats {
        let rows = rows.into_iter().chain([(OTHER, CommandClass::Forwarded)]);
        let (names, classes): (Vec<_>, Vec<_>) = rows.unzip();
        assert!(names.len() < SLOTS / 2, "most names are found at the first slot");
        let mut slots = vec![EMPTY; SLOTS].into_boxed_slice();
        for (row, name) in names.iter().enumerate() {
            let mut at = slot(name.as_bytes());
            while slots[at] != EMPTY {
                at = (at + 1) % SLOTS;
            }
            slots[at] = row as u16;
        }
        let of_worker = |_| names.iter().map(|_| CommandCounters::default()).collect();
        CommandStats {
            workers: (0..workers.max(1)).map(of_worker).collect(),
            names,
            classes,
            slots,
            reset: Mutex::default(),
        }
    }

    /// The row of a command by its name, in any case. Unknown names share one row.
    pub fn row(&self, name: &[u8]) -> u16 {
        let mut at = slot(name);
        loop {
            match self.slots[at] {
                EMPTY => return (self.names.len() - 1) as u16,
                row if self.names[usize::from(row)].as_bytes().eq_ignore_ascii_case(name) => return row,
                _ => at = (at + 1) % SLOTS,
            }
        }
    }
    pub fn name(&self, row: u16) -> &'static str {
        self.names.get(usize::from(row)).copied().unwrap_or(OTHER)
    }

    #[inline]
    fn of(&self, worker: usize, row: u16) -> &CommandCounters {
        &self.workers[worker][usize::from(row)]
    }
    /// Counts this many calls, and the bytes of their names and arguments; like the four below only
    /// from the worker's own thread.
    #[inline]
    pub fn called(&self, worker: usize, row: u16, calls: u64, bytes: usize) {
        let of = self.of(worker, row);
        of.calls.add(calls);
        of.received.add(bytes as u64);
    }
    /// Counts bytes of replies.
    #[inline]
    pub fn sent(&self, worker: usize, row: u16, bytes: usize) {
        self.of(worker, row).sent.add(bytes as u64);
    }
    /// Notes that this many calls took `took` together. Each counts with its equal part.
    #[inline]
    pub fn took(&self, worker: usize, row: u16, calls: u64, took: Duration) {
        let of = self.of(worker, row);
        let nanos = took.as_nanos() as u64;
        of.nanos.add(nanos);
        let each = if calls == 1 { nanos } else { nanos / calls.max(1) };
        of.times.get_or_init(Box::default).record(each, calls);
    }
    /// Counts a call that was answered with an error.
    pub fn failed(&self, worker: usize, row: u16) {
        self.of(worker, row).failed.add(1);
    }
    /// Counts a call that was refused.
    pub fn rejected(&self, worker: usize, row: u16) {
        self.of(worker, row).rejected.add(1);
    }

    /// Calls of all commands.
    pub fn total(&self) -> u64 {
        self.workers.iter().flatten().map(|of| of.calls.get()).sum()
    }
    /// The calls of all commands since the latest [`reset`](Self::reset).
    pub fn total_since_reset(&self) -> u64 {
        self.total().wrapping_sub(self.reset.lock().iter().map(|of| of.calls).sum())
    }
    /// The numbers of the commands that were called or refused, since the start.
    pub fn sums(&self) -> Vec<CommandNumbers> {
        (0..self.names.len()).map(|row| self.sum(row)).filter(CommandNumbers::is_shown).collect()
    }
    /// The numbers of one command since the start; the name is in lower case.
    pub fn of_name(&self, name: &[u8]) -> Option<CommandNumbers> {
        let row = usize::from(self.row(name));
        (self.names[row].as_bytes() == name).then(|| self.sum(row))
    }
    /// Like [`sums`](Self::sums), since the latest [`reset`](Self::reset).
    pub fn sums_since_reset(&self) -> Vec<CommandNumbers> {
        let reset = self.reset.lock();
        let mut sums = self.sums();
        for sum in &mut sums {
            if let Some(earlier) = reset.iter().find(|earlier| earlier.name == sum.name) {
                sum.subtract(earlier);
            }
        }
        sums.retain(CommandNumbers::is_shown);
        sums
    }
    /// CONFIG RESETSTAT. The metrics go on.
    pub fn reset(&self) {
        *self.reset.lock() = self.sums();
    }

    fn sum(&self, row: usize) -> CommandNumbers {
        let mut sum = CommandNumbers { name: self.names[row], class: self.classes[row], ..CommandNumbers::default() };
        for of in self.workers.iter().map(|of| &of[row]) {
            sum.calls += of.calls.get();
            sum.failed += of.failed.get();
            sum.rejected += of.rejected.get();
            sum.nanos += of.nanos.get();
            sum.received += of.received.get();
            sum.sent += of.sent.get();
            if let Some(times) = of.times.get() {
                sum.times.get_or_insert_default().add(times);
            }
        }
        sum
    }
}

impl CommandNumbers {
    fn is_shown(&self) -> bool {
        self.calls > 0 || self.rejected > 0
    }
    fn subtract(&mut self, earlier: &CommandNumbers) {
        for (now, then) in [
            (&mut self.calls, earlier.calls),
            (&mut self.failed, earlier.failed),
            (&mut self.rejected, earlier.rejected),
            (&mut self.nanos, earlier.nanos),
            (&mut self.received, earlier.received),
            (&mut self.sent, earlier.sent),
        ] {
            *now = now.saturating_sub(then);
        }
        if let (Some(now), Some(then)) = (&mut self.times, &earlier.times) {
            now.subtract(then);
        }
        self.times.take_if(|times| times.count() == 0);
    }
}

/// The first slot of a name, the same in upper and lower case (FNV-1a).
fn slot(name: &[u8]) -> usize {
    let hash = name.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0000_01b3)
    });
    (hash ^ (hash >> 32)) as usize % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats() -> CommandStats {
        let rows =
            [("get", CommandClass::Read), ("config|get", CommandClass::Other), ("hget", CommandClass::Forwarded)];
        CommandStats::new(2, rows)
    }

    #[test]
    fn rows_are_found_in_any_case_and_others_share_one() {
        let stats = stats();
        assert_eq!((stats.row(b"get"), stats.row(b"HGet"), stats.name(1)), (0, 2, "config|get"));
        assert_eq!((stats.row(b"nonsense"), stats.row(b""), stats.name(3)), (3, 3, OTHER));
        let found = [&b"hget"[..], b"HGET", b"nonsense", b"other"].map(|name| stats.of_name(name).map(|of| of.name));
        assert_eq!(found, [Some("hget"), None, None, Some(OTHER)]);
    }

    #[test]
    fn sums_over_workers_and_since_a_reset() {
        let stats = stats();
        stats.called(0, 0, 3, 0);
        stats.called(1, 0, 1, 0);
        stats.took(0, 0, 3, Duration::from_micros(6));
        stats.took(1, 0, 1, Duration::from_millis(1));
        stats.failed(1, 0);
        stats.rejected(0, 1);
        let sums = stats.sums();
        assert_eq!(sums.iter().map(|of| of.name).collect::<Vec<_>>(), ["get", "config|get"]);
        assert_eq!((sums[0].calls, sums[0].failed, sums[0].nanos), (4, 1, 1_006_000));
        let times = sums[0].times.as_ref().expect("it was timed");
        assert_eq!((times.count(), times.quantile(0.5)), (4, Some(Duration::from_nanos(2_047))));
        assert_eq!((sums[1].calls, sums[1].rejected, &sums[1].times), (0, 1, &None));
        let read = CommandClass::Read.sample(&sums);
        assert_eq!((read.count, read.seconds), (4, 0.001_006));
        assert_eq!(CommandClass::Forwarded.sample(&sums).count, 0);
        stats.reset();
        assert!(stats.sums_since_reset().is_empty() && stats.total() == 4 && stats.total_since_reset() == 0);
        stats.called(0, 2, 1, 0);
        stats.called(0, 0, 1, 0);
        stats.took(0, 0, 1, Duration::from_micros(5));
        let since: Vec<_> = stats.sums_since_reset().iter().map(|of| (of.name, of.calls, of.nanos)).collect();
        assert_eq!(since, [("get", 1, 5_000), ("hget", 1, 0)]);
        let times = stats.sums_since_reset()[0].times.clone();
        assert_eq!(times.map(|times| times.count()), Some(1));
        assert_eq!((stats.total(), stats.total_since_reset()), (6, 2));
    }
}
