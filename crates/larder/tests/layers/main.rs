//! The layers of the workspace, as far as the compiler does not keep them.
//!
//! - A room of a crate that has several (a folder directly below `src`) imports only rooms that
//!   [`ROOMS`] lists before it.
//! - Inside a crate no circle of imports has more than two files. A folder's `mod.rs` counts as a
//!   file: it says what the room is for and re-exports; what its files share has a file of its own.
//!
//! Imports are read from the syntax tree, so that neither a comment nor a string counts, and tests
//! (`#[cfg(test)]`) do not.
#![expect(clippy::unwrap_used)]

mod documents;
mod imports;
mod plain_english;
mod quick_starts;
mod recording;

use imports::{Graph, Module};
use std::{collections::BTreeSet, path::Path};

/// Crates with more than one room, and their rooms, lowest first: a room imports only rooms before
/// it.
const ROOMS: [(&str, &[&str]); 4] = [
    ("crates/base", &["special", "buffers", "telemetry", "lifecycle", "tls", "outbound", "identity"]),
    ("crates/ring", &["peer", "replica"]),
    ("crates/core", &["read", "clients", "snapshot", "app", "gate", "connection"]),
    ("crates/larder", &["net", "cli"]),
];

/// All crates. Which may import which is in their Cargo.toml: the compiler keeps that order.
pub(crate) const CRATES: [&str; 15] = [
    "crates/units",
    "crates/engine",
    "crates/proto",
    "crates/document",
    "crates/store",
    "crates/config",
    "crates/base",
    "crates/source",
    "crates/ring",
    "crates/core",
    "crates/redis",
    "crates/http",
    "crates/memcached",
    "crates/larder",
    "bench",
];

fn graph(name: &str) -> Graph {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name).join("src");
    Graph::read(&root)
}

fn shown(module: &Module) -> String {
    if module.is_empty() { "lib".to_owned() } else { module.join("::") }
}

#[test]
fn rooms_import_only_rooms_below_them() {
    let mut upwards = Vec::new();
    for (name, rooms) in ROOMS {
        let place = |module: &Module| rooms.iter().position(|room| module.first().is_some_and(|first| first == room));
        let graph = graph(name);
        let found: BTreeSet<&str> = graph.modules().filter_map(|module| module.first().map(String::as_str)).collect();
        assert_eq!(found, rooms.iter().copied().collect(), "every room of {name} has its place in ROOMS");
        let wrong =
            graph.imports().filter(|(from, to)| place(from).is_some_and(|from| place(to).is_some_and(|to| to > from)));
        upwards.extend(wrong.map(|(from, to)| format!("{name}: {} imports {}", shown(from), shown(to))));
    }
    assert!(
        upwards.is_empty(),
        "imports run upwards between rooms:
{}",
        upwards.join(
            "
"
        )
    );
}

#[test]
fn programs_of_the_bench_import_only_its_lib() {
    let program = |module: &Module| module.first().filter(|first| *first == "programs").and(module.get(1)).cloned();
    let graph = graph("bench");
    let wrong: Vec<String> = graph
        .imports()
        // `programs` itself only lists them.
        .filter(|(from, to)| **from != ["programs"] && program(to).is_some_and(|to| program(from) != Some(to)))
        .map(|(from, to)| format!("{} imports {}", shown(from), shown(to)))
        .collect();
    assert!(graph.modules().any(|module| program(module).is_some()), "the bench has programs");
    assert!(wrong.is_empty(), "programs of the bench share code through lib:\n{}", wrong.join("\n"));
}

#[test]
fn no_circle_of_imports_has_more_than_two_files() {
    let mut found = Vec::new();
    for name in CRATES {
        for circle in graph(name).circles().into_iter().filter(|circle| circle.len() > 2) {
            let files: Vec<_> = circle.iter().map(|module| shown(module)).collect();
            found.push(format!("{name}, {} files: {}", files.len(), files.join(", ")));
        }
    }
    assert!(found.is_empty(), "files import each other in circles:\n{}", found.join("\n"));
}
