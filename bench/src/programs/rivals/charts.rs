//! The page's charts.
use super::{
    median_cells::{Cell, CellKey, Cells},
    record::{RivalLoad, SettingRecord},
};
use crate::lib::results::{
    chart::{self, Axis},
    chart_file::{FileLine, file},
};

/// When and from which commit the figures of a page are, and how often they were measured.
#[derive(Debug)]
pub(super) struct Origin {
    when: String,
    runs: u64,
}
impl Origin {
    pub(super) fn of(setting: &SettingRecord) -> Origin {
        let SettingRecord { date, commit, runs, .. } = setting;
        Origin { when: format!("{date}, commit {commit}"), runs: *runs }
    }
    /// With what a point and its bar stand for.
    fn of_medians(&self) -> String {
        format!("{}; points: medians of {} runs, bars: least to most", self.when, self.runs)
    }
    fn of_one_run(&self) -> String {
        format!("{}; measured once", self.when)
    }
}

/// The throughput of a server in these cells, without those that have errors.
fn line<'a>(name: &'a str, cells: impl Iterator<Item = (CellKey, &'a Cell)>) -> FileLine<'a> {
    let mut line = FileLine { name, points: Vec::new(), ranges: Vec::new() };
    for (key, cell) in cells.filter(|(_, cell)| cell.errors.is_empty()) {
        let (at, rate) = (key.connections as f64, cell.per_second);
        line.points.push((at, rate.median));
        line.ranges.push((at, rate.low, rate.high));
    }
    line
}

/// Throughput by connections. `None` if there are not at least two numbers of connections.
pub(super) fn throughput(cells: &Cells, title: &str, keys: &[CellKey], origin: &Origin) -> Option<String> {
    if keys.len() < 2 {
        return None;
    }
    let of = |server| line(server, keys.iter().filter_map(move |&key| Some((key, cells.cell(key, server)?))));
    by_connections(title, keys, cells.servers(keys).into_iter().map(of).collect(), origin)
}

/// Throughput of one server by connections, a line for each load.
pub(super) fn loads(
    cells: &Cells,
    title: &str,
    server: &str,
    loads: &[(&'static str, RivalLoad)],
    keys: &[CellKey],
    origin: &Origin,
) -> Option<String> {
    if keys.len() < 2 {
        return None;
    }
    let of = |&(name, load): &(&'static str, RivalLoad)| {
        line(name, keys.iter().filter_map(move |&key| Some((key, cells.cell(CellKey { load, ..key }, server)?))))
    };
    by_connections(title, keys, loads.iter().map(of).collect(), origin)
}

fn by_connections(title: &str, keys: &[CellKey], servers: Vec<FileLine>, origin: &Origin) -> Option<String> {
    let connections: Vec<f64> = keys.iter().map(|key| key.connections as f64).collect();
    let most = servers.iter().flat_map(|line| &line.ranges).map(|range| range.2).fold(0.0, f64::max);
    let (first, last) = (connections.first()?, connections.last()?);
    let ticks = connections.iter().map(|&at| (at, chart::plain(at))).collect();
    let x = Axis { low: *first, high: *last, log: true, ticks, label: "connections" };
    Some(file(title, &x, &Axis::linear(most, "requests per second"), servers, &origin.of_medians()))
}

/// Memory per entry by length of the value, as a multiple of key and value themselves.
pub(super) fn memory(cells: &Cells, title: &str, origin: &Origin) -> Option<String> {
    let mut sizes: Vec<usize> = cells.memory.iter().map(|row| row.value_size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let (&first, &last) = sizes.first().zip(sizes.last()).filter(|(first, last)| first < last)?;
    let mut servers: Vec<FileLine> = Vec::new();
    for row in &cells.memory {
        let point =
            (row.value_size as f64, row.growth as f64 / row.entries as f64 / (row.value_size + row.key_size) as f64);
        match servers.iter_mut().find(|line| line.name == row.server) {
            Some(line) => line.points.push(point),
            None => servers.push((row.server.as_str(), vec![point]).into()),
        }
    }
    let most = servers.iter().flat_map(|line| &line.points).map(|point| point.1).fold(1.0, f64::max);
    let ticks = sizes.iter().map(|&size| (size as f64, size_name(size))).collect();
    let x = Axis { low: first as f64, high: last as f64, log: true, ticks, label: "bytes of a value" };
    Some(file(title, &x, &Axis::log(0.5, most, "memory ÷ (key + value)"), servers, &origin.of_one_run()))
}

/// 64 B, 4 KiB.
pub(super) fn size_name(bytes: usize) -> String {
    if bytes.is_multiple_of(1024) { format!("{} KiB", bytes / 1024) } else { format!("{bytes} B") }
}
