//! The columns of the history: what a row has of a snapshot.
use crate::telemetry::{
    command_stats::CommandClass,
    fine_histogram::FineDistribution,
    histogram::{BUCKETS, Distribution, bucket_end},
    metrics_snapshot::{GroupSnapshot, Snapshot},
};

/// The durations of Redis commands have a column for each power of two of nanoseconds between these
/// ends, 1 µs to 8.6 s. The last one also counts what is longer.
const COMMAND_ENDS: std::ops::RangeInclusive<u32> = 10..=33;

/// How the values of several samples become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fold {
    /// Counted things: how many there were.
    Sum,
    /// A level of which the peak is of interest.
    Highest,
    /// A level of which the low point is of interest.
    Lowest,
}

impl Fold {
    pub(super) fn name(self) -> &'static str {
        match self {
            Fold::Sum => "sum",
            Fold::Highest => "highest",
            Fold::Lowest => "lowest",
        }
    }

    /// NaN is a value that is missing.
    pub(super) fn of(self, kept: f32, value: f32) -> f32 {
        match self {
            _ if kept.is_nan() => value,
            _ if value.is_nan() => kept,
            Fold::Sum => kept + value,
            Fold::Highest => kept.max(value),
            Fold::Lowest => kept.min(value),
        }
    }
}

type Column<T> = (&'static str, Fold, fn(&T) -> f64);

const PROCESS: &[Column<Snapshot>] = &[
    ("http_requests", Fold::Sum, |s| s.sums.http_requests() as f64),
    ("http_4xx", Fold::Sum, |s| s.sums.http_responses_4xx as f64),
    ("http_5xx", Fold::Sum, |s| s.sums.http_responses_5xx as f64),
    ("redis_commands", Fold::Sum, |s| s.commands.iter().map(|of| of.calls as f64).sum()),
    ("redis_errors", Fold::Sum, |s| s.sums.redis_errors() as f64),
    ("memcached_commands", Fold::Sum, |s| s.sums.memcached_commands() as f64),
    ("memcached_errors", Fold::Sum, |s| s.sums.memcached_errors as f64),
    ("received_bytes", Fold::Sum, |s| {
        (s.sums.http_bytes_in + s.sums.redis_bytes_in + s.sums.memcached_bytes_in) as f64
    }),
    ("sent_bytes", Fold::Sum, |s| (s.sums.http_bytes_out + s.sums.redis_bytes_out + s.sums.memcached_bytes_out) as f64),
    ("throttled", Fold::Sum, |s| (s.sums.http_throttled + s.sums.redis_throttled + s.sums.memcached_throttled) as f64),
    ("overload_refused", Fold::Sum, |s| {
        (s.sums.http_overloaded + s.sums.redis_overloaded + s.sums.memcached_overloaded + s.sums.overloaded_fetches)
            as f64
    }),
    ("connections_refused", Fold::Sum, |s| s.sums.connections_refused as f64),
    ("failed_logins", Fold::Sum, |s| s.sums.failed_logins as f64),
    ("tracking_invalidations", Fold::Sum, |s| s.sums.tracking_invalidations as f64),
    ("cpu_seconds", Fold::Sum, |s| s.process.cpu_user + s.process.cpu_system),
    ("resident_bytes", Fold::Highest, |s| s.process.resident_bytes as f64),
    ("buffer_bytes", Fold::Highest, |s| s.buffers.bytes.iter().map(|(_, bytes)| *bytes as f64).sum()),
    ("http_connections", Fold::Highest, |s| open(s.sums.http_connections_opened, s.sums.http_connections_closed)),
    ("redis_connections", Fold::Highest, |s| open(s.sums.redis_connections_opened, s.sums.redis_connections_closed)),
    ("memcached_connections", Fold::Highest, |s| {
        open(s.sums.memcached_connections_opened, s.sums.memcached_connections_closed)
    }),
    ("peers_reachable", Fold::Lowest, |s| s.peers.named.iter().map(|node| node.reachable as f64).sum()),
];

const GROUP: &[Column<GroupSnapshot>] = &[
    ("hits", Fold::Sum, |g| g.cache.hits as f64),
    ("misses", Fold::Sum, |g| g.cache.misses as f64),
    ("negative_hits", Fold::Sum, |g| g.cache.negative_hits as f64),
    ("stale_hits", Fold::Sum, |g| g.cache.stale_hits as f64),
    ("insertions", Fold::Sum, |g| g.cache.insertions as f64),
    ("evictions", Fold::Sum, |g| g.cache.evictions as f64),
    ("expirations", Fold::Sum, |g| g.cache.expirations as f64),
    ("entries", Fold::Highest, |g| g.cache.entries as f64),
    ("used_bytes", Fold::Highest, |g| g.cache.used_bytes as f64),
    ("max_bytes", Fold::Highest, |g| g.cache.max_bytes as f64),
    ("segment_bytes", Fold::Highest, |g| g.cache.segment_bytes as f64),
    ("large_bytes", Fold::Highest, |g| g.cache.large_bytes as f64),
    ("index_bytes", Fold::Highest, |g| g.cache.index_bytes as f64),
    ("policy_bytes", Fold::Highest, |g| (g.cache.ghost_bytes + g.cache.wheel_bytes + g.cache.tag_bytes) as f64),
    ("source_up", Fold::Lowest, |g| f64::from(u8::from(g.source.up))),
    ("source_fetches", Fold::Sum, |g| g.source.fetches as f64),
    ("source_errors", Fold::Sum, |g| g.source.errors as f64),
    ("source_micros", Fold::Sum, |g| g.source.seconds.micros as f64),
    ("source_in_flight", Fold::Highest, |g| g.source.in_flight as f64),
    ("source_waiting", Fold::Highest, |g| g.source.admission.waiting as f64),
    ("tracking_losses", Fold::Sum, |g| g.source.tracking_losses as f64),
];

fn open(opened: u64, closed: u64) -> f64 {
    opened.saturating_sub(closed) as f64
}

/// What a column is called in JSON.
#[derive(Debug, Clone, Copy)]
pub(super) struct ColumnName<'c> {
    pub(super) name: &'static str,
    pub(super) fold: Fold,
    /// `None`: of the process.
    pub(super) group: Option<&'c str>,
    /// The end of the bucket of a histogram, seconds. The column counts durations that are longer
    /// than the bucket before.
    pub(super) up_to: Option<f64>,
}

/// The columns for the groups that are kept.
#[derive(Debug)]
pub(super) struct Columns {
    groups: Vec<String>,
    folds: Vec<Fold>,
}

impl Columns {
    pub(super) fn new(groups: Vec<String>) -> Columns {
        let mut columns = Columns { groups, folds: Vec::new() };
        columns.folds = columns.names().map(|column| column.fold).collect();
        columns
    }

    pub(super) fn len(&self) -> usize {
        self.folds.len()
    }

    pub(super) fn folds(&self) -> &[Fold] {
        &self.folds
    }

    /// In the order of the rows.
    pub(super) fn names(&self) -> impl Iterator<Item = ColumnName<'_>> {
        let plain = |name, fold, group| ColumnName { name, fold, group, up_to: None };
        let process = PROCESS.iter().map(move |(name, fold, _)| plain(name, *fold, None));
        let groups = self.groups.iter().flat_map(move |group| {
            let columns = GROUP.iter().map(move |(name, fold, _)| plain(name, *fold, Some(group.as_str())));
            columns.chain(buckets("source_seconds", Some(group)))
        });
        let commands = CommandClass::ALL.into_iter().flat_map(|class| {
            COMMAND_ENDS.map(move |power| ColumnName {
                name: command_column(class),
                fold: Fold::Sum,
                group: None,
                up_to: Some((1u64 << power) as f64 / 1e9),
            })
        });
        process.chain(buckets("http_seconds", None)).chain(commands).chain(groups)
    }

    /// What the columns read now. A group that is not in the snapshot reads zero.
    pub(super) fn read(&self, snapshot: &Snapshot) -> Vec<f64> {
        let mut readings = Vec::with_capacity(self.len());
        let put_buckets = |readings: &mut Vec<f64>, of: &Distribution| {
            readings.extend(of.buckets.iter().map(|count| *count as f64));
        };
        readings.extend(PROCESS.iter().map(|(_, _, read)| read(snapshot)));
        put_buckets(&mut readings, &snapshot.http_seconds());
        for class in CommandClass::ALL {
            put_command_times(&mut readings, &class.times(&snapshot.commands));
        }
        let none = GroupSnapshot::default();
        for name in &self.groups {
            let group = snapshot.groups.iter().find(|group| group.name == *name).unwrap_or(&none);
            readings.extend(GROUP.iter().map(|(_, _, read)| read(group)));
            put_buckets(&mut readings, &group.source.seconds);
        }
        readings
    }

    /// The row between two readings.
    pub(super) fn fill(&self, row: &mut [f32], before: &[f64], now: &[f64]) {
        for (((value, fold), before), now) in row.iter_mut().zip(&self.folds).zip(before).zip(now) {
            *value = match fold {
                Fold::Sum => (now - before).max(0.0) as f32,
                Fold::Highest | Fold::Lowest => *now as f32,
            };
        }
    }
}

fn command_column(class: CommandClass) -> &'static str {
    match class {
        CommandClass::Read => "redis_read_seconds",
        CommandClass::Write => "redis_write_seconds",
        CommandClass::Forwarded => "redis_forwarded_seconds",
        CommandClass::Other => "redis_other_seconds",
    }
}

fn put_command_times(readings: &mut Vec<f64>, times: &FineDistribution) {
    let ends = COMMAND_ENDS.count();
    let mut before = 0;
    for (at, (_, up_to)) in times.powers().take(ends).enumerate() {
        let up_to = if at + 1 == ends { times.count() } else { up_to };
        readings.push((up_to - before) as f64);
        before = up_to;
    }
}

fn buckets<'c>(name: &'static str, group: Option<&'c str>) -> impl Iterator<Item = ColumnName<'c>> {
    (0..BUCKETS).map(move |index| ColumnName { name, fold: Fold::Sum, group, up_to: Some(bucket_end(index)) })
}
