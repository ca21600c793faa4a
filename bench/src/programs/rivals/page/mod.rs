//! The page: Markdown and charts from the raw data.
mod losses;
mod tables;

use super::{
    charts::{self, size_name},
    median_cells::{BASE, Cell, CellKey, Cells, RunSpread},
    record::{PageSection, RawRecord, RivalLoad, SettingRecord},
};
use crate::lib::{figures::counted, results::chart::plain};
use anyhow::Context;
use larder::config::wrapped;
use std::{collections::BTreeMap, fs, path::Path};

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
    cells: Cells,
    /// The foot of each chart.
    origin: charts::Origin,
}

/// A figure of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Figure {
    Cpu,
    Rate,
    P50,
    P99,
    P999,
    Max,
}

impl Figure {
    fn of(self, cell: &Cell) -> RunSpread {
        match self {
            Figure::Cpu => cell.cpu_us,
            Figure::Rate => cell.per_second,
            Figure::P50 => cell.p50_ms,
            Figure::P99 => cell.p99_ms,
            Figure::P999 => cell.p999_ms,
            Figure::Max => cell.max_ms,
        }
    }

    fn show(self, value: f64) -> String {
        match self {
            Figure::Cpu => format!("{value:.2}"),
            Figure::Rate => plain(value),
            _ => milliseconds(value),
        }
    }
}

impl<'a> RivalsPage<'a> {
    /// The page of these records; its charts will be in `folder`.
    pub(super) fn of(records: &[RawRecord], folder: &'a str) -> anyhow::Result<RivalsPage<'a>> {
        let setting = records
            .iter()
            .find_map(|record| if let RawRecord::Setting(setting) = record { Some(setting) } else { None });
        let setting = setting.context("the raw data do not say what was measured on")?;
        let (cells, origin) = (Cells::of(records), charts::Origin::of(setting));
        let mut page = RivalsPage { text: String::new(), charts: Vec::new(), folder, cells, origin };
        page.head(setting);
        page.quiet(records);
        page.in_short();
        page.behind();
        page.http();
        page.commands();
        page.latency();
        page.memory();
        page.lookup();
        page.items();
        page.gaps(records);
        page.method(setting, records);
        page.text = wrapped(&page.text);
        Ok(page)
    }

    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    fn table(&mut self, head: &[String], rows: &[Vec<String>]) {
        let row = |cells: &[String]| format!("| {} |", cells.join(" | "));
        self.line(&row(head));
        self.line(&format!("|---|{}", "---:|".repeat(head.len() - 1)));
        rows.iter().for_each(|cells| self.line(&row(cells)));
        self.line("");
    }

    fn details(&mut self, summary: &str, inside: impl FnOnce(&mut RivalsPage<'a>)) {
        self.line(&format!("<details><summary>{summary}</summary>\n"));
        inside(self);
        self.line("</details>\n");
    }

    fn chart(&mut self, name: &str, title: &str, chart: Option<String>) {
        if let Some(chart) = chart {
            self.line(&format!("![{title}]({}/{name}.svg)\n", self.folder));
            self.charts.push((format!("{name}.svg"), chart));
        }
    }

    fn head(&mut self, setting: &SettingRecord) {
        let SettingRecord { date, commit, seconds, runs, .. } = setting;
        self.line("# Benchmarks\n");
        self.line("<!-- Made by `larder-bench rivals` from raw.jsonl: do not edit. -->\n");
        self.line(&format!(
            "Larder beside other servers, on one machine, {date}, commit `{commit}`. Each figure is the median of {runs} \
             runs of {seconds} s. [Raw data]({}/raw.jsonl), [method](#method).\n",
            self.folder
        ));
        if setting.quick {
            self.line("**A quick run: too short for conclusions.**\n");
        }
        self.line(
            "Read the ratios: **larder = 1**. CPU 2 is twice Larder's CPU time for a request; throughput 0.5 is half of Larder's. All servers of a table were loaded in turn \
             within the same minute, each on the same core, so noise on the machine affects all of them. Absolute times prove little on a noisy machine. They are in second place, with \
             the range of the runs.\n",
        );
        self.line(
            "† the generator was the bottleneck: the throughput is the generator's, the CPU time is the server's. *failed*: an answer was wrong or missing \
             ([below](#not-measured)).\n",
        );
    }

    /// A warning if other processes used the machine.
    fn quiet(&mut self, records: &[RawRecord]) {
        /// The share from which on the figures suffer.
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
        let batches = |load| CellKey { batches: true, ..key(PageSection::Commands, load, 16, 64) };
        let rows = [
            ("HTTP GET, hit", key(PageSection::Http, RivalLoad::HttpHit, 1, 50)),
            ("`/lookup`, hit", key(PageSection::Http, RivalLoad::LookupHit, 1, 50)),
            ("HTTP GET, miss", key(PageSection::Http, RivalLoad::HttpMiss, 1, 50)),
            ("GET, one at a time", key(PageSection::Commands, RivalLoad::Get, 1, 64)),
            ("GET, 16 at a time", key(PageSection::Commands, RivalLoad::Get, 16, 64)),
            ("GET, in batches of 16", batches(RivalLoad::Get)),
            ("SET, one at a time", key(PageSection::Commands, RivalLoad::Set, 1, 64)),
            ("SET, 16 at a time", key(PageSection::Commands, RivalLoad::Set, 16, 64)),
            ("SET, in batches of 16", batches(RivalLoad::Set)),
            ("MGET, one at a time", key(PageSection::Commands, RivalLoad::Mget, 1, 64)),
        ];
        let mut lines = Vec::new();
        for (name, key) in rows.into_iter().filter(|(_, key)| self.good(*key, BASE).is_some()) {
            let others = self.cells.at(key).iter().map(|(server, _)| server).filter(|server| *server != BASE);
            let others = others.map(|server| format!("{server} {}", self.ratio(key, server, Figure::Cpu)));
            lines.push(format!("| {name} | {} |", others.collect::<Vec<_>>().join(", ")));
        }
        const SIZE: usize = 64;
        if let Some(base) = self.bytes(BASE, SIZE) {
            let others = self.memory_servers().into_iter().filter(|server| server != BASE);
            let others = others.filter_map(|server| Some(format!("{server} {:.2}", self.bytes(&server, SIZE)? / base)));
            let others = others.collect::<Vec<_>>().join(", ");
            lines.push(format!("| memory per entry, values of {} | {others} |", size_name(SIZE)));
        }
        if !lines.is_empty() {
            self.line("## In short\n");
            self.line(
                "CPU time per request of the others (last: memory); 50 connections over HTTP, 64 for commands.\n",
            );
            self.line("| larder = 1 | |\n|---|---|");
            lines.iter().for_each(|line| self.line(line));
            self.line("");
        }
    }

    /// A cell without errors.
    fn good(&self, key: CellKey, server: &str) -> Option<&Cell> {
        self.cells.cell(key, server).filter(|cell| cell.errors.is_empty())
    }

    /// A figure as a multiple of Larder's.
    fn ratio(&self, key: CellKey, server: &str, figure: Figure) -> String {
        let Some(cell) = self.cells.cell(key, server) else { return "–".to_owned() };
        if !cell.errors.is_empty() {
            return "*failed*".to_owned();
        }
        let Some(base) = self.good(key, BASE) else { return "–".to_owned() };
        let ratio = figure.of(cell).median / figure.of(base).median;
        let mark = if figure == Figure::Rate && (cell.saturated || base.saturated) { "†" } else { "" };
        if ratio.is_finite() { format!("{ratio:.2}{mark}") } else { "–".to_owned() }
    }

    /// A row's first cells: the server, its CPU time and throughput with Larder's as one, then both
    /// as measured.
    fn costs(&self, key: CellKey, server: &str) -> Vec<String> {
        vec![
            server.to_owned(),
            self.ratio(key, server, Figure::Cpu),
            self.ratio(key, server, Figure::Rate),
            self.absolute(key, server, Figure::Cpu),
            self.absolute(key, server, Figure::Rate),
        ]
    }

    fn absolute(&self, key: CellKey, server: &str, figure: Figure) -> String {
        match self.cells.cell(key, server) {
            None => "–".to_owned(),
            Some(cell) if !cell.errors.is_empty() => "*failed*".to_owned(),
            Some(cell) => {
                let RunSpread { median, low, high } = figure.of(cell);
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

    fn method(&mut self, setting: &SettingRecord, records: &[RawRecord]) {
        let SettingRecord {
            cpu,
            kernel,
            cores,
            memory_gib,
            server_core,
            client_core,
            client,
            seconds,
            latency_seconds,
            runs,
            http_keys,
            command_keys,
            value_size,
            command,
            ..
        } = setting;
        self.line("## Method\n");
        self.line(&format!("- Machine: {cpu}, {cores} cores, {memory_gib:.1} GiB; Linux {kernel}. Loopback."));
        self.line(&format!("- Pinning: the server and all its processes on core {server_core}, the generator on core {client_core}. The source behind a cache (redis-server behind Larder, nginx behind varnish and `proxy_cache`) runs on the generator's core, so that the cache has its own. Therefore † is common with misses."));
        self.line(&format!("- Generator: {client}, one thread. A closed loop ([how it measures](larder-bench.md)) but for the latencies. An answer with another status or value than expected is an error and fails the cell. So does a miss that did not reach the source."));
        self.line(&format!("- Lengths: each cell {runs} × {seconds} s after a fifth of that as warm-up, latencies {runs} × {latency_seconds} s. The servers of a cell take turns, run by run."));
        self.line("- CPU: how long all threads of the server's processes ran during a load (`/proc/PID/task/*/schedstat`), divided by the answered requests. The time to connect does not count.");
        self.line(&format!("- Data: values of {value_size} bytes; {http_keys} keys for HTTP, {command_keys} for commands, drawn evenly."));
        self.line("- Settings: each server has one thread and its fastest settings for a cache. redis-server and Valkey without persistence; memcached `-t 1`; nginx with `open_file_cache`, without sendfile (slower for small files) and access log, its cache in memory; varnish with malloc storage, its log in memory, one pool of threads; GCache with the 64 shards of its own benchmark, without dumps; Larder with `--threads 1`.");
        self.line(&format!("- Made by: `{command}`\n"));
        let mut versions = BTreeMap::new();
        let mut rows = Vec::new();
        for record in records {
            if let RawRecord::Server(server) = record {
                versions.insert(server.server.clone(), server.version.clone());
                rows.push(server);
            }
        }
        if rows.is_empty() {
            return;
        }
        for (server, version) in versions {
            self.line(&format!("- {server}: {version}"));
        }
        self.line("");
        self.details("Command lines and configurations", |page| {
            for rival in rows {
                page.line(&format!("{}, for {}:\n\n```\n{}\n```\n", rival.server, rival.part, rival.command));
                if let Some(configuration) = &rival.configuration {
                    page.line(&format!("```\n{}\n```\n", configuration.trim_end()));
                }
            }
        });
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn milliseconds(value: f64) -> String {
    format!("{value:.3}")
}

/// A section's or load's name, as in the raw data.
fn name(what: &impl serde::Serialize) -> String {
    serde_json::to_string(what).unwrap_or_default().trim_matches('"').to_owned()
}

fn describe(key: CellKey) -> String {
    let CellKey { section, load, pipeline, batches, connections, open } = key;
    let how = match (open, pipeline) {
        (true, _) => "half of the highest rate".to_owned(),
        (false, 1) => counted(connections, "connection"),
        (false, _) if batches => format!("{} × batches of {pipeline}", counted(connections, "connection")),
        (false, _) => format!("{} × {pipeline}", counted(connections, "connection")),
    };
    match section {
        PageSection::Lookup => format!("/lookup, {}, {how}", name(&load)),
        _ => format!("{}, {how}", name(&load)),
    }
}

/// How a load sends its requests.
fn depth(pipeline: usize, batches: bool) -> String {
    match (pipeline, batches) {
        (1, _) => "one at a time".to_owned(),
        (_, false) => format!("{pipeline} at a time"),
        (_, true) => format!("in batches of {pipeline}"),
    }
}
