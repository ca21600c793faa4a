//! `larder-bench rivals`: Larder beside every server that it is compared with, as a page with its
//! raw data.
//!
//! ```text
//! scenarios/rivals*.toml ──> Runner ──record, one JSON line each──> raw.jsonl ──> cells ──> page: Markdown and SVG
//! ```
//! What always holds:
//! - The page is made from the raw data alone; `--render` makes it again.
//! - All servers of a load are loaded in turn, run by run. One core for the server, another for the
//!   client.
//! - An answer that is not the expected one is an error, and a cell with an error has no figure.
//! - What was not measured is in the raw data too, with the reason.
mod cells;
mod page;
mod record;
mod tables;
#[cfg(test)]
mod tests;

use crate::lib::{
    figures,
    machine::{self, Host},
    results::origin,
    scenario::{FILES, Measured, Runner, Scenario, Shape, VALUE},
    servers::{self, ServerKind, Start},
};
use anyhow::Context;
use record::{EndRecord, GapRecord, MemoryRecord, PageSection, RawRecord, SampleRecord, ServerRecord, SettingRecord};
use std::{
    collections::BTreeSet,
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
    #[arg(long, value_delimiter = ',', value_parser = RIVALS)]
    server: Vec<String>,
    /// Runs, of which the median counts [default: 3]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    runs: Option<u64>,
    /// Length of a load [default: 5]
    #[arg(long, value_parser = seconds)]
    seconds: Option<f64>,
}

/// The servers of the comparison, by their kinds.
const RIVALS: [&str; 11] = [
    "larder",
    "redis",
    "valkey",
    "dragonfly",
    "pogocache",
    "memcached",
    "nginx-static",
    "nginx-cache",
    "varnish",
    "gcache",
    "groupcache-go",
];

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
    // Before anything is written: that would make the commit another.
    let setting = args.setting()?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut file = fs::File::create(&raw).with_context(|| format!("cannot write {}", raw.display()))?;
    let (begun, busy, own) = (Instant::now(), machine::busy_time()?, own_time()?);
    let mut note = |record: RawRecord| figures::line(&mut file, &record);
    note(RawRecord::Setting(setting.clone()))?;
    let mut rivals = BTreeSet::new();
    for name in RIVALS.iter().filter(|name| args.server.is_empty() || args.server.iter().any(|server| server == *name))
    {
        let kind = servers::kind(name)?;
        match kind.binary(args.larder.as_deref()) {
            Ok(_) => drop(rivals.insert(*name)),
            Err(error) => note(RawRecord::Skipped(GapRecord::new(None, None, &kind.name, format!("{error:#}"))))?,
        }
    }
    for text in [include_str!("../../../scenarios/rivals.toml"), include_str!("../../../scenarios/rivals-item.toml")] {
        let mut scenario = Scenario::read(text)?;
        if args.quick {
            scenario.skip_warm_up();
            scenario.load.iter_mut().for_each(|load| load.connections.truncate(2));
        }
        args.measure(&scenario, &setting, &rivals, &mut note)?;
    }
    // All servers have ended, so their time is in that of the ended children.
    let others = (machine::busy_time()? - busy).saturating_sub(own_time()? - own).as_secs_f64();
    let seconds = begun.elapsed().as_secs_f64();
    let others = figures::rounded(others / (seconds * std::thread::available_parallelism()?.get() as f64));
    note(RawRecord::End(EndRecord { seconds: figures::rounded(seconds), others }))?;
    // Not from memory: what the page shows is what was written down.
    page::write(&args.out, &record::read(&raw)?)
}

/// CPU time of this process and of all that it started and that have ended.
fn own_time() -> anyhow::Result<Duration> {
    Ok(machine::MeasuredProcess::Own.cpu_time()? + machine::ended_children_cpu_time()?)
}

type Note<'a> = dyn FnMut(RawRecord) -> anyhow::Result<()> + 'a;

impl RivalsArgs {
    fn wants(&self, section: PageSection) -> bool {
        self.section.is_empty() || self.section.contains(&section)
    }

    /// The sections of a scenario.
    fn measure(
        &self,
        scenario: &Scenario,
        setting: &SettingRecord,
        rivals: &BTreeSet<&str>,
        note: &mut Note,
    ) -> anyhow::Result<()> {
        let cores = (setting.server_core, setting.client_core);
        let mut runner = Runner::new(scenario, self.larder.as_deref(), cores, Duration::from_secs_f64(setting.seconds));
        let wanted = |shape: Shape, server: &str| {
            let section = PageSection::named(&shape.load.section);
            let is_rival = rivals.contains(scenario.kind(server));
            is_rival && section.is_ok_and(|section| section != PageSection::Memory && self.wants(section))
        };
        let mut noted = BTreeSet::new();
        runner.all(setting.runs, &wanted, &mut |runner, shape, server, run, measured| {
            for (name, running) in runner.running.iter().filter(|(name, _)| !name.contains("source")) {
                if let (Ok(running), true) = (running, noted.insert(*name)) {
                    let kind = servers::kind(runner.scenario.kind(name))?;
                    note(RawRecord::Server(ServerRecord {
                        server: kind.name.clone(),
                        version: version(kind, self)?,
                        part: if name.ends_with("-misses") { "misses" } else { "hits" }.to_owned(),
                        command: record::without_paths(&running.server.command_line()),
                        configuration: kind.file.as_ref().map(|file| running.server.file(file)).transpose()?,
                    }))?;
                }
            }
            let section = PageSection::named(&shape.load.section)?;
            let load = serde_json::from_value(shape.load.name.clone().into())?;
            let title = runner.title(server);
            note(match measured {
                Ok((measured, rate)) => {
                    eprintln!("{section:?} {load:?}: {title}, {}", measured.run.concurrency());
                    RawRecord::Sample(sample(section, load, title, run, measured, rate))
                }
                Err(error) => {
                    eprintln!("{section:?} {load:?}: {title}: {error:#}");
                    RawRecord::Failed(GapRecord::new(Some(section), Some(load), title, format!("{error:#}")))
                }
            })
        })?;
        if !self.wants(PageSection::Memory) {
            return Ok(());
        }
        for name in RIVALS.iter().filter(|name| rivals.contains(*name)) {
            self.memory(&runner, name, note)?;
        }
        Ok(())
    }

    /// The memory of one server with values of several lengths.
    fn memory(&self, runner: &Runner, name: &str, note: &mut Note) -> anyhow::Result<()> {
        let title = &servers::kind(name)?.name;
        let section = Some(PageSection::Memory);
        let load =
            |load: &str| runner.scenario.load.iter().find(|known| known.section == "memory" && known.name == load);
        let Some((fill, check)) = load("fill").zip(load("check")) else { return Ok(()) };
        let of = |load: &crate::lib::scenario::ScenarioLoad| {
            load.ask.iter().find(|(server, _)| server == name).map(|(_, options)| options.clone())
        };
        let Some((fill, check)) = of(fill).zip(of(check)) else {
            let why = match name {
                "nginx-static" | "nginx-cache" => "the values lie in files, not in its processes",
                _ => "it takes part in its own table only",
            };
            return note(RawRecord::Skipped(GapRecord::new(section, None, title, why.to_owned())));
        };
        eprintln!("memory: {title}");
        let (sizes, most) = match self.quick {
            true => (&[64, 1024][..], 2_000),
            false => (&[16, 64, 256, 1024, 4096, 16 * 1024, 64 * 1024][..], 1_000_000),
        };
        for &value_size in sizes {
            let record = self.memory_of(runner, name, (&fill, &check), value_size, most);
            note(match record {
                Ok(record) => RawRecord::Memory(record),
                Err(error) => RawRecord::Failed(GapRecord::new(section, None, title, format!("{error:#}"))),
            })?;
        }
        Ok(())
    }

    fn memory_of(
        &self,
        runner: &Runner,
        name: &str,
        (fill, check): (&str, &str),
        value_size: usize,
        most: u64,
    ) -> anyhow::Result<MemoryRecord> {
        /// Bytes of a key (a UUID), and of all keys and values.
        const KEY_SIZE: usize = 36;
        const BYTES: u64 = 128 << 20;
        let entries = (BYTES / (value_size + KEY_SIZE) as u64).clamp(1, most);
        let value = [("root/value".to_owned(), vec![b'v'; value_size])];
        let on = |core| Start { core: Some(core), memory_mib: 2048, ..Start::default() };
        let behind = (name == "varnish")
            .then(|| servers::start("backend", Start { files: &value, ..on(runner.client_core) }))
            .transpose()?;
        let more: &[&str] = if name == "larder" { &["--max-memory", "2048MiB"] } else { &[] };
        let source = behind.as_ref().map(|backend| backend.address);
        let with = Start { larder: self.larder.as_deref(), source, more, ..on(runner.server_core) };
        let server = servers::start(name, with)?;
        let (keys, size) = (entries.to_string(), value_size.to_string());
        let more = ["--key", "{uuid}", "--keys", &keys, "--value-size", &size];
        let before = server.memory()?;
        runner.fill(&server, fill, &more)?;
        let growth = server.memory()?.saturating_sub(before);
        // Is all of it there?
        runner.fill(&server, check, &more)?;
        let server = server.name.to_owned();
        Ok(MemoryRecord { server, value_size, key_size: KEY_SIZE, entries, growth })
    }

    /// The machine, and how it is used.
    fn setting(&self) -> anyhow::Result<SettingRecord> {
        let Host { cpu, cores, kernel, memory_gib } = Host::this()?;
        let (server_core, client_core) = machine::server_and_client_core()?;
        let seconds = self.seconds.unwrap_or(if self.quick { 0.05 } else { 5.0 });
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
            seconds,
            runs: self.runs.unwrap_or(if self.quick { 1 } else { 3 }),
            http_keys: FILES,
            command_keys: 100_000,
            value_size: VALUE.len(),
            quick: self.quick,
        })
    }
}

fn version(kind: &ServerKind, args: &RivalsArgs) -> anyhow::Result<String> {
    kind.version(&kind.binary(args.larder.as_deref())?)
}

fn sample(
    section: PageSection,
    load: record::RivalLoad,
    server: &str,
    run: u64,
    measured: Measured,
    rate: Option<f64>,
) -> SampleRecord {
    let Measured { run: summary, server: used, source, errors } = measured;
    SampleRecord {
        section,
        load,
        server: server.to_owned(),
        connections: summary.connections,
        pipeline: summary.pipeline,
        batches: summary.batches,
        run,
        seconds: summary.duration_s,
        requests: summary.requests,
        errors,
        rate,
        per_second: summary.throughput,
        cpu_us: used.cpu_us_per_request,
        source_cpu_us: source.map(|source| source.cpu_us_per_request),
        client_saturated: summary.client_saturated,
        latency_ms: summary.latency_ms,
    }
}
