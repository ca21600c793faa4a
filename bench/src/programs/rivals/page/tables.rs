//! The sections of the page: a table for each load, and what belongs to it.
use super::{Cell, Figure, RivalsPage, depth, milliseconds, words};
use crate::{
    lib::results::chart::plain,
    programs::rivals::{
        charts::{self, size_name},
        median_cells::{BASE, CellKey},
        record::{MemoryRecord, PageSection, RivalLoad},
    },
};

impl RivalsPage<'_> {
    pub(super) fn http(&mut self) {
        let key = |load| CellKey::lone(PageSection::Http, load, 50);
        let loads = [
            (
                RivalLoad::HttpHit,
                "GET, hit",
                "A value of 64 bytes, out of 1,000. GET of Larder's `/v1/kv/{key}`; nginx with a file, or with the answer of a backend in its cache; varnish likewise.",
            ),
            (RivalLoad::LookupHit, "`/lookup`, hit", "The value in JSON; nginx serves the same bytes as files."),
            (
                RivalLoad::HttpMiss,
                "GET, miss",
                "Each request must fetch from behind: Larder from redis-server (it may keep one key), the others from a static nginx (a path that was never asked for; stored, and thrown out later).",
            ),
            (RivalLoad::NotFound, "404", "varnish and nginx with `proxy_cache` keep the backend's 404."),
            (
                RivalLoad::BadRequest,
                "400",
                "Larder: `/lookup` without a key. Pogocache: a method that it does not know. nginx and varnish: a path for which they are told to answer so.",
            ),
        ];
        if loads.iter().all(|&(load, ..)| self.cells.at(key(load)).is_empty()) {
            return;
        }
        self.line("## HTTP\n");
        self.line("50 connections, one request at a time on each. Pogocache announces `Connection: Close` in every answer, after which a client may send nothing more (RFC 9112, 9.6): each of its requests has a connection of its own.\n");
        for (load, title, note) in loads {
            let key = key(load);
            let servers: Vec<String> = self.cells.at(key).iter().map(|(server, _)| server.clone()).collect();
            if servers.is_empty() {
                continue;
            }
            self.line(&format!("### {title}\n\n{note}\n"));
            let rows: Vec<_> = servers.iter().map(|server| self.costs(key, server)).collect();
            self.table(&words(&["", "CPU", "throughput", "CPU, µs", "requests/s"]), &rows);
        }
    }

    pub(super) fn commands(&mut self) {
        let all: Vec<CellKey> = self.cells.keys().filter(|key| key.section == PageSection::Commands).collect();
        if all.is_empty() {
            return;
        }
        self.line("## Commands\n");
        self.line("100,000 keys, drawn evenly, values of 64 bytes. Each server by its own protocol: memcached's text protocol for memcached, the Redis protocol (RESP2) for all others. MGET asks for ten keys: with memcached the way to ask for many at once, since 1.6 writes the replies to pipelined gets one by one. *16 at a time*: a sliding window, in which each reply lets the next request go, as clients that multiplex do. *In batches of 16*: all are sent together, and the next ones when all are answered.\n");
        for (load, name) in [
            (RivalLoad::Get, "GET"),
            (RivalLoad::Set, "SET"),
            (RivalLoad::Mget, "MGET"),
            (RivalLoad::Miss, "GET, miss"),
        ] {
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
                let chart = charts::throughput(&self.cells, &title, &keys, &self.origin);
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
        let hits = CellKey { load: RivalLoad::Get, connections: HITS, ..key };
        let cpu = |key, server| self.good(key, server).map(|cell| cell.cpu_us.median);
        let (Some(miss), Some(direct), Some(hit)) = (cpu(key, BASE), cpu(key, "redis-server"), cpu(hits, BASE)) else {
            return;
        };
        let sum = direct + hit;
        let mut text = format!(
            "CPU of a miss: Larder {miss:.2} µs; redis-server asked directly {direct:.2} and a hit of Larder ({HITS} connections) {hit:.2}, together {sum:.2}: **{:.2}** of that.",
            miss / sum
        );
        if let Some(source) = self.good(key, BASE).and_then(|cell| cell.source_cpu_us) {
            text += &format!(
                " The redis-server behind Larder takes {source:.2} µs for a miss: with it {:.2}.",
                (miss + source) / sum
            );
        }
        self.line(&format!("{text}\n"));
    }

    fn by_connections(&mut self, keys: &[CellKey]) {
        let servers: Vec<String> = self.cells.servers(keys).into_iter().map(str::to_owned).collect();
        let head = |cpu: &str, rate: &str| {
            let figure = |name: &str| keys.iter().map(|key| format!("{name}, {}", key.connections)).collect::<Vec<_>>();
            [vec!["connections".to_owned()], figure(cpu), figure(rate)].concat()
        };
        let rows = |show: &dyn Fn(CellKey, &str, Figure) -> String| -> Vec<Vec<String>> {
            let row = |server: &String| {
                let figures = [Figure::Cpu, Figure::Rate]
                    .into_iter()
                    .flat_map(|figure| keys.iter().map(move |&key| (key, figure)));
                std::iter::once(server.clone()).chain(figures.map(|(key, figure)| show(key, server, figure))).collect()
            };
            servers.iter().map(row).collect()
        };
        let ratios = rows(&|key, server, figure| self.ratio(key, server, figure));
        let absolute = rows(&|key, server, figure| self.absolute(key, server, figure));
        // Without another server the ratios are all 1.
        if servers.len() > 1 {
            self.table(&head("CPU", "throughput"), &ratios);
            self.details("Absolute", |page| page.table(&head("CPU, µs", "requests/s"), &absolute));
        } else {
            self.table(&head("CPU, µs", "requests/s"), &absolute);
        }
    }

    pub(super) fn latency(&mut self) {
        let key = |load, open| CellKey { open, ..CellKey::lone(PageSection::Latency, load, 50) };
        let loads = [
            (RivalLoad::HttpHit, "HTTP GET, hit"),
            (RivalLoad::HttpMiss, "HTTP GET, miss"),
            (RivalLoad::Get, "GET, hit"),
            (RivalLoad::Miss, "GET, miss"),
        ];
        if loads.iter().all(|&(load, _)| self.cells.at(key(load, true)).is_empty()) {
            return;
        }
        self.line("## Latency at half of the highest rate\n");
        self.line("50 connections. First each server's highest rate (closed loop), then half of *its own* rate on a fixed schedule; counted from each request's intended start. A server that can do more is asked more.\n");
        for (load, name) in loads {
            let (peak, half) = (key(load, false), key(load, true));
            let servers: Vec<String> = self.cells.at(half).iter().map(|(server, _)| server.clone()).collect();
            if servers.is_empty() {
                continue;
            }
            self.line(&format!("### {name}\n"));
            let row = |server: &String| {
                let cell = self.cells.cell(half, server);
                let one = |figure: Figure| match cell.filter(|cell| cell.errors.is_empty()) {
                    Some(cell) => figure.show(figure.of(cell).median),
                    None => "–".to_owned(),
                };
                let mark = if cell.is_some_and(|cell| cell.saturated) { "†" } else { "" };
                let highest =
                    self.cells.cell(peak, server).map_or("–".to_owned(), |cell| plain(cell.per_second.median));
                vec![
                    server.clone(),
                    self.ratio(half, server, Figure::P99),
                    highest,
                    one(Figure::P50),
                    format!("{}{mark}", self.absolute(half, server, Figure::P99)),
                    one(Figure::P999),
                    one(Figure::Max),
                ]
            };
            let rows: Vec<_> = servers.iter().map(row).collect();
            self.table(&words(&["", "p99", "highest rate/s", "p50, ms", "p99, ms", "p99.9, ms", "max, ms"]), &rows);
        }
    }

    pub(super) fn sizes(&self) -> Vec<usize> {
        let mut sizes: Vec<usize> = self.cells.memory.iter().map(|row| row.value_size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    pub(super) fn memory_servers(&self) -> Vec<String> {
        let mut servers: Vec<String> = Vec::new();
        for row in &self.cells.memory {
            if !servers.contains(&row.server) {
                servers.push(row.server.clone());
            }
        }
        servers
    }

    pub(super) fn bytes(&self, server: &str, size: usize) -> Option<f64> {
        let row = self.cells.memory.iter().find(|row| row.server == server && row.value_size == size)?;
        Some(row.growth as f64 / row.entries as f64)
    }

    pub(super) fn memory(&mut self) {
        let (sizes, servers) = (self.sizes(), self.memory_servers());
        let Some(&MemoryRecord { key_size, .. }) = self.cells.memory.first() else { return };
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
        let ratios = rows(&|server, size| Some(format!("{:.2}", self.bytes(server, size)? / self.bytes(BASE, size)?)));
        let absolute = rows(&|server, size| Some(format!("{:.0}", self.bytes(server, size)?)));
        let mut counts = vec!["*entries*".to_owned()];
        for size in &sizes {
            let row = self.cells.memory.iter().find(|row| row.value_size == *size);
            counts.push(row.map_or("–".to_owned(), |row| row.entries.to_string()));
        }
        self.table(&head, &ratios);
        self.details("Bytes", |page| page.table(&head, &[absolute, vec![counts]].concat()));
        let title = "Memory per entry, as a multiple of key and value";
        let chart = charts::memory(&self.cells, title, &self.origin);
        self.chart("memory", title, chart);
    }

    pub(super) fn lookup(&mut self) {
        let mut connections: Vec<CellKey> =
            self.cells.keys().filter(|key| key.section == PageSection::Lookup).collect();
        connections.sort_by_key(|key| key.connections);
        connections.dedup_by_key(|key| key.connections);
        if connections.is_empty() {
            return;
        }
        let loads =
            [("bad query", RivalLoad::BadRequest), ("miss", RivalLoad::LookupMiss), ("hit", RivalLoad::LookupHit)];
        self.line("## `/lookup` by connections\n");
        self.line("In the form in which small HTTP proxies for Redis publish their figures: Larder's `/lookup`, one thread. A bad query has no key (400); a miss is fetched from redis-server.\n");
        let head = words(&[
            "connections",
            "bad query/s",
            "miss/s",
            "hit/s",
            "bad query, mean ms",
            "miss, mean ms",
            "hit, mean ms",
        ]);
        let row = |&key: &CellKey| {
            let figure = |load, show: fn(&Cell, usize) -> String| {
                let key = CellKey { load, ..key };
                match self.cells.cell(key, BASE) {
                    None => "–".to_owned(),
                    Some(cell) if !cell.errors.is_empty() => "*failed*".to_owned(),
                    Some(cell) => format!("{}{}", show(cell, key.connections), if cell.saturated { "†" } else { "" }),
                }
            };
            let rates = loads.map(|(_, load)| figure(load, |cell, _| plain(cell.per_second.median)));
            // Little's law: a closed loop's mean latency.
            let means = loads.map(|(_, load)| {
                figure(load, |cell, connections| milliseconds(connections as f64 * 1e3 / cell.per_second.median))
            });
            [vec![key.connections.to_string()], rates.to_vec(), means.to_vec()].concat()
        };
        let rows: Vec<_> = connections.iter().map(row).collect();
        self.table(&head, &rows);
        let title = "/lookup by connections";
        let chart = charts::loads(&self.cells, title, BASE, &loads, &connections, &self.origin);
        self.chart("lookup", title, chart);
    }

    pub(super) fn items(&mut self) {
        let keys: Vec<CellKey> = self.cells.keys().filter(|key| key.section == PageSection::Item).collect();
        self.line("## `/cache/v1/item`\n");
        self.line("In the form of GCache's own benchmark: 30 connections, JSON bodies. POST of new keys, POST of one key over and over, GET of keys that there are not (answered 400 by GCache), GET of stored keys, DELETE of them.\n");
        if keys.iter().all(|&key| self.cells.cell(key, BASE).is_none()) {
            self.line("Larder has no figures here; [why](#not-measured).\n");
        }
        let operations = [
            (RivalLoad::ItemUnique, "POST, unique"),
            (RivalLoad::ItemUpdate, "POST, update"),
            (RivalLoad::ItemAbsent, "GET, absent"),
            (RivalLoad::ItemStored, "GET, stored"),
            (RivalLoad::ItemDelete, "DELETE"),
        ];
        for (load, name) in operations {
            let Some(&key) = keys.iter().find(|key| key.load == load) else { continue };
            let row = |(server, cell): &(String, Cell)| {
                let mean = 30.0 * 1e3 / cell.per_second.median;
                let mut row = self.costs(key, server);
                row.extend([milliseconds(mean), milliseconds(cell.max_ms.median)]);
                row
            };
            let rows: Vec<_> = self.cells.at(key).iter().map(row).collect();
            self.table(&words(&[name, "CPU", "throughput", "CPU, µs", "requests/s", "mean, ms", "max, ms"]), &rows);
        }
    }
}
