//! The page: Markdown and charts from the raw data.
use super::{
    cells::{BASE, Cell, CellKey, Cells, Figure},
    record::{PageSection, RawRecord, RivalLoad, SettingRecord},
};
use crate::lib::{
    figures::{Spread, counted},
    results::chart::plain,
};
use anyhow::Context;
use larder_config::wrapped;
use std::{
    collections::{BTreeMap, HashSet},
    fs,
    path::Path,
};

/// Writes the page and, into the folder of the same name, its charts.
pub(super) fn write(file: &Path, records: &[RawRecord]) -> anyhow::Result<()> {
    let folder = file.with_extension("");
    let name = folder.file_name().context("the page has no name")?.to_string_lossy().into_owned();
    let page = RivalsPage::of(records, &name)?;
    // No chart of another run may stay.
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "svg") {
            fs::remove_file(path)?;
        }
    }
    for (name, chart) in &page.charts {
        fs::write(folder.join(name), chart)?;
    }
    fs::write(file, page.text).with_context(|| format!("cannot write {}", file.display()))
}

/// A page as it is made.
pub(super) struct RivalsPage<'a> {
    pub(super) text: String,
    /// File name and content.
    pub(super) charts: Vec<(String, String)>,
    folder: &'a str,
    pub(super) cells: Cells,
    /// When and from which commit the figures are, and how often they were measured.
    pub(super) setting: &'a SettingRecord,
}

impl<'a> RivalsPage<'a> {
    /// The page of these records; its charts will be in `folder`.
    pub(super) fn of(records: &'a [RawRecord], folder: &'a str) -> anyhow::Result<RivalsPage<'a>> {
        let setting = records
            .iter()
            .find_map(|record| if let RawRecord::Setting(setting) = record { Some(setting) } else { None });
        let setting = setting.context("the raw data do not say what was measured on")?;
        let cells = Cells::of(records);
        let mut page = RivalsPage { text: String::new(), charts: Vec::new(), folder, cells, setting };
        page.head(records);
        page.in_short();
        page.behind();
        page.sections();
        page.gaps(records);
        page.method(records);
        page.text = wrapped(&page.text);
        Ok(page)
    }

    pub(super) fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    pub(super) fn table(&mut self, head: &[String], rows: &[Vec<String>]) {
        let row = |cells: &[String]| format!("| {} |", cells.join(" | "));
        self.line(&row(head));
        self.line(&format!("|---|{}", "---:|".repeat(head.len() - 1)));
        rows.iter().for_each(|cells| self.line(&row(cells)));
        self.line("");
    }

    pub(super) fn details(&mut self, summary: &str, inside: impl FnOnce(&mut RivalsPage<'a>)) {
        self.line(&format!("<details><summary>{summary}</summary>\n"));
        inside(self);
        self.line("</details>\n");
    }

    pub(super) fn chart(&mut self, name: &str, title: &str, chart: Option<String>) {
        if let Some(chart) = chart {
            self.line(&format!("![{title}]({}/{name}.svg)\n", self.folder));
            self.charts.push((format!("{name}.svg"), chart));
        }
    }

    fn head(&mut self, records: &[RawRecord]) {
        let SettingRecord { date, commit, seconds, runs, .. } = self.setting;
        self.line("# Benchmarks\n");
        self.line("<!-- Made by `larder-bench rivals` from raw.jsonl: do not edit. -->\n");
        self.line(&format!(
            "Larder beside other servers, on one machine, {date}, commit `{commit}`. Each figure is the median of {runs} \
             runs of {seconds} s. [Raw data]({}/raw.jsonl), [method](#method).\n",
            self.folder
        ));
        if self.setting.quick {
            self.line("**A quick run: too short for conclusions, and its servers are not warm.**\n");
        }
        self.line(
            "Read the ratios: **larder = 1**. CPU 2 is twice Larder's CPU time for a request; throughput 0.5 is half of Larder's. A ratio is the median of the runs' ratios. All servers of a table were loaded in turn \
             within the same minute, each on the same core, so noise on the machine affects all of them. Absolute times prove little on a noisy machine. They are in second place, with \
             the range of the runs.\n",
        );
        self.line(
            "† the generator was the bottleneck: the throughput is the generator's, the CPU time is the server's. *failed*: an answer was wrong or missing \
             ([below](#not-measured)).\n",
        );
        /// The share of time of other processes from which on the figures suffer.
        const QUIET: f64 = 0.05;
        let others =
            records.iter().find_map(|record| if let RawRecord::End(end) = record { Some(end.others) } else { None });
        match others {
            Some(others) if others > QUIET => self.line(&format!(
                "**The machine was not quiet: other processes took {:.0} % of its cores' time.** CPU times per request are still useful, throughput and latency hardly.\n",
                100.0 * others
            )),
            Some(_) => {}
            None => self.line("**The measurement was interrupted: this page has a part of it.**\n"),
        }
    }

    /// The CPU time of all others by load, and their memory.
    fn in_short(&mut self) {
        let key =
            |section, load, pipeline, connections| CellKey { pipeline, ..CellKey::lone(section, load, connections) };
        let commands = |load, pipeline| key(PageSection::Commands, load, pipeline, 64);
        let batches = |load| CellKey { batches: true, ..commands(load, 16) };
        let rows = [
            ("HTTP GET, hit", key(PageSection::Http, RivalLoad::HttpHit, 1, 50)),
            ("`/lookup`, hit", key(PageSection::Http, RivalLoad::LookupHit, 1, 50)),
            ("HTTP GET, miss", key(PageSection::Http, RivalLoad::HttpMiss, 1, 50)),
            ("GET, one at a time", commands(RivalLoad::Get, 1)),
            ("GET, 16 at a time", commands(RivalLoad::Get, 16)),
            ("GET, in batches of 16", batches(RivalLoad::Get)),
            ("SET, one at a time", commands(RivalLoad::Set, 1)),
            ("SET, 16 at a time", commands(RivalLoad::Set, 16)),
            ("SET, in batches of 16", batches(RivalLoad::Set)),
            ("MGET, one at a time", commands(RivalLoad::Mget, 1)),
        ];
        let mut lines = Vec::new();
        for (name, key) in rows.into_iter().filter(|(_, key)| self.cells.good(*key, BASE).is_some()) {
            let others = self.cells.at(key).iter().map(|(server, _)| server).filter(|server| *server != BASE);
            let others = others.map(|server| format!("{server} {}", self.cpu_range(key, server)));
            lines.push(format!("| {name} | {} |", others.collect::<Vec<_>>().join(", ")));
        }
        const SIZE: usize = 64;
        if let Some(base) = self.cells.bytes(BASE, SIZE) {
            let others = self.cells.memory_servers().into_iter().filter(|server| server != BASE);
            let others =
                others.filter_map(|server| Some(format!("{server} {:.2}", self.cells.bytes(&server, SIZE)? / base)));
            let others = others.collect::<Vec<_>>().join(", ");
            lines.push(format!("| memory per entry, values of {} | {others} |", size_name(SIZE)));
        }
        if !lines.is_empty() {
            self.line("## In short\n");
            self.line(
                "CPU time per request of the others, with the range of the runs (last: memory); 50 connections over HTTP, 64 for commands.\n",
            );
            self.line("| larder = 1 | |\n|---|---|");
            lines.iter().for_each(|line| self.line(line));
            self.line("");
        }
    }

    /// Every cell in which another server is better, beyond the spread of the runs.
    fn behind(&mut self) {
        let (mut lines, mut reasons) = (Vec::new(), Vec::new());
        for key in self.cells.keys() {
            let Some(base) = self.cells.good(key, BASE) else { continue };
            let better = |figure: Figure| {
                let beats = |other: Spread, base: Spread| match figure {
                    Figure::Rate => other.low > base.high,
                    _ => other.high < base.low,
                };
                let others = self.cells.at(key).iter().filter(|(name, cell)| name != BASE && cell.errors.is_empty());
                let named = others.filter(|(_, cell)| beats(cell.figure(figure), base.figure(figure)));
                let shown = |(name, cell): &(String, Cell)| format!("{name} ({:.2})", cell.ratio(base, figure).median);
                named.map(shown).collect::<Vec<_>>()
            };
            let figures = match (key.rate.is_some(), key.section) {
                (true, _) => vec![("p99", better(Figure::P99))],
                (false, PageSection::Latency) => vec![],
                (false, _) => vec![("CPU", better(Figure::Cpu)), ("throughput", better(Figure::Rate))],
            };
            for (what, servers) in figures.into_iter().filter(|(_, servers)| !servers.is_empty()) {
                reasons.extend(reason(key));
                lines.push(format!("- {}: {what}: {}", describe(key), servers.join(", ")));
            }
        }
        for size in self.cells.sizes() {
            let Some(base) = self.cells.bytes(BASE, size) else { continue };
            for server in self.cells.memory_servers() {
                if let Some(bytes) = self.cells.bytes(&server, size).filter(|bytes| *bytes < base) {
                    reasons.push(MEMORY_REASON);
                    let (size, ratio) = (size_name(size), bytes / base);
                    lines.push(format!("- memory per entry, values of {size}: {server} ({ratio:.2})"));
                }
            }
        }
        self.line("## Where Larder is behind\n");
        self.line("All cells in which every run of another server was better than every run of Larder (memory was measured once).\n");
        match lines.is_empty() {
            true => self.line("None.\n"),
            false => lines.iter().for_each(|line| self.line(line)),
        }
        self.line("");
        let mut seen = HashSet::new();
        for reason in reasons.into_iter().filter(|reason| seen.insert(*reason)) {
            self.line(&format!("{reason}\n"));
        }
    }

    /// A figure as a multiple of Larder's.
    pub(super) fn ratio(&self, key: CellKey, server: &str, figure: Figure) -> String {
        let Some(cell) = self.cells.cell(key, server) else { return "–".to_owned() };
        if !cell.errors.is_empty() {
            return "*failed*".to_owned();
        }
        let Some(base) = self.cells.good(key, BASE) else { return "–".to_owned() };
        let ratio = cell.ratio(base, figure).median;
        let mark = if figure == Figure::Rate && (cell.saturated || base.saturated) { "†" } else { "" };
        if ratio.is_finite() { format!("{ratio:.2}{mark}") } else { "–".to_owned() }
    }

    /// The CPU time of a server as a multiple of Larder's, with its range.
    fn cpu_range(&self, key: CellKey, server: &str) -> String {
        let ratio = self.ratio(key, server, Figure::Cpu);
        match self.cells.good(key, server).zip(self.cells.good(key, BASE)) {
            Some((cell, base)) if server != BASE => {
                let Spread { low, high, .. } = cell.ratio(base, Figure::Cpu);
                format!("{ratio} ({low:.2}–{high:.2})")
            }
            _ => ratio,
        }
    }

    /// A figure as measured, with its range.
    pub(super) fn absolute(&self, key: CellKey, server: &str, figure: Figure) -> String {
        match self.cells.cell(key, server) {
            None => "–".to_owned(),
            Some(cell) if !cell.errors.is_empty() => "*failed*".to_owned(),
            Some(cell) => {
                let Spread { median, low, high } = cell.figure(figure);
                format!("{} ({}–{})", figure.show(median), figure.show(low), figure.show(high))
            }
        }
    }

    fn gaps(&mut self, records: &[RawRecord]) {
        let mut lines = Vec::new();
        for record in records {
            let (gap, what) = match record {
                RawRecord::Skipped(gap) => (gap, "not measured"),
                RawRecord::Failed(gap) => (gap, "failed"),
                _ => continue,
            };
            let section = gap.section.map_or(String::new(), |section| format!(", {}", name(&section)));
            let load = gap.load.map_or(String::new(), |load| format!(", {}", name(&load)));
            lines.push(format!("- {}{section}{load}: {what}: {}", gap.server, gap.reason));
        }
        for key in self.cells.keys() {
            for (server, cell) in self.cells.at(key).iter().filter(|(_, cell)| !cell.errors.is_empty()) {
                let errors: Vec<_> = cell.errors.iter().map(|(kind, count)| format!("{count} × {kind}")).collect();
                lines.push(format!("- {server}, {}: failed: {}", describe(key), errors.join(", ")));
            }
        }
        self.line("## Not measured\n");
        match lines.is_empty() {
            true => self.line("Nothing is missing."),
            false => lines.iter().for_each(|line| self.line(line)),
        }
        self.line("");
    }

    fn method(&mut self, records: &[RawRecord]) {
        let SettingRecord { cpu, kernel, cores, memory_gib, server_core, client_core, client, .. } = self.setting;
        let SettingRecord { seconds, runs, http_keys, command_keys, value_size, command, .. } = self.setting;
        self.line("## Method\n");
        self.line(&format!("- Machine: {cpu}, {cores} cores, {memory_gib:.1} GiB; Linux {kernel}. Loopback."));
        self.line(&format!("- Pinning: the server and all its processes on core {server_core}, the generator on core {client_core}. The source behind a cache (redis-server behind Larder, nginx behind varnish and `proxy_cache`) runs on the generator's core, so that the cache has its own. Therefore † is common with misses."));
        self.line(&format!("- Generator: {client}, one thread. A closed loop ([how it measures](larder-bench.md)) but for the latencies. An answer with another status or value than expected is an error and fails the cell. So does a miss that did not reach the source."));
        self.line(&format!("- Lengths: each server of commands first answers some millions of GETs, so that its start does not slow down the first cell. Each cell is {runs} × {seconds} s after a fifth of that as warm-up. The servers of a cell take turns, run by run."));
        self.line("- CPU: how long all threads of the server's processes ran during a load (`/proc/PID/task/*/schedstat`), divided by the answered requests. The time to connect does not count.");
        self.line(&format!("- Data: values of {value_size} bytes; {http_keys} keys for HTTP, {command_keys} for commands, drawn evenly."));
        self.line("- Settings: each server has one thread and its fastest settings for a cache. redis-server and Valkey without persistence; memcached `-t 1`; nginx with `open_file_cache`, without sendfile (slower for small files) and access log, its cache in memory; Pogocache with io_uring and mimalloc, as its authors build it; varnish with malloc storage, its log in memory, one pool of threads; GCache with the 64 shards of its own benchmark, without dumps; Larder with `--threads 1`.");
        self.line(&format!("- Made by: `{command}`\n"));
        let servers: Vec<_> = records
            .iter()
            .filter_map(|record| if let RawRecord::Server(server) = record { Some(server) } else { None })
            .collect();
        let versions: BTreeMap<_, _> = servers.iter().map(|server| (&server.server, &server.version)).collect();
        if servers.is_empty() {
            return;
        }
        for (server, version) in versions {
            self.line(&format!("- {server}: {version}"));
        }
        self.line("");
        self.details("Command lines and configurations", |page| {
            for rival in servers {
                page.line(&format!("{}, for {}:\n\n```\n{}\n```\n", rival.server, rival.part, rival.command));
                if let Some(configuration) = &rival.configuration {
                    page.line(&format!("```\n{}\n```\n", configuration.trim_end()));
                }
            }
        });
    }
}

/// 64 B, 4 KiB.
pub(super) fn size_name(bytes: usize) -> String {
    if bytes.is_multiple_of(1024) { format!("{} KiB", bytes / 1024) } else { format!("{bytes} B") }
}

/// A section's or load's name, as in the raw data.
fn name(what: &impl serde::Serialize) -> String {
    serde_json::to_string(what).unwrap_or_default().trim_matches('"').to_owned()
}

fn describe(key: CellKey) -> String {
    let CellKey { section, load, pipeline, batches, connections, rate } = key;
    let how = match (rate, pipeline) {
        (Some(rate), _) => format!("at {}/s", plain(rate as f64)),
        (None, 1) => counted(connections, "connection"),
        (None, _) if batches => format!("{} × batches of {pipeline}", counted(connections, "connection")),
        (None, _) => format!("{} × {pipeline}", counted(connections, "connection")),
    };
    let lookup = if section == PageSection::Lookup { "/lookup, " } else { "" };
    format!("{lookup}{}, {how}", name(&load))
}

const MEMORY_REASON: &str = "Beside key and value, an entry of Larder has a header of 8 bytes and a slot of the index. [A decision](decisions/0093-smaller-index-slots-cost-hits.md) says what each byte is for, and what smaller slots cost each hit.";

/// Why Larder may be behind in a cell, if that is known.
fn reason(key: CellKey) -> Option<&'static str> {
    if key.load == RivalLoad::Miss {
        Some(
            "A miss of Larder asks the redis-server that it is compared with, so it cannot be cheaper than that alone. The [tables](#get-miss-one-at-a-time) compare it with asking redis-server and a hit of Larder together.",
        )
    } else if key.connections == 1 {
        Some(
            "With one connection, other code runs on the core between two requests, so the processor loads the server's code from slower caches, and Larder has more code. [A decision](decisions/0095-workers-have-no-timer-of-their-own.md) has the figures.",
        )
    } else {
        None
    }
}
