//! Scenarios: which servers are started, how each is asked, what is compared. They are data
//! (`bench/scenarios/*.toml`); this runs them.
//!
//! ```text
//! [server.NAME]  kind of servers.toml, arguments, what stands behind it, how it is filled
//! [[load]]       options of `larder-bench run` for each server that is asked
//! ```
//! In options `@` before a blank, a slash or the end is the server's address, and `@name@` a
//! variable. The server runs on the first core, the generator and what stands behind a cache on the
//! second.
use super::{
    blocking_clients::RespClient,
    key_file::KeyFile,
    load::{self, Interrupt, LoadOptions, LoadPlan, RunEnd, keys::KeyDistribution, target::TargetProtocol},
    results::{
        measured_run::measure,
        output_options::OutputOptions,
        server_use::{ServerUse, ServerWatch},
        summary::RunSummary,
    },
    servers::{self, Port, ServerProcess, Start, free_port},
};
use anyhow::{Context, anyhow, bail, ensure};
use clap::Parser;
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

/// Servers and loads.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Scenario {
    server: BTreeMap<String, ScenarioServer>,
    pub(crate) load: Vec<ScenarioLoad>,
    /// Options that all loads have.
    #[serde(default)]
    run: String,
    /// All loads run before each runs again; else each load runs as often as it shall, and then the
    /// next.
    #[serde(default)]
    in_turn: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct ScenarioServer {
    kind: String,
    /// Its name in results, if it is another than the kind's.
    title: Option<String>,
    #[serde(default)]
    arguments: String,
    #[serde(default)]
    core: ServerCore,
    /// The server behind it.
    source: Option<String>,
    /// Options of a load that asks once for each key.
    fill: Option<String>,
    /// Options of a load after that, so that what is slower at the start of a server is over.
    warm: Option<String>,
    /// Options of `larder-bench data`, which makes the file `keys.data` in its folder.
    data: Option<String>,
    /// So many of it are peers; the first is asked.
    #[serde(default)]
    peers: usize,
    /// It is started again when all loads run again.
    #[serde(default)]
    fresh: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ServerCore {
    #[default]
    Server,
    Client,
    Any,
}

/// One load, in one shape or several.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct ScenarioLoad {
    pub(crate) name: String,
    /// The part of a page that it belongs to.
    #[serde(default)]
    pub(crate) section: String,
    /// The servers in their order, with the options of each.
    pub(crate) ask: Vec<(String, String)>,
    #[serde(default)]
    run: String,
    #[serde(default = "one")]
    shapes: Vec<String>,
    #[serde(default = "fifty")]
    pub(crate) connections: Vec<usize>,
    /// The kinds of replies that are right; without them 200 over HTTP, else what is no error.
    #[serde(default)]
    expect: Vec<String>,
    /// Each request must reach the source.
    #[serde(default)]
    misses: bool,
    /// Counts the hits by what the source is asked.
    #[serde(default)]
    counts_hits: bool,
    /// Its keys and their number are `@stored@` and `@count@` for later loads.
    #[serde(default)]
    stores: bool,
    /// First the highest rate of each server, then all at these shares of the slowest one's, on
    /// schedule.
    #[serde(default)]
    rates: Vec<f64>,
    /// Bounds on the ratios of the first server to the second.
    pub(crate) cpu: Option<super::figures::FigureTarget>,
    pub(crate) throughput: Option<super::figures::FigureTarget>,
}

fn one() -> Vec<String> {
    vec![String::new()]
}

fn fifty() -> Vec<usize> {
    vec![50]
}

/// A load in one of its shapes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape<'s> {
    pub(crate) load: &'s ScenarioLoad,
    pub(crate) options: &'s str,
    pub(crate) connections: usize,
}

impl Shape<'_> {
    /// The load's name, with what is not the same in all its shapes.
    pub(crate) fn name(&self) -> String {
        match self.load.connections.len() {
            1 => self.load.name.clone(),
            _ => format!("{}, {}", self.load.name, super::figures::counted(self.connections, "connection")),
        }
    }
}

impl Scenario {
    /// Reads a scenario that this program holds.
    pub(crate) fn read(text: &str) -> anyhow::Result<Scenario> {
        toml::from_str(text).context("a scenario is malformed")
    }

    /// Has all servers measured as they have just started.
    pub(crate) fn skip_warm_up(&mut self) {
        self.server.values_mut().for_each(|server| server.warm = None);
    }

    /// The kind of a server, a name of `servers.toml`.
    pub(crate) fn kind(&self, server: &str) -> &str {
        &self.server[server].kind
    }

    /// All loads in all their shapes.
    pub(crate) fn shapes(&self) -> impl Iterator<Item = Shape<'_>> {
        self.load.iter().flat_map(|load| {
            load.shapes.iter().flat_map(move |options| {
                load.connections.iter().map(move |&connections| Shape { load, options, connections })
            })
        })
    }
}

/// A server that runs, its peers, and what was stored last.
pub(crate) struct Running {
    pub(crate) server: ServerProcess,
    _peers: Vec<ServerProcess>,
    stored: (String, u64),
}

/// The outcome of one load of one server.
pub(crate) struct Measured {
    pub(crate) run: RunSummary,
    pub(crate) server: ServerUse,
    /// Of the source, if each request must reach it.
    pub(crate) source: Option<ServerUse>,
    /// What went wrong, by kind.
    pub(crate) errors: BTreeMap<String, u64>,
}

/// What is told of each measurement: the load, the server, the number of the run, and the outcome
/// at which rate.
pub(crate) type Each<'a, 's> =
    dyn FnMut(&mut Runner<'s>, Shape, &str, u64, anyhow::Result<(Measured, Option<f64>)>) -> anyhow::Result<()> + 'a;

/// Runs a scenario.
pub(crate) struct Runner<'s> {
    pub(crate) scenario: &'s Scenario,
    pub(crate) larder: Option<PathBuf>,
    pub(crate) server_core: usize,
    pub(crate) client_core: usize,
    pub(crate) source_core: usize,
    pub(crate) duration: Duration,
    /// `@name@` in options.
    pub(crate) variables: BTreeMap<&'static str, String>,
    pub(crate) interrupt: Interrupt,
    /// The servers, or why they could not be started.
    pub(crate) running: BTreeMap<&'s str, Result<Running, String>>,
    /// Measurements so far: keys that must be new are numbered by it.
    nonce: u64,
}

#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct DataOptions {
    #[command(flatten)]
    file: KeyFile,
}

const TIMEOUT: Duration = Duration::from_secs(10);
/// Connections of the load that warms a server.
const WARM_CONNECTIONS: usize = 16;
/// Keys and bytes of the values that nginx has as files.
pub(crate) const FILES: u64 = 1_000;
pub(crate) const VALUE: [u8; 64] = [b'v'; 64];

impl<'s> Runner<'s> {
    /// Nothing is started yet. `cores`: of the servers and of the generator.
    pub(crate) fn new(
        scenario: &'s Scenario,
        larder: Option<&Path>,
        cores: (usize, usize),
        load: Duration,
    ) -> Runner<'s> {
        Runner {
            scenario,
            larder: larder.map(Path::to_owned),
            server_core: cores.0,
            client_core: cores.1,
            source_core: cores.1,
            duration: load,
            variables: BTreeMap::new(),
            interrupt: Interrupt::default(),
            running: BTreeMap::new(),
            nonce: 0,
        }
    }

    /// A server's name in results.
    pub(crate) fn title(&self, name: &str) -> &'s str {
        let server = &self.scenario.server[name];
        server.title.as_deref().unwrap_or_else(|| servers::kind(&server.kind).map_or("", |kind| &kind.name))
    }

    /// The running server; started and filled the first time. What cannot be started is not tried
    /// again.
    pub(crate) fn server(&mut self, name: &str) -> anyhow::Result<&Running> {
        let (name, spec) = self.scenario.server.get_key_value(name).with_context(|| format!("no server {name:?}"))?;
        if !self.running.contains_key(&name[..]) {
            let started = self.start(name, spec).map_err(|error| format!("{error:#}"));
            self.running.insert(name, started);
        }
        self.running[&name[..]].as_ref().map_err(|reason| anyhow!("{reason}"))
    }

    fn start(&mut self, name: &str, spec: &'s ScenarioServer) -> anyhow::Result<Running> {
        let source = match &spec.source {
            Some(source) => Some(self.server(source)?.server.address),
            None => None,
        };
        let mut files = Vec::new();
        if let Some(options) = &spec.data {
            let options = DataOptions::try_parse_from(words(&self.filled(options, None)))?;
            let mut bytes = Vec::new();
            options.file.write(&mut bytes, &mut |_| {})?;
            files.push(("keys.data".to_owned(), bytes));
        }
        if matches!(&spec.kind[..], "nginx-static" | "backend") {
            files.extend(value_files());
        }
        let arguments = words(&spec.arguments);
        let core = match spec.core {
            ServerCore::Server => Some(self.server_core),
            ServerCore::Client => Some(self.source_core),
            ServerCore::Any => None,
        };
        let ports = (0..spec.peers).map(|_| free_port()).collect::<anyhow::Result<Vec<_>>>()?;
        let peers = ports.iter().map(|port| port.address.to_string()).collect::<Vec<_>>().join(",");
        let start = |port: Option<Port>| {
            let own = port.as_ref().map_or(String::new(), |port| port.address.to_string());
            let more: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let (larder, set) = (self.larder.as_deref(), &[("peers", &peers[..]), ("own", &own)]);
            let with = Start { core, larder, port, source, more: &more, set, files: &files, memory_mib: 2048 };
            servers::start(&spec.kind, with)
        };
        let mut nodes = match ports.is_empty() {
            true => vec![start(None)?],
            false => ports.into_iter().map(|port| start(Some(port))).collect::<anyhow::Result<_>>()?,
        };
        let server = nodes.remove(0);
        if let Some(options) = &spec.fill {
            self.fill(&server, options, &[]).with_context(|| format!("{name} cannot be filled"))?;
        }
        if let Some(options) = &spec.warm {
            let plan = self.plan(&self.options(&server, options, None), WARM_CONNECTIONS)?;
            load::run(&plan, &mut |_| {})?;
        }
        Ok(Running { server, _peers: nodes, stored: Default::default() })
    }

    /// Asks a server once for each key; any error, and any key that is not there, is one.
    pub(crate) fn fill(&self, server: &ServerProcess, options: &str, more: &[&str]) -> anyhow::Result<()> {
        let mut options = self.options(server, options, None);
        options.extend(more.iter().map(|&word| word.to_owned()));
        let mut plan = self.plan(&options, 16)?;
        plan.stop = RunEnd::Requests(plan.keys.count);
        plan.keys.distribution = KeyDistribution::Sequential;
        if plan.target.protocol != TargetProtocol::Http {
            plan.client.pipeline = 16;
        }
        let counts = load::run(&plan, &mut |_| {})?.total.counts;
        ensure!(
            counts.all_errors() == 0 && counts.missing == 0 && counts.requests == plan.keys.count,
            "of {} keys {} are not there, {} errors",
            plan.keys.count,
            counts.missing,
            counts.all_errors()
        );
        Ok(())
    }

    fn filled(&self, text: &str, running: Option<&Running>) -> String {
        let (stored, count) = running.map_or(("", 0), |running| (&running.stored.0, running.stored.1));
        let text = text.replace("@nonce@", &self.nonce.to_string()).replace("@stored@", stored);
        let text = text.replace("@count@", &count.to_string());
        self.variables.iter().fold(text, |text, (name, value)| text.replace(&format!("@{name}@"), value))
    }

    /// The options of a load with the server's address.
    fn options(&self, server: &ServerProcess, options: &str, running: Option<&Running>) -> Vec<String> {
        let addressed = |word: String| {
            let Some((scheme, rest)) = word.split_once("://@") else { return word };
            let own = match scheme {
                "http" => server.http,
                "memcache" => server.memcached,
                _ => None,
            };
            format!("{scheme}://{}{rest}", own.unwrap_or(server.address))
        };
        words(&self.filled(&format!("{} {options}", self.scenario.run), running)).into_iter().map(addressed).collect()
    }

    fn plan(&self, options: &[String], connections: usize) -> anyhow::Result<LoadPlan> {
        let (core, connections) = (self.client_core.to_string(), connections.to_string());
        let own = ["--pin", &core, "--connections", &connections].map(str::to_owned);
        let options = LoadOptions::try_parse_from(own.iter().chain(options))?;
        let mut plan = options.plan.plan(&options.client, None)?;
        if options.plan.requests.is_none() {
            plan.stop = RunEnd::After(self.duration);
        }
        Ok(LoadPlan { interrupt: self.interrupt.clone(), ..plan })
    }

    /// The plan of a load of a server, which is started.
    pub(crate) fn plan_of(&mut self, shape: Shape, server: &str) -> anyhow::Result<LoadPlan> {
        self.nonce += 1;
        let (_, ask) = shape.load.ask.iter().find(|(name, _)| name == server).context("it is not asked")?;
        self.server(server)?;
        let Some(Ok(running)) = self.running.get(server) else { bail!("{server} does not run") };
        let options = format!("{} {} {ask}", shape.load.run, shape.options);
        self.plan(&self.options(&running.server, &options, Some(running)), shape.connections)
    }

    /// One load of one server. `rate`: on schedule.
    pub(crate) fn measure(&mut self, shape: Shape, server: &str, rate: Option<f64>) -> anyhow::Result<Measured> {
        // On a machine that is busy with other things, a short load may be over before its first request:
        // then a longer one it is.
        const ATTEMPTS: u32 = 8;
        let full = self.duration;
        for attempt in 0..ATTEMPTS {
            self.duration = full * (1 << attempt);
            let measured = self.attempt(shape, server, rate);
            self.duration = full;
            let measured = measured?;
            if measured.run.requests > 0 || !measured.errors.is_empty() {
                return Ok(measured);
            }
        }
        bail!("no request was sent")
    }

    fn attempt(&mut self, shape: Shape, server: &str, rate: Option<f64>) -> anyhow::Result<Measured> {
        let mut plan = self.plan_of(shape, server)?;
        plan.rate = plan.rate.or(rate);
        let ScenarioLoad { expect, misses, counts_hits, .. } = shape.load;
        let http = plan.target.protocol == TargetProtocol::Http;
        if http {
            // What is right is said by `expect`.
            plan.client.error_status = "".parse()?;
        }
        let spec = &self.scenario.server;
        // Only a redis-server says what it was asked.
        let source =
            spec[server].source.clone().filter(|source| spec[source].kind == "redis" && (*misses || *counts_hits));
        let source = source.map(|name| self.server(&name).map(|running| (running.server.id(), running.server.address)));
        let source = source.transpose()?;
        let fetched = || source.map_or(Ok(0), |(_, address)| lookups(address));
        let output = OutputOptions {
            quiet: true,
            name: Some(shape.name()),
            server_pid: Some(self.server(server)?.server.id()),
            ..OutputOptions::default()
        };
        let before = fetched()?;
        let watch = source.map(|(id, _)| ServerWatch::begin(id)).transpose()?;
        let mut run = measure("scenario", &plan, &output)?;
        ensure!(!run.interrupted, "interrupted");
        let source_use = watch.map(|watch| watch.end(run.requests)).transpose()?;
        let mut errors = run.errors.clone();
        let right = |kind: &str| match expect.is_empty() {
            true => !http || kind == "200",
            false => expect.iter().any(|right| right == kind),
        };
        errors.extend(run.replies.iter().filter(|(kind, _)| !right(kind)).map(|(kind, count)| (kind.clone(), *count)));
        if !expect.iter().any(|right| right == "404" || right == "null") {
            errors.insert("missing".to_owned(), run.missing);
        }
        if source.is_some() {
            run.cache_misses = (fetched()? - before).min(run.requests);
            run.cache_hits = run.requests - run.cache_misses;
            if *misses {
                errors.insert("not a miss".to_owned(), run.cache_hits);
            }
        }
        errors.retain(|_, count| *count > 0);
        if shape.load.stores
            && let Some(Ok(running)) = self.running.get_mut(server)
        {
            running.stored = (self.nonce.to_string(), run.requests.max(1));
        }
        let server = run.server.clone().context("the server was watched")?;
        Ok(Measured { run, server, source: source_use, errors })
    }

    /// A fifth of a load before it counts. What is wrong, the load itself says.
    fn warm(&mut self, shape: Shape, server: &str) {
        let full = self.duration;
        self.duration = full / 5;
        let _ = self.measure(shape, server, None);
        self.duration = full;
    }

    /// Runs all loads that `wanted` names, each `runs` times; the servers of a load take turns, so
    /// that what happens to the machine happens to all. `each` is told the outcome, and at
    /// which rate; a server that failed is left out of the load from then on.
    pub(crate) fn all(
        &mut self,
        runs: u64,
        wanted: &dyn Fn(Shape, &str) -> bool,
        each: &mut Each<'_, 's>,
    ) -> anyhow::Result<()> {
        let scenario = self.scenario;
        let shapes: Vec<Shape> = scenario.shapes().collect();
        // The highest rate of the slowest server of a load.
        let mut slowest: BTreeMap<usize, f64> = BTreeMap::new();
        let mut out = std::collections::BTreeSet::new();
        let order: Vec<(usize, u64)> = match scenario.in_turn {
            true => (0..runs).flat_map(|run| (0..shapes.len()).map(move |at| (at, run))).collect(),
            false => (0..shapes.len()).flat_map(|at| (0..runs).map(move |run| (at, run))).collect(),
        };
        for (at, run) in order {
            if at == 0 {
                self.running.retain(|name, _| !scenario.server[*name].fresh);
            }
            let shape = shapes[at];
            let asked = || shape.load.ask.iter().map(|(server, _)| &server[..]).filter(|server| wanted(shape, server));
            let at_rates = !shape.load.rates.is_empty();
            if run == 0 && at_rates {
                for server in asked() {
                    self.warm(shape, server);
                    let peak = self.measure(shape, server, None).and_then(|peak| {
                        ensure!(peak.errors.is_empty(), "at the highest rate: {:?}", peak.errors);
                        Ok((peak, None))
                    });
                    match &peak {
                        Ok((peak, _)) => {
                            let slowest = slowest.entry(at).or_insert(f64::INFINITY);
                            *slowest = slowest.min(peak.run.throughput);
                        }
                        Err(_) => drop(out.insert((at, server))),
                    }
                    each(self, shape, server, 0, peak)?;
                }
            }
            let peak = slowest.get(&at).copied().unwrap_or_default();
            let rates: Vec<Option<f64>> = match at_rates {
                true => shape.load.rates.iter().map(|share| Some((share * peak / 100.0).round() * 100.0)).collect(),
                false => vec![None],
            };
            for rate in rates {
                for server in asked() {
                    if out.contains(&(at, server)) {
                        continue;
                    }
                    if run == 0 && !at_rates && !scenario.in_turn {
                        self.warm(shape, server);
                    }
                    let measured = self.measure(shape, server, rate);
                    if measured.is_err() {
                        out.insert((at, server));
                    }
                    each(self, shape, server, run, measured.map(|measured| (measured, rate)))?;
                }
            }
        }
        Ok(())
    }
}

/// How many keys a redis-server has found or missed since its start.
fn lookups(source: std::net::SocketAddr) -> anyhow::Result<u64> {
    let mut client = RespClient::connect(source, TIMEOUT)?;
    let mut count = |name| Ok::<u64, anyhow::Error>(client.info("stats", name)?.unwrap_or(0));
    Ok(count("keyspace_hits:")? + count("keyspace_misses:")?)
}

/// The same value under every name, as a file, and as Larder's `/lookup` answers it.
fn value_files() -> Vec<(String, Vec<u8>)> {
    let text = String::from_utf8_lossy(&VALUE);
    let files = (0..FILES).flat_map(|number| {
        let lookup = format!("{{\"key\":\"key:{number}\",\"value\":\"{text}\",\"status\":200}}");
        [("kv", VALUE.to_vec()), ("lookup", lookup.into_bytes())]
            .map(|(folder, bytes)| (format!("root/{folder}/key:{number}"), bytes))
    });
    files.chain([("root/value".to_owned(), VALUE.to_vec())]).collect()
}

/// Words as a shell tells them apart: by blanks that are not between two `'`.
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let (mut quoted, mut open) = (false, false);
    for letter in text.chars() {
        match letter {
            '\'' => quoted = !quoted,
            _ if letter.is_whitespace() && !quoted => {
                open = false;
                continue;
            }
            _ => {}
        }
        if !std::mem::replace(&mut open, true) {
            words.push(String::new());
        }
        if let (true, Some(word)) = (letter != '\'', words.last_mut()) {
            word.push(letter);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lib::machine;

    #[test]
    fn words_are_a_shells() {
        assert_eq!(words(" a  --b '' 'c d'e\n"), ["a", "--b", "", "c de"]);
    }

    #[test]
    fn scenarios_ask_servers_that_they_have() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
        for file in std::fs::read_dir(folder).expect("a folder") {
            let path = file.expect("a file").path();
            let scenario = Scenario::read(&std::fs::read_to_string(&path).expect("text")).expect("well-formed");
            for server in scenario.server.values() {
                servers::kind(&server.kind).expect("a kind");
                assert!(server.source.iter().all(|source| scenario.server.contains_key(source)), "{path:?}");
            }
            for (name, options) in scenario.load.iter().flat_map(|load| &load.ask) {
                assert!(scenario.server.contains_key(name), "{path:?}: {name}");
                let options = words(options);
                let known = options.iter().filter(|word| word.starts_with("--")).all(|word| is_option(word));
                assert!(known, "{path:?}: {options:?}");
            }
        }
    }

    fn is_option(word: &str) -> bool {
        use clap::CommandFactory;
        LoadOptions::command().get_arguments().any(|known| Some(&word[2..]) == known.get_long())
    }

    fn measured(load: &str) -> Measured {
        let text = format!(
            "[server.redis]\nkind = 'redis'\n[[load]]\nname = 'x'\nconnections = [2]\nrun = '--requests 100'\n{load}"
        );
        let scenario = Scenario::read(&text).expect("well-formed");
        let core = machine::cores().expect("cores")[0];
        let mut runner = Runner::new(&scenario, None, (core, core), TIMEOUT);
        let shape = scenario.shapes().next().expect("a load");
        runner.measure(shape, "redis", None).expect("measured")
    }

    #[test]
    fn other_replies_than_the_expected_are_errors() {
        let absent = measured("ask = [['redis', '--url redis://@']]\nexpect = ['null']");
        assert_eq!((absent.run.requests, absent.errors.len()), (100, 0), "{:?}", absent.errors);
        assert!(absent.run.server_version.is_some_and(|version| version.starts_with("redis-server ")));
        let missing = measured("ask = [['redis', '--url redis://@']]");
        assert_eq!(missing.errors.get("missing"), Some(&100), "{:?}", missing.errors);
        let strange = measured("ask = [['redis', '--url redis://@ --op set']]\nexpect = ['integer']");
        assert_eq!(strange.errors.get("simple string"), Some(&100), "{:?}", strange.errors);
    }
}
