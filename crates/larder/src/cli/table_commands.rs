//! `larder table build|info|get|verify|dump`: tables without a server.
//!
//! Exit codes: 0 done, 1 there is no such key or the file is no sound table, 2 wrong usage, 3 a
//! table could not be built.
use super::{
    exit_codes, input_args,
    output::{Report, complain, json, json_text, print_json},
    progress_bar::{ProgressBar, Unit},
};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use larder_store::table::{BuildOptions, Built, Duplicates, FrameCompression, Position, Table, TableError, build};
use larder_units::{parse_size, show_size};
use serde_json::json;
use std::{
    ffi::OsString,
    io::{self, BufWriter, Write as _},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

const FAILED: u8 = 1;
const NOT_BUILT: u8 = 3;

pub(super) fn command() -> Command {
    let path = |name: &'static str| Arg::new(name).value_name("FILE").value_parser(value_parser!(PathBuf));
    let option = |name: &'static str| path(name).long(name);
    let table = || path("table").value_name("TABLE").required(true).help("The table");
    let build = Command::new("build")
        .about("Build a table from text (`key value words…` per line), CSV, TSV, JSON lines or another table")
        .arg(input_args::input())
        .arg(
            option("output")
                .short('o')
                .required(true)
                .help("Table file; an existing one is replaced when the new one is complete"),
        )
        .args(input_args::options())
        .arg(option("base").help("Existing table to apply the input to (JSON: a value of null removes the key)"))
        .arg(option("remove").help("File of keys to leave out, one per line"))
        .arg(
            Arg::new("duplicates")
                .long("duplicates")
                .value_name("RULE")
                .value_parser(["last", "error"])
                .default_value("last")
                .help("How to treat a key that occurs twice: use the last one, or stop with an error"),
        )
        .arg(
            Arg::new("compression")
                .long("compression")
                .value_name("NAME")
                .value_parser(FrameCompression::NAMES.map(|(name, _)| name))
                .help("Compression of values [default: that of the existing table, otherwise none]"),
        )
        .arg(
            Arg::new("memory")
                .long("memory")
                .value_name("SIZE")
                .value_parser(parse_size)
                .default_value(show_size(BuildOptions::MEMORY as u64))
                .help("Approximate memory to use; larger inputs are sorted in a file beside the table"),
        )
        .arg(
            Arg::new("seed")
                .long("seed")
                .value_name("N")
                .value_parser(value_parser!(u64))
                .default_value("0")
                .help("Seed of the hash, for keys that were chosen to collide"),
        )
        .arg(json());
    let key = Arg::new("key").value_name("KEY").required(true).value_parser(value_parser!(OsString)).help("The key");
    Command::new("table")
        .about("Build, examine and read tables: immutable key-value files")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(build)
        .subcommand(Command::new("info").about("Describe a table").args([table(), json()]))
        .subcommand(Command::new("get").about("Write the value of a key to standard output, unchanged").args([
            table(),
            key,
            json(),
        ]))
        .subcommand(
            Command::new("verify")
                .about("Read a whole table and check its checksums and its index")
                .args([table(), json()]),
        )
        .subcommand(
            Command::new("dump")
                .about("Write all entries to standard output, in the order of the file")
                .arg(table())
                .arg(Arg::new("keys").long("keys").action(ArgAction::SetTrue).help("Write only the keys"))
                .arg(json().help("Print one JSON document per entry, each on a line")),
        )
}

pub(super) fn run(matches: &ArgMatches) -> ExitCode {
    let (name, matches) = matches.subcommand().expect("clap demands a subcommand");
    if name == "build" {
        return run_build(matches);
    }
    let done = Table::open(file(matches, "table")).map_err(|error| error.to_string()).and_then(|table| match name {
        "info" => Ok(Report { text: info(&table), document: document(&table), is_bad: false }.print(matches)),
        "get" => {
            let key = matches.get_one::<OsString>("key").expect("required").as_bytes();
            if matches.get_flag("json") { get_json(&table, key, matches) } else { get(&table, key) }
        }
        "verify" => match verify(&table) {
            Ok(()) => {
                let text = format!("{}: {} entries, sound\n", table.path().display(), table.len());
                Ok(Report { text, document: document(&table), is_bad: false }.print(matches))
            }
            Err(error) => Err(error.to_string()),
        },
        _ => dump(&table, matches.get_flag("keys"), matches.get_flag("json")),
    });
    match done {
        Ok(code) => code,
        Err(why) => fail(FAILED, &why),
    }
}

fn file<'m>(matches: &'m ArgMatches, name: &str) -> &'m Path {
    matches.get_one::<PathBuf>(name).expect("required")
}

/// What clap found among the names.
fn named<T: Copy>(names: &[(&str, T)], wanted: &str) -> Option<T> {
    names.iter().find(|(name, _)| *name == wanted).map(|(_, meant)| *meant)
}

fn run_build(matches: &ArgMatches) -> ExitCode {
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    let duplicates = if text("duplicates").as_deref() == Some("error") { Duplicates::Error } else { Duplicates::Last };
    let options = BuildOptions {
        base: matches.get_one("base").cloned(),
        remove: matches.get_one("remove").cloned(),
        duplicates,
        strict: matches.get_flag("strict"),
        memory: usize::try_from(*matches.get_one::<u64>("memory").expect("it has a default")).unwrap_or(usize::MAX),
        seed: *matches.get_one("seed").expect("it has a default"),
        compression: text("compression").and_then(|wanted| named(&FrameCompression::NAMES, &wanted)),
        ..BuildOptions::of(input_args::read(matches), file(matches, "output").to_owned())
    };
    let begun = Instant::now();
    match built(&options) {
        Ok(built) => {
            let (table, seconds) = (options.output.display(), begun.elapsed().as_secs_f64());
            if matches.get_flag("json") {
                return print_json(&json!({
                    "file": table.to_string(),
                    "entries": built.entries,
                    "replaced": built.replaced,
                    "left_out": built.bad.count,
                    "seconds": (seconds * 1e3).round() / 1e3,
                }));
            }
            complain(format_args!("{table}: {} entries in {seconds:.2} s", built.entries));
            ExitCode::SUCCESS
        }
        Err(error) => fail(NOT_BUILT, &error.to_string()),
    }
}

/// Builds a table, showing how far it is and what was left out.
fn built(options: &BuildOptions) -> Result<Built, TableError> {
    let mut bar = ProgressBar::new("reading", Unit::Bytes);
    let built = build(options, &mut |progress| input_args::show(&mut bar, progress));
    drop(bar);
    let built = built?;
    input_args::complain_of(&options.input, &built.bad);
    if built.replaced > 0 {
        let name = options.input.name();
        complain(format_args!("{name}: {} entries were replaced by later ones of the same key", built.replaced));
    }
    Ok(built)
}

fn info(table: &Table) -> String {
    let (keys, values) = table.raw_bytes();
    let (file, index, entries) = (table.file_bytes(), table.index_bytes(), table.len());
    let each = |bytes: u64| bytes as f64 / entries.max(1) as f64;
    let compression = match table.dictionary_bytes() {
        0 => table.compression().name().to_owned(),
        bytes => format!("{}, with a dictionary of {bytes} bytes", table.compression().name()),
    };
    let origin = table.origin().map_or("no file".into(), |origin| format!("a file of {} bytes", origin.len));
    format!(
        "file:     {}\nformat:   1\nentries:  {entries}\nparts:    {}\nbytes:    {file} ({:.2} per entry)\nkeys:     {keys} ({:.2} per entry)\nvalues:   {values} ({:.2} per entry)\n\
         index:    {index} ({:.2} per entry)\ncompression: {compression}\nmade of:  {origin}\n",
        table.path().display(),
        table.parts(),
        each(file),
        each(keys),
        each(values),
        each(index),
    )
}

fn verify(table: &Table) -> Result<(), TableError> {
    let bar = ProgressBar::new("reading", Unit::Entries);
    table.verify_with(&mut |checked| bar.show(checked, table.len()))
}

fn document(table: &Table) -> serde_json::Value {
    let (keys, values) = table.raw_bytes();
    json!({
        "file": table.path().to_string_lossy(),
        "entries": table.len(),
        "parts": table.parts(),
        "bytes": table.file_bytes(),
        "key_bytes": keys,
        "value_bytes": values,
        "index_bytes": table.index_bytes(),
        "compression": table.compression().name(),
        "dictionary_bytes": table.dictionary_bytes(),
        "made_of_bytes": table.origin().map(|origin| origin.len),
    })
}

fn get_json(table: &Table, key: &[u8], matches: &ArgMatches) -> Result<ExitCode, String> {
    let value = table.get(key).map_err(|error| error.to_string())?;
    let document = json!({
        "key": json_text(key),
        "found": value.is_some(),
        "value": value.as_deref().map(json_text),
    });
    Ok(Report { text: String::new(), document, is_bad: value.is_none() }.print(matches))
}

fn get(table: &Table, key: &[u8]) -> Result<ExitCode, String> {
    match table.get(key) {
        Ok(Some(value)) => put_out(|out| out.write_all(&value)),
        Ok(None) => Err(format!("{}: no such key", key.escape_ascii())),
        Err(error) => Err(error.to_string()),
    }
}

fn dump(table: &Table, keys_only: bool, as_json: bool) -> Result<ExitCode, String> {
    let mut damaged = None;
    put_out(|out| {
        for entry in table.entries(Position::default()) {
            let (key, value) = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    damaged = Some(error);
                    break;
                }
            };
            if as_json {
                let document = match keys_only {
                    true => json!({ "key": json_text(key) }),
                    false => json!({ "key": json_text(key), "value": json_text(&value) }),
                };
                writeln!(out, "{document}")?;
                continue;
            }
            out.write_all(key)?;
            if !keys_only {
                out.write_all(b" ")?;
                out.write_all(&value)?;
            }
            out.write_all(b"\n")?;
        }
        Ok(())
    })?;
    damaged.map_or(Ok(ExitCode::SUCCESS), |error| Err(error.to_string()))
}

/// Writes to standard output; a reader that has seen enough is no failure.
fn put_out(write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>) -> Result<ExitCode, String> {
    let mut out = BufWriter::new(io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Ok(fail(exit_codes::FAILED, &format!("cannot write to standard output: {error}")))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn fail(code: u8, reason: &str) -> ExitCode {
    complain(reason);
    ExitCode::from(code)
}
