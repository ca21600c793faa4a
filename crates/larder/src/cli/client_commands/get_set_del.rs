//! The three commands: their arguments, and one run of each.
use super::{
    client_request::{ClientRequest, MAX_VALUE, RequestOutcome, ValueSink},
    over_http, over_redis, tls_args,
};
use crate::cli::{
    exit_codes::{FAILED, NO, USAGE},
    output::{complain, json, json_text, print_json},
};
use clap::{Arg, ArgMatches, Command};
use larder_config::{SourceUrl, TlsClientSettings};
use larder_units::parse_duration;
use std::{
    ffi::OsString,
    io::{self, Read as _},
    os::unix::ffi::OsStringExt as _,
    process::ExitCode,
    time::Duration,
};
use tokio::runtime::{Builder, LocalOptions};

pub(super) const DEFAULT_URL: &str = "http://127.0.0.1:8080";
pub(super) const ADMIN_URL: &str = "http://127.0.0.1:8081";
/// The default of `--url`, if it is not empty.
pub(crate) const URL_VARIABLE: &str = "LARDER_URL";

const ADDRESSES: &str =
    "write HOST:PORT, http://HOST:PORT, https://HOST:PORT, redis://HOST:PORT, rediss://HOST:PORT or unix:///PATH";

/// Where to send it.
#[derive(Debug, Clone)]
enum Target {
    Http(over_http::HttpUrl),
    Redis(SourceUrl),
}

impl Target {
    /// What it trusts and shows; `None`: it is reached without TLS.
    fn tls(&mut self) -> Option<&mut TlsClientSettings> {
        match self {
            Target::Http(url) => url.tls.as_mut(),
            Target::Redis(SourceUrl::Redis(url)) => url.tls.as_mut(),
            Target::Redis(_) => None,
        }
    }
}

pub(crate) fn commands() -> [Command; 3] {
    let url = url(DEFAULT_URL).value_parser(target_of).help(
        "HOST:PORT or http://HOST:PORT, https://… (TLS), redis://[USER[:PASSWORD]@]HOST:PORT, rediss://… (TLS) or \
         unix:///PATH",
    );
    // `get HOST:PORT KEY`: of two words the first is the address, so clap sees one list.
    let words = |most, help| {
        Arg::new("key")
            .value_name("KEY")
            .required(true)
            .num_args(1..=most)
            .allow_negative_numbers(true)
            .value_parser(clap::value_parser!(OsString))
            .help(help)
    };
    let key = words(2, "The key, optionally after an address as in --url");
    let key_and_value = words(
        3,
        "The key and the value, optionally after an address as in --url; without the value, or with -, the command \
         reads it from standard input",
    );
    let timeout = timeout();
    let ttl = Arg::new("ttl")
        .long("ttl")
        .value_name("DURATION")
        .value_parser(ttl)
        .help("Lifetime of the entry: 250ms, 10s, 5m, 1h, 1d [default: the server's]");
    let command = |name, about, words: &Arg, usage: &'static str| {
        let args = [words.clone(), url.clone(), timeout.clone(), json()];
        Command::new(name).about(about).args(args).args(tls_args::args()).override_usage(usage)
    };
    [
        command(
            "get",
            "Write the value of a key to standard output, unchanged",
            &key,
            "larder get [OPTIONS] [ADDRESS] <KEY>",
        ),
        command("set", "Store a value", &key_and_value, "larder set [OPTIONS] [ADDRESS] <KEY> [VALUE]").arg(ttl),
        command("del", "Delete a key", &key, "larder del [OPTIONS] [ADDRESS] <KEY>"),
    ]
}

/// `--url`, or the variable `LARDER_URL`.
pub(super) fn url(default: &'static str) -> Arg {
    let url = Arg::new("url").long("url").value_name("URL").default_value(default);
    // Compose files pass variables on that are empty.
    match std::env::var_os(URL_VARIABLE) {
        Some(value) if value.is_empty() => url,
        // The URL may have a password.
        _ => url.env(URL_VARIABLE).hide_env_values(true),
    }
}

/// `--url` of commands that ask over HTTP, and the same without the flag.
pub(super) fn http_url(default: &'static str, help: &'static str) -> [Arg; 2] {
    let parser = over_http::HttpUrl::parse;
    let address = Arg::new("address").value_name("ADDRESS").value_parser(parser).help("The same as --url");
    [url(default).value_parser(parser).help(help), address.conflicts_with("url")]
}

pub(super) fn timeout() -> Arg {
    Arg::new("timeout")
        .long("timeout")
        .value_name("DURATION")
        .default_value("10s")
        .value_parser(parse_duration)
        .help("Maximum time to wait for the server")
}

/// Waits for an answer.
pub(super) fn block_on<T>(answer: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    runtime.map_err(|error| error.to_string())?.block_on(answer)
}

pub(crate) fn run(name: &str, matches: &ArgMatches) -> ExitCode {
    let mut words: Vec<&OsString> = matches.get_many("key").into_iter().flatten().collect();
    let value = if name == "set" && words.len() > 1 { words.pop() } else { None };
    let bytes = |word: &OsString| word.clone().into_vec();
    let key = words.pop().map(bytes).unwrap_or_default();
    let request = match name {
        "get" => ClientRequest::Get,
        "del" => ClientRequest::Del,
        _ => match value.map(bytes).filter(|value| value != b"-").map_or_else(from_stdin, Ok) {
            Ok(value) => ClientRequest::Set { value: value.into(), ttl: matches.get_one("ttl").copied() },
            Err(error) => return fail(USAGE, &format!("standard input: {error}")),
        },
    };
    let timeout = *matches.get_one("timeout").expect("it has a default");
    let mut target = matches.get_one::<Target>("url").expect("it has a default").clone();
    if let Some(address) = words.pop() {
        match address.to_str().ok_or_else(|| ADDRESSES.to_owned()).and_then(target_of) {
            Ok(url) => target = url,
            Err(_) if name == "set" => {
                let words = "of three words the first is an address, and a value with blanks needs quotes";
                return fail(USAGE, &format!("{}: {words}; {ADDRESSES}", address.display()));
            }
            Err(error) => {
                return fail(USAGE, &format!("{}: of two words the first is an address: {error}", address.display()));
            }
        }
    }
    if let Err(error) = tls_args::apply(matches, target.tls()) {
        return fail(USAGE, &error);
    }
    let is_json = matches.get_flag("json");
    let mut sink = if is_json { ValueSink::Memory(Vec::new()) } else { ValueSink::Output };
    let result = block_on(async {
        match &target {
            Target::Http(url) => over_http::send(url, &key, &request, &mut sink, timeout).await,
            Target::Redis(url) => over_redis::send(url, &key, &request, &mut sink, timeout).await,
        }
    });
    if is_json && let Ok(outcome) = &result {
        let printed = print_json(&document(&key, &request, outcome, sink));
        return if matches!(outcome, RequestOutcome::Absent) { ExitCode::from(NO) } else { printed };
    }
    match result {
        Ok(RequestOutcome::Done) => ExitCode::SUCCESS,
        Ok(RequestOutcome::Absent) => fail(NO, &format!("{}: no such key", key.escape_ascii())),
        Err(error) => fail(FAILED, &error),
    }
}

fn document(key: &[u8], request: &ClientRequest, outcome: &RequestOutcome, sink: ValueSink) -> serde_json::Value {
    let done = matches!(outcome, RequestOutcome::Done);
    let key = json_text(key);
    match (request, sink) {
        (ClientRequest::Get, ValueSink::Memory(value)) => {
            serde_json::json!({ "key": key, "found": done, "value": done.then(|| json_text(&value)) })
        }
        (ClientRequest::Del, _) => serde_json::json!({ "key": key, "deleted": done }),
        _ => serde_json::json!({ "key": key, "stored": done }),
    }
}

fn from_stdin() -> io::Result<Vec<u8>> {
    let mut value = Vec::new();
    io::stdin().lock().take(MAX_VALUE + 1).read_to_end(&mut value)?;
    if value.len() as u64 > MAX_VALUE {
        return Err(io::Error::other("the value is larger than 512MiB"));
    }
    Ok(value)
}

pub(super) fn fail(code: u8, reason: &str) -> ExitCode {
    complain(reason);
    ExitCode::from(code)
}

/// Reads `--url`.
fn target_of(text: &str) -> Result<Target, String> {
    match text.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase()).as_deref() {
        Some("http" | "https") => over_http::HttpUrl::parse(text).map(Target::Http),
        Some("redis" | "rediss" | "valkey" | "valkeys" | "unix") => text.parse().map(Target::Redis),
        _ if text.contains("://") => Err(ADDRESSES.to_owned()),
        _ => over_http::HttpUrl::parse(text).map(Target::Http).map_err(|_| ADDRESSES.to_owned()),
    }
}

fn ttl(text: &str) -> Result<Duration, String> {
    match if text == "0" { Duration::ZERO } else { parse_duration(text)? } {
        Duration::ZERO => Err("the lifetime must be longer than zero".to_string()),
        ttl => Ok(ttl),
    }
}
