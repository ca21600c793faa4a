//! `larder store …`: looks after a disk store that no server has open.
//!
//! Exit codes: 0 done; 1 the store or the file is damaged, in use, or cannot be read; 2 wrong
//! usage.
use super::{
    input_args,
    output::{Report, complain, json},
    progress_bar::{ProgressBar, Unit},
};
use clap::{Arg, ArgMatches, Command, builder::PossibleValuesParser, value_parser};
use larder_store::disk::{self, Compression, LEVELS, Loaded, Offline, StoreSettings, damage};
use larder_units::show_rounded_size;
use serde_json::json;
use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::atomic::AtomicBool,
};

pub(super) fn command() -> Command {
    let path = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).value_name(value).required(true).value_parser(value_parser!(PathBuf)).help(help)
    };
    let dir = || path("dir", "DIR", "The store's directory, as in disk:DIR");
    let file = || path("file", "FILE", "The backup");
    let compression = || {
        Arg::new("compression")
            .long("compression")
            .value_name("NAME")
            .value_parser(PossibleValuesParser::new(Compression::NAMES))
            .default_value(Compression::NAMES[0])
            .help("Compression of the new store's older levels")
    };
    Command::new("store")
        .about("Verify, back up, load or compact a disk store while no server uses it")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([
            Command::new("verify").about("Read every file and list the damaged ones").arg(dir()),
            Command::new("stats").about("Show the number of entries and the size of a store").arg(dir()),
            Command::new("compact").about("Remove overwritten, deleted and expired entries from the files").arg(dir()),
            Command::new("backup").about("Write all entries into one file with checksums").args([dir(), file()]),
            Command::new("restore").about("Create a new store from a backup").args([file(), dir(), compression()]),
            Command::new("load")
                .about("Load text (`key value words…` per line), CSV, TSV, JSON lines or a table into a store")
                .arg(input_args::input())
                .arg(path("dir", "DIR", "The store's directory; a new one is created"))
                .args(input_args::options())
                .arg(compression()),
        ])
        .mut_subcommands(|command| command.arg(json()))
}

pub(super) fn run(matches: &ArgMatches) -> ExitCode {
    let Some((what, matches)) = matches.subcommand() else {
        unreachable!("clap demands a subcommand");
    };
    let path = |name: &str| matches.get_one::<PathBuf>(name).expect("it is required").as_path();
    let done = match what {
        "verify" => verify(path("dir")),
        "stats" => stats(path("dir")),
        "compact" => compact(path("dir")),
        "backup" => backup(path("dir"), path("file")),
        "load" => load(matches, path("dir"), &new_store(matches)),
        _ => {
            let settings = new_store(matches);
            let bar = ProgressBar::new("restoring", Unit::Bytes);
            let show = &mut |done, total| bar.show(done, total);
            disk::backup::restore(path("file"), path("dir"), &settings, show).map(|copied| copied_report(&copied))
        }
    };
    match done {
        Ok(report) => report.print(matches),
        Err(error) => {
            complain(error);
            ExitCode::FAILURE
        }
    }
}

/// Settings of a store that is created now.
fn new_store(matches: &ArgMatches) -> StoreSettings {
    let name = matches.get_one::<String>("compression").expect("it has a default");
    StoreSettings { compression: Compression::from_name(name), ..StoreSettings::DEFAULT }
}

fn open(dir: &Path) -> Result<Offline, String> {
    Offline::open(dir, StoreSettings::DEFAULT)
}
fn backup(dir: &Path, file: &Path) -> Result<Report, String> {
    let store = open(dir)?;
    let about = store.tree().approximate_count();
    let bar = ProgressBar::new("writing", Unit::Entries);
    let stop = AtomicBool::new(false);
    let copied = store.tree().backup(file, &stop, &mut |entries| bar.show(entries, about.max(entries)));
    copied.map(|copied| copied_report(&copied)).map_err(|error| error.to_string())
}

fn copied_report(copied: &disk::backup::Copied) -> Report {
    Report {
        text: format!("{} entries, {}\n", copied.entries, show_rounded_size(copied.bytes)),
        document: json!({ "entries": copied.entries, "bytes": copied.bytes }),
        is_bad: false,
    }
}

fn load(matches: &ArgMatches, dir: &Path, settings: &StoreSettings) -> Result<Report, String> {
    let input = input_args::read(matches);
    let mut bar = ProgressBar::new("loading", Unit::Bytes);
    let show = &mut |progress| input_args::show(&mut bar, progress);
    let loaded = disk::load(&input, matches.get_flag("strict"), dir, settings, show);
    drop(bar);
    let Loaded { entries, removed, bad } = loaded?;
    input_args::complain_of(&input, &bad);
    let text = match removed {
        0 => format!("{entries} entries\n"),
        removed => format!("{entries} entries, {removed} removed\n"),
    };
    let document = json!({ "entries": entries, "removed": removed, "left_out": bad.count });
    Ok(Report { text, document, is_bad: false })
}

fn verify(dir: &Path) -> Result<Report, String> {
    let bar = ProgressBar::new("reading", Unit::Bytes);
    let damage::Report { problems, notes, files, bytes, .. } =
        damage::verify(dir, &mut |read, total| bar.show(read, total))?;
    drop(bar);
    for note in &notes {
        complain(format_args!("note: {note}"));
    }
    for problem in &problems {
        complain(problem);
    }
    let is_bad = !problems.is_empty();
    Ok(Report {
        text: if is_bad { String::new() } else { format!("{files} files, {}: no damage\n", show_rounded_size(bytes)) },
        document: json!({ "files": files, "bytes": bytes, "problems": problems, "notes": notes }),
        is_bad,
    })
}

fn stats(dir: &Path) -> Result<Report, String> {
    let store = open(dir)?;
    let (stats, entries) = (store.tree().stats(), store.tree().count()?);
    let mut text = format!("entries      {entries}\non disk      {}\n", show_rounded_size(stats.disk_bytes));
    for level in (0..LEVELS).filter(|level| stats.tables[*level] > 0) {
        let _ = writeln!(text, "level {level}      {} tables", stats.tables[level]);
    }
    let _ = writeln!(
        text,
        "in memory    {} to be flushed, {} journals",
        show_rounded_size(stats.memtable_bytes),
        stats.journals
    );
    let document = json!({
        "entries": entries,
        "disk_bytes": stats.disk_bytes,
        "tables": stats.tables,
        "memtable_bytes": stats.memtable_bytes,
        "journals": stats.journals,
    });
    Ok(Report { text, document, is_bad: false })
}

fn compact(dir: &Path) -> Result<Report, String> {
    let store = open(dir)?;
    let before = store.tree().stats().disk_bytes;
    let bar = ProgressBar::without_end("compacting");
    store.compact()?;
    drop(bar);
    let now = store.tree().stats().disk_bytes;
    Ok(Report {
        text: format!("{} before, {} now\n", show_rounded_size(before), show_rounded_size(now)),
        document: json!({ "disk_bytes_before": before, "disk_bytes": now }),
        is_bad: false,
    })
}
