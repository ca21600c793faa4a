//! When and from which commit figures are.
use anyhow::Context;
use std::{path::Path, process::Command};

/// The time in UTC (RFC 3339).
pub(crate) fn date() -> anyhow::Result<String> {
    let output = Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"]).output().context("cannot run date")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A time since 1970 as a date and time in UTC.
pub(crate) fn utc(unix_s: u64) -> String {
    // Days to a date: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", civil_from_days.
    let days = unix_s / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = era * 400 + year + u64::from(month <= 2);
    let (hours, minutes) = (unix_s % 86_400 / 3600, unix_s % 3600 / 60);
    format!("{year:04}-{month:02}-{day:02} {hours:02}:{minutes:02} UTC")
}

#[test]
fn seconds_become_dates() {
    for (seconds, date) in [
        (0, "1970-01-01 00:00 UTC"),
        (951_782_399, "2000-02-28 23:59 UTC"),
        (951_782_400, "2000-02-29 00:00 UTC"),
        (1_795_467_661, "2026-11-23 21:01 UTC"),
    ] {
        assert_eq!(utc(seconds), date);
    }
}

/// The commit of the working folder, with `-dirty` if files have changed; `unknown` outside a
/// repository.
pub(crate) fn commit() -> String {
    let commit = Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=12"]).output();
    let commit = commit.ok().filter(|output| output.status.success()).map(|output| output.stdout);
    commit.map_or("unknown".to_owned(), |text| String::from_utf8_lossy(&text).trim().to_owned())
}

/// Both, for the foot of a chart that is drawn from figures of this run.
pub(crate) fn of_this_run() -> anyhow::Result<String> {
    Ok(format!("{}, commit {}", date()?, commit()))
}

/// This program's command line, for results: without folders of programs and files, passwords of
/// URLs and values of headers.
pub(crate) fn command_line() -> String {
    shown(std::env::args())
}

fn shown(words: impl Iterator<Item = String>) -> String {
    let mut is_header = false;
    let shown = words.map(|word| {
        let was_header = std::mem::replace(&mut is_header, word == "--header");
        let word = match word.strip_prefix("--header=") {
            Some(header) => format!("--header={}", name_only(header)),
            None if was_header => name_only(&word),
            None => without_login(&word),
        };
        let word = match Path::new(&word).file_name() {
            Some(name) if word.starts_with('/') => name.to_string_lossy().into_owned(),
            _ => word,
        };
        match word.is_empty() || word.contains([' ', '\'', '"', '{', '$', '&', '?', '*']) {
            true => format!("'{word}'"),
            false => word,
        }
    });
    shown.collect::<Vec<_>>().join(" ")
}

fn name_only(header: &str) -> String {
    format!("{}: …", header.split(':').next().unwrap_or_default())
}

fn without_login(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else { return word.to_owned() };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://…{}", &rest[at..]),
        None => word.to_owned(),
    }
}

#[test]
fn a_command_line_tells_no_secrets() {
    let words = "/a/b/larder-bench run --url redis://me:secret@127.0.0.1:1/2 --header=X-Key:secret --save /tmp/x.json";
    let words = words.split(' ').map(str::to_owned);
    let more = ["--header", "Authorization: Bearer secret", "--op", "GET /a?b={key}"].map(str::to_owned);
    assert_eq!(
        shown(words.chain(more)),
        "larder-bench run --url redis://…@127.0.0.1:1/2 '--header=X-Key: …' --save x.json --header 'Authorization: …' --op 'GET /a?b={key}'"
    );
}
