//! What the forms share: the servers' and the generator's cores, and measuring a load.
use super::args::ClassicArgs;
use crate::lib::{
    blocking_clients::RespClient,
    figures,
    load::{GeneratorOptions, Interrupt, LoadPlan, PlanOptions},
    results::{measured_run::measure, output_options::OutputOptions, progress_bar::ProgressBar, summary::RunSummary},
    servers::ServerProcess,
};
use anyhow::{Context, ensure};
use std::{fs::File, io::Write, path::Path, time::Duration};

/// The loads of a form as they are measured.
pub(super) struct Bench<'a> {
    pub(super) args: &'a ClassicArgs,
    pub(super) server_core: usize,
    pub(super) client_core: usize,
    pub(super) interrupt: Interrupt,
    pub(super) progress: ProgressBar,
    pub(super) saved: Option<File>,
    pub(super) runs: Vec<RunSummary>,
    pub(super) out: &'a mut dyn Write,
}

impl Bench<'_> {
    /// The generator on its core.
    pub(super) fn generator(&self, connections: usize) -> GeneratorOptions {
        GeneratorOptions { connections, pin: vec![self.client_core], ..GeneratorOptions::default() }
    }

    /// A load of `--duration` without a pause.
    pub(super) fn closed(&self, url: &str, op: &str) -> PlanOptions {
        PlanOptions { duration: self.args.duration, ..PlanOptions::of(url, op) }
    }

    /// A plan that a signal ends.
    pub(super) fn plan(&self, options: &PlanOptions, generator: &GeneratorOptions) -> anyhow::Result<LoadPlan> {
        Ok(LoadPlan { interrupt: self.interrupt.clone(), ..options.plan(generator, None)? })
    }

    /// A folder that goes with its handle.
    pub(super) fn folder(&self) -> anyhow::Result<tempfile::TempDir> {
        match &self.args.dir {
            Some(dir) => {
                tempfile::tempdir_in(dir).with_context(|| format!("cannot make a folder in {}", dir.display()))
            }
            None => Ok(tempfile::tempdir()?),
        }
    }

    pub(super) fn larder(&self) -> &Path {
        &self.args.larder
    }

    /// Measures a load and keeps the result. Other replies than `expected` (kinds of replies) are
    /// errors. The hit ratio comes from the lookups of `source`, a redis-server.
    pub(super) fn measure(
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
    use crate::lib::{machine, servers};
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
