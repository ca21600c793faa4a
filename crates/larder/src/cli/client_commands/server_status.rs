//! `larder health|status|top`: a running server, by its `/readyz`, `/healthz` and `/v1/stats`.
use super::{get_set_del, over_http, status_table, terminal_keys::TerminalKeys, tls_args};
use crate::cli::{
    exit_codes::{FAILED, NO, USAGE},
    output::{self, Reader},
};
use clap::{Arg, ArgAction, ArgMatches, Command};
use hyper::StatusCode;
use larder_units::{parse_duration, show_duration};
use serde_json::{Value, json};
use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

/// `health`, `status` and `top`.
pub(crate) fn commands() -> [Command; 3] {
    let help = "The admin or HTTP listener: http://HOST:PORT or https://HOST:PORT";
    let url = get_set_del::http_url(get_set_del::ADMIN_URL, help);
    let command = |name, about| {
        Command::new(name).about(about).args(url.clone()).arg(get_set_del::timeout()).args(tls_args::args())
    };
    let alive = Arg::new("alive")
        .long("alive")
        .action(ArgAction::SetTrue)
        .help("Ask only whether the process runs (/healthz) instead of whether it can answer (/readyz)");
    let interval = Arg::new("interval")
        .long("interval")
        .value_name("DURATION")
        .default_value("1s")
        .value_parser(interval)
        .help("Time between two samples");
    let count = Arg::new("count")
        .long("count")
        .value_name("N")
        .value_parser(clap::value_parser!(u64).range(1..))
        .help("End after this many samples [default: run until q or Ctrl-C]");
    [
        command("health", "Ask whether a server is ready: exit code 0, or 1 if it is not")
            .args([alive, output::json()])
            .after_help("For container checks: HEALTHCHECK CMD [\"larder\", \"health\", \"--timeout\", \"2s\"]"),
        command("status", "Show hits, misses, memory, commands and sources of a running server").arg(output::json()),
        command("top", "Show hits, misses, commands, latencies and other numbers of a running server, per second")
            .args([
                interval,
                count,
                output::json().help(
                    "Print each sample as a JSON document on one line: GET /v1/stats, and `seconds`, \
                                 the time since the sample before",
                ),
            ]),
    ]
}

/// Without a pause, `top` would be a load.
fn interval(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        interval if interval < Duration::from_millis(10) => Err("the least is 10ms".to_owned()),
        interval => Ok(interval),
    }
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
        _ => return get_set_del::fail(FAILED, &over_http::refusal(status, text)),
    };
    let printed = match matches.get_flag("json") {
        true => output::print_json(&json!({ "healthy": healthy, "text": text })),
        false => output::print(&format!("{text}\n")),
    };
    if healthy { printed } else { ExitCode::from(NO) }
}

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
        Ok((ready, stats)) => {
            let width = output::terminal().map_or(usize::MAX, |(columns, _)| columns);
            output::print(&format!("{ready}\n{}", status_table::show(&stats, None, width)))
        }
        Err(error) => get_set_del::fail(FAILED, &error),
    }
}

/// The first sample comes after this time, if `--interval` is longer.
const FIRST_SAMPLE: Duration = Duration::from_secs(1);

pub(crate) fn run_top(matches: &ArgMatches) -> ExitCode {
    let asked = match Asked::of(matches) {
        Ok(asked) => asked,
        Err(error) => return get_set_del::fail(USAGE, &error),
    };
    let interval = *matches.get_one::<Duration>("interval").expect("it has a default");
    let count = matches.get_one::<u64>("count").copied();
    let is_json = matches.get_flag("json");
    let keys = TerminalKeys::new();
    let mut samples = 0;
    let mut last: Option<(Value, Instant)> = None;
    let mut has_answered = false;
    loop {
        // It may change its size.
        let terminal = output::terminal().filter(|_| !is_json);
        let answer = asked.stats();
        let now = Instant::now();
        let text = match (&answer, &last) {
            (Ok(stats), Some((_, then))) if is_json => {
                json!({ "seconds": (now - *then).as_secs_f64(), "stats": stats }).to_string() + "\n"
            }
            (Ok(stats), Some((before, then))) => {
                let width = terminal.map_or(usize::MAX, |(columns, _)| columns);
                status_table::show(stats, Some((before, now - *then)), width)
            }
            (Ok(_), None) => String::new(),
            // A person watches: the server may be starting again.
            (Err(error), _) if has_answered && count.is_none() && terminal.is_some() => {
                format!("{error}\n\nTrying again every {}; q ends this.\n", show_duration(interval))
            }
            (Err(error), _) => return get_set_del::fail(FAILED, error),
        };
        if !text.is_empty() {
            let text = terminal.map_or(text.clone(), |size| status_table::screen(&text, size));
            match output::write_out(text.as_bytes()) {
                Ok(Reader::There) => samples += 1,
                Ok(Reader::Gone) => return ExitCode::SUCCESS,
                Err(error) => return get_set_del::fail(FAILED, &error),
            }
            if count == Some(samples) {
                return ExitCode::SUCCESS;
            }
        }
        let pause = if has_answered { interval } else { interval.min(FIRST_SAMPLE) };
        has_answered = true;
        last = answer.ok().map(|stats| (stats, now));
        if keys.wait(pause) {
            return ExitCode::SUCCESS;
        }
    }
}
