//! `larder health|status|top`: a running server, by its `/readyz`, `/healthz` and `/v1/stats`.
use super::{get_set_del, over_http, tls_args};
use crate::cli::{
    exit_codes::{FAILED, NO, USAGE},
    output,
};
use clap::{Arg, ArgAction, ArgMatches, Command};
use hyper::StatusCode;
use larder_units::{parse_duration, show_rounded_size};
use serde_json::{Value, json};
use std::{
    io::{self, IsTerminal as _},
    process::ExitCode,
    time::{Duration, Instant},
};

/// `health`, `status` and `top`.
pub(crate) fn commands() -> [Command; 3] {
    let url = get_set_del::url(get_set_del::ADMIN_URL)
        .value_parser(over_http::HttpUrl::parse)
        .help("The admin or HTTP listener: http://HOST:PORT or https://HOST:PORT");
    let command = |name, about| {
        Command::new(name).about(about).args([url.clone(), get_set_del::timeout()]).args(tls_args::args())
    };
    let alive = Arg::new("alive")
        .long("alive")
        .action(ArgAction::SetTrue)
        .help("Ask only whether the process runs (/healthz) instead of whether it can answer (/readyz)");
    let interval = Arg::new("interval")
        .long("interval")
        .value_name("DURATION")
        .default_value("1s")
        .value_parser(parse_duration)
        .help("Time between two samples");
    let count = Arg::new("count")
        .long("count")
        .value_name("N")
        .value_parser(clap::value_parser!(u64).range(1..))
        .help("End after this many samples [default: run until Ctrl-C]");
    [
        command("health", "Ask whether a server is ready: exit code 0, or 1 if it is not")
            .args([alive, output::json()])
            .after_help("For container checks: HEALTHCHECK CMD [\"larder\", \"health\", \"--timeout\", \"2s\"]"),
        command("status", "Show hits, misses, memory and sources of a running server").arg(output::json()),
        command("top", "Show hits, misses and other numbers of a running server, per second").args([
            interval,
            count,
            output::json().help(
                "Print each sample as a JSON document on one line: GET /v1/stats, and `seconds`, \
                                 the time since the sample before",
            ),
        ]),
    ]
}

pub(super) struct Asked {
    url: over_http::HttpUrl,
    timeout: Duration,
}

impl Asked {
    pub(super) fn of(matches: &ArgMatches) -> Result<Asked, String> {
        let named = matches.try_get_one::<over_http::HttpUrl>("address").ok().flatten();
        let mut url = named.or_else(|| matches.get_one("url")).expect("it has a default").clone();
        tls_args::apply(matches, url.tls.as_mut())?;
        Ok(Asked { url, timeout: *matches.get_one::<Duration>("timeout").expect("it has a default") })
    }

    fn text(&self, path: &str) -> Result<(StatusCode, String), String> {
        get_set_del::block_on(over_http::text(&self.url, path, self.timeout))
    }

    pub(super) fn document(&self, path: &str) -> Result<Value, String> {
        get_set_del::block_on(over_http::document(&self.url, path, self.timeout))
    }

    fn stats(&self) -> Result<Value, String> {
        self.document("/v1/stats")
    }
}

/// `larder health`
pub(crate) fn run_health(matches: &ArgMatches) -> ExitCode {
    let asked = match Asked::of(matches) {
        Ok(asked) => asked,
        Err(error) => return get_set_del::fail(USAGE, &error),
    };
    let path = if matches.get_flag("alive") { "/healthz" } else { "/readyz" };
    let (status, text) = match asked.text(path) {
        Ok(answer) => answer,
        Err(error) => return get_set_del::fail(FAILED, &error),
    };
    let text = text.trim_end();
    let healthy = match status {
        StatusCode::OK => true,
        StatusCode::SERVICE_UNAVAILABLE => false,
        _ => return get_set_del::fail(FAILED, &format!("{status}: {text}")),
    };
    let printed = match matches.get_flag("json") {
        true => output::print_json(&json!({ "healthy": healthy, "text": text })),
        false => output::print(&format!("{text}\n")),
    };
    if healthy { printed } else { ExitCode::from(NO) }
}

/// `larder status`
pub(crate) fn run_status(matches: &ArgMatches) -> ExitCode {
    let asked = match Asked::of(matches) {
        Ok(asked) => asked,
        Err(error) => return get_set_del::fail(USAGE, &error),
    };
    let answers = asked.text("/readyz").and_then(|(_, ready)| Ok((ready.trim_end().to_owned(), asked.stats()?)));
    match answers {
        Ok((ready, stats)) if matches.get_flag("json") => {
            output::print_json(&json!({ "ready": ready, "stats": stats }))
        }
        Ok((ready, stats)) => output::print(&format!("{ready}\n{}", table(&stats, None))),
        Err(error) => get_set_del::fail(FAILED, &error),
    }
}

/// `larder top`
pub(crate) fn run_top(matches: &ArgMatches) -> ExitCode {
    let asked = match Asked::of(matches) {
        Ok(asked) => asked,
        Err(error) => return get_set_del::fail(USAGE, &error),
    };
    let interval = *matches.get_one::<Duration>("interval").expect("it has a default");
    let mut looks = matches.get_one::<u64>("count").copied().unwrap_or(u64::MAX);
    // Home and clear, so that the table stays in its place.
    let clear = if io::stdout().is_terminal() { "\u{1b}[H\u{1b}[2J" } else { "" };
    let mut last: Option<(Value, Instant)> = None;
    loop {
        let stats = match asked.stats() {
            Ok(stats) => stats,
            Err(error) => return get_set_del::fail(FAILED, &error),
        };
        let now = Instant::now();
        if let Some((before, then)) = &last {
            let code = match matches.get_flag("json") {
                true => output::print_json(&json!({ "seconds": (now - *then).as_secs_f64(), "stats": stats })),
                false => output::print(&format!("{clear}{}", table(&stats, Some((before, now - *then))))),
            };
            looks -= 1;
            if code != ExitCode::SUCCESS || looks == 0 {
                return code;
            }
        }
        last = Some((stats, now));
        std::thread::sleep(interval);
    }
}

/// The numbers of a group: totals, or per second since `before`.
fn table(stats: &Value, before: Option<(&Value, Duration)>) -> String {
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
    let version = stats["build_info"]["version"].as_str().unwrap_or("?");
    let connections = |kind: &str| stats["connections"][kind].as_u64().unwrap_or(0);
    let mut out =
        format!("larder {version}, {} HTTP and {} Redis connections\n\n", connections("http"), connections("redis"));
    output::columns(&header, &rows, &[0, 9], &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(hits: u64, misses: u64) -> Value {
        json!({
            "build_info": { "version": "1.2.3" },
            "connections": { "http": 2, "redis": 7 },
            "groups": { "default": {
                "cache_hits": hits, "cache_misses": misses, "cache_evictions": 0, "source_fetches": misses, "source_errors": 1,
                "cache_entries": 5, "cache_used_bytes": 1_048_576, "cache_max_bytes": 67_108_864, "source_up": 1,
            } },
        })
    }

    #[test]
    fn totals_and_rates() {
        let text = table(&stats(30, 10), None);
        assert!(text.starts_with("larder 1.2.3, 2 HTTP and 7 Redis connections\n\ngroup "), "{text}");
        let row = text.lines().last().unwrap();
        assert_eq!(
            row.split_whitespace().collect::<Vec<_>>(),
            ["default", "30", "10", "75.0", "%", "0", "10", "1", "5", "1MiB", "of", "64MiB", "up"]
        );
        // Half of what is new was a hit; the totals do not count.
        let (before, now) = (stats(30, 10), stats(50, 30));
        let text = table(&now, Some((&before, Duration::from_secs(2))));
        let row = text.lines().last().unwrap();
        assert_eq!(row.split_whitespace().take(5).collect::<Vec<_>>(), ["default", "10", "10", "50.0", "%"]);
        assert!(text.contains("hits/s"), "{text}");
        // A server that was started again counts from 0.
        assert!(table(&stats(1, 1), Some((&now, Duration::from_secs(1)))).contains("default"));
        assert!(table(&Value::Null, None).starts_with("larder ?"));
    }
}
