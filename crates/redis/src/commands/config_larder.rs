//! Larder's settings as CONFIG parameters in front of a Redis: `larder-` and the setting's name.
//! All other names belong to Redis.
use super::config::{
    ConfigChanges, MIN_MEMORY, MODE_RULES, MOST_SLOW, SLOW_LEN, SLOWER_THAN, TRACKED_KEYS, WATCH_FROM, failed,
    mode_rules, parse_modes, possible_memory, possible_points, unknown,
};
use crate::{
    command_context::CommandContext,
    command_outcome::{CommandError, Done, Flow},
};
use larder_config::{LogLevel, SavePoint, all_settings};
use larder_proto::{glob, resp::Args};
use larder_units::{parse_short_duration, parse_size, show_short_duration, show_size};
use std::time::Duration;

const PREFIX: &str = "larder-";
const MAX_MEMORY: &str = "max-memory";
const LOG_LEVEL: &str = "log-level";
const SAVE: &str = "snapshot-interval";

/// Parameters that are no settings: what they are is known to the slow log.
const AT_RUN_TIME: [&str; 2] = [SLOW_LEN, WATCH_FROM];

/// The servers that a CONFIG GET, CONFIG SET or INFO asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    Redis,
    Larder,
    Both,
}

/// Decided by the names in the command. A pattern of CONFIG GET may match parameters of both.
pub(crate) fn whose(args: Args<'_>) -> Whose {
    let sets = args.get(1).is_some_and(|sub| sub.eq_ignore_ascii_case(b"set"));
    let (mut ours, mut theirs) = (false, false);
    for name in args.from(2).step_by(if sets { 2 } else { 1 }) {
        match setting(name) {
            Some(_) => ours = true,
            None => {
                theirs = true;
                ours |= !sets && is_pattern(name) && names().any(|setting| matches(name, setting));
            }
        }
    }
    match (ours, theirs) {
        (true, true) => Whose::Both,
        (true, false) => Whose::Larder,
        (false, _) => Whose::Redis,
    }
}

/// Everything that is called `larder-…`: the settings, and the rules that are several settings.
fn names() -> impl Iterator<Item = &'static str> {
    all_settings().map(|setting| setting.name).chain(AT_RUN_TIME).chain([&MODE_RULES[PREFIX.len()..]])
}

/// The setting's part of a parameter name.
fn setting(name: &[u8]) -> Option<&[u8]> {
    let (prefix, setting) = name.split_at_checked(PREFIX.len())?;
    prefix.eq_ignore_ascii_case(PREFIX.as_bytes()).then_some(setting)
}
fn is_pattern(name: &[u8]) -> bool {
    name.iter().any(|byte| b"*?[\\".contains(byte))
}
fn matches(pattern: &[u8], setting: &str) -> bool {
    glob::matches(pattern, [PREFIX, setting].concat().as_bytes(), true)
}

/// The current value of a setting. `configured` is its value in the configuration.
fn now(call: &CommandContext<'_>, name: &str, configured: &str) -> String {
    let app = &call.worker.app;
    match name {
        MAX_MEMORY => show_size(call.cache().max_memory() as u64),
        LOG_LEVEL => app.telemetry.logs.level().name().to_owned(),
        TRACKED_KEYS => app.tables.tracking.max_keys().to_string(),
        SAVE => {
            let points = app.snapshots.points();
            points.iter().map(SavePoint::to_string).collect::<Vec<_>>().join(",")
        }
        SLOWER_THAN => shown(app.telemetry.slow.logs_from()),
        SLOW_LEN => app.telemetry.slow.max_len().to_string(),
        WATCH_FROM => shown(app.telemetry.slow.watches_from()),
        _ => configured.to_owned(),
    }
}

/// A duration of a setting; `off`: none.
fn duration(text: &str) -> Result<Option<Duration>, String> {
    match text {
        "off" | "none" => Ok(None),
        text => parse_short_duration(text).map(Some),
    }
}
fn shown(duration: Option<Duration>) -> String {
    duration.map_or("off".to_owned(), show_short_duration)
}

/// The settings and the other parameters, with the values of the configuration.
fn configured(call: &CommandContext<'_>) -> impl Iterator<Item = (&'static str, String)> {
    let at_run_time = AT_RUN_TIME.into_iter().map(|name| (name, String::new()));
    call.worker.app.shown_settings().into_iter().chain(at_run_time)
}

/// The parameters that CONFIG GET asks for, with their current values.
pub(crate) fn asked(call: &CommandContext<'_>) -> Vec<(String, String)> {
    let is_asked = |name: &str| call.args.from(2).any(|pattern| matches(pattern, name));
    let shown = configured(call).filter(|(name, _)| is_asked(name));
    let settings = shown.map(|(name, configured)| ([PREFIX, name].concat(), now(call, name, &configured)));
    let rules = is_asked(&MODE_RULES[PREFIX.len()..]).then(|| (MODE_RULES.to_owned(), mode_rules(call)));
    settings.chain(rules).collect()
}

/// Writes names and values.
pub(crate) fn put(call: &mut CommandContext<'_>, found: &[(String, String)]) {
    for (name, value) in found {
        call.reply.bulk(name.as_bytes());
        call.reply.bulk(value.as_bytes());
    }
}

/// CONFIG GET, unless it asks only Redis.
pub(super) fn get(call: &mut CommandContext<'_>) -> Done {
    if whose(call.args) == Whose::Both {
        return call.alone();
    }
    let found = asked(call);
    call.reply.map(found.len());
    put(call, &found);
    Ok(Flow::Done)
}

/// CONFIG SET, unless it sets only Redis's parameters. It changes all settings or none. A setting
/// that needs a restart may be set to its current value.
pub(super) fn set(call: &mut CommandContext<'_>) -> Done {
    if whose(call.args) == Whose::Both {
        return Err(CommandError::Static(
            "ERR CONFIG SET changes parameters of Redis or of Larder (larder-...): use a command for each",
        ));
    }
    let mut changes = ConfigChanges::default();
    let mut seen: Vec<&str> = Vec::new();
    let shown: Vec<_> = configured(call).collect();
    let mut parts = call.args.from(2);
    while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
        let named = |text: &str| setting(name).is_some_and(|name| name.eq_ignore_ascii_case(text.as_bytes()));
        if name.eq_ignore_ascii_case(MODE_RULES.as_bytes()) {
            if changes.modes.replace(parse_modes(name, value)?).is_some() {
                return Err(failed(name, "duplicate parameter"));
            }
            continue;
        }
        let Some((own, configured)) = shown.iter().find(|(own, _)| named(own)) else { return Err(unknown(name)) };
        if seen.contains(own) {
            return Err(failed(name, "duplicate parameter"));
        }
        seen.push(own);
        let text = std::str::from_utf8(value).map_err(|_| failed(name, "argument must be text"))?;
        match *own {
            MAX_MEMORY => {
                let bytes = parse_size(text).map_err(|why| failed(name, &why))?;
                let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes >= MIN_MEMORY);
                let bytes = bytes.ok_or_else(|| failed(name, "argument must be at least 1MiB"))?;
                changes.max_memory = Some(possible_memory(call, name, bytes)?);
            }
            LOG_LEVEL => {
                let names = "argument must be one of: off, error, warn, info, debug, trace";
                changes.level = Some(LogLevel::from_name(text).ok_or_else(|| failed(name, names))?);
            }
            TRACKED_KEYS => {
                let keys = text.parse().map_err(|_| failed(name, "argument couldn't be parsed into an integer"))?;
                changes.tracked_keys = Some(keys);
            }
            SLOW_LEN => {
                let len = text.parse().ok().filter(|len| *len <= MOST_SLOW as usize);
                changes.slow_len = Some(len.ok_or_else(|| failed(name, "argument must be an integer up to 100000"))?);
            }
            SAVE => {
                let points = text.split(',').map(str::trim).filter(|point| !matches!(*point, "" | "none" | "off"));
                let points: Result<_, _> = points.map(SavePoint::parse).collect();
                changes.save = Some(possible_points(call, name, points.map_err(|why| failed(name, &why))?)?);
            }
            SLOWER_THAN => changes.log_from = Some(duration(text).map_err(|why| failed(name, &why))?),
            WATCH_FROM => {
                let from = duration(text).map_err(|why| failed(name, &why))?;
                changes.watch_from = Some(from.filter(|from| !from.is_zero()));
            }
            _ if *configured == text => {}
            _ => return Err(failed(name, "can't set immutable config")),
        }
    }
    changes.make(call)?;
    Ok(Flow::Done)
}
