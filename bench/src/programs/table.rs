//! `larder-bench table`: tables against maps of the same data in memory.
use crate::lib::{
    dataset::{Dataset, mix},
    figures::{self, Figure, FigureTarget, median},
    machine::{MeasuredProcess, pin},
};
use anyhow::{Context, bail, ensure};
use larder_store::table::{BuildOptions, Decoder, Input, Now, Position, Table, build};
use radix_trie::Trie;
use serde::{Deserialize, Serialize};
use std::{
    collections::HashMap,
    fs::{self, File},
    io::{BufRead, BufReader, BufWriter, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

/// Tables: build, open, size, resident memory and lookups, beside a hash map and a radix trie of
/// the same data
///
/// Writes a data file of UUID keys (36 bytes) with values of 20 to 50 letters, and measures each of
/// these in a process of its own: `build` (a table from the data), `table` (that table, opened; the
/// library that the server uses), `hash_map` (hashbrown with foldhash, boxed keys and values) and
/// `radix_trie` (the crate of that name), both loaded from the data.
///
/// Lookups: all keys once, in a random order, laid out in memory in that order; one thread, pinned.
/// Resident memory is the growth since the process's start once all keys have been looked up,
/// mapped pages included, without the keys that are laid out. The last lines hold the figures
/// against their targets.
#[derive(Debug, clap::Args)]
pub(crate) struct TableArgs {
    /// Number of entries
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    entries: u64,
    /// Runs of lookups, of which the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// Memory for the build
    #[arg(long, default_value = "512MiB", value_parser = larder_units::parse_size)]
    memory: u64,
    /// Measure only these
    #[arg(long, value_delimiter = ',', default_value = "build,table,hash_map,radix_trie")]
    only: Vec<String>,
    /// Where data and table are written (default: a temporary directory)
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Measure this one only, in this very process
    #[arg(long, value_name = "NAME", hide = true)]
    in_process: Option<String>,
}

/// What was measured of one of them.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Row {
    program: String,
    // Kept results have this name.
    #[serde(rename = "contender")]
    cache: String,
    entries: u64,
    /// Build, or load from the data, or open.
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_bytes_per_entry: Option<f64>,
    /// Of a build, the most that there was.
    resident_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lookups_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    absent_lookups_per_second: Option<f64>,
}

pub(crate) fn run(args: &TableArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    if let Some(name) = &args.in_process {
        let dir = args.dir.as_deref().context("--in-process goes with --dir")?;
        return figures::line(out, &measure(name, args, dir)?);
    }
    let temporary = tempfile::tempdir().context("cannot make a temporary directory")?;
    let dir = args.dir.as_deref().unwrap_or(temporary.path());
    if !data(dir).exists() {
        write_data(&data(dir), args.entries).context("cannot write the data")?;
    }
    let raw = (Dataset::uuid().raw_bytes() * args.entries as f64) as u64;
    for name in &args.only {
        let row = in_child(name, args, dir)?;
        figures::line(out, &row)?;
        let mut figure =
            |name: &str, value, target| figures::line(out, &Figure::new("table", name.into(), value, Some(target)));
        let millions = args.entries as f64 / 1e6;
        match &name[..] {
            "build" => {
                figure("build seconds per million entries", row.seconds / millions, FigureTarget::AtMost(2.0))?;
                let bytes = row.file_bytes_per_entry.unwrap_or(f64::NAN);
                figure("file bytes per entry", bytes, FigureTarget::AtMost(75.0))?;
                figure(
                    "file bytes per entry beyond keys and values",
                    bytes - raw as f64 / args.entries as f64,
                    FigureTarget::AtMost(4.0),
                )?;
            }
            "table" => {
                figure("open seconds", row.seconds, FigureTarget::AtMost(0.02))?;
                figure("lookups per second", row.lookups_per_second.unwrap_or(f64::NAN), FigureTarget::AtLeast(5e6))?;
                let file = fs::metadata(table(dir))?.len();
                let beyond = row.resident_bytes as f64 - file as f64;
                figure("resident bytes beyond the file", beyond, FigureTarget::AtMost((8 << 20) as f64))?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn data(dir: &Path) -> PathBuf {
    dir.join("bench.data")
}
fn table(dir: &Path) -> PathBuf {
    dir.join("bench.ltab")
}

/// Replaces `out` by the value of a key: letters, since a line ends at a line feed.
fn value(set: &Dataset, number: u64, out: &mut Vec<u8>) {
    set.value(number, 0, out);
    out.iter_mut().for_each(|byte| *byte = b'a' + *byte % 26);
}

fn write_data(path: &Path, entries: u64) -> anyhow::Result<()> {
    let set = Dataset::uuid();
    let (mut key, mut text) = (Vec::new(), Vec::new());
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    for number in 0..entries {
        set.key(number, &mut key);
        value(&set, number, &mut text);
        for part in [&key[..], b" ", &text, b"\n"] {
            file.write_all(part)?;
        }
    }
    Ok(file.flush()?)
}

fn in_child(name: &str, args: &TableArgs, dir: &Path) -> anyhow::Result<Row> {
    let own = std::env::current_exe().context("cannot find this program's own file")?;
    let child = Command::new(own)
        .args(["table", "--in-process", name, "--dir"])
        .arg(dir)
        .args([
            "--entries",
            &args.entries.to_string(),
            "--runs",
            &args.runs.to_string(),
            "--memory",
            &args.memory.to_string(),
        ])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start this program again")?;
    ensure!(child.status.success(), "measuring {name} ended with {}", child.status);
    serde_json::from_slice(&child.stdout).with_context(|| format!("measuring {name} gave no result"))
}

fn measure(name: &str, args: &TableArgs, dir: &Path) -> anyhow::Result<Row> {
    pin(0)?;
    let before = MeasuredProcess::Own.resident_bytes()?;
    let begun = Instant::now();
    match name {
        "build" => {
            let options = BuildOptions {
                strict: true,
                memory: args.memory as usize,
                ..BuildOptions::of(Input::of(data(dir)), table(dir))
            };
            let built = build(&options, &mut |_| ())?;
            let seconds = begun.elapsed().as_secs_f64();
            ensure!(built.entries == args.entries, "{} entries were built", built.entries);
            let file = fs::metadata(table(dir))?.len();
            Ok(Row {
                program: "table".into(),
                cache: name.into(),
                entries: built.entries,
                seconds: figures::rounded(seconds),
                file_bytes_per_entry: Some(figures::rounded(file as f64 / built.entries as f64)),
                resident_bytes: MeasuredProcess::Own.peak_resident_bytes()?,
                ..Row::default()
            })
        }
        "table" => {
            let table = Table::open(&table(dir))?;
            let seconds = begun.elapsed().as_secs_f64();
            // As the server does at its start.
            table.check_all()?;
            let mut decoder = Decoder::default();
            looked_up(name, args, before, seconds, |key| match table.get_now(key, &mut decoder) {
                Now::Found(value) => Some(value.len()),
                Now::Absent => None,
                Now::Unknown => unreachable!("all of it was checked"),
            })
        }
        "hash_map" => {
            let mut map: HashMap<Box<[u8]>, Box<[u8]>, foldhash::fast::RandomState> = HashMap::default();
            load(dir, |key, value| drop(map.insert(key.into(), value.into())))?;
            let seconds = begun.elapsed().as_secs_f64();
            looked_up(name, args, before, seconds, |key| map.get(key).map(|value| value.len()))
        }
        "radix_trie" => {
            let mut trie: Trie<Vec<u8>, Box<[u8]>> = Trie::new();
            load(dir, |key, value| drop(trie.insert(key.to_vec(), value.into())))?;
            let seconds = begun.elapsed().as_secs_f64();
            let mut wanted = Vec::with_capacity(64);
            looked_up(name, args, before, seconds, |key| {
                wanted.clear();
                wanted.extend_from_slice(key);
                trie.get(&wanted).map(|value| value.len())
            })
        }
        // How long it takes to come by all entries of a table in the order of the file.
        "walk" => {
            let table = Table::open(&table(dir))?;
            let walked = table.entries(Position::default()).filter(Result::is_ok).count() as u64;
            ensure!(walked == args.entries, "{walked} entries were seen");
            let seconds = figures::rounded(begun.elapsed().as_secs_f64());
            Ok(Row { program: "table".into(), cache: name.into(), entries: walked, seconds, ..Row::default() })
        }
        other => bail!("there is no `{other}` to measure"),
    }
}

fn load(dir: &Path, mut insert: impl FnMut(&[u8], &[u8])) -> anyhow::Result<()> {
    let mut file = BufReader::with_capacity(1 << 18, File::open(data(dir))?);
    let mut line = Vec::new();
    loop {
        line.clear();
        if file.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        let at = line.iter().position(|byte| *byte == b' ').context("a line without a blank")?;
        insert(&line[..at], &line[at + 1..]);
    }
}

/// Looks all keys up, to see that they are there and what is resident then; then for the time that
/// it takes.
fn looked_up(
    name: &str,
    args: &TableArgs,
    before: u64,
    seconds: f64,
    mut get: impl FnMut(&[u8]) -> Option<usize>,
) -> anyhow::Result<Row> {
    let set = Dataset::uuid();
    let (mut key, mut expected) = (Vec::new(), Vec::new());
    for number in 0..args.entries {
        set.key(number, &mut key);
        value(&set, number, &mut expected);
        ensure!(get(&key) == Some(expected.len()), "key {number} is not what it was");
    }
    let resident = MeasuredProcess::Own.resident_bytes()?.saturating_sub(before);
    let mut timed = |first: u64, found: bool| -> anyhow::Result<f64> {
        let mut order: Vec<u64> = (first..first + args.entries).collect();
        let mut state = 7;
        for at in (1..order.len()).rev() {
            state = mix(state);
            order.swap(at, (state % (at as u64 + 1)) as usize);
        }
        let mut keys = Vec::with_capacity(36 * order.len());
        for number in order {
            set.key(number, &mut key);
            keys.extend_from_slice(&key);
        }
        let mut rates = Vec::new();
        for _ in 0..args.runs {
            let begun = Instant::now();
            let hits = keys.chunks_exact(36).filter(|key| get(key).is_some()).count();
            rates.push(args.entries as f64 / begun.elapsed().as_secs_f64());
            ensure!(hits == if found { keys.len() / 36 } else { 0 }, "{hits} keys were found");
        }
        Ok(median(&rates).round())
    };
    Ok(Row {
        program: "table".into(),
        cache: name.into(),
        entries: args.entries,
        seconds: (seconds * 1e6).round() / 1e6,
        file_bytes_per_entry: None,
        resident_bytes: resident,
        lookups_per_second: Some(timed(0, true)?),
        absent_lookups_per_second: Some(timed(args.entries, false)?),
    })
}
