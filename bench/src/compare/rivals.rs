//! The servers of each load, ready and loaded, and one load of one of them.
use super::{Load, clients};
use crate::{
    floor::VALUE,
    servers::{self, Server},
    wire::{Http, Resp},
};
use anyhow::{Context, ensure};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// Keys as redis-benchmark asks for them, all with the same value.
const KEYS: u64 = 100_000;
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);

/// How a server is loaded.
pub(super) enum Way {
    /// redis-benchmark, GET with this pipeline.
    Redis(u32),
    /// redis-benchmark, HSET with this pipeline.
    Hashes(u32),
    /// wrk on this path.
    Http(&'static str),
}

/// A server, ready to be loaded.
pub(super) struct Rival {
    pub(super) name: &'static str,
    pub(super) server: Server,
    pub(super) way: Way,
    /// Where the requests must arrive: the server itself finds the keys, or this one behind it does.
    pub(super) source: Option<Server>,
}

/// One load of one server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) requests: u64,
    /// CPU time per request, in microseconds.
    pub(super) cpu_us: f64,
    pub(super) per_second: f64,
}

/// What the servers and clients are started with.
pub(super) struct Setting<'a> {
    /// The larder binary.
    pub(super) larder: &'a Path,
    /// Length of a load.
    pub(super) seconds: u64,
    pub(super) server_core: usize,
    pub(super) client_core: usize,
    pub(super) source_core: usize,
    /// Pogocache's binary.
    pub(super) pogocache: Option<PathBuf>,
}

impl Setting<'_> {
    /// Subject and reference of a load.
    pub(super) fn rivals(&self, load: Load) -> anyhow::Result<[Rival; 2]> {
        Ok(match load {
            Load::GetP1 => [self.larder(Way::Redis(1))?, self.redis(1)?],
            Load::GetP16 => [self.larder(Way::Redis(16))?, self.redis(16)?],
            Load::HttpKv => self.http("/v1/kv/key:000000000042")?,
            Load::HttpLookup => self.http("/lookup?key=key:000000000042")?,
            Load::MissesP1 => [self.misses(1)?, self.larder(Way::Redis(1))?],
            Load::MissesP16 => [self.misses(16)?, self.larder(Way::Redis(16))?],
            Load::ForwardedP16 => {
                let redis = servers::redis(Some(self.server_core))?;
                let name = "redis-server";
                [self.forwarding()?, Rival { name, server: redis, way: Way::Hashes(16), source: None }]
            }
            Load::CoherentP16 => [
                self.in_front("larder, coherent", &["--coherence", "coherent"])?,
                self.in_front("larder, ttl", &["--coherence", "ttl"])?,
            ],
            Load::FloorP1 => [self.larder(Way::Redis(1))?, self.floor("floor", "--redis", Way::Redis(1))?],
            Load::FloorP16 => [self.larder(Way::Redis(16))?, self.floor("floor", "--redis", Way::Redis(16))?],
            Load::FloorHyper => {
                let way = "/v1/kv/key:000000000042";
                [self.larder(Way::Http(way))?, self.floor("hyper", "--hyper", Way::Http(way))?]
            }
            Load::FloorHttp => {
                let way = "/v1/kv/key:000000000042";
                [self.larder(Way::Http(way))?, self.floor("floor", "--http", Way::Http(way))?]
            }
            Load::PogocacheP16 => [self.larder(Way::Redis(16))?, self.pogocache(16)?],
        })
    }

    pub(super) fn redis(&self, pipeline: u32) -> anyhow::Result<Rival> {
        let server = servers::redis(Some(self.server_core))?;
        preload(&server)?;
        Ok(Rival { name: "redis-server", server, way: Way::Redis(pipeline), source: None })
    }

    /// It has every key that it is asked for.
    fn floor(&self, name: &'static str, kind: &str, way: Way) -> anyhow::Result<Rival> {
        Ok(Rival { name, server: servers::floor(name, kind, Some(self.server_core))?, way, source: None })
    }

    fn pogocache(&self, pipeline: u32) -> anyhow::Result<Rival> {
        let program =
            self.pogocache.as_deref().with_context(|| format!("{} does not name its binary", servers::POGOCACHE))?;
        let server = servers::pogocache(program, Some(self.server_core))?;
        preload(&server)?;
        Ok(Rival { name: "pogocache", server, way: Way::Redis(pipeline), source: None })
    }

    fn larder(&self, way: Way) -> anyhow::Result<Rival> {
        let server = servers::larder(self.larder, Some(self.server_core), &["--max-memory", "256MiB"])?;
        preload(&server)?;
        Ok(Rival { name: "larder", server, way, source: None })
    }

    /// A larder that can keep one key of all those that its source has.
    fn misses(&self, pipeline: u32) -> anyhow::Result<Rival> {
        let source = servers::redis(Some(self.source_core))?;
        preload(&source)?;
        let url = format!("redis://{}", source.address);
        let arguments = ["--source", &url, "--max-keys", "1", "--max-memory", "256MiB"];
        Ok(Rival {
            name: "larder, all misses",
            server: servers::larder(self.larder, Some(self.server_core), &arguments)?,
            way: Way::Redis(pipeline),
            source: Some(source),
        })
    }

    /// A larder that forwards, on whichever core has room.
    fn forwarding(&self) -> anyhow::Result<Rival> {
        let source = servers::redis(Some(self.server_core))?;
        let url = format!("redis://{}", source.address);
        let server = servers::larder(self.larder, None, &["--source", &url])?;
        Ok(Rival { name: "larder, forwarding", server, way: Way::Hashes(16), source: Some(source) })
    }

    /// A larder that has copies of all that its source has.
    fn in_front(&self, name: &'static str, mode: &[&str]) -> anyhow::Result<Rival> {
        let source = servers::redis(Some(self.source_core))?;
        preload(&source)?;
        let url = format!("redis://{}", source.address);
        let arguments = [&["--source", &url, "--max-memory", "256MiB", "--ttl", "1h"], mode].concat();
        let server = servers::larder(self.larder, Some(self.server_core), &arguments)?;
        // Random keys: so many that all but a few are asked for.
        clients::redis_benchmark(self.client_core, server.address, KEYS, 16, 20 * KEYS, GET)?;
        Ok(Rival { name, server, way: Way::Redis(16), source: Some(source) })
    }

    /// Larder on `path`, and nginx with the very bytes that larder answers as a file.
    fn http(&self, path: &'static str) -> anyhow::Result<[Rival; 2]> {
        let larder = self.larder(Way::Http(path))?;
        let mut client = Http::connect(larder.http_address()?, TIMEOUT)?;
        let answer = client.get(path)?;
        ensure!(answer.status == 200, "larder answers {path} with {}", answer.status);
        let nginx = Rival {
            name: "nginx",
            server: servers::nginx(Some(self.server_core), &[("file", &answer.body)])?,
            way: Way::Http("/file"),
            source: None,
        };
        Ok([larder, nginx])
    }

    /// A short load; the number of requests that makes the load long enough.
    pub(super) fn warm_up(&self, rival: &Rival) -> anyhow::Result<u64> {
        const FIRST: u64 = 50_000;
        let done = match rival.way {
            Way::Redis(pipeline) => {
                let requests = FIRST * u64::from(pipeline);
                clients::redis_benchmark(self.client_core, rival.server.address, KEYS, pipeline, requests, GET)?
            }
            Way::Hashes(pipeline) => {
                let requests = FIRST * u64::from(pipeline);
                clients::redis_benchmark(self.client_core, rival.server.address, KEYS, pipeline, requests, &hset())?
            }
            Way::Http(path) => clients::wrk(self.client_core, rival.http_address()?, path, 1)?,
        };
        Ok((done.per_second * self.seconds as f64) as u64)
    }

    pub(super) fn sample(&self, rival: &Rival, requests: u64) -> anyhow::Result<Sample> {
        let process = rival.server.process();
        // Copies answer without the source.
        let source = rival.source.as_ref().filter(|_| !matches!(rival.name, "larder, coherent" | "larder, ttl"));
        let found_by = source.unwrap_or(&rival.server);
        // The others do not count what they find. The floor has everything; Pogocache was seen to hold all keys.
        let counts = !matches!(rival.name, "floor" | "pogocache");
        let found = |way: &Way| match way {
            Way::Redis(_) if !counts => Ok(0),
            Way::Redis(_) => keyspace_hits(found_by),
            Way::Hashes(_) => calls_of_hset(found_by),
            // wrk looks at every answer's status.
            Way::Http(_) => Ok(0),
        };
        let (hits_before, cpu_before) = (found(&rival.way)?, process.cpu_time()?);
        let done = match rival.way {
            Way::Redis(pipeline) => {
                clients::redis_benchmark(self.client_core, rival.server.address, KEYS, pipeline, requests, GET)?
            }
            Way::Hashes(pipeline) => {
                clients::redis_benchmark(self.client_core, rival.server.address, KEYS, pipeline, requests, &hset())?
            }
            Way::Http(path) => clients::wrk(self.client_core, rival.http_address()?, path, self.seconds)?,
        };
        let cpu = process.cpu_time()? - cpu_before;
        if let (Way::Redis(_) | Way::Hashes(_), true) = (&rival.way, counts) {
            let found = found(&rival.way)? - hits_before;
            // Concurrent misses of one key may share a fetch, so a source sees somewhat less.
            let expected = done.requests - done.requests / 20;
            ensure!(
                found >= expected,
                "{}: {} requests, but only {found} keys found by {}",
                rival.name,
                done.requests,
                found_by.name
            );
        }
        Ok(Sample {
            requests: done.requests,
            cpu_us: cpu.as_secs_f64() * 1e6 / done.requests as f64,
            per_second: done.per_second,
        })
    }
}

impl Rival {
    fn http_address(&self) -> anyhow::Result<std::net::SocketAddr> {
        let http = self.server.http;
        http.with_context(|| format!("{} has no HTTP address", self.name))
    }
}

/// Stores all keys, and sees that they are there.
fn preload(server: &Server) -> anyhow::Result<()> {
    let mut client = Resp::connect(server.address, TIMEOUT)?;
    client.load(KEYS, |number, key, value| {
        *key = format!("key:{number:012}").into_bytes();
        value.clear();
        value.extend_from_slice(&VALUE);
    })?;
    let held = client.count()?;
    ensure!(held == KEYS, "{} holds {held} of {KEYS} keys", server.name);
    Ok(())
}

const GET: &[&str] = &["GET", "key:__rand_int__"];
fn hset() -> [&'static str; 4] {
    let value = std::str::from_utf8(&VALUE).unwrap_or_default();
    ["HSET", "hash:__rand_int__", "field", value]
}

/// `keyspace_hits` of INFO: how often the server found a key.
fn keyspace_hits(server: &Server) -> anyhow::Result<u64> {
    let hits = number_of(server, "stats", "keyspace_hits:")?;
    hits.with_context(|| format!("{}'s INFO has no keyspace_hits", server.name))
}
/// How often the server was sent HSET.
fn calls_of_hset(server: &Server) -> anyhow::Result<u64> {
    Ok(number_of(server, "commandstats", "cmdstat_hset:calls=")?.unwrap_or(0))
}
/// The number behind `name` in a section of INFO.
fn number_of(server: &Server, section: &str, name: &str) -> anyhow::Result<Option<u64>> {
    Resp::connect(server.address, TIMEOUT)?.info(section, name)
}
