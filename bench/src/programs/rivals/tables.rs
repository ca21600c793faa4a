//! The sections of the page: a table for each load, and what belongs to it.
use super::{
    cells::{BASE, Cell, CellKey, Figure},
    page::{RivalsPage, size_name},
    record::{PageSection, RivalLoad},
};
use crate::lib::results::{
    chart::{Axis, plain},
    chart_file::{FileLine, file},
};

/// A load of a section: its title, and a note below it.
type Part = (RivalLoad, &'static str, &'static str);

const HTTP: [Part; 5] = [
    (
        RivalLoad::HttpHit,
        "### GET, hit",
        "A value of 64 bytes, out of 1,000. GET of Larder's `/v1/kv/{key}`; nginx with a file, or with the answer of a backend in its cache; varnish likewise.",
    ),
    (RivalLoad::LookupHit, "### `/lookup`, hit", "The value in JSON; nginx serves the same bytes as files."),
    (
        RivalLoad::HttpMiss,
        "### GET, miss",
        "Each request must fetch from behind: Larder from redis-server (it may keep one key), the others from a static nginx (a path that was never asked for; stored, and thrown out later).",
    ),
    (RivalLoad::NotFound, "### 404", "varnish and nginx with `proxy_cache` keep the backend's 404."),
    (
        RivalLoad::BadRequest,
        "### 400",
        "Larder: `/lookup` without a key. Pogocache: a method that it does not know. nginx and varnish: a path for which they are told to answer so.",
    ),
];
const LATENCY: [(RivalLoad, &str); 3] =
    [(RivalLoad::HttpHit, "HTTP GET, hit"), (RivalLoad::Get, "GET, hit"), (RivalLoad::Miss, "GET, miss")];
const ITEMS: [(RivalLoad, &str); 5] = [
    (RivalLoad::ItemUnique, "POST, unique"),
    (RivalLoad::ItemUpdate, "POST, update"),
    (RivalLoad::ItemAbsent, "GET, absent"),
    (RivalLoad::ItemStored, "GET, stored"),
    (RivalLoad::ItemDelete, "DELETE"),
];
const COSTS: [&str; 4] = ["CPU", "throughput", "CPU, µs", "requests/s"];

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// How a load sends its requests.
fn depth(pipeline: usize, batches: bool) -> String {
    match (pipeline, batches) {
        (1, _) => "one at a time".to_owned(),
        (_, false) => format!("{pipeline} at a time"),
        (_, true) => format!("in batches of {pipeline}"),
    }
}

impl RivalsPage<'_> {
    pub(super) fn sections(&mut self) {
        let http = |load| CellKey::lone(PageSection::Http, load, 50);
        let head = [&[""], &COSTS[..]].concat();
        self.each_load(
            "## HTTP\n\n50 connections, one request at a time on each. Pogocache announces `Connection: Close` in every answer, after which a client may send nothing more (RFC 9112, 9.6): each of its requests has a connection of its own.\n",
            &HTTP,
            &http,
            &head,
            RivalsPage::costs,
        );
        self.commands();
        self.latency();
        self.memory();
        self.lookup();
        self.items();
    }

    /// A table for each load, a row for each server.
    fn each_load(
        &mut self,
        intro: &str,
        parts: &[Part],
        key: &dyn Fn(RivalLoad) -> CellKey,
        head: &[&str],
        row: fn(&Self, CellKey, &str) -> Vec<String>,
    ) {
        if parts.iter().all(|&(load, ..)| self.cells.at(key(load)).is_empty()) {
            return;
        }
        self.line(intro);
        for &(load, title, note) in parts {
            let key = key(load);
            let rows: Vec<_> = self.cells.at(key).iter().map(|(server, _)| row(self, key, server)).collect();
            if rows.is_empty() {
                continue;
            }
            self.line(&format!("{title}\n"));
            if !note.is_empty() {
                self.line(&format!("{note}\n"));
            }
            self.table(&words(head), &rows);
        }
    }

    /// The server, its CPU time and throughput with Larder's as one, then both as measured.
    fn costs(&self, key: CellKey, server: &str) -> Vec<String> {
        let both = [Figure::Cpu, Figure::Rate];
        let ratios = both.map(|figure| self.ratio(key, server, figure));
        let absolute = both.map(|figure| self.absolute(key, server, figure));
        [vec![server.to_owned()], ratios.to_vec(), absolute.to_vec()].concat()
    }

    /// All servers at the same rates: a table for each rate, and p99 over the rate as a chart.
    fn latency(&mut self) {
        let all: Vec<CellKey> = self.cells.keys().filter(|key| key.section == PageSection::Latency).collect();
        if all.is_empty() {
            return;
        }
        self.line("## Latency at the same rates\n");
        self.line("50 connections. First each server's highest rate is found (closed loop). Then all are asked at a quarter, half and three quarters of the slowest server's, on a fixed schedule. Times count from each request's intended start.\n");
        for (load, title) in LATENCY {
            let keys: Vec<CellKey> = all.iter().copied().filter(|key| key.load == load).collect();
            let Some(peak) = keys.iter().find(|key| key.rate.is_none()) else { continue };
            self.line(&format!("### {title}\n"));
            let rates = self.cells.at(*peak).iter();
            let rates = rates.map(|(server, cell)| format!("{server} {}", plain(cell.median(Figure::Rate))));
            let rates = rates.collect::<Vec<_>>().join(", ");
            self.line(&format!("Highest rates, requests per second: {rates}.\n"));
            let open: Vec<CellKey> = keys.iter().copied().filter(|key| key.rate.is_some()).collect();
            for &key in &open {
                let servers: Vec<String> = self.cells.at(key).iter().map(|(server, _)| server.clone()).collect();
                let rows: Vec<_> = servers.iter().map(|server| self.latencies(key, server)).collect();
                let rate = format!("at {}/s", plain(key.rate.unwrap_or_default() as f64));
                self.table(&words(&[&rate, "p99", "p50, ms", "p99, ms", "p99.9, ms", "max, ms"]), &rows);
            }
            let title = format!("{title}: p99 over the rate");
            let chart = self.p99_over_rate(&title, &open);
            let file = serde_json::to_string(&load).unwrap_or_default();
            self.chart(&format!("p99-{}", file.trim_matches('"')), &title, chart);
        }
    }

    fn latencies(&self, key: CellKey, server: &str) -> Vec<String> {
        let cell = self.cells.good(key, server);
        let one = |figure: Figure| cell.map_or("–".to_owned(), |cell| figure.show(cell.median(figure)));
        let mark = if self.cells.cell(key, server).is_some_and(|cell| cell.saturated) { "†" } else { "" };
        vec![
            server.to_owned(),
            self.ratio(key, server, Figure::P99),
            one(Figure::P50),
            format!("{}{mark}", self.absolute(key, server, Figure::P99)),
            one(Figure::P999),
            one(Figure::Max),
        ]
    }

    fn p99_over_rate(&self, title: &str, keys: &[CellKey]) -> Option<String> {
        let high = keys.last().filter(|_| keys.len() > 1)?.rate? as f64;
        let servers = self.cells.servers(keys);
        let at = || keys.iter().filter_map(|&key| Some((key.rate? as f64, key)));
        let lines = servers.iter().map(|server| self.line_of(server, server, Figure::P99, at())).collect();
        let ticks = at().map(|(rate, _)| (rate, plain(rate))).collect();
        let x = Axis { low: 0.0, high, log: false, ticks, label: "requests per second" };
        Some(self.lines_over(title, &x, "p99, ms", lines))
    }

    /// The good cells of a server as a line, with the range of each.
    fn line_of<'l>(
        &self,
        name: &'l str,
        server: &str,
        figure: Figure,
        at: impl Iterator<Item = (f64, CellKey)>,
    ) -> FileLine<'l> {
        let spreads = at.filter_map(|(x, key)| Some((x, self.cells.good(key, server)?.figure(figure))));
        let (points, ranges) = spreads.map(|(x, of)| ((x, of.median), (x, of.low, of.high))).unzip();
        FileLine { name, points, ranges }
    }

    fn lines_over(&self, title: &str, x: &Axis, label: &'static str, lines: Vec<FileLine>) -> String {
        let most = lines.iter().flat_map(|line| &line.ranges).map(|range| range.2).fold(0.0, f64::max);
        file(title, x, &Axis::linear(most, label), lines, &self.origin(&self.points()))
    }

    fn commands(&mut self) {
        let all: Vec<CellKey> = self.cells.keys().filter(|key| key.section == PageSection::Commands).collect();
        if all.is_empty() {
            return;
        }
        self.line("## Commands\n");
        self.line("100,000 keys, drawn evenly, values of 64 bytes. Each server by its own protocol: memcached's text protocol for memcached, the Redis protocol (RESP2) for all others. MGET asks for ten keys: with memcached the way to ask for many at once, since 1.6 writes the replies to pipelined gets one by one. *16 at a time*: a sliding window, in which each reply lets the next request go, as clients that multiplex do. *In batches of 16*: all are sent together, and the next ones when all are answered.\n");
        let loads = [
            (RivalLoad::Get, "GET"),
            (RivalLoad::Set, "SET"),
            (RivalLoad::Mget, "MGET"),
            (RivalLoad::Miss, "GET, miss"),
        ];
        for (load, name) in loads {
            for (pipeline, batches) in [(1, false), (16, false), (16, true)] {
                let of = |key: &CellKey| (key.load, key.pipeline, key.batches) == (load, pipeline, batches);
                let keys: Vec<CellKey> = all.iter().copied().filter(of).collect();
                if keys.is_empty() {
                    continue;
                }
                let depth = depth(pipeline, batches);
                self.line(&format!("### {name}, {depth}\n"));
                if load == RivalLoad::Miss {
                    self.line("Larder may keep one key and fetches all others from a redis-server; beside it a redis-server that is asked directly.\n");
                }
                self.by_connections(&keys);
                let title = format!("{name}, {depth}: throughput");
                let servers = self.cells.servers(&keys);
                let lines = servers.iter().map(|server| (&server[..], &server[..], load)).collect::<Vec<_>>();
                let chart = self.throughput(&title, &lines, &keys);
                let file = format!("{}-{pipeline}{}", name.to_lowercase(), if batches { "-batches" } else { "" });
                self.chart(&file, &title, chart);
                if load == RivalLoad::Miss {
                    keys.iter().for_each(|key| self.cost_of_miss(*key));
                }
            }
        }
    }

    /// What a miss costs beside what it is compared with: asking redis-server directly, and a hit.
    fn cost_of_miss(&mut self, key: CellKey) {
        /// Connections of the hits that are measured.
        const HITS: usize = 64;
        /// The share of its core from which on a server itself is the limit of its throughput.
        const BUSY: f64 = 0.95;
        let hits = CellKey { load: RivalLoad::Get, connections: HITS, ..key };
        let cpu = |key, server| self.cells.good(key, server).map(|cell| cell.median(Figure::Cpu));
        let (Some(miss), Some(direct), Some(hit)) = (cpu(key, BASE), cpu(key, "redis-server"), cpu(hits, BASE)) else {
            return;
        };
        let sum = direct + hit;
        let mut text = format!(
            "CPU of a miss: Larder {miss:.2} µs; redis-server asked directly {direct:.2} and a hit of Larder ({HITS} connections) {hit:.2}, together {sum:.2}: **{:.2}** of that.",
            miss / sum
        );
        if let Some(source) = self.cells.good(key, BASE).and_then(|cell| cell.source_cpu_us) {
            text += &format!(
                " The redis-server behind Larder takes {source:.2} µs for a miss: with it {:.2}.",
                (miss + source) / sum
            );
        }
        let rate = self.cells.good(key, BASE).map_or(0.0, |cell| cell.median(Figure::Rate));
        let busy = miss * rate / 1e6;
        if busy < BUSY {
            text += &format!(
                " Larder's core was {:.0} % busy: the core of the generator and of the source set the throughput.",
                100.0 * busy
            );
        }
        self.line(&format!("{text}\n"));
    }

    fn by_connections(&mut self, keys: &[CellKey]) {
        let servers = self.cells.servers(keys);
        let head = |cpu: &str, rate: &str| {
            let figure = |name: &str| keys.iter().map(|key| format!("{name}, {}", key.connections)).collect::<Vec<_>>();
            [vec!["connections".to_owned()], figure(cpu), figure(rate)].concat()
        };
        let rows = |show: fn(&Self, CellKey, &str, Figure) -> String| -> Vec<Vec<String>> {
            let row = |server: &String| {
                let figures = [Figure::Cpu, Figure::Rate]
                    .map(|figure| keys.iter().map(|&key| show(self, key, server, figure)).collect::<Vec<_>>());
                [vec![server.clone()], figures.concat()].concat()
            };
            servers.iter().map(row).collect()
        };
        let (ratios, absolute) = (rows(RivalsPage::ratio), rows(RivalsPage::absolute));
        // Without another server the ratios are all 1.
        if servers.len() > 1 {
            self.table(&head("CPU", "throughput"), &ratios);
            self.details("Absolute", |page| page.table(&head("CPU, µs", "requests/s"), &absolute));
        } else {
            self.table(&head("CPU, µs", "requests/s"), &absolute);
        }
    }

    /// Throughput by connections: a line for each name, which stands for a server under a load, but
    /// for cells that have errors. `None` if there are not at least two numbers of connections.
    fn throughput(&self, title: &str, lines: &[(&str, &str, RivalLoad)], keys: &[CellKey]) -> Option<String> {
        let (first, last) = keys.first().zip(keys.last()).filter(|_| keys.len() > 1)?;
        let at = |load| keys.iter().map(move |&key| (key.connections as f64, CellKey { load, ..key }));
        let line = |&(name, server, load)| self.line_of(name, server, Figure::Rate, at(load));
        let lines = lines.iter().map(line).collect();
        let ticks = keys.iter().map(|key| key.connections as f64).map(|count| (count, plain(count))).collect();
        let (low, high) = (first.connections as f64, last.connections as f64);
        let x = Axis { low, high, log: true, ticks, label: "connections" };
        Some(self.lines_over(title, &x, "requests per second", lines))
    }

    fn points(&self) -> String {
        format!("points: medians of {} runs, bars: least to most", self.setting.runs)
    }

    /// The foot of a chart.
    fn origin(&self, how: &str) -> String {
        format!("{}, commit {}; {how}", self.setting.date, self.setting.commit)
    }

    fn memory(&mut self) {
        let (sizes, servers) = (self.cells.sizes(), self.cells.memory_servers());
        let Some(key_size) = self.cells.memory.first().map(|row| row.key_size) else { return };
        self.line("## Memory per entry\n");
        self.line(&format!(
            "Growth of the server's memory (proportional set size of all its processes) while entries are stored, divided by their number; keys of {key_size} bytes. Measured once. Each entry was read back.\n"
        ));
        let head = [vec![String::new()], sizes.iter().map(|&size| size_name(size)).collect()].concat();
        let rows = |show: &dyn Fn(&str, usize) -> Option<String>| -> Vec<Vec<String>> {
            let row = |server: &String| {
                let figures = sizes.iter().map(|&size| show(server, size).unwrap_or("–".to_owned()));
                std::iter::once(server.clone()).chain(figures).collect()
            };
            servers.iter().map(row).collect()
        };
        let bytes = |server: &str, size| self.cells.bytes(server, size);
        let ratios = rows(&|server, size| Some(format!("{:.2}", bytes(server, size)? / bytes(BASE, size)?)));
        let absolute = rows(&|server, size| Some(format!("{:.0}", bytes(server, size)?)));
        let entries = |size: &usize| self.cells.memory.iter().find(|row| row.value_size == *size);
        let counts = sizes.iter().map(|size| entries(size).map_or("–".to_owned(), |row| row.entries.to_string()));
        let counts = std::iter::once("*entries*".to_owned()).chain(counts).collect();
        self.table(&head, &ratios);
        self.details("Bytes", |page| page.table(&head, &[absolute, vec![counts]].concat()));
        let title = "Memory per entry, as a multiple of key and value";
        let chart = self.memory_chart(title, key_size, &sizes, &servers);
        self.chart("memory", title, chart);
    }

    fn memory_chart(&self, title: &str, key_size: usize, sizes: &[usize], servers: &[String]) -> Option<String> {
        let (first, last) = sizes.first().zip(sizes.last()).filter(|(first, last)| first < last)?;
        let line = |server: &str| -> Vec<(f64, f64)> {
            let point = |&size: &usize| Some((size as f64, self.cells.bytes(server, size)? / (size + key_size) as f64));
            sizes.iter().filter_map(point).collect()
        };
        let lines: Vec<FileLine> = servers.iter().map(|server| (&server[..], line(server)).into()).collect();
        let most = lines.iter().flat_map(|line| &line.points).map(|point| point.1).fold(1.0, f64::max);
        let ticks = sizes.iter().map(|&size| (size as f64, size_name(size))).collect();
        let x = Axis { low: *first as f64, high: *last as f64, log: true, ticks, label: "bytes of a value" };
        Some(file(title, &x, &Axis::log(0.5, most, "memory ÷ (key + value)"), lines, &self.origin("measured once")))
    }

    fn lookup(&mut self) {
        let mut keys: Vec<CellKey> = self.cells.keys().filter(|key| key.section == PageSection::Lookup).collect();
        keys.sort_by_key(|key| key.connections);
        keys.dedup_by_key(|key| key.connections);
        if keys.is_empty() {
            return;
        }
        let loads =
            [("bad query", RivalLoad::BadRequest), ("miss", RivalLoad::LookupMiss), ("hit", RivalLoad::LookupHit)];
        self.line("## `/lookup` by connections\n");
        self.line("In the form in which small HTTP proxies for Redis publish their figures: Larder's `/lookup`, one thread. A bad query has no key (400); a miss is fetched from redis-server.\n");
        let head = [
            vec!["connections".to_owned()],
            loads.map(|(name, _)| format!("{name}/s")).to_vec(),
            loads.map(|(name, _)| format!("{name}, mean ms")).to_vec(),
        ];
        let row = |&key: &CellKey| {
            let figure = |load, show: fn(&Cell, usize) -> String| match self.cells.cell(CellKey { load, ..key }, BASE) {
                None => "–".to_owned(),
                Some(cell) if !cell.errors.is_empty() => "*failed*".to_owned(),
                Some(cell) => format!("{}{}", show(cell, key.connections), if cell.saturated { "†" } else { "" }),
            };
            let rates = loads.map(|(_, load)| figure(load, |cell, _| plain(cell.median(Figure::Rate))));
            let means = loads.map(|(_, load)| figure(load, mean_ms));
            [vec![key.connections.to_string()], rates.to_vec(), means.to_vec()].concat()
        };
        let rows: Vec<_> = keys.iter().map(row).collect();
        self.table(&head.concat(), &rows);
        let title = "/lookup by connections";
        let chart = self.throughput(title, &loads.map(|(name, load)| (name, BASE, load)), &keys);
        self.chart("lookup", title, chart);
    }

    fn items(&mut self) {
        self.line("## `/cache/v1/item`\n");
        self.line("In the form of GCache's own benchmark: 30 connections, JSON bodies. POST of new keys, POST of one key over and over, GET of absent keys (GCache answers 400), GET of stored keys, DELETE of them.\n");
        let key = |load| CellKey::lone(PageSection::Item, load, 30);
        if ITEMS.iter().all(|&(load, _)| self.cells.cell(key(load), BASE).is_none()) {
            self.line("Larder has no figures here; [why](#not-measured).\n");
        }
        for (load, name) in ITEMS {
            let row = |(server, cell): &(String, Cell)| {
                [self.costs(key(load), server), vec![mean_ms(cell, 30), Figure::Max.show(cell.median(Figure::Max))]]
                    .concat()
            };
            let rows: Vec<_> = self.cells.at(key(load)).iter().map(row).collect();
            if !rows.is_empty() {
                self.table(&words(&[&[name], &COSTS[..], &["mean, ms", "max, ms"]].concat()), &rows);
            }
        }
    }
}

/// Little's law: a closed loop's mean latency.
fn mean_ms(cell: &Cell, connections: usize) -> String {
    format!("{:.3}", connections as f64 * 1e3 / cell.median(Figure::Rate))
}
