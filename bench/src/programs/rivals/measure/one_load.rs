//! One load of one server: it is started and filled when it is first needed, asked, and its CPU
//! time is taken.
use super::{Bench, MEMORY_MIB, TIMEOUT};
use crate::{
    lib::{
        blocking_clients::RespClient,
        figures,
        load::{
            self, GeneratorOptions, Interrupt, LoadPlan, RunEnd,
            keys::{KeySpace, Names},
            ops::Workload,
            target::TargetUrl,
            values::Sizes,
        },
        results::summary::{RunSummary, Series},
        servers::ServerProcess,
    },
    programs::rivals::{
        record::{self, PageSection, RawRecord, RivalLoad, SampleRecord, SettingRecord},
        rival_servers::{Ask, Preparation, Rival, Started, VALUE_SIZE},
    },
};
use anyhow::{Context, anyhow, bail, ensure};
use std::{path::Path, time::Duration};

impl Bench<'_> {
    pub(super) fn binary(&self, rival: Rival) -> anyhow::Result<&Path> {
        let found = self.rivals.iter().find(|(other, _)| *other == rival);
        Ok(&found.context("it takes no part")?.1)
    }

    /// The running server; started and filled the first time. What cannot be started is not tried
    /// again.
    pub(super) fn start(&mut self, rival: Rival, part: Preparation) -> anyhow::Result<&Started> {
        if !self.started.contains_key(&(rival, part)) {
            let started = self.start_now(rival, part).map_err(|error| format!("{error:#}"));
            self.started.insert((rival, part), started);
        }
        self.started[&(rival, part)].as_ref().map_err(|reason| anyhow!("{reason}"))
    }

    fn start_now(&mut self, rival: Rival, part: Preparation) -> anyhow::Result<Started> {
        let cores = (self.setting.server_core, self.setting.client_core);
        let binary = self.binary(rival)?;
        let version = rival.version(binary)?;
        let started = rival.start(part, binary, cores, (VALUE_SIZE, MEMORY_MIB))?;
        if let Some(ask) = rival.fill() {
            match (&started.source, part) {
                // What is asked of Larder must come from its source.
                (Some(source), Preparation::Misses) if ask.scheme == "redis" => self.fill(source, &ask, VALUE_SIZE)?,
                _ => self.fill(&started.server, &ask, VALUE_SIZE)?,
            }
        }
        let server = &started.server;
        self.note(RawRecord::Server(record::ServerRecord {
            server: rival.name().to_owned(),
            version,
            part: if part == Preparation::Misses { "misses" } else { "hits" }.to_owned(),
            command: record::without_paths(&server.command_line()),
            configuration: rival.configuration().map(|file| server.file(file)).transpose()?,
        }))?;
        Ok(started)
    }

    /// Asks once for each key; any error is one.
    pub(super) fn fill(&self, server: &ServerProcess, ask: &Ask, value_size: usize) -> anyhow::Result<()> {
        let mut plan = plan(server, ask, self.setting, value_size)?;
        plan.stop = RunEnd::Requests(ask.keys);
        plan.client.connections = 16;
        plan.client.pipeline = if ask.scheme == "http" { 1 } else { 16 };
        let counts = load::run(&plan, &mut |_| {})?.total.counts;
        let missing = if ask.all_found { counts.missing } else { 0 };
        ensure!(
            counts.all_errors() == 0 && missing == 0 && counts.requests == ask.keys,
            "of {} keys {missing} are not there, {} errors",
            ask.keys,
            counts.all_errors()
        );
        Ok(())
    }

    /// A fifth of a load, which does not count.
    pub(super) fn warm_up(&mut self, rival: Rival, shape: Shape) -> anyhow::Result<()> {
        self.sample(rival, shape, None, RunEnd::After(self.scale.load / 5), |ask| ask).map(|_| ())
    }

    /// One load of one server. `change` may ask for other keys.
    pub(super) fn sample(
        &mut self,
        rival: Rival,
        shape: Shape,
        rate: Option<f64>,
        stop: RunEnd,
        change: impl Fn(Ask) -> Ask,
    ) -> anyhow::Result<SampleRecord> {
        // On a machine that is busy with other things, a short load may be over before its first request:
        // then a longer one it is.
        const ATTEMPTS: u32 = 8;
        for attempt in 0..ATTEMPTS {
            let stop = match stop {
                RunEnd::After(duration) => RunEnd::After(duration * (1 << attempt)),
                stop => stop,
            };
            let sample = self.attempt(rival, shape, rate, stop, &change)?;
            if sample.requests > 0 || !sample.errors.is_empty() {
                return Ok(sample);
            }
        }
        bail!("no request was sent")
    }

    fn attempt(
        &mut self,
        rival: Rival,
        shape: Shape,
        rate: Option<f64>,
        stop: RunEnd,
        change: impl Fn(Ask) -> Ask,
    ) -> anyhow::Result<SampleRecord> {
        self.nonce += 1;
        let ask = change(rival.ask(shape.load, self.nonce).context("it cannot be asked")?);
        let setting = self.setting;
        let started = self.start(rival, ask.part)?;
        let mut plan = plan(&started.server, &ask, setting, VALUE_SIZE)?;
        (plan.rate, plan.stop) = (rate, stop);
        (plan.client.connections, plan.client.pipeline) = (shape.connections, shape.pipeline);
        plan.client.batches = shape.batches;
        let source = started.source.as_ref().filter(|_| rival == Rival::Larder);
        let fetched = || -> anyhow::Result<u64> {
            let Some(source) = source else { return Ok(0) };
            Ok(RespClient::connect(source.address, TIMEOUT)?.info("stats", "keyspace_hits:")?.unwrap_or(0))
        };
        let source_run_time = || source.map(ServerProcess::run_time).transpose();
        let (fetched_before, mut cpu_before) = (fetched()?, (Duration::ZERO, None));
        let mut connected = || {
            cpu_before = (started.server.run_time()?, source_run_time()?);
            Ok(())
        };
        let outcome = load::run_connected(&plan, &mut connected, &mut |_| {})?;
        let cpu = started.server.run_time()?.saturating_sub(cpu_before.0);
        let source_cpu = source_run_time()?.zip(cpu_before.1).map(|(after, before)| after.saturating_sub(before));
        let fetched = fetched()? - fetched_before;
        let summary = RunSummary::new("rivals", None, &plan, &outcome, Series::default());
        let mut errors = summary.errors;
        if ask.all_found {
            errors.insert("missing".to_owned(), summary.missing);
        }
        if source.is_some() {
            // What the cache had after all.
            errors.insert("not a miss".to_owned(), summary.requests.saturating_sub(fetched));
        }
        errors.retain(|_, count| *count > 0);
        let each = |cpu: Duration| figures::rounded(cpu.as_secs_f64() * 1e6 / summary.requests.max(1) as f64);
        let Shape { section, load, connections, pipeline, batches, run } = shape;
        Ok(SampleRecord {
            section,
            load,
            server: rival.name().to_owned(),
            connections,
            pipeline,
            batches,
            run,
            seconds: summary.duration_s,
            requests: summary.requests,
            errors,
            rate,
            per_second: summary.throughput,
            cpu_us: each(cpu),
            source_cpu_us: source_cpu.map(each),
            client_saturated: summary.client_saturated,
            latency_ms: summary.latency_ms,
        })
    }
}

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) section: PageSection,
    pub(super) load: RivalLoad,
    pub(super) connections: usize,
    pub(super) pipeline: usize,
    /// The pipeline is sent and awaited together.
    pub(super) batches: bool,
    pub(super) run: u64,
}

impl Shape {
    /// The first run of one request at a time on each connection.
    pub(super) fn lone(section: PageSection, load: RivalLoad, connections: usize) -> Shape {
        Shape { section, load, connections, pipeline: 1, batches: false, run: 0 }
    }
}

/// A plan of one connection that asks a server; without a rate.
fn plan(server: &ServerProcess, ask: &Ask, setting: &SettingRecord, value_size: usize) -> anyhow::Result<LoadPlan> {
    let address = match (ask.scheme, server.http) {
        ("http", Some(http)) => http,
        _ => server.address,
    };
    Ok(LoadPlan {
        target: TargetUrl::parse(&format!("{}://{address}{}", ask.scheme, ask.path))?,
        mix: Workload::parse(std::slice::from_ref(&ask.op))?.mix,
        keys: KeySpace { count: ask.keys, names: Names::pattern(&ask.key)?, distribution: ask.distribution },
        sizes: Sizes::Fixed(value_size),
        rate: None,
        stop: RunEnd::Requests(1),
        warm_up: Duration::ZERO,
        played: None,
        slice: Duration::from_secs(1),
        interrupt: Interrupt::default(),
        client: GeneratorOptions {
            timeout: TIMEOUT,
            header: ask.header.clone(),
            error_status: ask.error_status.parse()?,
            pin: vec![setting.client_core],
            ..GeneratorOptions::default()
        },
    })
}
