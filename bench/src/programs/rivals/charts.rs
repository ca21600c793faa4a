//! The page's charts: files of their own, with a legend and a background, so that they can be read on any page.
use super::{
    median_cells::{CellKey, Cells},
    record::RivalLoad,
};
use crate::lib::results::chart::{self, Axis, ChartLine, colour, escape};
use std::fmt::Write;

/// Height of a line of the legend.
const ROW: usize = 24;
const WIDTH: usize = 960;
const HEIGHT: usize = 380;
const IN_A_ROW: usize = 5;

/// A chart as a file: its lines, one server each.
fn file(title: &str, x: &Axis, y: &Axis, servers: Vec<(&str, Vec<(f64, f64)>)>) -> String {
    let height = HEIGHT + ROW * (1 + servers.len().div_ceil(IN_A_ROW));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\
         <style>{}</style><rect width=\"{WIDTH}\" height=\"{height}\" fill=\"var(--paper)\"/>",
        chart::STYLE
    );
    let _ = write!(out, "<text x=\"76\" y=\"18\" font-weight=\"600\">{}</text>", escape(title));
    for (number, (name, _)) in servers.iter().enumerate() {
        let (left, top) = (76 + number % IN_A_ROW * 172, ROW + number / IN_A_ROW * ROW);
        let _ = write!(
            out,
            "<rect x=\"{left}\" y=\"{}\" width=\"12\" height=\"12\" rx=\"2\" fill=\"{}\"/><text x=\"{}\" y=\"{}\">{}</text>",
            top + 6,
            colour(number),
            left + 18,
            top + 17,
            escape(name)
        );
    }
    let lines: Vec<ChartLine> = servers
        .into_iter()
        .enumerate()
        .map(|(number, (name, points))| ChartLine {
            points,
            colour: colour(number),
            dashed: false,
            title: name.to_owned(),
        })
        .collect();
    let drawn = chart::lines(title, x, y, &lines);
    // The chart's own frame gives way to this file's.
    let inside = drawn.split_once('>').map_or("", |(_, inside)| inside).trim_end_matches("</svg>");
    let _ = write!(out, "<g transform=\"translate(0 {})\">{inside}</g></svg>", height - HEIGHT);
    out
}

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
