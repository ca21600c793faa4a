//! The scenarios: what the source does when, and which servers stand in front of it.
use super::{
    clients::{KEYS, ReadTarget},
    timeline::{PhaseLengths, Timeline},
};
use crate::lib::{
    blocking_clients::RespClient,
    scripted_origin::{OriginState, ScriptedOrigin},
    servers::{self, ServerProcess},
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// How long the origin takes while it is well, and while it is slow.
const DELAY: (Duration, u64) = (Duration::from_millis(10), 100);
/// How often the source's requests are counted.
const SAMPLE: Duration = Duration::from_millis(100);
/// How often everything is invalidated during the incident.
const INVALIDATIONS: u32 = 4;

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Incident {
    /// Ten times slower.
    Slow,
    /// Half of the requests are answered 500.
    Errors,
    /// Every connection is closed.
    Gone,
    /// The warm keys are invalidated, again and again.
    Invalidation,
    /// The redis-server is stopped.
    Stopped,
}

/// A scenario.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    incident: Incident,
    seconds: u64,
    pub(super) servers: &'static [&'static str],
}

const HTTP: &[&str] = &["Larder", "nginx proxy_cache"];
pub(super) const SCENARIOS: [Scenario; 5] = [
    Scenario { name: "slow", title: "source 10 times slower", incident: Incident::Slow, seconds: 60, servers: HTTP },
    Scenario {
        name: "errors",
        title: "half of the requests fail",
        incident: Incident::Errors,
        seconds: 60,
        servers: HTTP,
    },
    Scenario { name: "gone", title: "source gone", incident: Incident::Gone, seconds: 300, servers: HTTP },
    Scenario {
        name: "invalidation",
        title: "all warm keys invalidated four times",
        incident: Incident::Invalidation,
        seconds: 60,
        servers: HTTP,
    },
    Scenario {
        name: "redis",
        title: "redis-server stopped",
        incident: Incident::Stopped,
        seconds: 60,
        servers: &["Larder", "redis-server"],
    },
];

/// What suffers.
enum SufferingSource {
    Http(ScriptedOrigin),
    Redis(Box<ServerProcess>),
}

impl Scenario {
    /// Runs the scenario with one of its servers.
    pub(super) fn run(&self, server: &str, larder: &Path, quick: bool) -> anyhow::Result<Timeline> {
        let second = Duration::from_secs;
        let phases = match quick {
            true => PhaseLengths { calm: second(6), incident: second(12), recovery: second(8) },
            false => PhaseLengths { calm: second(30), incident: second(self.seconds), recovery: second(30) },
        };
        let source = match self.incident {
            Incident::Stopped => SufferingSource::Redis(Box::new(redis_with_values()?)),
            _ => SufferingSource::Http(ScriptedOrigin::start(DELAY.0)?),
        };
        // Dropped before the source.
        let front = front(server, &source, larder)?;
        let (address, redis, path) = match (&front, &source) {
            (None, SufferingSource::Redis(source)) => (source.address, true, ""),
            (None, SufferingSource::Http(origin)) => (origin.address, false, "/"),
            (Some(front), SufferingSource::Redis(_)) => (front.address, true, ""),
            (Some(front), SufferingSource::Http(_)) => {
                (front.http.unwrap_or(front.address), false, if server == "Larder" { "/v1/kv/" } else { "/" })
            }
        };
        let target = ReadTarget {
            address,
            redis,
            path,
            generation: Arc::default(),
            short: self.incident != Incident::Invalidation,
            next_cold: Arc::default(),
        };
        target.warm_up()?;
        let (begun, ended) = (Instant::now(), Arc::new(AtomicBool::new(false)));
        let (results, collected) = mpsc::channel();
        let clients = target.start(begun, &results, &ended);
        drop(results);
        let samples = self.conduct(begun, phases, &source, &target.generation)?;
        ended.store(true, Relaxed);
        for client in clients {
            anyhow::ensure!(client.join().is_ok(), "a client panicked");
        }
        Ok(Timeline { phases, results: collected.into_iter().collect(), source: samples })
    }

    /// Lets the source suffer in time, and counts its requests.
    fn conduct(
        &self,
        begun: Instant,
        phases: PhaseLengths,
        source: &SufferingSource,
        generation: &AtomicU64,
    ) -> anyhow::Result<Vec<(Duration, u64)>> {
        let mut samples = Vec::new();
        let end = phases.calm + phases.incident;
        let (mut suffers, mut invalidated) = (false, 0);
        loop {
            let now = begun.elapsed();
            if now >= phases.total() {
                return Ok(samples);
            }
            let should = (phases.calm..end).contains(&now);
            if should != suffers {
                suffers = should;
                self.set(source, suffers)?;
            }
            let due = (phases.incident / INVALIDATIONS) * invalidated;
            if self.incident == Incident::Invalidation && suffers && now >= phases.calm + due {
                invalidated += 1;
                generation.fetch_add(1, Relaxed);
            }
            if let SufferingSource::Http(origin) = source {
                samples.push((now, origin.state.requests.load(Relaxed)));
            }
            thread::sleep(SAMPLE);
        }
    }

    fn set(&self, source: &SufferingSource, suffers: bool) -> anyhow::Result<()> {
        match source {
            SufferingSource::Http(origin) => self.set_origin(&origin.state, suffers),
            SufferingSource::Redis(server) => {
                let id = i32::try_from(server.id())?;
                let signal = if suffers { Signal::STOP } else { Signal::CONT };
                if let Some(id) = Pid::from_raw(id) {
                    kill_process(id, signal)?;
                }
            }
        }
        Ok(())
    }
    fn set_origin(&self, origin: &OriginState, suffers: bool) {
        match self.incident {
            Incident::Slow => {
                let well = DELAY.0.as_millis() as u64;
                origin.delay.store(if suffers { DELAY.1 } else { well }, Relaxed);
            }
            Incident::Errors => origin.failing.store(if suffers { 50 } else { 0 }, Relaxed),
            Incident::Gone => origin.gone.store(suffers, Relaxed),
            Incident::Invalidation | Incident::Stopped => {}
        }
    }
}

/// A redis-server with all keys that are read again; keys that were never read are absent.
fn redis_with_values() -> anyhow::Result<ServerProcess> {
    let server = servers::redis(None)?;
    let mut client = RespClient::connect(server.address, Duration::from_secs(10))?;
    client.load(2 * KEYS, |number, key, value| {
        let kind = if number < KEYS { "hot-" } else { "short-0-" };
        *key = format!("{kind}{}", number % KEYS).into_bytes();
        *value = vec![b'v'; 64];
    })?;
    Ok(server)
}

/// The server in front of the source; `None`: the source alone.
fn front(server: &str, source: &SufferingSource, larder: &Path) -> anyhow::Result<Option<ServerProcess>> {
    let url = match source {
        SufferingSource::Http(origin) => format!("http://{}/{{key}}", origin.address),
        SufferingSource::Redis(redis) => format!("redis://{}", redis.address),
    };
    Ok(match (server, source) {
        ("Larder", _) => {
            // What nginx's `updating` and `error` do, without an end.
            let stale = ["--stale-while-revalidate", "10m", "--stale-if-error", "10m"];
            Some(servers::larder(larder, None, &[&["--source", &url][..], &stale].concat())?)
        }
        ("nginx proxy_cache", SufferingSource::Http(origin)) => Some(servers::nginx_shield(origin.address)?),
        _ => None,
    })
}
