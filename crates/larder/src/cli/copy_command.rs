//! `larder copy FROM TO`: the entries of a store, a Redis server or a snapshot, into a store or a Redis
//! server. Then both are compared.
//!
//! Exit codes: 0 done; 1 entries were left out or differ, or a side gave an error; 2 wrong usage.
use super::{
    copy_ends::{CopyEnd, LeftOut, Snapshot},
    exit_codes::USAGE,
    output::{Report, complain, json},
    progress_bar::{ProgressBar, Unit},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use clap::{Arg, ArgMatches, Command, value_parser};
use larder_base::buffers::Buffers;
use larder_config::{SourceClass, SourceUrl};
use larder_source::{HeldEntry, SourceLimits, SourceSetup, StoredEntries};
use larder_store::{atomic_files, snapshot::SnapshotReader};
use serde::Deserialize;
use serde_json::json;
use std::{
    fmt::Display,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};
use tokio::time::{Instant, sleep_until};

const LIMITS: SourceLimits = SourceLimits {
    timeout: Duration::from_secs(20),
    slow_timeout: Duration::from_secs(60),
    max_in_flight: 1000,
    max_value: 512 << 20,
    ..SourceLimits::SMALLEST
};

/// Left out on the side of FROM.
const UNREADABLE: &str = "values of FROM that Larder did not write";

pub(super) fn command() -> Command {
    Command::new("copy")
        .about("Copy all entries from one store to another, and compare them")
        .arg(
            Arg::new("from")
                .value_name("FROM")
                .required(true)
                .help("disk:DIR, a redis:// or cassandra:// URL, table:FILE, or the file of a snapshot"),
        )
        .arg(
            Arg::new("to")
                .value_name("TO")
                .required(true)
                .value_parser(value_parser!(SourceUrl))
                .help("disk:DIR, or a redis:// or cassandra:// URL; entries that are there are overwritten"),
        )
        .arg(
            Arg::new("rate")
                .long("rate")
                .value_name("N")
                .value_parser(value_parser!(u64).range(1..))
                .help("Read at most N entries per second"),
        )
        .arg(
            Arg::new("resume")
                .long("resume")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("Write into FILE how far the copy is, and go on from there if FILE exists"),
        )
        .arg(json())
}

/// Where entries come from.
enum From {
    Snapshot(PathBuf),
    Source(Box<SourceUrl>),
}

pub(super) fn run(matches: &ArgMatches) -> ExitCode {
    let text = matches.get_one::<String>("from").expect("it is required");
    let to = matches.get_one::<SourceUrl>("to").expect("it is required");
    let (from, named) = match text.parse::<SourceUrl>() {
        Ok(url) => (From::Source(Box::new(url.clone())), url.to_string()),
        Err(_) if Path::new(text).is_file() => (From::Snapshot(text.into()), text.clone()),
        Err(error) => {
            complain(format_args!("FROM: {error}"));
            return ExitCode::from(USAGE);
        }
    };
    let can_write = matches!(to.class(), SourceClass::Store | SourceClass::SharedStore | SourceClass::Redis);
    let can_read = match &from {
        From::Snapshot(_) => true,
        From::Source(url) => !matches!(url.class(), SourceClass::Memory | SourceClass::Values),
    };
    if !can_read || !can_write {
        let (which, named) = if can_read { ("to", to.to_string()) } else { ("from", named) };
        complain(format_args!("{named} cannot be copied {which}: stores and Redis servers can"));
        return ExitCode::from(USAGE);
    }
    if named == to.to_string() {
        complain("FROM and TO are the same");
        return ExitCode::from(USAGE);
    }
    let resume = matches.get_one::<PathBuf>("resume").map(|file| ResumeFile { file, from: &named, to: to.to_string() });
    let rate = matches.get_one::<u64>("rate").copied();
    match copy(&from, to, rate, resume.as_ref()) {
        Ok(report) => report.print(matches),
        Err(error) => {
            complain(error);
            if let Some(resume) = resume.filter(|resume| resume.file.exists()) {
                complain(format_args!("run the same command again to go on ({})", resume.file.display()));
            }
            ExitCode::FAILURE
        }
    }
}

/// Errors name the side at fault.
fn copy(from: &From, to: &SourceUrl, rate: Option<u64>, resume: Option<&ResumeFile<'_>>) -> Result<Report, String> {
    let setup = |url: &SourceUrl| SourceSetup::new(url, LIMITS, &Buffers::unbounded());
    let open: Box<dyn Fn() -> Result<CopyEnd, String>> = match from {
        From::Snapshot(file) => Box::new(|| open_snapshot(file)),
        From::Source(url) => {
            let setup = setup(url)?;
            Box::new(move || Ok(CopyEnd::Source(StoredEntries::of(setup.open(None, false)))))
        }
    };
    let of_to = setup(to)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default());
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let to = StoredEntries::of(of_to.open(None, false));
        let mut pass = Pass { to, rate, done: Progress::default(), differ: 0 };
        pass.copy(open()?, resume).await?;
        pass.compare(open()?).await?;
        let Progress { entries, left_out, .. } = pass.done;
        if let Some(resume) = resume {
            resume.remove()?;
        }
        for (what, count) in &left_out {
            complain(format_args!("{count} {what} are left out"));
        }
        if pass.differ > 0 {
            complain(format_args!("{} entries differ: they were changed meanwhile, or a write was lost", pass.differ));
        }
        Ok(Report {
            text: format!("{entries} entries copied, {} differ\n", pass.differ),
            document: json!({ "entries": entries, "differ": pass.differ, "left_out": left_out }),
            is_bad: pass.differ > 0 || !left_out.is_empty(),
        })
    })
}

fn open_snapshot(file: &Path) -> Result<CopyEnd, String> {
    let reader = SnapshotReader::open(file).map_err(|error| error.of_file(file).to_string())?;
    if let [_, _, ..] = &reader.header().groups[..] {
        return Err(format!("{}: has the entries of several groups, which are different stores", file.display()));
    }
    Ok(CopyEnd::Snapshot(Box::new(Snapshot::new(reader))))
}

/// What both passes over the entries share.
struct Pass {
    to: StoredEntries,
    rate: Option<u64>,
    done: Progress,
    differ: u64,
}

/// What was copied. An earlier Larder wrote only `entries` into the file of a copy.
#[derive(Debug, Default, Deserialize)]
struct Progress {
    entries: u64,
    #[serde(default)]
    left_out: LeftOut,
    /// Entries that TO refused one by one. They are among those left out.
    #[serde(default)]
    refused: u64,
}

impl Pass {
    async fn copy(&mut self, mut from: CopyEnd, resume: Option<&ResumeFile<'_>>) -> Result<(), String> {
        let mut after = None;
        if let Some(resume) = resume {
            (after, self.done) = resume.read()?;
        }
        let bar = ProgressBar::new("copying", Unit::Entries);
        // Only the bar needs it.
        let about = from.count().await.unwrap_or(0);
        let (begun, mut read) = (Instant::now(), 0);
        loop {
            let page = from.page(after).await.map_err(|error| failed("FROM", error))?;
            let written = self.to.write(&page.entries).await;
            let before = self.done.entries;
            let written =
                written.map_err(|error| format!("{}; {before} entries were copied before", failed("TO", error)))?;
            for ((_, entry), left_out) in page.entries.iter().zip(written) {
                match left_out {
                    Some(what) => {
                        self.done.refused += u64::from(self.to.leaves_out(entry).is_none());
                        *self.done.left_out.entry(what).or_default() += 1;
                    }
                    None => self.done.entries += 1,
                }
            }
            if page.unreadable > 0 {
                *self.done.left_out.entry(UNREADABLE.to_owned()).or_default() += page.unreadable;
            }
            bar.show(self.done.entries, about.max(self.done.entries));
            after = page.next;
            let Some(after) = &after else { return Ok(()) };
            if let Some(resume) = resume {
                resume.write(after, &self.done)?;
            }
            read += page.entries.len() as u64 + page.unreadable;
            self.wait(begun, read).await;
        }
    }

    async fn compare(&mut self, mut from: CopyEnd) -> Result<(), String> {
        let bar = ProgressBar::new("comparing", Unit::Entries);
        let (begun, mut read, mut seen, mut after) = (Instant::now(), 0, 0, None);
        loop {
            let page = from.page(after).await.map_err(|error| failed("FROM", error))?;
            let mut entries = page.entries;
            read += entries.len() as u64 + page.unreadable;
            entries.retain(|(_, entry)| self.to.leaves_out(entry).is_none());
            let keys: Vec<Bytes> = entries.iter().map(|(key, _)| key.clone()).collect();
            let found = self.to.read(&keys).await.map_err(|error| failed("TO", error))?;
            // Servers of two versions dump a list in different ways.
            let is_same = |(entry, found): (&HeldEntry, &HeldEntry)| {
                entry.is_same(found) || matches!((entry, found), (HeldEntry::Dump(..), HeldEntry::Dump(..)))
            };
            let differ = entries.iter().zip(&found).filter(|((_, entry), found)| !is_same((entry, found)));
            self.differ += differ.count() as u64;
            seen += entries.len() as u64;
            bar.show(seen, self.done.entries.max(seen));
            after = page.next;
            if after.is_none() {
                // Those that TO refused differ, and are counted as left out.
                self.differ = self.differ.saturating_sub(self.done.refused);
                return Ok(());
            }
            self.wait(begun, read).await;
        }
    }

    async fn wait(&self, begun: Instant, entries: u64) {
        if let Some(rate) = self.rate {
            sleep_until(begun + Duration::from_secs_f64(entries as f64 / rate as f64)).await;
        }
    }
}

/// The error of a side. `copy` has fixed deadlines, so the settings that a server has for them are
/// not named.
fn failed(side: &str, error: impl Display) -> String {
    let text = error.to_string().replace(" (source-timeout)", "").replace(" (source-slow-timeout)", "");
    format!("{side}: {text}")
}

/// How far a copy is, in a file.
struct ResumeFile<'a> {
    file: &'a Path,
    from: &'a str,
    to: String,
}

impl ResumeFile<'_> {
    /// The cursor, and what was copied before it.
    fn read(&self) -> Result<(Option<Bytes>, Progress), String> {
        let wrong = |what: &str| format!("{}: {what}", self.file.display());
        let text = match fs::read(self.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((None, Progress::default())),
            text => text.map_err(|error| wrong(&error.to_string()))?,
        };
        let document: serde_json::Value = serde_json::from_slice(&text).map_err(|_| wrong("is no file of a copy"))?;
        if document["from"] != self.from || document["to"] != self.to {
            return Err(wrong("is that of another copy"));
        }
        let after = document["after"].as_str().and_then(|after| BASE64_STANDARD.decode(after).ok());
        match (after, Progress::deserialize(&document)) {
            (Some(after), Ok(done)) => Ok((Some(after.into()), done)),
            _ => Err(wrong("is no file of a copy")),
        }
    }

    fn write(&self, after: &[u8], done: &Progress) -> Result<(), String> {
        let Progress { entries, left_out, refused } = done;
        let after = BASE64_STANDARD.encode(after);
        let document = json!({
            "from": self.from, "to": self.to, "after": after,
            "entries": entries, "left_out": left_out, "refused": refused,
        });
        atomic_files::write_with(self.file, |file| writeln!(file, "{document}"))
            .map_err(|error| format!("{}: {error}", self.file.display()))
    }

    fn remove(&self) -> Result<(), String> {
        match fs::remove_file(self.file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(format!("{}: {error}", self.file.display())),
            _ => Ok(()),
        }
    }
}

#[test]
fn an_error_names_no_setting_of_a_server() {
    let error = "source unavailable: timed out after 60s (source-slow-timeout)";
    assert_eq!(failed("FROM", error), "FROM: source unavailable: timed out after 60s");
}
