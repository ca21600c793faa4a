//! The servers of each load, ready and loaded, and one load of one of them.
use super::server_loads::ServerLoad;
use crate::lib::{
    blocking_clients::{HttpClient, RespClient},
    external_generators,
    servers::{self, FLOOR_VALUE, ServerProcess},
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
pub(super) enum LoadTool {
    /// redis-benchmark, GET with this pipeline.
    Redis(u32),
    /// redis-benchmark, HSET with this pipeline.
    Hashes(u32),
    /// wrk on this path.
    Http(&'static str),
    /// wrk on paths that begin with this, each asked for once.
    NewPaths(&'static str),
}

/// A server, ready to be loaded.
pub(super) struct ServerUnderLoad {
    pub(super) name: &'static str,
    pub(super) server: ServerProcess,
    pub(super) way: LoadTool,
    /// Where the requests must arrive: the server itself finds the keys, or this one behind it
    /// does.
    pub(super) source: Option<ServerProcess>,
}

/// One load of one server.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServerSample {
    pub(super) requests: u64,
    /// CPU time per request, in microseconds.
    pub(super) cpu_us: f64,
    pub(super) per_second: f64,
}

/// What the servers and clients are started with.
pub(super) struct ServerSetting<'a> {
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

impl ServerSetting<'_> {
    /// The measured server and its reference.
    pub(super) fn pair(&self, load: ServerLoad) -> anyhow::Result<[ServerUnderLoad; 2]> {
        Ok(match load {
            ServerLoad::GetP1 => [self.larder(LoadTool::Redis(1))?, self.redis(1)?],
            ServerLoad::GetP16 => [self.larder(LoadTool::Redis(16))?, self.redis(16)?],
            ServerLoad::HttpKv => self.http("/v1/kv/key:000000000042")?,
            ServerLoad::HttpLookup => self.http("/lookup?key=key:000000000042")?,
            ServerLoad::MissesP1 => [self.misses(1)?, self.larder(LoadTool::Redis(1))?],
            ServerLoad::MissesP16 => [self.misses(16)?, self.larder(LoadTool::Redis(16))?],
            ServerLoad::ProxyMissesP16 => [self.misses(16)?, self.proxy(LoadTool::Redis(16))?],
            ServerLoad::OriginMisses => [self.in_front_of_origin()?, self.nginx_cache()?],
            ServerLoad::ForwardedP16 => {
                let redis = servers::redis(Some(self.server_core))?;
                let name = "redis-server";
                [
                    self.forwarding(None, self.server_core)?,
                    ServerUnderLoad { name, server: redis, way: LoadTool::Hashes(16), source: None },
                ]
            }
            ServerLoad::ProxyForwardedP16 => {
                [self.forwarding(Some(self.server_core), self.source_core)?, self.proxy(LoadTool::Hashes(16))?]
            }
            ServerLoad::CoherentP16 => [
                self.in_front("larder, coherent", &["--coherence", "coherent"])?,
                self.in_front("larder, ttl", &["--coherence", "ttl"])?,
            ],
            ServerLoad::FloorP1 => {
                [self.larder(LoadTool::Redis(1))?, self.floor("floor", "--redis", LoadTool::Redis(1))?]
            }
            ServerLoad::FloorP16 => {
                [self.larder(LoadTool::Redis(16))?, self.floor("floor", "--redis", LoadTool::Redis(16))?]
            }
            ServerLoad::FloorHyper => {
                let way = "/v1/kv/key:000000000042";
                [self.larder(LoadTool::Http(way))?, self.floor("hyper", "--hyper", LoadTool::Http(way))?]
            }
            ServerLoad::FloorHttp => {
                let way = "/v1/kv/key:000000000042";
                [self.larder(LoadTool::Http(way))?, self.floor("floor", "--http", LoadTool::Http(way))?]
            }
            ServerLoad::PogocacheP16 => [self.larder(LoadTool::Redis(16))?, self.pogocache(16)?],
        })
    }

    pub(super) fn redis(&self, pipeline: u32) -> anyhow::Result<ServerUnderLoad> {
        let server = servers::redis(Some(self.server_core))?;
        preload(&server)?;
        Ok(ServerUnderLoad { name: "redis-server", server, way: LoadTool::Redis(pipeline), source: None })
    }

    /// It has every key that it is asked for.
    fn floor(&self, name: &'static str, kind: &str, way: LoadTool) -> anyhow::Result<ServerUnderLoad> {
        Ok(ServerUnderLoad { name, server: servers::floor(name, kind, Some(self.server_core))?, way, source: None })
    }

    fn pogocache(&self, pipeline: u32) -> anyhow::Result<ServerUnderLoad> {
        let program =
            self.pogocache.as_deref().with_context(|| format!("{} does not name its binary", servers::POGOCACHE))?;
        let server = servers::pogocache(program, Some(self.server_core))?;
        preload(&server)?;
        Ok(ServerUnderLoad { name: "pogocache", server, way: LoadTool::Redis(pipeline), source: None })
    }

    fn larder(&self, way: LoadTool) -> anyhow::Result<ServerUnderLoad> {
        let server = servers::larder(self.larder, Some(self.server_core), &["--max-memory", "256MiB"])?;
        preload(&server)?;
        Ok(ServerUnderLoad { name: "larder", server, way, source: None })
    }

    /// A larder that can keep one key of all those that its source has.
    fn misses(&self, pipeline: u32) -> anyhow::Result<ServerUnderLoad> {
        let source = servers::redis(Some(self.source_core))?;
        preload(&source)?;
        let url = format!("redis://{}", source.address);
        let arguments = ["--source", &url, "--max-keys", "1", "--max-memory", "256MiB"];
        Ok(ServerUnderLoad {
            name: "larder, all misses",
            server: servers::larder(self.larder, Some(self.server_core), &arguments)?,
            way: LoadTool::Redis(pipeline),
            source: Some(source),
        })
    }

    /// A larder whose HTTP source has every key. Like nginx's, its copies live for an hour and have
    /// room for a quarter of a gigabyte.
    fn in_front_of_origin(&self) -> anyhow::Result<ServerUnderLoad> {
        let source = servers::backend(Some(self.source_core), &FLOOR_VALUE)?;
        let url = format!("http://{}/miss/{{key}}", source.address);
        let arguments = ["--source", &url, "--max-memory", "256MiB", "--ttl", "1h"];
        let server = servers::larder(self.larder, Some(self.server_core), &arguments)?;
        Ok(ServerUnderLoad {
            name: "larder, all misses",
            server,
            way: LoadTool::NewPaths("/v1/kv/"),
            source: Some(source),
        })
    }
    fn nginx_cache(&self) -> anyhow::Result<ServerUnderLoad> {
        let source = servers::backend(Some(self.source_core), &FLOOR_VALUE)?;
        let server = servers::nginx_cache(Some(self.server_core), source.address)?;
        let way = LoadTool::NewPaths("/miss/");
        Ok(ServerUnderLoad { name: "nginx proxy_cache, all misses", server, way, source: Some(source) })
    }

    /// A proxy that does nothing but forward, in front of a redis-server.
    fn proxy(&self, way: LoadTool) -> anyhow::Result<ServerUnderLoad> {
        let source = servers::redis(Some(self.source_core))?;
        preload(&source)?;
        let server = servers::floor_proxy(source.address, Some(self.server_core))?;
        Ok(ServerUnderLoad { name: "floor proxy", server, way, source: Some(source) })
    }

    /// A larder that forwards. Without a core it runs on whichever has room.
    fn forwarding(&self, core: Option<usize>, source_core: usize) -> anyhow::Result<ServerUnderLoad> {
        let source = servers::redis(Some(source_core))?;
        let url = format!("redis://{}", source.address);
        let server = servers::larder(self.larder, core, &["--source", &url])?;
        Ok(ServerUnderLoad { name: "larder, forwarding", server, way: LoadTool::Hashes(16), source: Some(source) })
    }

    /// A larder that has copies of all that its source has.
    fn in_front(&self, name: &'static str, mode: &[&str]) -> anyhow::Result<ServerUnderLoad> {
        let source = servers::redis(Some(self.source_core))?;
        preload(&source)?;
        let url = format!("redis://{}", source.address);
        let arguments = [&["--source", &url, "--max-memory", "256MiB", "--ttl", "1h"], mode].concat();
        let server = servers::larder(self.larder, Some(self.server_core), &arguments)?;
        // Random keys: so many that all but a few are asked for.
        external_generators::redis_benchmark(self.client_core, server.address, KEYS, 16, 20 * KEYS, GET)?;
        Ok(ServerUnderLoad { name, server, way: LoadTool::Redis(16), source: Some(source) })
    }

    /// Larder on `path`, and nginx with the very bytes that larder answers as a file.
    fn http(&self, path: &'static str) -> anyhow::Result<[ServerUnderLoad; 2]> {
        let larder = self.larder(LoadTool::Http(path))?;
        let mut client = HttpClient::connect(larder.http_address()?, TIMEOUT)?;
        let answer = client.get(path)?;
        ensure!(answer.status == 200, "larder answers {path} with {}", answer.status);
        let nginx = ServerUnderLoad {
            name: "nginx",
            server: servers::nginx(Some(self.server_core), &[("file", &answer.body)])?,
            way: LoadTool::Http("/file"),
            source: None,
        };
        Ok([larder, nginx])
    }

    /// A short load; the number of requests that makes the load long enough.
    pub(super) fn warm_up(&self, measured: &ServerUnderLoad) -> anyhow::Result<u64> {
        const FIRST: u64 = 50_000;
        let done = match measured.way {
            LoadTool::Redis(pipeline) => {
                let requests = FIRST * u64::from(pipeline);
                external_generators::redis_benchmark(
                    self.client_core,
                    measured.server.address,
                    KEYS,
                    pipeline,
                    requests,
                    GET,
                )?
            }
            LoadTool::Hashes(pipeline) => {
                let requests = FIRST * u64::from(pipeline);
                external_generators::redis_benchmark(
                    self.client_core,
                    measured.server.address,
                    KEYS,
                    pipeline,
                    requests,
                    &hset(),
                )?
            }
            LoadTool::Http(path) => external_generators::wrk(self.client_core, measured.http_address()?, path, 1)?,
            LoadTool::NewPaths(path) => {
                external_generators::wrk_new_paths(self.client_core, measured.http_address()?, path, 1)?
            }
        };
        Ok((done.per_second * self.seconds as f64) as u64)
    }

    pub(super) fn sample(&self, measured: &ServerUnderLoad, requests: u64) -> anyhow::Result<ServerSample> {
        let process = measured.server.process();
        // Copies answer without the source.
        let source = measured.source.as_ref().filter(|_| !matches!(measured.name, "larder, coherent" | "larder, ttl"));
        let found_by = source.unwrap_or(&measured.server);
        // The others do not count what they find. The floor has everything; Pogocache was seen to hold all
        // keys.
        let counts = !matches!(measured.name, "floor" | "pogocache");
        let found = |way: &LoadTool| match way {
            LoadTool::Redis(_) if !counts => Ok(0),
            LoadTool::Redis(_) => keyspace_hits(found_by),
            LoadTool::Hashes(_) => calls_of_hset(found_by),
            // wrk looks at every answer's status.
            LoadTool::Http(_) => Ok(0),
            // What was never asked for cannot be a hit.
            LoadTool::NewPaths(_) => Ok(0),
        };
        // nginx with a cache is several processes.
        let cpu_time = || match measured.way {
            LoadTool::NewPaths(_) => measured.server.run_time(),
            _ => process.cpu_time(),
        };
        let (hits_before, cpu_before) = (found(&measured.way)?, cpu_time()?);
        let done = match measured.way {
            LoadTool::Redis(pipeline) => external_generators::redis_benchmark(
                self.client_core,
                measured.server.address,
                KEYS,
                pipeline,
                requests,
                GET,
            )?,
            LoadTool::Hashes(pipeline) => external_generators::redis_benchmark(
                self.client_core,
                measured.server.address,
                KEYS,
                pipeline,
                requests,
                &hset(),
            )?,
            LoadTool::Http(path) => {
                external_generators::wrk(self.client_core, measured.http_address()?, path, self.seconds)?
            }
            LoadTool::NewPaths(path) => {
                external_generators::wrk_new_paths(self.client_core, measured.http_address()?, path, self.seconds)?
            }
        };
        let cpu = cpu_time()? - cpu_before;
        if let (LoadTool::Redis(_) | LoadTool::Hashes(_), true) = (&measured.way, counts) {
            let found = found(&measured.way)? - hits_before;
            // Concurrent misses of one key may share a fetch, so a source sees somewhat less.
            let expected = done.requests - done.requests / 20;
            ensure!(
                found >= expected,
                "{}: {} requests, but only {found} keys found by {}",
                measured.name,
                done.requests,
                found_by.name
            );
        }
        Ok(ServerSample {
            requests: done.requests,
            cpu_us: cpu.as_secs_f64() * 1e6 / done.requests as f64,
            per_second: done.per_second,
        })
    }
}

impl ServerUnderLoad {
    fn http_address(&self) -> anyhow::Result<std::net::SocketAddr> {
        let http = self.server.http;
        http.with_context(|| format!("{} has no HTTP address", self.name))
    }
}

/// Stores all keys, and sees that they are there.
fn preload(server: &ServerProcess) -> anyhow::Result<()> {
    let mut client = RespClient::connect(server.address, TIMEOUT)?;
    client.load(KEYS, |number, key, value| {
        *key = format!("key:{number:012}").into_bytes();
        value.clear();
        value.extend_from_slice(&FLOOR_VALUE);
    })?;
    let held = client.count()?;
    ensure!(held == KEYS, "{} holds {held} of {KEYS} keys", server.name);
    Ok(())
}

const GET: &[&str] = &["GET", "key:__rand_int__"];
fn hset() -> [&'static str; 4] {
    let value = std::str::from_utf8(&FLOOR_VALUE).unwrap_or_default();
    ["HSET", "hash:__rand_int__", "field", value]
}

/// `keyspace_hits` of INFO: how often the server found a key.
fn keyspace_hits(server: &ServerProcess) -> anyhow::Result<u64> {
    let hits = number_of(server, "stats", "keyspace_hits:")?;
    hits.with_context(|| format!("{}'s INFO has no keyspace_hits", server.name))
}
/// How often the server was sent HSET.
fn calls_of_hset(server: &ServerProcess) -> anyhow::Result<u64> {
    Ok(number_of(server, "commandstats", "cmdstat_hset:calls=")?.unwrap_or(0))
}
/// The number behind `name` in a section of INFO.
fn number_of(server: &ServerProcess, section: &str, name: &str) -> anyhow::Result<Option<u64>> {
    RespClient::connect(server.address, TIMEOUT)?.info(section, name)
}
