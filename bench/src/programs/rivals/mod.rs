//! `larder-bench rivals`: Larder beside every server that it is compared with, as a page with its
//! raw data.
//!
//! ```text
//! rival_servers: how each is started and asked ──> measure ──record, one JSON line each──> raw.jsonl ──> median_cells ──> page: Markdown and SVG
//! ```
//! What always holds:
//! - The page is made from the raw data alone; `--render` makes it again.
//! - All servers of a load are loaded in turn, run by run. One core for the server, another for the
//!   client.
//! - An answer that is not the expected one is an error, and a cell with an error has no figure.
//! - What was not measured is in the raw data too, with the reason.
mod charts;
mod measure;
mod median_cells;
mod page;
pub(crate) mod record;
mod rival_servers;
#[cfg(test)]
mod tests;

use crate::lib::{
    figures,
    machine::{self, Host},
    results::origin,
};
use anyhow::Context;
use clap::ValueEnum;
use measure::{Bench, Scale};
use record::{EndRecord, GapRecord, PageSection, RawRecord, SettingRecord};
use rival_servers::Rival;
use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

/// Compares Larder with every rival and writes a page
///
/// Writes Markdown (--out), and beside it a folder of the same name with charts (SVG) and the raw
/// data (raw.jsonl, one JSON object a line).
///
/// Rivals are redis-server, memcached, nginx with static files, nginx with proxy_cache and varnish
/// from Debian, and those whose binaries are given by environment variables: LARDER_BENCH_VALKEY,
/// LARDER_BENCH_DRAGONFLY, LARDER_BENCH_POGOCACHE, LARDER_BENCH_GCACHE, LARDER_BENCH_GROUPCACHE_GO
/// (a program that takes its address as argument and answers GET /data/{id}). Who is missing is
/// named on the page.
///
/// A server runs on the first core with one thread, the generator on the second; what stands behind
/// a cache runs on the generator's. A load is asked of all servers in turn, run by run. CPU time
/// per request is what the server's processes used during a load, divided by the requests that were
/// answered.
#[derive(Debug, clap::Args)]
pub(crate) struct RivalsArgs {
    /// The larder binary (a release build)
    #[arg(long, value_name = "PATH")]
    larder: Option<PathBuf>,
    /// The page
    #[arg(long, value_name = "FILE.md", default_value = "docs/benchmarks.md")]
    out: PathBuf,
    /// Make the page from the raw data that is there, without measuring
    #[arg(long, conflicts_with_all = ["larder", "quick", "section", "server", "runs", "seconds"])]
    render: bool,
    /// Everything once and for a moment: to try it
    #[arg(long)]
    quick: bool,
    /// Sections to measure (default: all)
    #[arg(long, value_delimiter = ',')]
    section: Vec<PageSection>,
    /// Servers to compare (default: all)
    #[arg(long, value_delimiter = ',')]
    server: Vec<Rival>,
    /// Runs, of which the median counts [default: 5]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    runs: Option<u64>,
    /// Length of a load [default: 1]; at half of the highest rate it is twice as long
    #[arg(long, value_parser = seconds)]
    seconds: Option<f64>,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "give a number of seconds".to_owned())?;
    if (0.01..=600.0).contains(&seconds) { Ok(seconds) } else { Err("from 0.01 to 600".to_owned()) }
}

/// Runs the program.
pub(crate) fn run(args: &RivalsArgs) -> anyhow::Result<()> {
    let folder = args.out.with_extension("");
    let raw = folder.join("raw.jsonl");
    if args.render {
        return page::write(&args.out, &record::read(&raw)?);
    }
    let scale = args.scale();
    // Before anything is written: that would make the commit another.
    let setting = setting(&scale, args.quick)?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut file = fs::File::create(&raw).with_context(|| format!("cannot write {}", raw.display()))?;
    let (begun, busy, own) = (Instant::now(), machine::busy_time()?, own_time()?);
    figures::line(&mut file, &RawRecord::Setting(setting.clone()))?;
    let mut bench =
        Bench { setting: &setting, scale, rivals: Vec::new(), raw: &mut file, started: Default::default(), nonce: 0 };
    for &rival in if args.server.is_empty() { Rival::value_variants() } else { &args.server } {
        match rival.binary(args.larder.as_deref()) {
            Ok(binary) => bench.rivals.push((rival, binary)),
            Err(error) => {
                let (server, reason) = (rival.name().to_owned(), format!("{error:#}"));
                bench.note(RawRecord::Skipped(GapRecord { section: None, load: None, server, reason }))?;
            }
        }
    }
    for &section in if args.section.is_empty() { PageSection::value_variants() } else { &args.section } {
        bench.section(section)?;
    }
    // The servers end, so that their time is in that of the ended children.
    drop(bench);
    let others = (machine::busy_time()? - busy).saturating_sub(own_time()? - own).as_secs_f64();
    let seconds = begun.elapsed().as_secs_f64();
    let others = figures::rounded(others / (seconds * std::thread::available_parallelism()?.get() as f64));
    figures::line(&mut file, &RawRecord::End(EndRecord { seconds: figures::rounded(seconds), others }))?;
    // Not from memory: what the page shows is what was written down.
    page::write(&args.out, &record::read(&raw)?)
}

/// CPU time of this process and of all that it started and that have ended.
fn own_time() -> anyhow::Result<Duration> {
    Ok(machine::MeasuredProcess::Own.cpu_time()? + machine::ended_children_cpu_time()?)
}

impl RivalsArgs {
    fn scale(&self) -> Scale {
        let seconds = self.seconds.unwrap_or(if self.quick { 0.05 } else { 1.0 });
        let full = Scale {
            load: Duration::from_secs_f64(seconds),
            latency: Duration::from_secs_f64(2.0 * seconds),
            runs: self.runs.unwrap_or(if self.quick { 1 } else { 5 }),
            connections: vec![1, 8, 64, 512],
            lookup_connections: vec![1, 2, 4, 8, 16, 32, 64, 128],
            value_sizes: vec![16, 64, 256, 1024, 4096, 16 * 1024, 64 * 1024],
            memory_bytes: 64 << 20,
            memory_entries: 200_000,
        };
        if !self.quick {
            return full;
        }
        Scale {
            connections: vec![1, 8],
            lookup_connections: vec![1, 2],
            value_sizes: vec![64, 1024],
            memory_entries: 2_000,
            ..full
        }
    }
}

/// The machine, and how it is used.
fn setting(scale: &Scale, quick: bool) -> anyhow::Result<SettingRecord> {
    let Host { cpu, cores, kernel, memory_gib } = Host::this()?;
    let (server_core, client_core) = machine::server_and_client_core()?;
    Ok(SettingRecord {
        date: origin::date()?,
        commit: origin::commit(),
        command: origin::command_line(),
        cpu,
        kernel,
        cores,
        memory_gib,
        server_core,
        client_core,
        client: format!("larder-bench {}", env!("CARGO_PKG_VERSION")),
        seconds: scale.load.as_secs_f64(),
        latency_seconds: scale.latency.as_secs_f64(),
        runs: scale.runs,
        http_keys: rival_servers::HTTP_KEYS,
        command_keys: rival_servers::COMMAND_KEYS,
        value_size: rival_servers::VALUE_SIZE,
        quick,
    })
}
