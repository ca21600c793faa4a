//! Measuring: servers are started when they are first needed, loaded in turn, and what is found is written down at once.
mod one;

use super::{
    record::{GapRecord, MemoryRecord, PageSection, RawRecord, RivalLoad, SettingRecord},
    subjects::{Ask, ITEM, Preparation, Rival, Started},
};
use crate::{load::RunEnd, report, wire::HttpClient};
use anyhow::{Context, ensure};
use one::Shape;
use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    path::PathBuf,
    time::Duration,
};

/// How large everything is.
#[derive(Debug, Clone)]
pub(super) struct Scale {
    /// Length of a load, and of one at half of the highest rate.
    pub(super) load: Duration,
    pub(super) latency: Duration,
    pub(super) runs: u64,
    /// Connections of the commands and of `/lookup`.
    pub(super) connections: Vec<usize>,
    pub(super) lookup_connections: Vec<usize>,
    /// Lengths of values whose memory is measured, and how many bytes and entries there may be of each.
    pub(super) value_sizes: Vec<usize>,
    pub(super) memory_bytes: u64,
    pub(super) memory_entries: u64,
}

/// Connections of all other loads.
const CONNECTIONS: usize = 50;
const ITEM_CONNECTIONS: usize = 30;
const PIPELINE: usize = 16;
/// Length of a key whose memory is measured: a UUID.
const KEY_SIZE: usize = 36;
/// What servers may keep; more than is ever stored.
const MEMORY_MIB: u64 = 2048;
const TIMEOUT: Duration = Duration::from_secs(10);

/// A comparison that goes on.
pub(super) struct Bench<'a> {
    pub(super) setting: &'a SettingRecord,
    pub(super) scale: Scale,
    pub(super) subjects: Vec<(Rival, PathBuf)>,
    pub(super) raw: &'a mut dyn Write,
    /// The servers, or why they could not be started.
    pub(super) started: BTreeMap<(Rival, Preparation), Result<Started, String>>,
    /// Runs so far: keys that must be new are numbered by it.
    pub(super) nonce: u64,
}

impl Bench<'_> {
    /// Measures a section.
    pub(super) fn section(&mut self, section: PageSection) -> anyhow::Result<()> {
        match section {
            PageSection::Http => {
                let loads = [
                    RivalLoad::HttpHit,
                    RivalLoad::LookupHit,
                    RivalLoad::HttpMiss,
                    RivalLoad::NotFound,
                    RivalLoad::BadRequest,
                ];
                loads.into_iter().try_for_each(|load| self.group(section, load, CONNECTIONS, 1))
            }
            PageSection::Commands => {
                for load in [RivalLoad::Get, RivalLoad::Set, RivalLoad::Mget] {
                    for pipeline in [1, PIPELINE] {
                        for connections in self.scale.connections.clone() {
                            self.group(section, load, connections, pipeline)?;
                        }
                    }
                }
                [1, PIPELINE]
                    .into_iter()
                    .try_for_each(|pipeline| self.group(section, RivalLoad::Miss, CONNECTIONS, pipeline))
            }
            PageSection::Latency => [RivalLoad::HttpHit, RivalLoad::HttpMiss, RivalLoad::Get, RivalLoad::Miss]
                .into_iter()
                .try_for_each(|load| self.half(load)),
            PageSection::Lookup => {
                for load in [RivalLoad::BadRequest, RivalLoad::LookupMiss, RivalLoad::LookupHit] {
                    for connections in self.scale.lookup_connections.clone() {
                        self.group(section, load, connections, 1)?;
                    }
                }
                Ok(())
            }
            PageSection::Item => self.items(),
            PageSection::Memory => self.memory(),
        }
    }

    /// Writes a record down.
    pub(super) fn note(&mut self, record: RawRecord) -> anyhow::Result<()> {
        report::line(self.raw, &record)
    }

    fn failed(
        &mut self,
        section: PageSection,
        load: Option<RivalLoad>,
        subject: Rival,
        error: &anyhow::Error,
    ) -> anyhow::Result<()> {
        eprintln!("  {}: {error:#}", subject.name());
        let (server, reason) = (subject.name().to_owned(), format!("{error:#}"));
        self.note(RawRecord::Failed(GapRecord { section: Some(section), load, server, reason }))
    }

    /// One load of all servers that know it: run by run in turn, so that what happens to the machine happens to all.
    fn group(
        &mut self,
        section: PageSection,
        load: RivalLoad,
        connections: usize,
        pipeline: usize,
    ) -> anyhow::Result<()> {
        let able = self.able(|subject| {
            // The published form is Larder's route; nginx only serves the same bytes.
            subject.ask(load, 0).is_some() && (section != PageSection::Lookup || subject == Rival::Larder)
        });
        progress(section, load, &format!("{connections} connections, {pipeline} at a time"));
        let mut out = BTreeSet::new();
        for run in 0..self.scale.runs {
            for &subject in &able {
                if out.contains(&subject) {
                    continue;
                }
                let shape = Shape { section, load, connections, pipeline, run };
                let stop = RunEnd::After(self.scale.load);
                let result = match run {
                    0 => self.warm_up(subject, shape),
                    _ => Ok(()),
                };
                match result.and_then(|()| self.sample(subject, shape, None, stop, |ask| ask)) {
                    Ok(sample) => self.note(RawRecord::Sample(sample))?,
                    Err(error) => {
                        out.insert(subject);
                        self.failed(section, Some(load), subject, &error)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// The latency at half of what each server can do at most.
    fn half(&mut self, load: RivalLoad) -> anyhow::Result<()> {
        let section = PageSection::Latency;
        progress(section, load, "half of the highest rate");
        let mut peaks = Vec::new();
        for subject in self.able(|subject| subject.ask(load, 0).is_some()) {
            let shape = Shape { section, load, connections: CONNECTIONS, pipeline: 1, run: 0 };
            let peak = self.warm_up(subject, shape).and_then(|()| {
                let peak = self.sample(subject, shape, None, RunEnd::After(self.scale.load), |ask| ask)?;
                ensure!(peak.errors.is_empty(), "at the highest rate: {:?}", peak.errors);
                Ok(peak)
            });
            match peak {
                Ok(peak) => {
                    peaks.push((subject, peak.per_second / 2.0));
                    self.note(RawRecord::Sample(peak))?;
                }
                Err(error) => self.failed(section, Some(load), subject, &error)?,
            }
        }
        for run in 0..self.scale.runs {
            for &(subject, rate) in &peaks {
                let shape = Shape { section, load, connections: CONNECTIONS, pipeline: 1, run };
                match self.sample(subject, shape, Some(rate), RunEnd::After(self.scale.latency), |ask| ask) {
                    Ok(sample) => self.note(RawRecord::Sample(sample))?,
                    Err(error) => self.failed(section, Some(load), subject, &error)?,
                }
            }
        }
        Ok(())
    }

    /// GCache's table, in its order: what is stored is updated, read and removed.
    fn items(&mut self) -> anyhow::Result<()> {
        let section = PageSection::Item;
        for subject in self.able(|subject| subject.ask(RivalLoad::ItemUnique, 0).is_some()) {
            progress(section, RivalLoad::ItemUnique, subject.name());
            match self.has_items(subject) {
                Ok(true) => {}
                Ok(false) => {
                    let (server, reason) = (subject.name().to_owned(), format!("it does not have {ITEM} (yet)"));
                    self.note(RawRecord::Skipped(GapRecord { section: Some(section), load: None, server, reason }))?;
                    continue;
                }
                Err(error) => {
                    self.failed(section, None, subject, &error)?;
                    continue;
                }
            }
            for run in 0..self.scale.runs {
                if let Err(error) = self.item_run(subject, run) {
                    self.failed(section, None, subject, &error)?;
                    break;
                }
            }
        }
        Ok(())
    }

    fn item_run(&mut self, subject: Rival, run: u64) -> anyhow::Result<()> {
        let shape = |load| Shape { section: PageSection::Item, load, connections: ITEM_CONNECTIONS, pipeline: 1, run };
        let after = RunEnd::After(self.scale.load);
        let unique = self.sample(subject, shape(RivalLoad::ItemUnique), None, after, |ask| ask)?;
        let (stored, nonce) = (unique.requests.max(1), self.nonce);
        self.note(RawRecord::Sample(unique))?;
        let these = |ask| Ask { key: format!("{nonce}:{{n}}"), keys: stored, ..ask };
        for load in [RivalLoad::ItemUpdate, RivalLoad::ItemAbsent, RivalLoad::ItemStored, RivalLoad::ItemDelete] {
            let stop = if load == RivalLoad::ItemDelete { RunEnd::Requests(stored) } else { after };
            let keys =
                |ask| if matches!(load, RivalLoad::ItemStored | RivalLoad::ItemDelete) { these(ask) } else { ask };
            let sample = self.sample(subject, shape(load), None, stop, keys)?;
            self.note(RawRecord::Sample(sample))?;
        }
        Ok(())
    }

    /// Does it store an item?
    fn has_items(&mut self, subject: Rival) -> anyhow::Result<bool> {
        let started = self.start(subject, Preparation::Hits)?;
        let address = started.server.http.context("it has no HTTP address")?;
        let body = r#"{"key":"probe","value":"probe","ttl":60}"#;
        let answer = HttpClient::connect(address, TIMEOUT)?.send("POST", ITEM, body)?;
        Ok((200..300).contains(&answer.status))
    }

    fn memory(&mut self) -> anyhow::Result<()> {
        for (subject, _) in self.subjects.clone() {
            if let Err(reason) = subject.holds_values() {
                let (server, reason) = (subject.name().to_owned(), reason.to_owned());
                self.note(RawRecord::Skipped(GapRecord {
                    section: Some(PageSection::Memory),
                    load: None,
                    server,
                    reason,
                }))?;
                continue;
            }
            eprintln!("memory: {}", subject.name());
            for size in self.scale.value_sizes.clone() {
                match self.memory_of(subject, size) {
                    Ok(memory) => self.note(RawRecord::Memory(memory))?,
                    Err(error) => self.failed(PageSection::Memory, None, subject, &error)?,
                }
            }
        }
        Ok(())
    }

    fn memory_of(&self, subject: Rival, value_size: usize) -> anyhow::Result<MemoryRecord> {
        let cores = (self.setting.server_core, self.setting.client_core);
        let started = subject.start(Preparation::Hits, self.binary(subject)?, cores, (value_size, MEMORY_MIB))?;
        let entries = (self.scale.memory_bytes / (value_size + KEY_SIZE) as u64).clamp(1, self.scale.memory_entries);
        let ask = subject.fill().context("nothing fills it")?;
        let ask = Ask { key: "{uuid}".to_owned(), keys: entries, ..ask };
        let before = started.server.memory()?;
        self.fill(&started.server, &ask, value_size)?;
        let growth = started.server.memory()?.saturating_sub(before);
        // Is all of it there?
        let load = if ask.scheme == "http" { RivalLoad::HttpHit } else { RivalLoad::Get };
        let check = subject.ask(load, 0).context("it cannot be asked")?;
        let check = Ask { op: check.op, path: check.path, all_found: check.all_found, ..ask };
        self.fill(&started.server, &check, value_size)?;
        Ok(MemoryRecord { server: subject.name().to_owned(), value_size, key_size: KEY_SIZE, entries, growth })
    }

    fn able(&self, able: impl Fn(Rival) -> bool) -> Vec<Rival> {
        self.subjects.iter().map(|&(subject, _)| subject).filter(|&subject| able(subject)).collect()
    }
}

fn progress(section: PageSection, load: RivalLoad, more: &str) {
    eprintln!("{section:?} {load:?}: {more}");
}
