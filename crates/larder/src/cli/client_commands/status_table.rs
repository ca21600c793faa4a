//! The text of `larder status` and `larder top`, from `/v1/stats`.
use crate::cli::output;
use larder_units::show_rounded_size;
use serde_json::Value;
use std::{fmt::Write as _, time::Duration};

/// Commands that are listed.
const COMMANDS: usize = 10;

/// The process, its groups, and the Redis commands with the most calls: totals, or per second since
/// `before`. Lines have at most `width` columns where that is possible.
pub(super) fn show(stats: &Value, before: Option<(&Value, Duration)>, width: usize) -> String {
    let mut out = process(stats, before, width);
    out.push('\n');
    groups(stats, before, width, &mut out);
    commands(stats, before, &mut out);
    out
}

/// The parts of a sentence, on as few lines as the width allows.
fn joined(parts: &[(&str, String)], width: usize) -> String {
    let mut line = 0;
    let mut out = String::new();
    for (between, part) in parts {
        let columns = part.chars().count();
        if line > 0 && line + between.len() + columns > width {
            out.push('\n');
            line = 0;
        } else if line > 0 {
            out.push_str(between);
            line += between.len();
        }
        out.push_str(part);
        line += columns;
    }
    out + "\n"
}

/// The text as the whole content of a terminal with these columns and rows. Lines are overwritten
/// one by one, because a cleared terminal flickers; what does not fit is left out.
pub(super) fn screen(text: &str, (columns, rows): (usize, usize)) -> String {
    const HOME: &str = "\u{1b}[H";
    const CLEAR_LINE: &str = "\u{1b}[K";
    const CLEAR_BELOW: &str = "\u{1b}[J";
    let mut out = HOME.to_owned();
    // The last row stays free for the cursor.
    for line in text.lines().take(rows.saturating_sub(1)) {
        out.extend(line.chars().take(columns));
        // At the right edge it would erase the last character.
        if line.chars().count() < columns {
            out.push_str(CLEAR_LINE);
        }
        out.push('\n');
    }
    out + CLEAR_BELOW
}

/// A number, or the sum of the numbers of an object.
fn sum(document: &Value) -> u64 {
    let members = document.as_object().into_iter().flat_map(|members| members.values());
    document.as_u64().unwrap_or_else(|| members.filter_map(Value::as_u64).sum())
}

fn process(stats: &Value, before: Option<(&Value, Duration)>, width: usize) -> String {
    let version = stats["build_info"]["version"].as_str().unwrap_or("?");
    let uptime = stats["uptime_seconds"].as_f64().unwrap_or_default() as u64;
    let uptime = match (uptime / 86_400, uptime / 3600 % 24, uptime / 60 % 60, uptime % 60) {
        (0, 0, 0, seconds) => format!("{seconds}s"),
        (0, 0, minutes, seconds) => format!("{minutes}m {seconds}s"),
        (0, hours, minutes, _) => format!("{hours}h {minutes}m"),
        (days, hours, ..) => format!("{days}d {hours}h"),
    };
    let resident = show_rounded_size(stats["process_resident_memory_bytes"].as_u64().unwrap_or(0));
    let cpu = |document: &Value| document["process_cpu_seconds"].as_f64().unwrap_or_default();
    let cpu = match before {
        None => format!("{:.1} s of CPU", cpu(stats)),
        Some((before, time)) => {
            let share = (cpu(stats) - cpu(before)).max(0.0) / time.as_secs_f64().max(1e-3);
            format!("{:.0} % of a core", 100.0 * share)
        }
    };
    let connections = |kind: &str| stats["connections"][kind].as_u64().unwrap_or(0);
    let made = |name: &str| {
        let now = sum(&stats[name]);
        match before {
            None => now,
            Some((before, time)) => {
                let made = now.saturating_sub(sum(&before[name]));
                (made as f64 / time.as_secs_f64().max(1e-3)).round() as u64
            }
        }
    };
    let per = if before.is_some() { "/s" } else { "" };
    let about = [
        ("", format!("larder {version}")),
        (", ", format!("up {uptime}")),
        (", ", format!("{resident} resident")),
        (", ", cpu),
    ];
    let size = |name: &str| show_rounded_size(made(name));
    let [http, redis, memcached] = ["http", "redis", "memcached"].map(connections);
    let (commands, errors) = (made("memcached_commands"), made("memcached_errors"));
    let load = [
        ("", format!("{http} HTTP, {redis} Redis and {memcached} memcached connections")),
        ("; ", format!("{} HTTP responses{per}", made("http_responses"))),
        (", ", format!("{} Redis commands{per}", made("redis_commands"))),
        (", ", format!("{commands} memcached commands{per} ({errors} errors{per})")),
        ("; ", format!("{}{per} in, {}{per} out", size("received_bytes"), size("sent_bytes"))),
    ];
    let since = before.map(|(before, _)| before);
    let latencies = [
        ("", latency("HTTP", "http_request_duration_seconds", stats, since)),
        (", ", latency("Redis", "redis_command_duration_seconds", stats, since)),
    ];
    joined(&about, width) + &joined(&load, width) + &joined(&latencies, width)
}

/// Routes whose requests are no load of the application.
const NOT_COUNTED: [&str; 4] = ["admin", "health", "metrics", "other"];

/// The durations that half and 99 % of the requests of all kinds did not exceed, since `before`:
/// the ends of their buckets.
fn latency(what: &str, name: &str, stats: &Value, before: Option<&Value>) -> String {
    let kinds = stats[name].as_object().into_iter().flatten();
    let mut buckets: Vec<(f64, u64)> = Vec::new();
    for (kind, histogram) in kinds.filter(|(kind, _)| !NOT_COUNTED.contains(&kind.as_str())) {
        for (end, count) in histogram["buckets"].as_object().into_iter().flatten() {
            let earlier = before.and_then(|before| before[name][kind]["buckets"][end].as_u64()).unwrap_or(0);
            let count = count.as_u64().unwrap_or(0).saturating_sub(earlier);
            let Ok(end) = end.parse::<f64>() else { continue };
            match buckets.iter_mut().find(|(known, _)| *known == end) {
                Some((_, sum)) => *sum += count,
                None => buckets.push((end, count)),
            }
        }
    }
    // Each bucket counts those below it as well.
    buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
    let all = buckets.last().map_or(0, |(_, count)| *count);
    let below = |share: f64| {
        let bucket = buckets.iter().find(|(_, count)| all > 0 && *count as f64 >= share * all as f64);
        bucket.map_or_else(|| "-".to_owned(), |(end, _)| show_seconds(*end))
    };
    format!("{what} p50 {} and p99 {}", below(0.5), below(0.99))
}

/// `16 µs`, `8.19 ms`, `1.05 s`
fn show_seconds(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.0} µs", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

/// The Redis commands with the most calls.
fn commands(stats: &Value, before: Option<(&Value, Duration)>, out: &mut String) {
    let calls = |document: &Value, name: &str| document["redis_commands"][name].as_u64().unwrap_or(0);
    let failed = |document: &Value, name: &str| sum(&document["redis_command_errors"][name]);
    let since = |of: &dyn Fn(&Value, &str) -> u64, name: &str| {
        of(stats, name).saturating_sub(before.map_or(0, |(before, _)| of(before, name)))
    };
    let names = stats["redis_commands"].as_object().into_iter().flat_map(|commands| commands.keys());
    let mut busiest: Vec<(u64, &String)> = names.map(|name| (since(&calls, name), name)).collect();
    busiest.retain(|(calls, _)| *calls > 0);
    if busiest.is_empty() {
        return;
    }
    busiest.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
    busiest.truncate(COMMANDS);
    let shown = |count: u64| match before {
        None => count.to_string(),
        Some((_, time)) => format!("{:.0}", count as f64 / time.as_secs_f64().max(1e-3)),
    };
    let per = if before.is_some() { "/s" } else { "" };
    let header = ["command".to_owned(), format!("calls{per}"), format!("errors{per}")];
    let row = |(calls, name): (u64, &String)| [name.clone(), shown(calls), shown(since(&failed, name))];
    let rows: Vec<[String; 3]> = busiest.into_iter().map(row).collect();
    let _ = writeln!(out);
    output::columns(&header, &rows, &[0], out);
}

/// The numbers of a group: totals, or per second since `before`.
fn groups(stats: &Value, before: Option<(&Value, Duration)>, width: usize, out: &mut String) {
    let count = |document: &Value, group: &str, name: &str| document["groups"][group][name].as_u64().unwrap_or(0);
    let shown = |group: &str, name: &str| {
        let now = count(stats, group, name);
        match before {
            None => now.to_string(),
            Some((before, time)) => {
                let made = now.saturating_sub(count(before, group, name));
                format!("{:.0}", made as f64 / time.as_secs_f64().max(1e-3))
            }
        }
    };
    let ratio = |group: &str| {
        let made = |name| {
            count(stats, group, name)
                - before.map_or(0, |(before, _)| count(before, group, name).min(count(stats, group, name)))
        };
        let (hits, misses) = (made("cache_hits"), made("cache_misses"));
        match hits + misses {
            0 => "-".to_owned(),
            all => format!("{:.1} %", 100.0 * hits as f64 / all as f64),
        }
    };
    let per = if before.is_some() { "/s" } else { "" };
    let header = [
        "group".to_owned(),
        format!("hits{per}"),
        format!("misses{per}"),
        "hit ratio".to_owned(),
        format!("evictions{per}"),
        format!("fetches{per}"),
        format!("errors{per}"),
        "entries".to_owned(),
        "memory".to_owned(),
        "source".to_owned(),
    ];
    let groups = stats["groups"].as_object();
    let rows: Vec<[String; 10]> = groups
        .into_iter()
        .flat_map(|groups| groups.keys())
        .map(|group| {
            let size = |name| show_rounded_size(count(stats, group, name));
            let up = match stats["groups"][group]["source_up"].as_f64() {
                Some(up) if up > 0.0 => "up",
                Some(_) => "down",
                None => "-",
            };
            [
                group.clone(),
                shown(group, "cache_hits"),
                shown(group, "cache_misses"),
                ratio(group),
                shown(group, "cache_evictions"),
                shown(group, "source_fetches"),
                shown(group, "source_errors"),
                count(stats, group, "cache_entries").to_string(),
                format!("{} of {}", size("cache_used_bytes"), size("cache_max_bytes")),
                up.to_owned(),
            ]
        })
        .collect();
    output::folded_columns(&header, &rows, &[0, 9], width, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn stats(hits: u64, misses: u64) -> Value {
        json!({
            "build_info": { "version": "1.2.3" },
            "connections": { "http": 2, "redis": 7, "memcached": 3 },
            "uptime_seconds": 93_784.5,
            "process_resident_memory_bytes": 25_165_824,
            "process_cpu_seconds": hits as f64 / 100.0,
            "http_responses": { "2xx": hits, "4xx": misses },
            "received_bytes": { "http": 100, "redis": 1948 },
            "http_request_duration_seconds": {
                "/v1/kv": { "buckets": { "0.000016": hits, "0.001024": hits + misses, "16.777216": hits + misses } },
                "metrics": { "buckets": { "16.777216": 1000 } },
            },
            "redis_commands": { "get": hits, "set": misses, "ping": 0 },
            "memcached_commands": { "get": misses, "flush": 0 },
            "memcached_errors": 2,
            "redis_command_errors": { "set": { "failed": 1, "rejected": 2 } },
            "groups": { "default": {
                "cache_hits": hits, "cache_misses": misses, "cache_evictions": 0, "source_fetches": misses, "source_errors": 1,
                "cache_entries": 5, "cache_used_bytes": 1_048_576, "cache_max_bytes": 67_108_864, "source_up": 1,
            } },
        })
    }

    #[test]
    fn totals_and_rates() {
        let text = show(&stats(30, 10), None, usize::MAX);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "larder 1.2.3, up 1d 2h, 24MiB resident, 0.3 s of CPU");
        assert_eq!(
            lines[1],
            "2 HTTP, 7 Redis and 3 memcached connections; 40 HTTP responses, 40 Redis commands, \
            10 memcached commands (2 errors); 2KiB in, 0B out"
        );
        assert_eq!(
            lines[5].split_whitespace().collect::<Vec<_>>(),
            ["default", "30", "10", "75.0", "%", "0", "10", "1", "5", "1MiB", "of", "64MiB", "up"]
        );
        assert_eq!(lines[2], "HTTP p50 16 µs and p99 1.02 ms, Redis p50 - and p99 -");
        assert_eq!(lines[7..], ["command  calls  errors", "get         30       0", "set         10       3"]);
        // Half of what is new was a hit; the totals do not count.
        let (before, now) = (stats(30, 10), stats(50, 30));
        let text = show(&now, Some((&before, Duration::from_secs(2))), usize::MAX);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].ends_with("24MiB resident, 10 % of a core"), "{text}");
        let load = "; 20 HTTP responses/s, 20 Redis commands/s, 10 memcached commands/s (0 errors/s); 0B/s in";
        assert!(lines[1].contains(load), "{text}");
        assert_eq!(lines[2], "HTTP p50 16 µs and p99 1.02 ms, Redis p50 - and p99 -");
        assert_eq!(lines[5].split_whitespace().take(5).collect::<Vec<_>>(), ["default", "10", "10", "50.0", "%"]);
        assert_eq!(
            lines[7..],
            ["command  calls/s  errors/s", "get           10         0", "set           10         0"]
        );
        assert!(text.contains("hits/s"), "{text}");
        // A server that was started again counts from 0.
        assert!(show(&stats(1, 1), Some((&now, Duration::from_secs(1))), usize::MAX).contains("default"));
        assert!(show(&Value::Null, None, 1).starts_with("larder ?"));
    }

    #[test]
    fn lines_fit_the_terminal() {
        let (before, now) = (stats(30, 10), stats(1_000_000, 30));
        let text = show(&now, Some((&before, Duration::from_secs(2))), 79);
        assert!(text.lines().all(|line| line.chars().count() <= 79), "{text}");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "2 HTTP, 7 Redis and 3 memcached connections; 499995 HTTP responses/s");
        assert_eq!(lines[2], "499995 Redis commands/s, 10 memcached commands/s (0 errors/s)");
        assert_eq!(lines[3], "0B/s in, 0B/s out");
        assert_eq!(text.matches("\ndefault  ").count(), 2, "{text}");
        assert!(text.contains("source") && text.contains("1MiB of 64MiB"), "{text}");
    }

    #[test]
    fn a_screen_is_overwritten_line_by_line() {
        let text = screen("ab\nabcdef\nc\n", (4, 3));
        assert_eq!(text, "\u{1b}[Hab\u{1b}[K\nabcd\n\u{1b}[J");
    }
}
