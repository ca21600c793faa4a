//! A chart of the CPU time in the course of a run: all of it, and what it was spent on.
use super::{perf_stacks::Stacks, time_shares};
use crate::lib::results::{chart::Axis, chart_file::file};
use std::collections::BTreeMap;

/// Points of a line.
const POINTS: usize = 40;

type Line = (&'static str, Vec<(f64, f64)>);

/// Draws the server's CPU time, in percent of one core. `frequency`: samples per second of a busy
/// core.
pub(super) fn svg(title: &str, stacks: &Stacks, frequency: f64, origin: &str) -> String {
    let lines = lines(stacks, frequency);
    let points = || lines.iter().flat_map(|(_, points)| points);
    let most = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(0.0, f64::max);
    let (x, y) = (Axis::linear(most(|point| point.0), "seconds"), Axis::linear(most(|point| point.1), "% of a core"));
    file(title, &x, &y, lines.into_iter().map(Into::into).collect(), origin)
}

/// For each part of the time, how busy the core was in that part of the run.
fn lines(stacks: &Stacks, frequency: f64) -> Vec<Line> {
    let begin = stacks.moments.first().map_or(0.0, |(at, _)| *at);
    let length = stacks.moments.last().map_or(0.0, |(at, _)| *at - begin);
    let part = (length / POINTS as f64).max(f64::MIN_POSITIVE);
    let mut counts: BTreeMap<&'static str, [u64; POINTS]> = BTreeMap::new();
    for (at, stack) in &stacks.moments {
        let point = (((at - begin) / part) as usize).min(POINTS - 1);
        for kind in [ALL, time_shares::kind(stack)] {
            counts.entry(kind).or_insert([0; POINTS])[point] += 1;
        }
    }
    // The last ones would not be told apart.
    let mut lines: Vec<_> = counts.into_iter().collect();
    lines.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.iter().sum::<u64>()));
    lines.truncate(MOST_LINES);
    let busy = |count: u64| count as f64 / (frequency * part) * 100.0;
    let point = |(at, count): (usize, u64)| ((at as f64 + 0.5) * part, busy(count));
    lines.into_iter().map(|(kind, counts)| (kind, counts.into_iter().enumerate().map(point).collect())).collect()
}

const ALL: &str = "all";
const MOST_LINES: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_of_a_run_has_its_own_load() {
        // Ten samples per second of a busy core: four seconds of writes, the last two beside a flush.
        let write = "commit [fjall-3/src/keyspace/mod.rs];insert [lsm-tree-3/src/memtable/mod.rs]";
        let flush = "run [fjall-3/src/flush/worker.rs];write [lsm-tree-3/src/table/writer.rs]";
        let writes = (0..=40).map(|tenth| (7.0 + f64::from(tenth) / 10.0, write.to_owned()));
        let flushes = (20..40).map(|tenth| (7.0 + f64::from(tenth) / 10.0, flush.to_owned()));
        let mut moments: Vec<(f64, String)> = writes.chain(flushes).collect();
        moments.sort_by(|a, b| a.0.total_cmp(&b.0));
        let stacks = Stacks { moments, ..Stacks::default() };
        let lines = lines(&stacks, 10.0);
        let names: Vec<_> = lines.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["all", "store: memtable", "store: flush"]);
        let mean = |line: usize, from: usize, to: usize| {
            lines[line].1[from..to].iter().map(|(_, busy)| busy).sum::<f64>() / (to - from) as f64
        };
        let means =
            [(0, 0, 20), (0, 20, 40), (1, 0, 20), (2, 0, 18), (2, 20, 40)].map(|(l, a, b)| mean(l, a, b).round());
        assert_eq!(means, [100.0, 205.0, 100.0, 0.0, 100.0]);
        assert!(svg("title", &stacks, 10.0, "here").contains("store: flush"));
    }
}
