//! `larder snapshot info|verify FILE`: snapshots without a server. `convert` has a file of its own.
//!
//! Exit codes: 0 done, 1 the file is damaged, is not a snapshot or cannot be read, 2 wrong usage.
use super::{
    convert_command,
    output::{Report, complain, json},
};
use clap::{Arg, ArgMatches, Command, value_parser};
use larder_store::{
    clock,
    snapshot::{Scrutiny, SnapshotError, SnapshotReader},
};
use larder_units::{show_duration, show_size};
use serde_json::json;
use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

pub(super) fn command() -> Command {
    let file =
        || Arg::new("file").value_name("FILE").required(true).value_parser(value_parser!(PathBuf)).help("The snapshot");
    Command::new("snapshot")
        .about("Examine snapshots of the memory tiers, and convert them")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("info").about("Check the checksums of a snapshot and describe it").args([file(), json()]),
        )
        .subcommand(convert_command::command())
        .subcommand(
            Command::new("verify")
                .about("Read a whole snapshot and check its checksums and each entry")
                .args([file(), json()]),
        )
}

pub(super) fn run(matches: &ArgMatches) -> ExitCode {
    let (name, matches) = matches.subcommand().expect("clap demands a subcommand");
    if name == convert_command::NAME {
        return convert_command::run(matches);
    }
    let path = matches.get_one::<PathBuf>("file").expect("required");
    let scrutiny = if name == "info" { Scrutiny::Checksum } else { Scrutiny::Entries };
    match read(path, scrutiny) {
        Ok(reader) => {
            let text = match name {
                "info" => info(path, &reader),
                _ => format!("{}: {} entries, sound\n", path.display(), entries(&reader)),
            };
            Report { text, document: document(path, &reader), is_bad: false }.print(matches)
        }
        Err(error) => {
            complain(error);
            ExitCode::FAILURE
        }
    }
}

type Reader = SnapshotReader<std::io::BufReader<fs::File>>;

fn read(path: &Path, scrutiny: Scrutiny) -> Result<Reader, SnapshotError> {
    let mut reader = SnapshotReader::open(path)?;
    reader.check(scrutiny).map_err(|error| error.of_file(path))?;
    Ok(reader)
}

fn entries(reader: &Reader) -> u64 {
    reader.totals().iter().map(|group| group.entries).sum()
}

fn document(path: &Path, reader: &Reader) -> serde_json::Value {
    let header = reader.header();
    let groups = header
        .groups
        .iter()
        .zip(reader.totals())
        .map(|(name, group)| json!({ "name": name, "entries": group.entries, "uncompressed_bytes": group.bytes }));
    json!({
        "file": path.to_string_lossy(),
        "created_ms": header.created,
        "compression": header.compression.name(),
        "blocks": reader.blocks(),
        "entries": entries(reader),
        "bytes": reader.position(),
        "groups": groups.collect::<Vec<_>>(),
    })
}

fn info(path: &Path, reader: &Reader) -> String {
    let (header, file) = (reader.header(), reader.position());
    let (entries, bytes) = (entries(reader), reader.totals().iter().map(|group| group.bytes).sum::<u64>());
    let each = |bytes: u64| bytes as f64 / entries.max(1) as f64;
    let age = Duration::from_secs(clock::now().saturating_sub(header.created) / 1000);
    let mut text = format!(
        "file:        {}\nformat:      1\ncreated:     {} ms since 1970, {} ago\ncompression: {}\nblocks:      {}\nentries:     {entries}\n\
         bytes:       {} ({:.2} per entry; {:.2} before compression)\n",
        path.display(),
        header.created,
        show_duration(age),
        header.compression.name(),
        reader.blocks(),
        show_size(file),
        each(file),
        each(bytes),
    );
    for (name, group) in header.groups.iter().zip(reader.totals()) {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "group:       {name}: {} entries, {} before compression",
            group.entries,
            show_size(group.bytes)
        );
    }
    text
}
