//! `larder table build|info|get|verify|dump`: tables without a server; and the table of `larder
//! serve DATA`.
//!
//! Exit codes: 0 done, 1 there is no such key or the file is no sound table, 2 wrong usage, 3 a
//! table could not be built.
use super::{
    exit_codes,
    output::{Report, complain, json, json_text, print_json},
    progress_bar::{ProgressBar, Unit},
};
use crate::config::{ConfigError, SourceUrl};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use larder_store::table::{
    BuildOptions, Built, Duplicates, Format, FrameCompression, Input, Position, Progress, Table, TableError, build,
};
use larder_units::{parse_size, show_size};
use serde_json::json;
use std::{
    ffi::OsString,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::{self, BufWriter, Write as _},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    process::{self, ExitCode},
    time::Instant,
};

const FAILED: u8 = 1;
const NOT_BUILT: u8 = 3;

/// `table` and its commands.
pub(super) fn command() -> Command {
    let path = |name: &'static str| Arg::new(name).value_name("FILE").value_parser(value_parser!(PathBuf));
    let option = |name: &'static str| path(name).long(name);
    let table = || path("table").value_name("TABLE").required(true).help("The table");
    let formats = Format::NAMES.map(|(name, _)| name);
    let build = Command::new("build")
        .about("Build a table from text (`key value words…` per line), CSV, TSV, JSON lines or another table")
        .arg(path("input").value_name("INPUT").required(true).help("Input file; - reads standard input"))
        .arg(
            option("output")
                .short('o')
                .required(true)
                .help("Table file; an existing one is replaced when the new one is complete"),
        )
        .arg(
            Arg::new("format")
                .long("format")
                .value_name("FORMAT")
                .value_parser(formats)
                .help("Input format [default: by the file name's ending, otherwise text]"),
        )
        .arg(
            Arg::new("key")
                .long("key")
                .value_name("COLUMN")
                .default_value("key")
                .help("CSV, TSV, JSON: column or field of the key"),
        )
        .arg(
            Arg::new("value")
                .long("value")
                .value_name("COLUMN")
                .default_value("value")
                .help("CSV, TSV, JSON: column or field of the value"),
        )
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
            Arg::new("strict")
                .long("strict")
                .action(ArgAction::SetTrue)
                .help("Stop at the first invalid line instead of skipping it"),
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

/// Runs one of the commands.
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
    let mut input = Input::of(file(matches, "input").to_owned());
    if let Some(format) = text("format").and_then(|wanted| named(&Format::NAMES, &wanted)) {
        input.format = format;
    }
    input.key = text("key").expect("it has a default");
    input.value = text("value").expect("it has a default");
    let duplicates = if text("duplicates").as_deref() == Some("error") { Duplicates::Error } else { Duplicates::Last };
    let options = BuildOptions {
        base: matches.get_one("base").cloned(),
        remove: matches.get_one("remove").cloned(),
        duplicates,
        strict: matches.get_flag("strict"),
        memory: usize::try_from(*matches.get_one::<u64>("memory").expect("it has a default")).unwrap_or(usize::MAX),
        seed: *matches.get_one("seed").expect("it has a default"),
        compression: text("compression").and_then(|wanted| named(&FrameCompression::NAMES, &wanted)),
        ..BuildOptions::of(input, file(matches, "output").to_owned())
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
                    "left_out": built.bad,
                    "seconds": (seconds * 1e3).round() / 1e3,
                }));
            }
            complain(format_args!("{table}: {} entries in {seconds:.2} s", built.entries));
            ExitCode::SUCCESS
        }
        Err(error) => fail(NOT_BUILT, &error.to_string()),
    }
}

/// `larder serve DATA`
pub(super) fn data() -> Arg {
    Arg::new("data")
        .value_name("DATA")
        .value_parser(value_parser!(PathBuf))
        .conflicts_with("source")
        .help("A table, or a data file to build one from (text, CSV, TSV or JSON lines; see larder table build); like --source table:FILE")
}

/// The table that `larder serve DATA` serves: the data itself, or DATA.ltab, which is built unless
/// it was built from the data as it is.
pub(super) fn served(matches: &ArgMatches) -> Result<Option<SourceUrl>, ConfigError> {
    let Some(data) = matches.get_one::<PathBuf>("data") else { return Ok(None) };
    let refused = |error: TableError| ConfigError(vec![error.to_string()]);
    let input = Input::of(data.clone());
    if input.format == Format::Table {
        return Ok(Some(SourceUrl::Table(data.clone())));
    }
    let wanted = Input::origin(data).map_err(refused)?;
    let is_current = |output: &Path| Table::open(output).is_ok_and(|table| table.origin() == Some(wanted));
    let beside = beside(data);
    if is_current(&beside) {
        return Ok(Some(SourceUrl::Table(beside)));
    }
    let output = match can_be_written(&beside) {
        true => beside,
        false => {
            let output = in_cache(data)
                .map_err(|error| ConfigError(vec![format!("{}: cannot be written: {error}", beside.display())]))?;
            if is_current(&output) {
                return Ok(Some(SourceUrl::Table(output)));
            }
            output
        }
    };
    complain(format_args!("building {}", output.display()));
    // In a process of its own: the allocator keeps what a build has freed (20 MB after a million
    // entries), which serving has no use for.
    let build = |larder: PathBuf| {
        let mut build = process::Command::new(larder);
        build.args(["table", "build", "-o"]).arg(&output).arg("--").arg(data).stdin(process::Stdio::null()).status()
    };
    match std::env::current_exe().and_then(build) {
        Ok(status) if status.success() => Ok(Some(SourceUrl::Table(output))),
        // It has said why.
        Ok(_) => Err(ConfigError(vec![format!("{}: no table has been built from it", data.display())])),
        Err(error) => Err(ConfigError(vec![format!("{}: cannot start the build: {error}", output.display())])),
    }
}

/// `x.data.ltab` beside `x.data`.
fn beside(data: &Path) -> PathBuf {
    let mut name = data.as_os_str().to_owned();
    name.push(".ltab");
    name.into()
}

/// Whether a table can take this place: a build writes a file beside it and renames that.
fn can_be_written(output: &Path) -> bool {
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let probe = folder.join(format!(".larder-{}.tmp", process::id()));
    let made = std::fs::OpenOptions::new().write(true).create_new(true).open(&probe).is_ok();
    made && std::fs::remove_file(&probe).is_ok() && !output.is_dir()
}

/// A table for data whose folder cannot be written to, in the user's cache:
/// `$XDG_CACHE_HOME/larder`, or `~/.cache/larder`. Not in `/tmp`, where another user could have put
/// one.
fn in_cache(data: &Path) -> io::Result<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
    let folder = cache.ok_or_else(|| io::Error::other("and neither XDG_CACHE_HOME nor HOME is set"))?.join("larder");
    std::fs::create_dir_all(&folder)?;
    // Files of the same name in different folders have different tables.
    let whole = data.canonicalize()?;
    let mut name = data.file_name().unwrap_or_default().to_owned();
    let mut hash = DefaultHasher::new();
    whole.hash(&mut hash);
    name.push(format!(".{:016x}.ltab", hash.finish()));
    Ok(folder.join(name))
}

/// Builds a table, showing how far it is and what was left out.
fn built(options: &BuildOptions) -> Result<Built, TableError> {
    let mut bar = ProgressBar::new("reading", Unit::Bytes);
    let built = build(options, &mut |progress| match progress {
        Progress::Reading(done, total) => bar.show(done, total.unwrap_or(done)),
        Progress::Writing(done, total) => {
            bar.begin("writing", Unit::Entries);
            bar.show(done, total);
        }
    });
    drop(bar);
    let built = built?;
    let name = options.input.name();
    for (line, why) in &built.described {
        complain(format_args!("{name}: line {line} is left out: {why}"));
    }
    match built.bad - built.described.len() as u64 {
        0 => {}
        more => complain(format_args!("{name}: {more} more lines are left out")),
    }
    if built.replaced > 0 {
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
