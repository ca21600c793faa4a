//! HOTKEYS: a session that counts what keys take, with the replies of Redis 8.6 (`hotkeys.c` there, and <https://redis.io/commands/hotkeys>).
//!
//! Larder answers, also with a Redis source: that Redis does not see the hits. Without a session,
//! and with a Valkey as the source, GET and RESET are Valkey's: the keys that took the most lately
//! (valkey-io/valkey#3708), and forgetting them.
//!
//! Two numbers have another meaning than at Redis. `by-cpu-time-us` is the CPU time of the process,
//! divided by the keys' shares of the commands. Counts stand for all commands whatever `SAMPLE`
//! says; Redis's do not (redis/redis#15837).
use crate::{
    command_context::CommandContext,
    command_outcome::{CommandError, Done, Flow, SYNTAX, integer},
};
use larder_base::telemetry::{CpuTime, HotKey, SessionOptions};
use larder_proto::resp::Reply;
use std::time::Duration;

/// Metrics that there are: CPU and NET.
const METRICS: i64 = 2;
/// Rows of a list unless COUNT says otherwise, and at most.
const USUAL_ROWS: usize = 10;
const MOST_ROWS: i64 = 64;
/// Longest session, seconds.
const LONGEST: i64 = 1_000_000;
/// Rows of the list in Valkey's form: the keys that its default tracks.
const VALKEY_ROWS: usize = 16;
/// All slots, since Larder is no cluster.
const LAST_SLOT: i64 = 16_383;

/// `HOTKEYS START METRICS count [CPU] [NET] [COUNT k] [DURATION seconds] [SAMPLE ratio]`
pub(crate) fn start(call: &mut CommandContext<'_>) -> Done {
    let hot_keys = &call.worker.app.telemetry.hot_keys;
    let in_progress = CommandError::Static("ERR hotkey tracking session already in progress");
    // Before the arguments are read, like Redis.
    if hot_keys.is_counting(call.now) {
        return Err(in_progress);
    }
    let options = options(call)?;
    if !hot_keys.start(options, CpuTime::now(), call.now) {
        return Err(in_progress);
    }
    call.ok()
}

fn options(call: &CommandContext<'_>) -> Result<SessionOptions, CommandError> {
    let is = |at: usize, name: &str| call.args.get(at).is_some_and(|arg| arg.eq_ignore_ascii_case(name.as_bytes()));
    let within = |at: usize, most: i64, error: &'static str| {
        let number = call.args.get(at).and_then(|arg| integer(arg).ok());
        number.filter(|number| (1..=most).contains(number)).ok_or(CommandError::Static(error))
    };
    if call.args.len() < 4 || !is(2, "metrics") {
        return Err(CommandError::Static("ERR METRICS parameter is required"));
    }
    let count = within(3, METRICS, "ERR METRICS count must be > 0 and <= 2")? as usize;
    let mut options = SessionOptions { by_cpu: false, by_bytes: false, rows: USUAL_ROWS, sample: 1, duration: None };
    let mut at = 4;
    // A metric that Larder does not know is left out, as Redis does for the sake of those to come.
    for _ in 0..count {
        if at >= call.args.len() {
            return Err(CommandError::Static("ERR METRICS count does not match number of metric types provided"));
        }
        if is(at, "cpu") && std::mem::replace(&mut options.by_cpu, true) {
            return Err(CommandError::Static("ERR METRICS CPU defined more than once!"));
        }
        if is(at, "net") && std::mem::replace(&mut options.by_bytes, true) {
            return Err(CommandError::Static("ERR METRICS NET defined more than once!"));
        }
        at += 1;
    }
    if !options.by_cpu && !options.by_bytes {
        return Err(CommandError::Static("ERR METRICS no valid metrics passed. Supported: CPU|NET"));
    }
    while at < call.args.len() {
        let has_value = at + 1 < call.args.len();
        if has_value && is(at, "count") {
            options.rows = within(at + 1, MOST_ROWS, "ERR COUNT must be between 1 and 64")? as usize;
        } else if has_value && is(at, "duration") {
            let seconds = within(at + 1, LONGEST, "ERR DURATION must be between 1 and 1000000")?;
            options.duration = Some(seconds as u64 * 1000);
        } else if has_value && is(at, "sample") {
            options.sample = within(at + 1, i32::MAX.into(), "ERR SAMPLE ratio must be positive")? as u64;
        } else if has_value && is(at, "slots") {
            return Err(CommandError::Static("ERR SLOTS parameter cannot be used in non-cluster mode"));
        } else {
            return Err(SYNTAX);
        }
        at += 2;
    }
    Ok(options)
}

/// `HOTKEYS STOP`
pub(crate) fn stop(call: &mut CommandContext<'_>) -> Done {
    if call.worker.app.telemetry.hot_keys.stop(CpuTime::now(), call.now) {
        call.reply.ok()
    } else {
        call.reply.null()
    }
    Ok(Flow::Done)
}

/// `HOTKEYS RESET`
pub(crate) fn reset(call: &mut CommandContext<'_>) -> Done {
    let hot_keys = &call.worker.app.telemetry.hot_keys;
    if stands_for_valkey(call) && hot_keys.session(CpuTime::now(), call.now).is_none() {
        hot_keys.clear(0, call.now);
    }
    if !hot_keys.reset(call.now) {
        return Err(CommandError::Static("ERR hotkey tracking session in progress, stop tracking first"));
    }
    call.ok()
}

/// `HOTKEYS GET`: an array with one map, so that replies of several nodes can be put together.
pub(crate) fn get(call: &mut CommandContext<'_>) -> Done {
    let Some(session) = call.worker.app.telemetry.hot_keys.session(CpuTime::now(), call.now) else {
        if stands_for_valkey(call) {
            latest(call)
        } else {
            call.reply.null()
        }
        return Ok(Flow::Done);
    };
    let SessionOptions { by_cpu, by_bytes, sample, .. } = session.options;
    call.reply.array(1);
    call.reply.map(7 + 3 * usize::from(by_cpu) + 2 * usize::from(by_bytes));
    let reply = &mut call.reply;
    number(reply, "tracking-active", session.is_active.into());
    number(reply, "sample-ratio", sample);
    reply.named("selected-slots").array(1);
    reply.array(2);
    reply.integer(0);
    reply.integer(LAST_SLOT);
    number(reply, "all-commands-all-slots-us", micros(session.cpu.total));
    number(reply, "net-bytes-all-commands-all-slots", session.bytes);
    number(reply, "collection-start-time-unix-ms", session.started);
    number(reply, "collection-duration-ms", session.lasted);
    if by_cpu {
        number(reply, "total-cpu-time-user-ms", micros(session.cpu.user) / 1000);
        number(reply, "total-cpu-time-sys-ms", micros(session.cpu.system) / 1000);
    }
    if by_bytes {
        number(reply, "total-net-bytes", session.bytes);
    }
    if by_cpu {
        list(reply, "by-cpu-time-us", &session.by_cpu);
    }
    if by_bytes {
        list(reply, "by-net-bytes", &session.by_bytes);
    }
    Ok(Flow::Done)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn number(reply: &mut Reply<'_>, name: &str, value: u64) {
    reply.named(name).integer(value.try_into().unwrap_or(i64::MAX));
}

/// Keys and their numbers in turn.
fn list(reply: &mut Reply<'_>, name: &str, keys: &[HotKey]) {
    reply.named(name).array(2 * keys.len());
    for key in keys {
        reply.bulk(&key.name);
        reply.integer(key.count.try_into().unwrap_or(i64::MAX));
    }
}

fn stands_for_valkey(call: &CommandContext<'_>) -> bool {
    let identity = call.redis().and_then(|server| server.identity());
    identity.is_some_and(|identity| &*identity.server == "valkey")
}

/// Valkey's reply: the keys with the most reads, each with the reads in a second.
fn latest(call: &mut CommandContext<'_>) {
    let report = call.worker.app.telemetry.hot_keys.report(VALKEY_ROWS, call.now);
    let [reads, ..] = &report.keys;
    let keys = || reads.iter().filter(|key| key.group == 0);
    call.reply.array(keys().count());
    for key in keys() {
        call.reply.map(3);
        call.reply.named("key").bulk(&key.name);
        number(&mut call.reply, "db", 0);
        number(&mut call.reply, "qps", (key.count * 1000).div_ceil(report.span.max(1000)));
    }
}
