//! `larder config diff`: what a reload would change in a running server, from its `GET
//! /v1/config/reload`.
use super::{get_set_del, server_status::Asked, tls_args};
use crate::cli::{
    exit_codes,
    output::{self, json},
};
use clap::{ArgMatches, Command};
use serde_json::Value;
use std::{fmt::Write as _, process::ExitCode};

/// `diff` and its arguments.
pub(crate) fn command() -> Command {
    let url = get_set_del::http_url(get_set_del::ADMIN_URL, "The admin listener of the server: http://HOST:PORT");
    Command::new("diff")
        .about("Show what a reload of the configuration would change in a running server")
        .args(url)
        .args([get_set_del::timeout(), json()])
        .args(tls_args::args())
        .after_help("The server reads its configuration file, if it has one, and changes nothing. SIGHUP or POST /v1/config/reload makes the changes that need no restart.")
}

pub(crate) fn run(matches: &ArgMatches) -> ExitCode {
    let asked = match Asked::of(matches) {
        Ok(asked) => asked,
        Err(error) => return get_set_del::fail(exit_codes::USAGE, &error),
    };
    match asked.document("/v1/config/reload") {
        Ok(document) if matches.get_flag("json") => output::print_json(&document),
        Ok(document) => output::print(&lines(&document)),
        Err(error) => get_set_del::fail(exit_codes::FAILED, &error),
    }
}

fn lines(document: &Value) -> String {
    let mut out = String::new();
    for (list, heading) in [("changes", "A reload changes"), ("needs_restart", "A restart is needed for")] {
        let changes = document[list].as_array().map_or(&[][..], Vec::as_slice);
        if changes.is_empty() {
            continue;
        }
        let _ = writeln!(out, "{heading}:");
        for change in changes {
            let text = |value: &Value| value.as_str().unwrap_or("(not shown)").to_owned();
            let _ =
                writeln!(out, "  {}: {} -> {}", text(&change["setting"]), text(&change["from"]), text(&change["to"]));
        }
    }
    if out.is_empty() {
        out.push_str("A reload of the configuration changes nothing.\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn changes_are_lines() {
        let document = json!({
            "changes": [{ "setting": "ttl", "from": "1m", "to": "10s" }],
            "needs_restart": [{ "setting": "password", "from": null, "to": null }],
        });
        let expected = "\
A reload changes:
  ttl: 1m -> 10s
A restart is needed for:
  password: (not shown) -> (not shown)
";
        assert_eq!(lines(&document), expected);
        assert_eq!(
            lines(&json!({ "changes": [], "needs_restart": [] })),
            "A reload of the configuration changes nothing.\n"
        );
    }
}
