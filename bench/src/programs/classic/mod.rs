//! `larder-bench classic`: one command for each form in which caches and stores usually publish
//! their figures.
//!
//! Each form starts its servers on one core, loads them from another, and repeats all its loads
//! `--runs` times, in turn. A load's name is its row in the result.
mod measured_rows;
mod peers;
mod proxy;
mod rest;
mod store;
mod table;

use crate::lib::{
    blocking_clients::RespClient,
    figures,
    load::{GeneratorOptions, Interrupt, LoadPlan, PlanOptions, ThinkTime, duration},
    machine,
    results::{
        latency_shape, measured_run::measure, output_options::OutputOptions, page, progress_bar::ProgressBar,
        summary::RunSummary,
    },
    servers::ServerProcess,
};
use anyhow::{Context, ensure};
use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

/// Measures Larder in the classic forms of benchmarks
///
/// proxy: `GET /?key=K` in front of redis-server, with 1 to 128 connections: requests without a
/// key, misses (each is fetched), hits. rest: JSON bodies on /cache/v1/item over 30 connections:
/// POST of new keys, POST of one key, GET, a third of each, DELETE. table: `/lookup` of a table that
/// is built from a data file of --keys UUIDs: 50 connections as fast as it goes (hey), then users
/// with think time (Locust). peers: three nodes, ids 1 to 100 over 10 connections at 250 a second,
/// cold and warm, at 500, and as fast as it goes. store: `/v0/entity` of the disk store with --keys
/// keys, PUT and GET over one connection at 10,000, 12,000 and 20,000 a second (wrk2 -c1 -t1).
///
/// The servers run on one core, the generator (and redis-server) on another. All loads run --runs
/// times, in turn; the table has the median and the range. `larder-bench rivals` compares with other
/// servers.
#[derive(Debug, clap::Args)]
pub(crate) struct ClassicArgs {
    /// The form
    #[arg(value_enum)]
    form: ClassicForm,
    /// The larder binary
    #[arg(long, value_name = "PATH", default_value = "target/release/larder")]
    larder: PathBuf,
    /// How long each load lasts
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = duration)]
    duration: Duration,
    /// How often all loads run
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// table, store: number of keys
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    keys: u64,
    /// table: number of users with think time, each on a connection of its own
    #[arg(long, value_name = "N", default_value_t = 500)]
    users: usize,
    /// table: how long a user thinks between requests
    #[arg(long, value_name = "DURATION", default_value = "500ms-1500ms")]
    think_time: ThinkTime,
    /// store, table: where files are made, and removed afterwards [default: the folder for temporary
    /// files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print each run's result as one JSON object on one line instead of a table
    #[arg(long)]
    json: bool,
    /// Show no progress; --json shows none either
    #[arg(long)]
    quiet: bool,
    /// Write those objects to a file, too
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Write a page with charts of all runs
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

/// A form of benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ClassicForm {
    Proxy,
    Rest,
    Table,
    Peers,
    Store,
}

/// Runs the program.
pub(crate) fn run(args: &ClassicArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let (server_core, client_core) = machine::server_and_client_core()?;
    let loads = match args.form {
        ClassicForm::Proxy => proxy::LOADS,
        ClassicForm::Rest => rest::LOADS,
        ClassicForm::Table => table::LOADS,
        ClassicForm::Peers => peers::LOADS,
        ClassicForm::Store => store::LOADS,
    };
    let saved =
        args.save.as_ref().map(|path| File::create(path).with_context(|| format!("cannot write {}", path.display())));
    let mut bench = Bench {
        args,
        server_core,
        client_core,
        interrupt: Interrupt::watch()?,
        progress: ProgressBar::steps("", loads * args.runs, args.quiet || args.json),
        saved: saved.transpose()?,
        runs: Vec::new(),
        out,
    };
    match args.form {
        ClassicForm::Proxy => proxy::run(&mut bench)?,
        ClassicForm::Rest => rest::run(&mut bench)?,
        ClassicForm::Table => table::run(&mut bench)?,
        ClassicForm::Peers => peers::run(&mut bench)?,
        ClassicForm::Store => store::run(&mut bench)?,
    }
    let Bench { runs, out, progress, .. } = bench;
    drop(progress);
    if !args.json {
        measured_rows::write(out, &runs)?;
        // hey prints its summary; that of the last run stands for all.
        if let Some(run) = runs.iter().rev().find(|run| run.name == table::HEY) {
            latency_shape::write_summary(out, run)?;
        }
    }
    args.report.as_ref().map_or(Ok(()), |path| page::write(path, &runs))
}

/// The loads of a form as they are measured.
struct Bench<'a> {
    args: &'a ClassicArgs,
    server_core: usize,
    client_core: usize,
    interrupt: Interrupt,
    progress: ProgressBar,
    saved: Option<File>,
    runs: Vec<RunSummary>,
    out: &'a mut dyn Write,
}

impl Bench<'_> {
    /// The generator on its core.
    fn generator(&self, connections: usize) -> GeneratorOptions {
        GeneratorOptions { connections, pin: vec![self.client_core], ..GeneratorOptions::default() }
    }

    /// A load of `--duration` without a pause.
    fn closed(&self, url: &str, op: &str) -> PlanOptions {
        PlanOptions { duration: self.args.duration, ..PlanOptions::of(url, op) }
    }

    /// A plan that a signal ends.
    fn plan(&self, options: &PlanOptions, generator: &GeneratorOptions) -> anyhow::Result<LoadPlan> {
        Ok(LoadPlan { interrupt: self.interrupt.clone(), ..options.plan(generator, None)? })
    }

    /// A folder that goes with its handle.
    fn folder(&self) -> anyhow::Result<tempfile::TempDir> {
        match &self.args.dir {
            Some(dir) => {
                tempfile::tempdir_in(dir).with_context(|| format!("cannot make a folder in {}", dir.display()))
            }
            None => Ok(tempfile::tempdir()?),
        }
    }

    fn larder(&self) -> &Path {
        &self.args.larder
    }

    /// Measures a load and keeps the result. Other replies than `expected` (kinds of replies) are
    /// errors. The hit ratio comes from the lookups of `source`, a redis-server.
    fn measure(
        &mut self,
        name: &str,
        plan: &LoadPlan,
        server: &ServerProcess,
        expected: &[&str],
        source: Option<&ServerProcess>,
    ) -> anyhow::Result<()> {
        self.progress.begin(name);
        let output = OutputOptions {
            quiet: true,
            name: Some(name.to_owned()),
            server_pid: Some(server.id()),
            ..OutputOptions::default()
        };
        let fetched_before = source.map(lookups).transpose()?;
        let mut run = measure("classic", plan, &output)?;
        if let (Some(source), Some(before)) = (source, fetched_before) {
            run.cache_misses = (lookups(source)? - before).min(run.requests);
            run.cache_hits = run.requests - run.cache_misses;
        }
        ensure!(!run.interrupted, "interrupted");
        let strange: Vec<_> = run.replies.iter().filter(|(kind, _)| !expected.contains(&kind.as_str())).collect();
        ensure!(strange.is_empty(), "{name}: replies other than {expected:?}: {strange:?}");
        ensure!(
            run.all_errors() == 0 && run.requests > 0,
            "{name}: {} requests, errors {:?}",
            run.requests,
            run.errors
        );
        if self.args.json {
            figures::line(self.out, &run)?;
        }
        if let Some(file) = &mut self.saved {
            figures::line(file, &run)?;
        }
        self.runs.push(run);
        self.progress.show(self.runs.len() as u64);
        Ok(())
    }
}

/// How many keys a redis-server has looked up since its start.
fn lookups(source: &ServerProcess) -> anyhow::Result<u64> {
    let mut client = RespClient::connect(source.address, Duration::from_secs(10))?;
    let mut count = |name| Ok::<u64, anyhow::Error>(client.info("stats", name)?.unwrap_or(0));
    Ok(count("keyspace_hits:")? + count("keyspace_misses:")?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lib::servers;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        args: ClassicArgs,
    }

    #[test]
    fn strange_replies_are_errors_and_the_source_counts_what_it_was_asked() {
        let args = Program::try_parse_from(["classic", "proxy", "--quiet"]).expect("a form").args;
        let server = servers::redis(None).expect("redis-server");
        let mut out = Vec::new();
        let mut bench = Bench {
            args: &args,
            server_core: 0,
            client_core: machine::cores().expect("cores")[0],
            interrupt: Interrupt::default(),
            progress: ProgressBar::steps("", 2, true),
            saved: None,
            runs: Vec::new(),
            out: &mut out,
        };
        let url = format!("redis://{}", server.address);
        let options = PlanOptions { requests: Some(100), ..PlanOptions::of(&url, "get") };
        let plan = bench.plan(&options, &bench.generator(2)).expect("a plan");
        bench.measure("absent keys", &plan, &server, &["null"], Some(&server)).expect("all are absent");
        let run = &bench.runs[0];
        assert_eq!((run.requests, run.cache_misses, run.hit_ratio()), (100, 100, Some(0.0)));
        assert!(run.server.is_some() && run.server_version.as_deref().is_some_and(|v| v.starts_with("redis-server ")));
        let error = bench.measure("absent keys", &plan, &server, &["bulk string"], None).expect_err("none is there");
        assert!(error.to_string().contains("\"null\", 100"), "{error}");
        assert_eq!(bench.runs.len(), 1);
    }
}
