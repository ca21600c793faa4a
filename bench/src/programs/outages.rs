//! `larder-bench outages`: what clients notice when the source suffers.
use crate::lib::{
    blocking_clients::{HttpClient, RedisReply, RespClient},
    figures,
    load::{self, LoadPlan, measure::Slice},
    results::{chart::Axis, chart_file::file, origin},
    scripted_origin::ScriptedOrigin,
    servers::{self, ServerProcess, Start},
    sql_client::SqlClient,
};
use anyhow::{Context, ensure};
use rustix::process::Signal;
use serde::Serialize;
use std::{
    io::Write,
    path::{Path, PathBuf},
    sync::atomic::Ordering::Relaxed,
    thread,
    time::{Duration, Instant},
};

/// Hits, answers and source load while the source is slow, fails, is gone, or everything is
/// invalidated
///
/// Each scenario has a calm phase, an incident and a recovery. In front of the same HTTP origin (32
/// workers, 10 ms each) Larder and nginx `proxy_cache` (with proxy_cache_lock and
/// proxy_cache_use_stale) run in turn; in front of a redis-server that is stopped (SIGSTOP), Larder
/// and the redis-server alone. Clients read keys that stay cached (hits), keys with a life of 2 s,
/// and keys that were never read. In front of a PostgreSQL that is stopped, Larder runs alone.
///
/// Prints a line for each scenario and server; with --out also charts over time. Ends with an error
/// if a p99 of Larder's hits in an incident is above 1.5 times that of the calm phase and above
/// --noise.
#[derive(Debug, clap::Args)]
pub(crate) struct OutagesArgs {
    /// The larder binary
    #[arg(long, value_name = "PATH")]
    larder: PathBuf,
    /// Only these scenarios: slow, errors, gone, invalidation, redis, postgres
    #[arg(long, value_delimiter = ',')]
    scenario: Vec<String>,
    /// Incidents of 12 seconds instead of one to five minutes
    #[arg(long)]
    quick: bool,
    /// Folder for the charts
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// A p99 below this is no failure, whatever the ratio: what the scheduler of a busy machine
    /// adds
    #[arg(long, value_name = "DURATION", default_value = "3ms", value_parser = larder_units::parse_duration)]
    noise: Duration,
}

/// Longest p99 of hits in an incident, as a multiple of the calm phase.
const BOUND: f64 = 1.5;
/// How long the origin takes while it is well, and while it is slow, ms.
const DELAY: (u64, u64) = (10, 100);
/// How often the source's requests are counted.
const SAMPLE: Duration = Duration::from_millis(100);
/// How often the warm keys are invalidated in an incident.
const INVALIDATIONS: u32 = 4;
/// Length of a slice of the results.
const SLICE: Duration = Duration::from_millis(500);
/// Keys of the kinds that are read again.
const KEYS: u64 = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Incident {
    /// Ten times slower.
    Slow,
    /// Half of the requests are answered 500.
    Errors,
    /// Every connection is closed.
    Gone,
    /// The warm keys get other names, again and again.
    Invalidation,
    /// The redis-server is stopped.
    Stopped,
    /// All processes of the PostgreSQL are stopped.
    Frozen,
}

#[derive(Debug, Clone, Copy)]
struct Scenario {
    name: &'static str,
    title: &'static str,
    incident: Incident,
    seconds: u64,
    /// Beside Larder; empty: nothing.
    other: &'static str,
}

const NGINX: &str = "nginx proxy_cache";
const SCENARIOS: [Scenario; 6] = [
    Scenario { name: "slow", title: "source 10 times slower", incident: Incident::Slow, seconds: 60, other: NGINX },
    Scenario {
        name: "errors",
        title: "half of the requests fail",
        incident: Incident::Errors,
        seconds: 60,
        other: NGINX,
    },
    Scenario { name: "gone", title: "source gone", incident: Incident::Gone, seconds: 300, other: NGINX },
    Scenario {
        name: "invalidation",
        title: "all warm keys invalidated four times",
        incident: Incident::Invalidation,
        seconds: 60,
        other: NGINX,
    },
    Scenario {
        name: "redis",
        title: "redis-server stopped",
        incident: Incident::Stopped,
        seconds: 60,
        other: "redis-server",
    },
    Scenario { name: "postgres", title: "PostgreSQL stopped", incident: Incident::Frozen, seconds: 60, other: "" },
];

/// The kinds of keys: cached before the start and for as long as the run lasts; cached for two
/// seconds at a time; never read before. The first are read on schedule, the others by users who
/// wait for their answers, since only the rate of these is of interest.
const HOT: [&str; 8] = ["--keys", "200", "--dist", "seq", "--rate", "800", "--connections", "4"];
const WARM: [&str; 8] = ["--keys", "200", "--dist", "seq", "--think-time", "80ms", "--connections", "16"];
const COLD: [&str; 8] = ["--keys", "1099511627776", "--dist", "seq", "--think-time", "200ms", "--connections", "32"];

/// Runs the program.
pub(crate) fn run(args: &OutagesArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let unknown = args.scenario.iter().find(|name| SCENARIOS.iter().all(|scenario| scenario.name != **name));
    let names = || SCENARIOS.map(|scenario| scenario.name).join(", ");
    ensure!(unknown.is_none(), "--scenario {} is none of {}", unknown.map_or("", |name| name), names());
    let mut failed = Vec::new();
    for scenario in SCENARIOS.iter().filter(|s| args.scenario.is_empty() || args.scenario.iter().any(|n| n == s.name)) {
        let mut timelines = Vec::new();
        for server in ["Larder", scenario.other].into_iter().filter(|name| !name.is_empty()) {
            let timeline = scenario.run(server, &args.larder, args.quick)?;
            let row = timeline.row(scenario.name, server);
            let above = row.hits_p99_ms.incident > (BOUND * row.hits_p99_ms.calm).max(args.noise.as_secs_f64() * 1e3);
            if server == "Larder" && above {
                failed.push(scenario.name);
            }
            figures::line(out, &row)?;
            timelines.push((server, timeline));
        }
        let Some(folder) = &args.out else { continue };
        std::fs::create_dir_all(folder)?;
        for (name, chart) in charts(scenario.title, &timelines, &origin::of_this_run()?) {
            let path = folder.join(format!("{}-{name}.svg", scenario.name));
            std::fs::write(&path, chart).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    ensure!(failed.is_empty(), "hits were slower during the incident: {}", failed.join(", "));
    Ok(())
}

/// What suffers.
enum Source {
    Http(ScriptedOrigin),
    Server(Box<ServerProcess>),
}

impl Scenario {
    /// Runs the scenario with one of its servers.
    fn run(&self, server: &str, larder: &Path, quick: bool) -> anyhow::Result<Timeline> {
        let phases = if quick { [6, 12, 8] } else { [30, self.seconds, 30] }.map(Duration::from_secs);
        let (source, url) = match self.incident {
            Incident::Stopped => {
                let redis = redis_with_values()?;
                let url = format!("redis://{}", redis.address);
                (Source::Server(Box::new(redis)), url)
            }
            Incident::Frozen => {
                let database = postgres_with_values()?;
                let url = format!("postgres://app@{}/shop?table=t&columns=v", database.address);
                (Source::Server(Box::new(database)), url)
            }
            _ => {
                let origin = ScriptedOrigin::start(Duration::from_millis(DELAY.0))?;
                let url = format!("http://{}/{{key}}", origin.address);
                (Source::Http(origin), url)
            }
        };
        // What nginx's `updating` and `error` do, without an end.
        let arguments = ["--source", &url, "--stale-while-revalidate", "10m", "--stale-if-error", "10m"];
        // Dropped before the source.
        let front = match (server, &source) {
            ("Larder", _) => Some(servers::larder(larder, None, &arguments)?),
            (_, Source::Http(origin)) => {
                Some(servers::start("nginx-shield", Start { source: Some(origin.address), ..Start::default() })?)
            }
            _ => None,
        };
        let url = match (&front, &source) {
            (Some(front), Source::Http(_)) => {
                let path = if server == "Larder" { "/v1/kv/{key}" } else { "/{key}" };
                format!("http://{}{path}", front.http.unwrap_or(front.address))
            }
            (Some(front), Source::Server(_)) => format!("redis://{}", front.address),
            (None, _) => url,
        };
        warm_up(&url)?;
        let loads = self.loads(&url, phases)?;
        let begun = Instant::now();
        thread::scope(|scope| {
            let start = |plans: Vec<LoadPlan>| {
                scope.spawn(move || -> anyhow::Result<Vec<Slice>> {
                    let mut slices = Vec::new();
                    for plan in plans {
                        let first = (begun.elapsed().as_millis() / SLICE.as_millis()) as u64;
                        let mut keep =
                            |slice: &Slice| slices.push(Slice { index: first + slice.index, ..slice.clone() });
                        load::run(&plan, &mut keep)?;
                    }
                    Ok(slices)
                })
            };
            let threads = loads.map(start);
            let source = self.conduct(begun, phases, &source)?;
            let mut kinds = Vec::new();
            for thread in threads {
                kinds.push(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
            }
            Ok(Timeline { phases, kinds, source })
        })
    }

    /// The loads of the three kinds of keys. That of warm keys begins again with each invalidation.
    fn loads(&self, url: &str, phases: [Duration; 3]) -> anyhow::Result<[Vec<LoadPlan>; 3]> {
        let plan = |key: String, options: &[&str], length: Duration| -> anyhow::Result<LoadPlan> {
            let duration = format!("{}ms", length.as_millis());
            let common =
                ["--url", url, "--key", &key, "--timeout", "2s", "--duration", &duration, "--error-status", ""];
            Ok(LoadPlan { slice: SLICE, ..load::plan(common.iter().chain(options))? })
        };
        let total = phases.iter().sum();
        let warm = match self.incident {
            Incident::Invalidation => {
                let part = phases[1] / INVALIDATIONS;
                let mut lengths = vec![phases[0]];
                lengths.extend((1..INVALIDATIONS).map(|_| part));
                lengths.push(part + phases[2]);
                let of = |(generation, length)| plan(format!("warm-{generation}-{{n}}"), &WARM, length);
                (0..).zip(lengths).map(of).collect::<anyhow::Result<_>>()?
            }
            _ => vec![plan("short-{n}".to_owned(), &WARM, total)?],
        };
        Ok([vec![plan("hot-{n}".to_owned(), &HOT, total)?], warm, vec![plan("cold-{n}".to_owned(), &COLD, total)?]])
    }

    /// Lets the source suffer in time, and counts its requests.
    fn conduct(&self, begun: Instant, phases: [Duration; 3], source: &Source) -> anyhow::Result<Vec<(Duration, u64)>> {
        let (mut samples, mut suffers) = (Vec::new(), false);
        loop {
            let now = begun.elapsed();
            if now >= phases.iter().sum() {
                return Ok(samples);
            }
            let should = (phases[0]..phases[0] + phases[1]).contains(&now);
            if should != suffers {
                suffers = should;
                self.set(source, suffers)?;
            }
            if let Source::Http(origin) = source {
                samples.push((now, origin.state.requests.load(Relaxed)));
            }
            thread::sleep(SAMPLE);
        }
    }

    fn set(&self, source: &Source, suffers: bool) -> anyhow::Result<()> {
        match (source, self.incident) {
            (Source::Server(server), _) => server.signal(if suffers { Signal::STOP } else { Signal::CONT })?,
            (Source::Http(origin), Incident::Slow) => {
                origin.state.delay.store(if suffers { DELAY.1 } else { DELAY.0 }, Relaxed);
            }
            (Source::Http(origin), Incident::Errors) => {
                origin.state.failing.store(if suffers { 50 } else { 0 }, Relaxed)
            }
            (Source::Http(origin), Incident::Gone) => origin.state.gone.store(suffers, Relaxed),
            _ => {}
        }
        Ok(())
    }
}

/// Reads all hot keys, until each is found.
fn warm_up(url: &str) -> anyhow::Result<()> {
    let target = load::target::TargetUrl::parse(url)?;
    let read = |key: &str| -> anyhow::Result<bool> {
        const PATIENCE: Duration = Duration::from_secs(2);
        if target.path.is_empty() {
            let reply = RespClient::connect(target.address, PATIENCE)?.call(&[b"GET", key.as_bytes()])?;
            return Ok(matches!(reply, RedisReply::Bulk(Some(_))));
        }
        let path = target.path.replace("{key}", key);
        Ok(HttpClient::connect(target.address, PATIENCE)?.get(&path)?.status == 200)
    };
    for number in 0..KEYS {
        let key = format!("hot-{number}");
        let found = (0..100).any(|_| read(&key).unwrap_or(false));
        ensure!(found, "{key} is not found before the start");
    }
    Ok(())
}

/// A redis-server with all keys that are read again; keys that were never read are absent.
fn redis_with_values() -> anyhow::Result<ServerProcess> {
    let server = servers::redis(None)?;
    let mut client = RespClient::connect(server.address, Duration::from_secs(10))?;
    client.load(2 * KEYS, |number, key, value| {
        let kind = if number < KEYS { "hot" } else { "short" };
        *key = format!("{kind}-{}", number % KEYS).into_bytes();
        *value = vec![b'v'; 64];
    })?;
    Ok(server)
}

/// A PostgreSQL with a row for each of these keys.
fn postgres_with_values() -> anyhow::Result<ServerProcess> {
    let server = servers::start("postgres", Start::default())?;
    SqlClient::connect(server.address)?.run(&format!(
        "CREATE TABLE t (k text PRIMARY KEY, v text NOT NULL); \
         INSERT INTO t SELECT kind || '-' || n, repeat('v', 64) FROM unnest('{{hot,short}}'::text[]) kind, \
         generate_series(0, {KEYS} - 1) n"
    ))?;
    Ok(server)
}

/// A run.
struct Timeline {
    /// Lengths of the calm phase, the incident and the recovery.
    phases: [Duration; 3],
    /// Of the hot, the warm and the cold keys.
    kinds: Vec<Vec<Slice>>,
    /// Requests that the source had received by each of these times.
    source: Vec<(Duration, u64)>,
}

/// A number for each phase.
#[derive(Debug, Clone, Copy, Serialize)]
struct ByPhase {
    calm: f64,
    incident: f64,
    recovery: f64,
}

/// The figures of a run.
#[derive(Debug, Serialize)]
struct OutageRow {
    program: &'static str,
    scenario: &'static str,
    server: String,
    incident_seconds: f64,
    /// Latency of the keys that stay cached.
    hits_p99_ms: ByPhase,
    hits_p99_ratio: f64,
    hits_failed: u64,
    /// Values per second, of keys that need the source now and then.
    goodput: ByPhase,
    asked: ByPhase,
    source_requests: ByPhase,
}

impl Timeline {
    fn row(&self, scenario: &'static str, server: &str) -> OutageRow {
        let by_phase = |of: &dyn Fn(Duration, Duration) -> f64| {
            let [calm, incident, recovery] = self.bounds().map(|(from, to)| of(from, to));
            ByPhase { calm, incident, recovery }
        };
        let hits = by_phase(&|from, to| self.hits_p99(from, to));
        let failed = |slice: &Slice| asked(slice).saturating_sub(slice.counts.found);
        OutageRow {
            program: "outages",
            scenario,
            server: server.to_owned(),
            incident_seconds: self.phases[1].as_secs_f64(),
            hits_p99_ratio: hits.incident / hits.calm,
            hits_p99_ms: hits,
            hits_failed: self.kinds[0].iter().map(failed).sum(),
            goodput: by_phase(&|from, to| self.rate(from, to, |slice| slice.counts.found)),
            asked: by_phase(&|from, to| self.rate(from, to, asked)),
            source_requests: by_phase(&|from, to| self.source_rate(from, to)),
        }
    }

    fn bounds(&self) -> [(Duration, Duration); 3] {
        let [calm, incident, recovery] = self.phases;
        let end = calm + incident;
        [(Duration::ZERO, calm), (calm, end), (end, end + recovery)]
    }

    fn slices(&self, kind: usize, from: Duration, to: Duration) -> impl Iterator<Item = &Slice> {
        let within = move |slice: &&Slice| (from..to).contains(&(SLICE * slice.index as u32));
        self.kinds[kind].iter().filter(within)
    }

    /// The p99 of hits that were answered in this time, or given up, ms.
    fn hits_p99(&self, from: Duration, to: Duration) -> f64 {
        let mut sum = Slice::new(0);
        self.slices(0, from, to).for_each(|slice| sum.add(slice));
        if sum.latency.is_empty() { f64::NAN } else { sum.latency.value_at_quantile(0.99) as f64 / 1e6 }
    }

    /// So many per second of the warm and the cold keys.
    fn rate(&self, from: Duration, to: Duration, count: impl Fn(&Slice) -> u64) -> f64 {
        let slices = self.slices(1, from, to).chain(self.slices(2, from, to));
        slices.map(count).sum::<u64>() as f64 / (to - from).as_secs_f64()
    }

    fn source_rate(&self, from: Duration, to: Duration) -> f64 {
        let mut inside = self.source.iter().filter(|(at, _)| (from..=to).contains(at));
        let (Some(first), Some(last)) = (inside.next(), inside.next_back()) else { return 0.0 };
        last.1.saturating_sub(first.1) as f64 / (last.0 - first.0).as_secs_f64()
    }
}

/// Requests that were answered or given up.
fn asked(slice: &Slice) -> u64 {
    slice.counts.requests + slice.counts.lost()
}

/// The charts of a scenario: a name for the file, and the picture.
fn charts(title: &str, timelines: &[(&str, Timeline)], origin: &str) -> Vec<(&'static str, String)> {
    let Some((_, first)) = timelines.first() else { return Vec::new() };
    let total: Duration = first.phases.iter().sum();
    let tick = (total / 60).max(SLICE);
    let times: Vec<Duration> = (0..).map(|n| tick * n).take_while(|at| *at + tick <= total).collect();
    let x = Axis::linear(total.as_secs_f64(), "seconds");
    let (begin, end) = (first.phases[0].as_secs_f64(), (first.phases[0] + first.phases[1]).as_secs_f64());
    let draw = |what: &str, y: &dyn Fn(f64, f64) -> Axis, of: &dyn Fn(&Timeline, Duration, Duration) -> f64| {
        let line = |timeline: &Timeline| -> Vec<(f64, f64)> {
            let point = |at: &Duration| (at.as_secs_f64(), of(timeline, *at, *at + tick));
            times.iter().map(point).filter(|(_, value)| value.is_finite()).collect()
        };
        let lines: Vec<(&str, Vec<(f64, f64)>)> =
            timelines.iter().map(|(name, timeline)| (*name, line(timeline))).collect();
        let values = || lines.iter().flat_map(|(_, points)| points.iter().map(|point| point.1));
        let y = y(values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
        let title = format!("{what}: {title}, from {begin:.0} s to {end:.0} s");
        file(&title, &x, &y, lines.into_iter().map(Into::into).collect(), origin)
    };
    let mut charts = vec![
        ("hits", draw("Hits", &|low, high| Axis::log(low, high, "p99 of hits, ms"), &Timeline::hits_p99)),
        (
            "goodput",
            draw(
                "Goodput",
                &|_, high| Axis::linear(high, "values per second, keys that need the source"),
                &|timeline, from, to| timeline.rate(from, to, |slice| slice.counts.found),
            ),
        ),
    ];
    if !first.source.is_empty() {
        let y = |_, high| Axis::linear(high, "requests per second at the source");
        charts.push(("source", draw("Source load", &y, &Timeline::source_rate)));
    }
    charts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_by_phase() {
        let slice = |index, ms: u64, requests, found, lost| {
            let mut slice = Slice::new(index);
            slice.latency.saturating_record_n(ms * 1_000_000, requests);
            (slice.counts.requests, slice.counts.found) = (requests, found);
            slice.counts.errors[load::measure::ErrorKind::Closed as usize] = lost;
            slice
        };
        // Two seconds each: four slices.
        let hot = (0..8).map(|index| slice(index, if index < 4 { 1 } else { 2 }, 100, 100, 0)).collect();
        let warm = vec![slice(0, 10, 1, 1, 0), slice(3, 10, 1, 1, 0)];
        let cold = vec![slice(4, 10, 1, 1, 1)];
        let source = (0..=60).map(|n| (Duration::from_millis(100 * n), n * n)).collect();
        let timeline = Timeline { phases: [Duration::from_secs(2); 3], kinds: vec![hot, warm, cold], source };
        let row = timeline.row("slow", "Larder");
        let near = |value: f64, expected: f64| (value - expected).abs() < 0.002;
        assert!(near(row.hits_p99_ms.calm, 1.0) && near(row.hits_p99_ms.incident, 2.0), "{row:?}");
        assert!(near(row.hits_p99_ratio, 2.0) && row.hits_failed == 0, "{row:?}");
        assert_eq!((row.goodput.calm, row.goodput.incident, row.asked.incident), (1.0, 0.5, 1.0));
        assert_eq!((row.source_requests.calm, row.source_requests.incident), (200.0, 600.0));
        let names: Vec<&str> = charts("t", &[("Larder", timeline)], "then").iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["hits", "goodput", "source"]);
    }
}
