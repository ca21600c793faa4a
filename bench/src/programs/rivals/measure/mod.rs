//! Measuring: servers are started when they are first needed, loaded in turn, and what is found is
//! written down at once.
mod one_load;

use super::{
    record::{GapRecord, MemoryRecord, PageSection, RawRecord, RivalLoad, SettingRecord},
    rival_servers::{Ask, ITEM, Preparation, Rival, Started},
};
use crate::lib::{blocking_clients::HttpClient, figures, load::RunEnd};
use anyhow::{Context, ensure};
use one_load::Shape;
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
    /// Lengths of values whose memory is measured, and how many bytes and entries there may be of
    /// each.
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
    pub(super) rivals: Vec<(Rival, PathBuf)>,
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
                loads.into_iter().try_for_each(|load| self.group(Shape::lone(section, load, CONNECTIONS)))
            }
            PageSection::Commands => {
                for load in [RivalLoad::Get, RivalLoad::Set, RivalLoad::Mget] {
                    for (pipeline, batches) in [(1, false), (PIPELINE, false), (PIPELINE, true)] {
                        for connections in self.scale.connections.clone() {
                            let lone = Shape::lone(section, load, connections);
                            self.group(Shape { pipeline, batches, ..lone })?;
                        }
                    }
                }
                [1, PIPELINE].into_iter().try_for_each(|pipeline| {
                    self.group(Shape { pipeline, ..Shape::lone(section, RivalLoad::Miss, CONNECTIONS) })
                })
            }
            PageSection::Latency => [RivalLoad::HttpHit, RivalLoad::HttpMiss, RivalLoad::Get, RivalLoad::Miss]
                .into_iter()
                .try_for_each(|load| self.half(load)),
            PageSection::Lookup => {
                for load in [RivalLoad::BadRequest, RivalLoad::LookupMiss, RivalLoad::LookupHit] {
                    for connections in self.scale.lookup_connections.clone() {
                        self.group(Shape::lone(section, load, connections))?;
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
        figures::line(self.raw, &record)
    }

    fn failed(
        &mut self,
        section: PageSection,
        load: Option<RivalLoad>,
        rival: Rival,
        error: &anyhow::Error,
    ) -> anyhow::Result<()> {
        eprintln!("  {}: {error:#}", rival.name());
        let (server, reason) = (rival.name().to_owned(), format!("{error:#}"));
        self.note(RawRecord::Failed(GapRecord { section: Some(section), load, server, reason }))
    }

    /// One load of all servers that know it: run by run in turn, so that what happens to the
    /// machine happens to all.
    fn group(&mut self, shape: Shape) -> anyhow::Result<()> {
        let Shape { section, load, connections, pipeline, batches, .. } = shape;
        let able = self.able(|rival| {
            // The published form is Larder's route; nginx only serves the same bytes.
            rival.ask(load, 0).is_some() && (section != PageSection::Lookup || rival == Rival::Larder)
        });
        progress(
            section,
            load,
            &format!("{connections} connections, {pipeline} at a time{}", if batches { " in batches" } else { "" }),
        );
        let mut out = BTreeSet::new();
        for run in 0..self.scale.runs {
            for &rival in &able {
                if out.contains(&rival) {
                    continue;
                }
                let shape = Shape { run, ..shape };
                let stop = RunEnd::After(self.scale.load);
                let result = match run {
                    0 => self.warm_up(rival, shape),
                    _ => Ok(()),
                };
                match result.and_then(|()| self.sample(rival, shape, None, stop, |ask| ask)) {
                    Ok(sample) => self.note(RawRecord::Sample(sample))?,
                    Err(error) => {
                        out.insert(rival);
                        self.failed(section, Some(load), rival, &error)?;
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
        for rival in self.able(|rival| rival.ask(load, 0).is_some()) {
            let shape = Shape::lone(section, load, CONNECTIONS);
            let peak = self.warm_up(rival, shape).and_then(|()| {
                let peak = self.sample(rival, shape, None, RunEnd::After(self.scale.load), |ask| ask)?;
                ensure!(peak.errors.is_empty(), "at the highest rate: {:?}", peak.errors);
                Ok(peak)
            });
            match peak {
                Ok(peak) => {
                    peaks.push((rival, peak.per_second / 2.0));
                    self.note(RawRecord::Sample(peak))?;
                }
                Err(error) => self.failed(section, Some(load), rival, &error)?,
            }
        }
        for run in 0..self.scale.runs {
            for &(rival, rate) in &peaks {
                let shape = Shape { run, ..Shape::lone(section, load, CONNECTIONS) };
                match self.sample(rival, shape, Some(rate), RunEnd::After(self.scale.latency), |ask| ask) {
                    Ok(sample) => self.note(RawRecord::Sample(sample))?,
                    Err(error) => self.failed(section, Some(load), rival, &error)?,
                }
            }
        }
        Ok(())
    }

    /// GCache's table, in its order: what is stored is updated, read and removed.
    fn items(&mut self) -> anyhow::Result<()> {
        let section = PageSection::Item;
        for rival in self.able(|rival| rival.ask(RivalLoad::ItemUnique, 0).is_some()) {
            progress(section, RivalLoad::ItemUnique, rival.name());
            match self.has_items(rival) {
                Ok(true) => {}
                Ok(false) => {
                    let (server, reason) = (rival.name().to_owned(), format!("it does not have {ITEM} (yet)"));
                    self.note(RawRecord::Skipped(GapRecord { section: Some(section), load: None, server, reason }))?;
                    continue;
                }
                Err(error) => {
                    self.failed(section, None, rival, &error)?;
                    continue;
                }
            }
            for run in 0..self.scale.runs {
                if let Err(error) = self.item_run(rival, run) {
                    self.failed(section, None, rival, &error)?;
                    break;
                }
            }
        }
        Ok(())
    }

    fn item_run(&mut self, rival: Rival, run: u64) -> anyhow::Result<()> {
        let shape = |load| Shape { run, ..Shape::lone(PageSection::Item, load, ITEM_CONNECTIONS) };
        let after = RunEnd::After(self.scale.load);
        let unique = self.sample(rival, shape(RivalLoad::ItemUnique), None, after, |ask| ask)?;
        let (stored, nonce) = (unique.requests.max(1), self.nonce);
        self.note(RawRecord::Sample(unique))?;
        let these = |ask| Ask { key: format!("{nonce}:{{n}}"), keys: stored, ..ask };
        for load in [RivalLoad::ItemUpdate, RivalLoad::ItemAbsent, RivalLoad::ItemStored, RivalLoad::ItemDelete] {
            let stop = if load == RivalLoad::ItemDelete { RunEnd::Requests(stored) } else { after };
            let keys =
                |ask| if matches!(load, RivalLoad::ItemStored | RivalLoad::ItemDelete) { these(ask) } else { ask };
            let sample = self.sample(rival, shape(load), None, stop, keys)?;
            self.note(RawRecord::Sample(sample))?;
        }
        Ok(())
    }

    /// Does it store an item?
    fn has_items(&mut self, rival: Rival) -> anyhow::Result<bool> {
        let started = self.start(rival, Preparation::Hits)?;
        let address = started.server.http.context("it has no HTTP address")?;
        let body = r#"{"key":"probe","value":"probe","ttl":60}"#;
        let answer = HttpClient::connect(address, TIMEOUT)?.send("POST", ITEM, body)?;
        Ok((200..300).contains(&answer.status))
    }

    fn memory(&mut self) -> anyhow::Result<()> {
        for (rival, _) in self.rivals.clone() {
            if let Err(reason) = rival.holds_values() {
                let (server, reason) = (rival.name().to_owned(), reason.to_owned());
                self.note(RawRecord::Skipped(GapRecord {
                    section: Some(PageSection::Memory),
                    load: None,
                    server,
                    reason,
                }))?;
                continue;
            }
            eprintln!("memory: {}", rival.name());
            for size in self.scale.value_sizes.clone() {
                match self.memory_of(rival, size) {
                    Ok(memory) => self.note(RawRecord::Memory(memory))?,
                    Err(error) => self.failed(PageSection::Memory, None, rival, &error)?,
                }
            }
        }
        Ok(())
    }

    fn memory_of(&self, rival: Rival, value_size: usize) -> anyhow::Result<MemoryRecord> {
        let cores = (self.setting.server_core, self.setting.client_core);
        let started = rival.start(Preparation::Hits, self.binary(rival)?, cores, (value_size, MEMORY_MIB))?;
        let entries = (self.scale.memory_bytes / (value_size + KEY_SIZE) as u64).clamp(1, self.scale.memory_entries);
        let ask = rival.fill().context("nothing fills it")?;
        let ask = Ask { key: "{uuid}".to_owned(), keys: entries, ..ask };
        let before = started.server.memory()?;
        self.fill(&started.server, &ask, value_size)?;
        let growth = started.server.memory()?.saturating_sub(before);
        // Is all of it there?
        let load = if ask.scheme == "http" { RivalLoad::HttpHit } else { RivalLoad::Get };
        let check = rival.ask(load, 0).context("it cannot be asked")?;
        let check = Ask { op: check.op, path: check.path, all_found: check.all_found, ..ask };
        self.fill(&started.server, &check, value_size)?;
        Ok(MemoryRecord { server: rival.name().to_owned(), value_size, key_size: KEY_SIZE, entries, growth })
    }

    fn able(&self, able: impl Fn(Rival) -> bool) -> Vec<Rival> {
        self.rivals.iter().map(|&(rival, _)| rival).filter(|&rival| able(rival)).collect()
    }
}

fn progress(section: PageSection, load: RivalLoad, more: &str) {
    eprintln!("{section:?} {load:?}: {more}");
}
