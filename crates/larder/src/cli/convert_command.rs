//! `larder snapshot convert FROM TO`: a snapshot of a Redis RDB file or of a dump of GCache, or an
//! RDB file of a snapshot.
//!
//! Exit codes: 0 done, 1 nothing was written (a file is damaged, or has what would be left out), 2
//! wrong usage.
use super::output::{Report, complain, json};
use clap::{Arg, ArgAction, ArgMatches, Command, builder::PossibleValuesParser, value_parser};
use larder_document::compact;
use larder_source::{DOCUMENT_METADATA, is_document};
use larder_store::snapshot::{
    Conversion, ConvertError, Converted, DocumentForm, SnapshotCompression, from_gcache, from_rdb, is_gcache_dump,
    is_rdb, to_rdb,
};
use serde_json::json;
use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Below `snapshot`.
pub(super) const NAME: &str = "convert";

pub(super) fn command() -> Command {
    let file = |name: &'static str, place: &'static str| {
        Arg::new(name).value_name(place).required(true).value_parser(value_parser!(PathBuf))
    };
    Command::new(NAME)
        .about("Convert a Redis RDB file or a GCache dump to a snapshot, or a snapshot to an RDB file")
        .arg(file("from", "FROM").help("File to convert; Larder recognises the format by the first bytes"))
        .arg(file("to", "TO").help("The file to write"))
        .arg(
            Arg::new("database")
                .long("database")
                .value_name("NUMBER=GROUP")
                .action(ArgAction::Append)
                .default_value("0=default")
                .value_parser(database)
                .help("A Redis database and the group for its keys; may be given several times"),
        )
        .arg(
            Arg::new("skip-others")
                .long("skip-others")
                .action(ArgAction::SetTrue)
                .help("Skip keys of other types, databases and groups instead of failing"),
        )
        .arg(
            Arg::new("compression")
                .long("compression")
                .value_name("NAME")
                .default_value(SnapshotCompression::default().name())
                .value_parser(PossibleValuesParser::new(SnapshotCompression::NAMES))
                .help("Compression of the snapshot"),
        )
        .arg(json())
}

/// `3=sessions`
fn database(text: &str) -> Result<(u64, String), String> {
    let parsed = text.split_once('=').and_then(|(number, group)| Some((number.parse().ok()?, group)));
    match parsed {
        Some((number, group)) if !group.is_empty() => Ok((number, group.to_owned())),
        _ => Err("write a number and a group, for example 3=sessions".to_owned()),
    }
}

/// Converts.
pub(super) fn run(matches: &ArgMatches) -> ExitCode {
    let path = |name: &str| matches.get_one::<PathBuf>(name).expect("required");
    let (from, to) = (path("from"), path("to"));
    let groups: Vec<(u64, String)> = matches.get_many("database").expect("it has a default").cloned().collect();
    let (mut numbers, mut names) = (HashSet::new(), HashSet::new());
    if !groups.iter().all(|(number, name)| numbers.insert(number) && names.insert(name)) {
        complain(format_args!("--database: a database or a group is given twice"));
        return ExitCode::from(2);
    }
    let conversion = Conversion {
        groups: &groups,
        skips_others: matches.get_flag("skip-others"),
        compression: SnapshotCompression::from_name(
            matches.get_one::<String>("compression").expect("it has a default"),
        ),
        is_document,
    };
    let (is_rdb, converted) = match is_rdb(from) {
        Err(error) => (false, Err(error.into())),
        Ok(true) => (true, from_rdb(from, to, &conversion)),
        Ok(false) if is_gcache_dump(from).unwrap_or(false) => {
            let form = DocumentForm { compact: |text| compact(text).ok(), metadata: DOCUMENT_METADATA };
            (false, from_gcache(from, to, &conversion, &form))
        }
        Ok(false) => (false, to_rdb(from, to, &conversion)),
    };
    match converted {
        Ok(converted) => {
            say_what_is_missing(from, &converted);
            if is_rdb && !converted.had_sum {
                complain(format_args!("{}: has no checksum, so damage cannot be detected", from.display()));
            }
            let text = format!("{}: {} entries; {} had expired\n", to.display(), converted.entries, converted.expired);
            let document = json!({
                "file": to.to_string_lossy(),
                "entries": converted.entries,
                "expired": converted.expired,
                "left_out": converted.left_out,
                "reduced": converted.reduced,
            });
            Report { text, document, is_bad: false }.print(matches)
        }
        Err(ConvertError::LeftOut(converted)) => {
            say_what_is_missing(from, &converted);
            complain(format_args!(
                "{} was not written; use --skip-others to write it without these keys",
                to.display()
            ));
            ExitCode::FAILURE
        }
        Err(error) => {
            complain(error);
            ExitCode::FAILURE
        }
    }
}

fn say_what_is_missing(from: &Path, converted: &Converted) {
    for (reason, count) in &converted.left_out {
        complain(format_args!("{}: leaves out {count} keys {reason}", from.display()));
    }
    for (what, count) in &converted.reduced {
        complain(format_args!("{}: {count} keys lose {what}", from.display()));
    }
}
