//! `larder health|status|top`: a running server, by its `/readyz`, `/healthz` and `/v1/stats`.
use super::{get_set_del, over_http, status_table, tls_args};
use crate::cli::{
    exit_codes::{FAILED, NO, USAGE},
    output,
};
use clap::{Arg, ArgAction, ArgMatches, Command};
use hyper::StatusCode;
use larder_units::parse_duration;
use serde_json::{Value, json};
use std::{
    io::{self, IsTerminal as _},
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
        command("status", "Show hits, misses, memory, commands and sources of a running server").arg(output::json()),
        command("top", "Show hits, misses, commands and other numbers of a running server, per second").args([
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
        Ok((ready, stats)) => output::print(&format!("{ready}\n{}", status_table::show(&stats, None))),
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
                false => output::print(&format!("{clear}{}", status_table::show(&stats, Some((before, now - *then))))),
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
