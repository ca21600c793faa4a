//! The page's charts.
use super::{
    median_cells::{CellKey, Cells},
    record::RivalLoad,
};
use crate::lib::results::{
    chart::{self, Axis},
    chart_file::file,
};

/// Throughput by connections. `None` if there are not at least two numbers of connections.
pub(super) fn throughput(cells: &Cells, title: &str, keys: &[CellKey]) -> Option<String> {
    if keys.len() < 2 {
        return None;
    }
    let servers: Vec<_> = cells
        .servers(keys)
        .into_iter()
        .map(|server| {
            let point = |&key: &CellKey| {
                let cell = cells.cell(key, server).filter(|cell| cell.errors.is_empty())?;
                Some((key.connections as f64, cell.per_second.median))
            };
            (server, keys.iter().filter_map(point).collect())
        })
        .collect();
    by_connections(title, keys, servers)
}

/// Throughput of one server by connections, a line for each load.
pub(super) fn loads(
    cells: &Cells,
    title: &str,
    server: &str,
    lines: &[(&'static str, RivalLoad)],
    keys: &[CellKey],
) -> Option<String> {
    if keys.len() < 2 {
        return None;
    }
    let line = |&(name, load): &(&'static str, RivalLoad)| {
        let points = keys.iter().filter_map(|&key| {
            let cell = cells.cell(CellKey { load, ..key }, server).filter(|cell| cell.errors.is_empty())?;
            Some((key.connections as f64, cell.per_second.median))
        });
        (name, points.collect())
    };
    by_connections(title, keys, lines.iter().map(line).collect())
}

fn by_connections(title: &str, keys: &[CellKey], servers: Vec<(&str, Vec<(f64, f64)>)>) -> Option<String> {
    let connections: Vec<f64> = keys.iter().map(|key| key.connections as f64).collect();
    let most = servers.iter().flat_map(|(_, points)| points).map(|point| point.1).fold(0.0, f64::max);
    let (first, last) = (connections.first()?, connections.last()?);
    let ticks = connections.iter().map(|&at| (at, chart::plain(at))).collect();
    let x = Axis { low: *first, high: *last, log: true, ticks, label: "connections" };
    Some(file(title, &x, &Axis::linear(most, "requests per second"), servers))
}

/// Memory per entry by length of the value, as a multiple of key and value themselves.
pub(super) fn memory(cells: &Cells, title: &str) -> Option<String> {
    let mut sizes: Vec<usize> = cells.memory.iter().map(|row| row.value_size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let (&first, &last) = sizes.first().zip(sizes.last()).filter(|(first, last)| first < last)?;
    let mut servers: Vec<(&str, Vec<(f64, f64)>)> = Vec::new();
    for row in &cells.memory {
        let point =
            (row.value_size as f64, row.growth as f64 / row.entries as f64 / (row.value_size + row.key_size) as f64);
        match servers.iter_mut().find(|(server, _)| *server == row.server) {
            Some((_, points)) => points.push(point),
            None => servers.push((&row.server, vec![point])),
        }
    }
    let most = servers.iter().flat_map(|(_, points)| points).map(|point| point.1).fold(1.0, f64::max);
    let ticks = sizes.iter().map(|&size| (size as f64, size_name(size))).collect();
    let x = Axis { low: first as f64, high: last as f64, log: true, ticks, label: "bytes of a value" };
    Some(file(title, &x, &Axis::log(0.5, most, "memory ÷ (key + value)"), servers))
}

/// 64 B, 4 KiB.
pub(super) fn size_name(bytes: usize) -> String {
    if bytes.is_multiple_of(1024) { format!("{} KiB", bytes / 1024) } else { format!("{bytes} B") }
}
