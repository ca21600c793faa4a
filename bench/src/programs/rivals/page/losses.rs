//! The list of the cells in which Larder is behind.
use super::{Figure, RivalsPage, describe};
use crate::{
    lib::results::chart::plain,
    programs::rivals::{
        charts::size_name,
        median_cells::{BASE, Cell, CellKey, RunSpread},
        record::{PageSection, RivalLoad},
    },
};
use std::collections::HashSet;

impl RivalsPage<'_> {
    /// Every cell in which another server is better, beyond the spread of the runs.
    pub(super) fn behind(&mut self) {
        let (mut lines, mut reasons) = (Vec::new(), Vec::new());
        for key in self.cells.keys() {
            let Some(base) = self.good(key, BASE) else { continue };
            let better = |figure: Figure, more: bool| {
                let beats = |other: RunSpread, base: RunSpread| {
                    if more { other.low > base.high } else { other.high < base.low }
                };
                let others = self.cells.at(key).iter().filter(|(name, cell)| name != BASE && cell.errors.is_empty());
                let named = others.filter(|(_, cell)| beats(figure.of(cell), figure.of(base)));
                let shown = |(name, cell): &(String, Cell)| {
                    let ratio = figure.of(cell).median / figure.of(base).median;
                    // Each was asked half of what it can do.
                    let asked = |cell: &Cell| plain(cell.per_second.median);
                    match key.open {
                        true => format!("{name} ({ratio:.2}, at {}/s; larder at {}/s)", asked(cell), asked(base)),
                        false => format!("{name} ({ratio:.2})"),
                    }
                };
                named.map(shown).collect::<Vec<_>>()
            };
            let figures = match (key.open, key.section) {
                (true, _) => vec![("p99", better(Figure::P99, false))],
                (false, PageSection::Latency) => vec![],
                (false, _) => vec![("CPU", better(Figure::Cpu, false)), ("throughput", better(Figure::Rate, true))],
            };
            for (what, servers) in figures.into_iter().filter(|(_, servers)| !servers.is_empty()) {
                reasons.extend(reason(key));
                lines.push(format!("- {}: {what}: {}", describe(key), servers.join(", ")));
            }
        }
        for size in self.sizes() {
            let Some(base) = self.bytes(BASE, size) else { continue };
            for server in self.memory_servers() {
                if let Some(bytes) = self.bytes(&server, size).filter(|bytes| *bytes < base) {
                    reasons.push(MEMORY_REASON);
                    lines.push(format!(
                        "- memory per entry, values of {}: {server} ({:.2})",
                        size_name(size),
                        bytes / base
                    ));
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
}

const MEMORY_REASON: &str = "Beside key and value, an entry of Larder has a header of 8 bytes and a slot of the index. [A decision](decisions/0093-smaller-index-slots-cost-hits.md) says what each byte is for, and what smaller slots cost each hit.";

/// Why Larder may be behind in a cell, if that is known.
fn reason(key: CellKey) -> Option<&'static str> {
    if key.load == RivalLoad::Miss {
        Some(
            "A miss of Larder asks the redis-server that it is compared with, so it cannot be cheaper than that alone. The [tables](#get-miss-one-at-a-time) compare it with asking redis-server and a hit of Larder together.",
        )
    } else if key.open {
        Some("For p99, each server is asked half of what it can do, so the figures belong to different rates.")
    } else if key.connections == 1 {
        Some(
            "With one connection, other code runs on the core between two requests, so a server's own code comes from caches that are farther away, and Larder has more of it. [A decision](decisions/0095-workers-have-no-timer-of-their-own.md) has the figures.",
        )
    } else {
        None
    }
}
