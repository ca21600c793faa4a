//! `larder-bench fleet`: what a node has to do as the fleet grows, by simulation.
mod imbalance;
mod traffic;

use crate::lib::{
    figures::{self, rounded},
    results::{chart::Axis, chart_file::file, origin},
};
use anyhow::Context;
use fastrand::Rng;
use larder_ring::peer::RingHash;
use serde_json::{Map, Value, json};
use std::{collections::BTreeSet, io::Write, path::PathBuf, time::Duration};
use traffic::{Figures, Load, ring};

/// Messages, connections and imbalance of each node in fleets of any size, by simulation
///
/// The owners are those of the server's own ring; nothing is sent. The nodes get random addresses,
/// and each figure is the mean over --rings such fleets. Every node is read at the same rate, the
/// keys by Zipf's law. Reads of other nodes' keys ask the owner, unless a hot copy is there;
/// every removal is told to all other nodes. The same --seed gives the same figures on every
/// machine.
///
/// Prints a line for each size; with --out also charts.
#[derive(Debug, clap::Args)]
pub(crate) struct FleetArgs {
    /// Sizes of the fleet
    #[arg(long, value_delimiter = ',', default_values_t = [2, 4, 8, 16, 32, 64, 128, 256, 512], value_parser = clap::value_parser!(u64).range(1..=65536))]
    nodes: Vec<u64>,
    /// How the ring is computed: `xxh3`, `fnv1` or `crc32`
    #[arg(long, default_value = "xxh3", value_parser = hash)]
    hash: RingHash,
    /// Fleets with other addresses, of each size, over which the figures are means
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    rings: u64,
    /// Reads per second at each node
    #[arg(long, default_value_t = 10_000)]
    reads: u64,
    /// Removals and writes per second at each node
    #[arg(long, default_value_t = 10)]
    writes: u64,
    /// Number of keys
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    keys: u64,
    /// Exponent of Zipf's law
    #[arg(long, default_value_t = 0.99)]
    zipf: f64,
    /// Life of a hot copy, as of `hot-copy-ttl`
    #[arg(long, default_value = "10s", value_parser = larder_units::parse_duration)]
    hot_copy_ttl: Duration,
    /// Reads of a key within ten seconds before it is copied, as of `hot-copy-ttl` behind the colon
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..))]
    hot_copy_after: u64,
    /// Threads of each node: each has its own connections
    #[arg(long, default_value_t = 4)]
    threads: u64,
    /// Requests that each node has under way at owners, for bounded load
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    in_flight: u64,
    /// Capacity of a node in means, for bounded load
    #[arg(long, default_value_t = 1.25)]
    factor: f64,
    /// Seed of addresses and keys
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder for the charts
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn hash(text: &str) -> Result<RingHash, String> {
    match text {
        "xxh3" => Ok(RingHash::Xxh3),
        "fnv1" => Ok(RingHash::Fnv1),
        "crc32" => Ok(RingHash::Crc32),
        _ => Err("neither xxh3 nor fnv1 nor crc32".to_owned()),
    }
}

/// Runs the program.
pub(crate) fn run(args: &FleetArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let load = Load {
        rates: traffic::rates(args.keys, args.zipf, args.reads as f64),
        hot_copy_ttl: args.hot_copy_ttl.as_secs_f64(),
        hot_copy_after: args.hot_copy_after as f64,
        threads: args.threads as f64,
        writes: args.writes as f64,
    };
    let mut rows = Vec::new();
    for nodes in &args.nodes {
        let fleet = |number: u64| -> Figures {
            let mut random = Rng::with_seed(args.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (nodes << 32) ^ number);
            let names = addresses(*nodes, &mut random);
            let ring = ring(args.hash, &names);
            let mut figures = traffic::traffic(&ring, *nodes, &load);
            figures.extend(imbalance::imbalance(&ring, args.hash, &names, (args.in_flight, args.factor), &mut random));
            figures
        };
        let fleets: Vec<Figures> = (0..args.rings).map(fleet).collect();
        let mut row = Map::new();
        let hash = format!("{:?}", args.hash).to_lowercase();
        for (name, value) in [("program", json!("fleet")), ("nodes", json!(nodes)), ("hash", json!(hash))] {
            row.insert(name.to_owned(), value);
        }
        row.insert("rings".to_owned(), args.rings.into());
        for (at, (name, _)) in fleets[0].iter().enumerate() {
            let mean = fleets.iter().map(|fleet| fleet[at].1).sum::<f64>() / fleets.len() as f64;
            row.insert((*name).to_owned(), rounded(mean).into());
        }
        figures::line(out, &row)?;
        rows.push(row);
    }
    let Some(folder) = &args.out else { return Ok(()) };
    std::fs::create_dir_all(folder)?;
    for (name, chart) in charts(&rows, &origin::of_this_run()?) {
        let path = folder.join(name);
        std::fs::write(&path, chart).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Different addresses.
fn addresses(nodes: u64, random: &mut Rng) -> Vec<String> {
    let mut addresses = BTreeSet::new();
    while (addresses.len() as u64) < nodes {
        addresses.insert(format!("10.{}.{}.{}:8080", random.u8(..), random.u8(..), random.u8(1..255)));
    }
    addresses.into_iter().collect()
}

fn charts(rows: &[Map<String, Value>], origin: &str) -> [(&'static str, String); 2] {
    let of = |row: &Map<String, Value>, name: &str| row[name].as_f64().unwrap_or(0.0);
    let draw = |title: &str, y: &dyn Fn(f64, f64) -> Axis, lines: &[(&str, &str)]| {
        let line = |name: &str| rows.iter().map(|row| (of(row, "nodes"), of(row, name))).collect::<Vec<_>>();
        let lines: Vec<(&str, Vec<(f64, f64)>)> = lines.iter().map(|(label, name)| (*label, line(name))).collect();
        let ends = |values: &mut dyn Iterator<Item = f64>| {
            values.fold((f64::INFINITY, 0.0), |(low, high), value: f64| (value.min(low), value.max(high)))
        };
        let (low, high) = ends(&mut rows.iter().map(|row| of(row, "nodes")));
        // Sizes are doubled more often than not.
        let ticks = (0..17).map(|power| f64::from(1 << power)).filter(|tick| (low..=high).contains(tick));
        let ticks = ticks.map(|tick| (tick, tick.to_string())).collect();
        let x = Axis { ticks, low, high: high.max(low + 1.0), log: true, label: "nodes" };
        let mut values = lines.iter().flat_map(|(_, points)| points.iter().map(|(_, y)| *y)).filter(|y| *y > 0.0);
        let (low, high) = ends(&mut values);
        file(title, &x, &y(low, high), lines.into_iter().map(Into::into).collect(), origin)
    };
    let messages = draw(
        "Messages that a node receives",
        &|low, high| Axis::log(low, high, "messages per second"),
        &[
            ("reads, no copies", "received_without_copies"),
            ("at the busiest", "busiest_without_copies"),
            ("reads, hot copies", "received_with_copies"),
            ("at the busiest ", "busiest_with_copies"),
            ("removals", "removals"),
        ],
    );
    let imbalance = draw(
        "The most loaded node",
        &|_, high| Axis::linear(high, "times the mean of all nodes"),
        &[("keys", "share"), ("requests", "plain"), ("bounded load", "bounded")],
    );
    [("messages.svg", messages), ("imbalance.svg", imbalance)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: FleetArgs,
    }

    fn rows(more: &[&str]) -> Vec<serde_json::Value> {
        let line = ["x", "--rings", "2", "--keys", "2000", "--nodes", "1,4,32"].iter().chain(more);
        let mut out = Vec::new();
        run(&Line::parse_from(line).args, &mut out).unwrap();
        String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn a_seed_gives_the_same_figures_and_another_gives_others() {
        assert_eq!(rows(&[]), rows(&[]));
        assert_ne!(rows(&[]), rows(&["--seed", "2"]));
    }

    #[test]
    fn figures_are_what_arithmetic_says() {
        let rows = rows(&["--reads", "1000", "--writes", "3", "--threads", "2"]);
        let of =
            |row: usize, name: &str| rows[row][name].as_f64().unwrap_or_else(|| panic!("no {name} in {}", rows[row]));
        // A single node asks no other.
        for name in
            ["received_without_copies", "received_with_copies", "busiest_without_copies", "removals", "connections"]
        {
            assert_eq!(of(0, name), 0.0, "{name}");
        }
        assert_eq!(of(0, "bounded"), 1.0);
        // Of n nodes, all but one part in n belongs to others, and each removal goes to all others.
        assert!((of(2, "received_without_copies") - 1000.0 * 31.0 / 32.0).abs() < 1e-6);
        assert_eq!(of(2, "removals"), 3.0 * 31.0);
        assert_eq!(of(2, "connections"), 2.0 * 2.0 * 31.0);
        for row in 1..3 {
            assert!(of(row, "received_with_copies") < of(row, "received_without_copies"));
            assert!(of(row, "busiest_with_copies") < of(row, "busiest_without_copies"));
            assert!(of(row, "bounded") <= of(row, "plain"));
            // The mean is 100 requests; a capacity is rounded up.
            assert!(of(row, "bounded") <= 1.27, "{}", of(row, "bounded"));
        }
        assert!((of(2, "moved_to_new_node") - 1.0 / 33.0).abs() < 0.02, "{}", of(2, "moved_to_new_node"));
        assert!(of(2, "hundred_ids_fnv1") > of(2, "hundred_ids_crc32"));
        assert!(of(2, "hundred_ids_xxh3") < 0.2, "{}", of(2, "hundred_ids_xxh3"));
    }

    #[test]
    fn charts_have_a_line_for_each_figure() {
        let folder = tempfile::tempdir().unwrap();
        rows(&["--out", folder.path().to_str().unwrap()]);
        for (name, lines) in [("messages.svg", 5), ("imbalance.svg", 3)] {
            let chart = std::fs::read_to_string(folder.path().join(name)).unwrap();
            assert_eq!(chart.matches("<title>").count(), lines + 1, "{name}: the chart's and each line's");
            assert!(chart.contains("Z, commit "), "{name}: when and from which commit");
        }
    }
}
