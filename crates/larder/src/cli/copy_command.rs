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
use serde_json::json;
use std::{
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
        let mut pass = Pass { to, rate, left_out: LeftOut::new(), seen: 0, differ: 0 };
        pass.copy(open()?, resume).await?;
        let (entries, left_out) = (pass.seen, std::mem::take(&mut pass.left_out));
        pass.compare(open()?).await?;
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
    left_out: LeftOut,
    seen: u64,
    differ: u64,
}

impl Pass {
    async fn copy(&mut self, mut from: CopyEnd, resume: Option<&ResumeFile<'_>>) -> Result<(), String> {
        let (mut after, before) = resume.map_or(Ok((None, 0)), ResumeFile::read)?;
        self.seen = before;
        let bar = ProgressBar::new("copying", Unit::Entries);
        let about = from.count().await.map_err(|error| format!("FROM: {error}"))?;
        let begun = Instant::now();
        loop {
            let page = from.page(after).await.map_err(|error| format!("FROM: {error}"))?;
            let written = self.to.write(&page.entries).await;
            for left_out in written.map_err(|error| format!("TO: {error}; {} entries were copied before", self.seen))? {
                match left_out {
                    Some(what) => *self.left_out.entry(what).or_default() += 1,
                    None => self.seen += 1,
                }
            }
            bar.show(self.seen, about.max(self.seen));
            after = page.next;
            let Some(after) = &after else { return Ok(()) };
            if let Some(resume) = resume {
                resume.write(after, self.seen)?;
            }
            self.wait(begun, self.seen - before).await;
        }
    }

    async fn compare(&mut self, mut from: CopyEnd) -> Result<(), String> {
        let bar = ProgressBar::new("comparing", Unit::Entries);
        let (begun, mut seen, mut after) = (Instant::now(), 0, None);
        loop {
            let page = from.page(after).await.map_err(|error| format!("FROM: {error}"))?;
            let mut entries = page.entries;
            entries.retain(|(_, entry)| self.to.leaves_out(entry).is_none());
            let keys: Vec<Bytes> = entries.iter().map(|(key, _)| key.clone()).collect();
            let found = self.to.read(&keys).await.map_err(|error| format!("TO: {error}"))?;
            // Servers of two versions dump a list in different ways.
            let is_same = |(entry, found): (&HeldEntry, &HeldEntry)| {
                entry.is_same(found) || matches!((entry, found), (HeldEntry::Dump(..), HeldEntry::Dump(..)))
            };
            let differ = entries.iter().zip(&found).filter(|((_, entry), found)| !is_same((entry, found)));
            self.differ += differ.count() as u64;
            seen += entries.len() as u64;
            bar.show(seen, self.seen.max(seen));
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
            self.wait(begun, seen).await;
        }
    }

    async fn wait(&self, begun: Instant, entries: u64) {
        if let Some(rate) = self.rate {
            sleep_until(begun + Duration::from_secs_f64(entries as f64 / rate as f64)).await;
        }
    }
}

/// How far a copy is, in a file.
struct ResumeFile<'a> {
    file: &'a Path,
    from: &'a str,
    to: String,
}

impl ResumeFile<'_> {
    /// The cursor, and the entries before it.
    fn read(&self) -> Result<(Option<Bytes>, u64), String> {
        let wrong = |what: &str| format!("{}: {what}", self.file.display());
        let text = match fs::read(self.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((None, 0)),
            text => text.map_err(|error| wrong(&error.to_string()))?,
        };
        let document: serde_json::Value = serde_json::from_slice(&text).map_err(|_| wrong("is no file of a copy"))?;
        if document["from"] != self.from || document["to"] != self.to {
            return Err(wrong("is that of another copy"));
        }
        let after = document["after"].as_str().and_then(|after| BASE64_STANDARD.decode(after).ok());
        match (after, document["entries"].as_u64()) {
            (Some(after), Some(entries)) => Ok((Some(after.into()), entries)),
            _ => Err(wrong("is no file of a copy")),
        }
    }

    fn write(&self, after: &[u8], entries: u64) -> Result<(), String> {
        let after = BASE64_STANDARD.encode(after);
        let document = json!({ "from": self.from, "to": self.to, "after": after, "entries": entries });
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
