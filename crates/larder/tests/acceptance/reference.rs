//! The parts of the reference that are made from the program's own tables. `UPDATE_DOCS=1` writes
//! them again.
use larder_base::telemetry::{MetricKind, all_metrics};
use larder_redis::{COMMANDS, Command};
use std::{fmt::Write as _, path::Path};

/// Holds the part of a document between `<!-- NAME -->` and `<!-- end -->` to what the program
/// says.
fn hold(document: &str, name: &str, wanted: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(document);
    let text = std::fs::read_to_string(&path).unwrap();
    let open = format!("<!-- {name} -->\n");
    let (before, rest) = text.split_once(&open).expect("the mark of the generated part");
    let (part, after) = rest.split_once("<!-- end -->").expect("its end");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{open}{wanted}<!-- end -->{after}")).unwrap();
        return;
    }
    assert!(
        part == wanted,
        "{document} is out of date. Type: UPDATE_DOCS=1 cargo test -p larder --test acceptance reference"
    );
}

fn has_subcommands(command: &Command) -> bool {
    let start = format!("{}|", command.name);
    COMMANDS.iter().any(|other| other.name.starts_with(&start))
}

#[test]
fn commands() {
    let mut wanted = String::new();
    let mut group = "";
    // A name that only has subcommands is none to call.
    for command in COMMANDS.iter().filter(|command| command.arity != -2 || !has_subcommands(command)) {
        if command.group != group {
            group = command.group;
            let _ = write!(wanted, "\n### {group}\n\n| command | |\n|---|---|\n");
        }
        let name = command.name.replace('|', " ").to_uppercase();
        let _ = writeln!(wanted, "| `{name}` | {} |", command.summary);
    }
    hold("redis.md", "commands", &format!("{wanted}\n"));
}

#[test]
fn metrics() {
    let mut wanted = String::from("\n| metric | kind | |\n|---|---|---|\n");
    for family in all_metrics() {
        let kind = match family.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge | MetricKind::Info => "gauge",
            MetricKind::Histogram => "histogram",
        };
        let _ = writeln!(wanted, "| `{}` | {kind} | {} |", family.name, family.help);
    }
    hold("metrics.md", "metrics", &format!("{wanted}\n"));
}
