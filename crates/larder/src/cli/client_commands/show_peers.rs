//! `larder peers`: the ring, as a node sees it, from its `GET /v1/peers`.
use super::{get_set_del, over_http, server_status::Asked, tls_args};
use crate::cli::{
    exit_codes,
    output::{self, json},
};
use clap::{Arg, ArgMatches, Command};
use serde_json::Value;
use std::{fmt::Write as _, process::ExitCode};

/// `peers` and its arguments.
pub(crate) fn command() -> Command {
    let help = "The HTTP or admin listener of any node: http://HOST:PORT or https://HOST:PORT";
    let url = get_set_del::http_url(get_set_del::DEFAULT_URL, help);
    let key = Arg::new("key").long("key").value_name("KEY").help("Also show which node owns this key");
    let about = "Show the ring: its nodes, their shares of the keys and their health";
    Command::new("peers").about(about).args(url).args([get_set_del::timeout(), json(), key]).args(tls_args::args())
}

pub(crate) fn run(matches: &ArgMatches) -> ExitCode {
    let asked = match Asked::of(matches) {
        Ok(asked) => asked,
        Err(error) => return get_set_del::fail(exit_codes::USAGE, &error),
    };
    let key = matches.get_one::<String>("key").map(|key| over_http::escaped(key.as_bytes()));
    let path = key.map_or("/v1/peers".to_owned(), |key| format!("/v1/peers?key={key}"));
    match asked.document(&path) {
        Ok(document) if matches.get_flag("json") => output::print_json(&document),
        Ok(document) => output::print(&table(&document)),
        Err(error) => get_set_del::fail(exit_codes::FAILED, &error),
    }
}

fn table(document: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let empty = Vec::new();
    let peers = document["peers"].as_array().unwrap_or(&empty);
    let header = ["node", "share", "health", "reads", "failed", "changes", "failed", "untold"].map(str::to_owned);
    let rows: Vec<[String; 8]> = peers
        .iter()
        .map(|peer| {
            let health = match (peer["self"].as_bool(), peer["reachable"].as_bool()) {
                (Some(true), _) => "this node",
                (_, Some(true)) => "up",
                (_, Some(false)) => "out",
                _ => "?",
            };
            let share = peer["share"].as_f64().map_or("?".to_owned(), |share| format!("{:.1} %", share * 100.0));
            let count = |name: &str| peer[name].as_u64().map_or("-".to_owned(), |count| count.to_string());
            let [reads, failed_reads] = ["reads", "failed_reads"].map(count);
            let [changes, failed_changes, untold] = ["changes", "failed_changes", "untold_changes"].map(count);
            [text(&peer["name"]), share, health.to_owned(), reads, failed_reads, changes, failed_changes, untold]
        })
        .collect();
    let mut out = format!("epoch {}, {} nodes\n\n", text(&document["epoch"]), peers.len());
    output::columns(&header, &rows, &[0, 2], &mut out);
    if let Some(owner) = document["owner"].as_str() {
        let _ = writeln!(out, "\nowner of the key: {owner}");
    }
    if document["agree"].as_bool() == Some(false) {
        out.push_str("\nThe nodes do not agree about the ring: `larder peers --json` shows how it is known.\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_is_a_table() {
        let document = serde_json::json!({
            "self": "a:1",
            "epoch": "00000000000000ff",
            "owner": "bbbb:22",
            "peers": [
                {"name": "a:1", "self": true, "reachable": true, "share": 0.25, "reads": 0, "failed_reads": 0,
                 "changes": 0, "failed_changes": 0, "untold_changes": 0},
                {"name": "bbbb:22", "self": false, "reachable": false, "share": 0.75, "reads": 1234, "failed_reads": 5,
                 "changes": 6, "failed_changes": 7},
            ],
        });
        let expected = "\
epoch 00000000000000ff, 2 nodes

node      share  health     reads  failed  changes  failed  untold
a:1      25.0 %  this node      0       0        0       0       0
bbbb:22  75.0 %  out         1234       5        6       7       -

owner of the key: bbbb:22
";
        assert_eq!(table(&document), expected);
        let mut other = document.clone();
        other["agree"] = false.into();
        assert!(table(&other).contains("do not agree about the ring"));
        assert!(table(&Value::Null).starts_with("epoch ?, 0 nodes"));
    }
}
