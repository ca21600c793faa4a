//! `larder store …`: looks after a disk store that no server has open.
//!
//! Exit codes: 0 done; 1 the store or the file is damaged, in use, or cannot be read; 2 wrong
//! usage.
use super::output::print;
use clap::{Arg, ArgMatches, Command, builder::PossibleValuesParser, value_parser};
use larder_store::disk::{Compression, LEVELS, Offline, StoreSettings, backup, damage};
use larder_units::show_size;
use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::AtomicBool,
};

/// `store` and its commands.
pub(super) fn command() -> Command {
    let path = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).value_name(value).required(true).value_parser(value_parser!(PathBuf)).help(help)
    };
    let dir = || path("dir", "DIR", "The store's directory, as in disk:DIR");
    let file = || path("file", "FILE", "The backup");
    let compression = Arg::new("compression")
        .long("compression")
        .value_name("NAME")
        .value_parser(PossibleValuesParser::new(Compression::NAMES))
        .default_value(Compression::NAMES[0])
        .help("Compression of the new store's older levels, as in store-compression");
    Command::new("store")
        .about("Verify, back up or compact a disk store while no server uses it")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([
            Command::new("verify").about("Read every file and list the damaged ones").arg(dir()),
            Command::new("stats").about("Show the number of entries and the size of a store").arg(dir()),
            Command::new("compact").about("Remove overwritten, deleted and expired entries from the files").arg(dir()),
            Command::new("backup").about("Write all entries into one file with checksums").args([dir(), file()]),
            Command::new("restore").about("Create a new store from a backup").args([file(), dir(), compression]),
        ])
}

/// Runs one of them.
pub(super) fn run(matches: &ArgMatches) -> ExitCode {
    let Some((what, matches)) = matches.subcommand() else {
        unreachable!("clap demands a subcommand");
    };
    let path = |name: &str| matches.get_one::<PathBuf>(name).expect("it is required").as_path();
    let done = match what {
        "verify" => verify(path("dir")),
        "stats" => stats(path("dir")),
        "compact" => compact(path("dir")),
        "backup" => open(path("dir"))
            .and_then(|store| {
                store.tree().backup(path("file"), &AtomicBool::new(false)).map_err(|error| error.to_string())
            })
            .map(|copied| show(&copied)),
        _ => {
            let name = matches.get_one::<String>("compression").expect("it has a default");
            let settings = StoreSettings { compression: Compression::from_name(name), ..StoreSettings::DEFAULT };
            backup::restore(path("file"), path("dir"), &settings).map(|copied| show(&copied))
        }
    };
    match done {
        Ok(text) => print(&text),
        Err(error) => {
            eprintln!("larder: {error}");
            ExitCode::FAILURE
        }
    }
}

fn open(dir: &Path) -> Result<Offline, String> {
    Offline::open(dir, StoreSettings::DEFAULT)
}
fn show(copied: &backup::Copied) -> String {
    format!("{} entries, {}\n", copied.entries, show_size(copied.bytes))
}

fn verify(dir: &Path) -> Result<String, String> {
    let report = damage::verify(dir)?;
    for note in &report.notes {
        eprintln!("larder: note: {note}");
    }
    match report.problems.is_empty() {
        true => Ok(format!("{} files, {}: no damage\n", report.files, show_size(report.bytes))),
        false => Err(report.problems.join("\nlarder: ")),
    }
}

fn stats(dir: &Path) -> Result<String, String> {
    let store = open(dir)?;
    let (stats, entries) = (store.tree().stats(), store.tree().count()?);
    let mut text = format!("entries      {entries}\non disk      {}\n", show_size(stats.disk_bytes));
    for level in (0..LEVELS).filter(|level| stats.tables[*level] > 0) {
        let _ = writeln!(text, "level {level}      {} tables", stats.tables[level]);
    }
    let _ =
        writeln!(text, "in memory    {} to be flushed, {} journals", show_size(stats.memtable_bytes), stats.journals);
    Ok(text)
}

fn compact(dir: &Path) -> Result<String, String> {
    let store = open(dir)?;
    let before = store.tree().stats().disk_bytes;
    store.compact()?;
    Ok(format!("{} before, {} now\n", show_size(before), show_size(store.tree().stats().disk_bytes)))
}
