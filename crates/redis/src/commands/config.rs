//! CONFIG: Larder's settings under Redis's names, for clients and tools. In front of a Redis these
//! names belong to Redis, and Larder's settings are called `larder-NAME`.
use super::config_larder;
use crate::{
    command_context::CommandContext,
    command_outcome::{CommandError, Done, Flow, SYNTAX},
};
use larder_config::{LogLevel, SavePoint};
use larder_core::read::{EventClasses, KeyEvents};
use larder_engine::Eviction;
use larder_proto::{glob, resp::parse_i64};
use larder_source::{ModeRule, mode_rules_text, parse_mode_rules};
use std::time::Duration;

/// The nearest of Redis's names for the eviction policy: any key may be evicted. S3-FIFO counts how
/// often a key is read; the others ask whether it was read lately.
pub(super) fn eviction_policy(call: &CommandContext<'_>) -> &'static str {
    match call.cache().eviction() {
        Eviction::S3Fifo => "allkeys-lfu",
        Eviction::Sieve | Eviction::Lru => "allkeys-lru",
    }
}

/// Minimum size of the memory tier.
pub(super) const MIN_MEMORY: usize = 1 << 20;
/// The percentiles of INFO latencystats, as Redis shows them by default.
pub(super) const PERCENTILES: [&str; 3] = ["50", "99", "99.9"];

/// A parameter and its current value.
struct Parameter {
    name: &'static str,
    get: fn(&CommandContext<'_>) -> String,
}

const PARAMETERS: &[Parameter] = &[
    Parameter { name: "appendonly", get: |_| "no".into() },
    Parameter { name: "bind", get: addresses },
    Parameter { name: "cluster-enabled", get: |_| "no".into() },
    Parameter { name: "databases", get: |_| "1".into() },
    Parameter {
        name: "dir",
        get: |call| {
            let dir = call.worker.app.settings.data_dir.as_ref();
            dir.map(|dir| dir.display().to_string()).unwrap_or_default()
        },
    },
    Parameter { name: "io-threads", get: |call| call.worker.app.settings.threads.to_string() },
    Parameter { name: MODE_RULES, get: |call| mode_rules(call) },
    Parameter {
        name: WATCH_FROM,
        get: |call| call.worker.app.telemetry.slow.watches_from().map_or(0, |from| from.as_millis()).to_string(),
    },
    Parameter { name: "latency-tracking", get: |_| "yes".into() },
    Parameter { name: "latency-tracking-info-percentiles", get: |_| PERCENTILES.join(" ") },
    Parameter { name: LOG_LEVEL, get: |call| redis_level(call.worker.app.telemetry.logs.level()).into() },
    Parameter { name: "maxclients", get: |call| call.worker.app.clients.limit().to_string() },
    Parameter { name: MAX_MEMORY, get: |call| call.cache().max_memory().to_string() },
    Parameter { name: "maxmemory-policy", get: |call| eviction_policy(call).into() },
    Parameter {
        name: KEY_EVENTS,
        get: |call| events_now(call).map(|events| events.classes().to_string()).unwrap_or_default(),
    },
    Parameter { name: "port", get: |call| call.worker.app.bound.redis_port().to_string() },
    Parameter { name: "proto-max-bulk-len", get: |call| call.worker.app.settings.max_value.to_string() },
    Parameter { name: "replica-read-only", get: |_| "yes".into() },
    Parameter { name: SAVE, get: |call| SavePoint::show_pairs(&call.worker.app.snapshots.points()) },
    Parameter { name: "slave-read-only", get: |_| "yes".into() },
    Parameter {
        name: SLOWER_THAN,
        get: |call| call.worker.app.telemetry.slow.logs_from().map_or("-1".into(), |from| from.as_micros().to_string()),
    },
    Parameter { name: SLOW_LEN, get: |call| call.worker.app.telemetry.slow.max_len().to_string() },
    Parameter {
        name: "timeout",
        get: |call| call.worker.app.live.idle_timeout().map_or(0, |t| t.as_secs()).to_string(),
    },
    Parameter { name: TRACKED_KEYS, get: |call| call.worker.app.tables.tracking.max_keys().to_string() },
];
/// Larder's own parameter, with every source.
pub(super) const MODE_RULES: &str = "larder-mode-rules";
const MAX_MEMORY: &str = "maxmemory";
/// Pairs of seconds and changes.
const SAVE: &str = "save";
const LOG_LEVEL: &str = "loglevel";
/// Letters of classes of keyspace events.
const KEY_EVENTS: &str = "notify-keyspace-events";
/// Microseconds; a negative number: off.
pub(super) const SLOWER_THAN: &str = "slowlog-log-slower-than";
/// The most that [`SLOW_LEN`] may be.
pub(super) const MOST_SLOW: i64 = 100_000;
pub(super) const SLOW_LEN: &str = "slowlog-max-len";
/// Milliseconds; 0: off.
pub(super) const WATCH_FROM: &str = "latency-monitor-threshold";
pub(super) const TRACKED_KEYS: &str = "tracking-table-max-keys";

/// Log levels by Redis's names. `verbose` and `notice` are the same here.
const LEVELS: &[(&str, LogLevel)] = &[
    ("debug", LogLevel::Debug),
    ("notice", LogLevel::Info),
    ("verbose", LogLevel::Info),
    ("warning", LogLevel::Warn),
    ("nothing", LogLevel::Off),
];
fn redis_level(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Off => "nothing",
        LogLevel::Error | LogLevel::Warn => "warning",
        LogLevel::Info => "notice",
        LogLevel::Debug | LogLevel::Trace => "debug",
    }
}

fn addresses(call: &CommandContext<'_>) -> String {
    let ips = call.worker.app.bound.redis.iter().filter(|at| at.path().is_none()).map(|at| at.ip().to_string());
    ips.collect::<Vec<_>>().join(" ")
}

fn find(name: &[u8]) -> Option<&'static Parameter> {
    PARAMETERS.iter().find(|p| p.name.as_bytes().eq_ignore_ascii_case(name))
}

/// CONFIG GET pattern [pattern …]
pub(crate) fn get(call: &mut CommandContext<'_>) -> Done {
    if call.redis().is_some() {
        return config_larder::get(call);
    }
    let patterns = call.args.from(2);
    let asked = |p: &&Parameter| {
        let mut patterns = patterns.clone();
        patterns.any(|pattern| glob::matches(pattern, p.name.as_bytes(), true))
    };
    let found: Vec<(&str, String)> = PARAMETERS.iter().filter(asked).map(|p| (p.name, (p.get)(call))).collect();
    call.reply.map(found.len());
    for (name, value) in found {
        call.reply.bulk(name.as_bytes());
        call.reply.bulk(value.as_bytes());
    }
    Ok(Flow::Done)
}

/// CONFIG SET parameter value [parameter value …]: changes all parameters or none. A parameter that
/// cannot be changed may be set to its current value, as tools do.
pub(crate) fn set(call: &mut CommandContext<'_>) -> Done {
    if !call.args.len().is_multiple_of(2) {
        return Err(SYNTAX);
    }
    check_lengths(call)?;
    if call.redis().is_some() {
        return config_larder::set(call);
    }
    let mut seen: Vec<&str> = Vec::new();
    let mut changes = ConfigChanges::default();
    let mut parts = call.args.from(2);
    while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
        let Some(parameter) = find(name) else {
            return Err(unknown(name));
        };
        let failed = |why: &str| failed(name, why);
        if seen.contains(&parameter.name) {
            return Err(failed("duplicate parameter"));
        }
        seen.push(parameter.name);
        if parameter.name == MAX_MEMORY {
            let bytes = memory(value).ok_or_else(|| failed("argument must be a memory value"))?;
            if bytes < MIN_MEMORY {
                return Err(failed("argument must be at least 1mb"));
            }
            changes.max_memory = Some(possible_memory(call, name, bytes)?);
        } else if parameter.name == SAVE {
            let points = std::str::from_utf8(value).ok().and_then(SavePoint::parse_pairs);
            let points = points.ok_or_else(|| failed("Invalid save parameters"))?;
            changes.save = Some(possible_points(call, name, points)?);
        } else if parameter.name == MODE_RULES {
            changes.modes = Some(parse_modes(name, value)?);
        } else if parameter.name == LOG_LEVEL {
            let named = LEVELS.iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(value));
            let why = "argument(s) must be one of the following: debug, verbose, notice, warning, nothing";
            changes.level = Some(named.ok_or_else(|| failed(why))?.1);
        } else if parameter.name == KEY_EVENTS {
            changes.key_events = Some(possible_events(call, name, value)?);
        } else if [TRACKED_KEYS, SLOWER_THAN, SLOW_LEN, WATCH_FROM].contains(&parameter.name) {
            let number = parse_i64(value).ok_or_else(|| failed("argument couldn't be parsed into an integer"))?;
            let time = |of: fn(u64) -> Duration| u64::try_from(number).ok().map(of);
            let count = || usize::try_from(number).map_err(|_| failed("argument must be 0 or greater"));
            match parameter.name {
                SLOWER_THAN => changes.log_from = Some(time(Duration::from_micros)),
                WATCH_FROM => {
                    changes.watch_from = Some(time(Duration::from_millis).filter(|from| !from.is_zero()));
                }
                SLOW_LEN if number > MOST_SLOW => {
                    return Err(failed("argument must be at most 100000"));
                }
                SLOW_LEN => changes.slow_len = Some(count()?),
                _ => changes.tracked_keys = Some(count()?),
            }
        } else if (parameter.get)(call).as_bytes() != value {
            return Err(failed("can't set immutable config"));
        }
    }
    changes.make(call)?;
    Ok(Flow::Done)
}

/// Longest value of a parameter: rules and save points are kept.
const MAX_VALUE: usize = 64 << 10;

/// Refuses values that are too long to be kept.
fn check_lengths(call: &CommandContext<'_>) -> Result<(), CommandError> {
    match call.args.from(3).step_by(2).zip(call.args.from(2).step_by(2)).find(|(value, _)| value.len() > MAX_VALUE) {
        Some((_, name)) => Err(failed(name, &format!("argument must have at most {MAX_VALUE} bytes"))),
        None => Ok(()),
    }
}

/// The changes of a CONFIG SET, applied when all of them are valid.
#[derive(Default)]
pub(super) struct ConfigChanges {
    pub(super) max_memory: Option<usize>,
    pub(super) level: Option<LogLevel>,
    pub(super) tracked_keys: Option<usize>,
    pub(super) log_from: Option<Option<Duration>>,
    pub(super) slow_len: Option<usize>,
    pub(super) watch_from: Option<Option<Duration>>,
    pub(super) modes: Option<Vec<ModeRule>>,
    pub(super) save: Option<Vec<SavePoint>>,
    key_events: Option<EventClasses>,
}
impl ConfigChanges {
    pub(super) fn make(self, call: &mut CommandContext<'_>) -> Result<(), CommandError> {
        // First what may be refused.
        if let Some(rules) = self.modes {
            let changed = call.worker.app.groups.default().change_modes(Some(rules));
            changed.map_err(|why| failed(MODE_RULES.as_bytes(), &why))?;
        }
        if let Some(points) = self.save {
            call.worker.app.snapshots.set_points(points);
        }
        if let Some(bytes) = self.max_memory {
            call.worker.app.set_max_memory(call.worker.app.groups.default(), bytes);
        }
        if let Some(keys) = self.tracked_keys {
            call.worker.app.tables.tracking.set_max_keys(keys);
        }
        if let Some(classes) = self.key_events {
            let group = call.group();
            group.events.iter().for_each(|events| events.set_classes(classes, &group.cache));
        }
        let slow = &call.worker.app.telemetry.slow;
        self.log_from.into_iter().for_each(|from| slow.log_from(from));
        self.slow_len.into_iter().for_each(|len| slow.set_max_len(len));
        self.watch_from.into_iter().for_each(|from| slow.watch_from(from));
        if let Some(level) = self.level {
            call.worker.app.telemetry.logs.set_level(level);
        }
        call.reply.ok();
        Ok(())
    }
}

/// A bound on memory that can be without a restart. `name`: the parameter.
pub(super) fn possible_memory(call: &CommandContext<'_>, name: &[u8], bytes: usize) -> Result<usize, CommandError> {
    // The Redis protocol serves only the first group.
    call.worker.app.groups.default().bound_problem(bytes).map_or(Ok(bytes), |why| Err(failed(name, &why)))
}

/// The keyspace events of the group, if its source has them.
fn events_now<'c>(call: &'c CommandContext<'_>) -> Option<&'c KeyEvents> {
    call.group().events.as_deref().filter(|events| events.can_be_on())
}

/// Classes of keyspace events that can be published: of entries that other programs change, Larder
/// does not know the events.
fn possible_events(call: &CommandContext<'_>, name: &[u8], letters: &[u8]) -> Result<EventClasses, CommandError> {
    let classes = EventClasses::parse(letters).map_err(|why| failed(name, &why.to_string()))?;
    match events_now(call).is_some() || classes == EventClasses::default() {
        true => Ok(classes),
        false => Err(failed(name, "Larder publishes events without a source and with a disk store, not with this one")),
    }
}

/// When snapshots are due, if there is a file for them.
pub(super) fn possible_points(
    call: &CommandContext<'_>,
    name: &[u8],
    points: Vec<SavePoint>,
) -> Result<Vec<SavePoint>, CommandError> {
    if points.is_empty() || call.worker.app.snapshots.has_file() {
        Ok(points)
    } else {
        Err(failed(name, "no snapshot-file is set"))
    }
}

/// The mode rules of the group, as text.
pub(super) fn mode_rules(call: &CommandContext<'_>) -> String {
    mode_rules_text(&call.group().policy.modes.table())
}
/// Reads the value of [`MODE_RULES`].
pub(super) fn parse_modes(name: &[u8], value: &[u8]) -> Result<Vec<ModeRule>, CommandError> {
    let text = std::str::from_utf8(value).map_err(|_| failed(name, "argument must be text"))?;
    parse_mode_rules(text).map_err(|why| failed(name, &why))
}

pub(super) fn unknown(name: &[u8]) -> CommandError {
    CommandError::quoting("ERR Unknown option or number of arguments for CONFIG SET - '", name, usize::MAX, "'")
}
pub(super) fn failed(name: &[u8], why: &str) -> CommandError {
    CommandError::quoting(
        "ERR CONFIG SET failed (possibly related to argument '",
        name,
        usize::MAX,
        &format!("') - {why}"),
    )
}

/// Parses a number of bytes like Redis: `1k` is 1000, `1kb` is 1024.
fn memory(text: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(text).ok()?.to_ascii_lowercase();
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match &text[digits.len()..] {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    digits.parse::<usize>().ok()?.checked_mul(unit)
}

pub(crate) fn resetstat(call: &mut CommandContext<'_>) -> Done {
    if call.redis().is_some() {
        return call.alone();
    }
    reset(call);
    call.ok()
}
/// Resets the counters of this process.
pub(crate) fn reset(call: &CommandContext<'_>) {
    call.worker.app.groups.iter().for_each(|group| group.cache.reset_stats());
    call.worker.app.telemetry.reset();
    call.worker.app.commands.reset();
}

pub(crate) fn rewrite(_call: &mut CommandContext<'_>) -> Done {
    Err(CommandError::Static("ERR The server is running without a config file"))
}
