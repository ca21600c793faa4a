//! The servers of the comparison: where their binaries are, how each is started, how each is asked
//! for a load.
use super::record::RivalLoad;
use crate::lib::{
    load::keys::KeyDistribution,
    servers::{self, ServerProcess},
};
use anyhow::Context;
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Keys of the HTTP loads; nginx keeps as many files open.
pub(super) const HTTP_KEYS: u64 = 1_000;
/// Keys of the commands.
pub(super) const COMMAND_KEYS: u64 = 100_000;
/// Bytes of a value.
pub(super) const VALUE_SIZE: usize = 64;
/// Keys of the commands and of most HTTP loads.
pub(super) const KEY: &str = "key:{n}";

/// A server of the comparison. Larder itself is one, so that the same code measures it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Rival {
    /// Larder (--larder)
    Larder,
    /// redis-server
    Redis,
    /// Valkey (LARDER_BENCH_VALKEY)
    Valkey,
    /// Dragonfly (LARDER_BENCH_DRAGONFLY)
    Dragonfly,
    /// Pogocache (LARDER_BENCH_POGOCACHE)
    Pogocache,
    /// memcached
    Memcached,
    /// nginx with static files
    NginxStatic,
    /// nginx with proxy_cache
    NginxCache,
    /// varnish
    Varnish,
    /// GCache (LARDER_BENCH_GCACHE)
    Gcache,
    /// a program around a groupcache-go node (LARDER_BENCH_GROUPCACHE_GO): takes its address as
    /// argument, answers GET /data/{id}
    GroupcacheGo,
}

/// What a server is started for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Preparation {
    /// It has all that it is asked for.
    Hits,
    /// It must fetch all that it is asked for.
    Misses,
}

/// A server, and what stands behind it.
pub(super) struct Started {
    pub(super) server: ServerProcess,
    pub(super) source: Option<ServerProcess>,
}

/// How a server is asked for a load.
pub(super) struct Ask {
    pub(super) part: Preparation,
    /// Scheme and path of the URL, with the address between them.
    pub(super) scheme: &'static str,
    pub(super) path: &'static str,
    /// As `larder-bench run` has them: `--op`, `--key`, `--keys`, `--dist`, `--header`,
    /// `--error-status`.
    pub(super) op: String,
    pub(super) key: String,
    pub(super) keys: u64,
    pub(super) distribution: KeyDistribution,
    pub(super) header: Vec<String>,
    pub(super) error_status: String,
    /// A key that is not found is an error.
    pub(super) all_found: bool,
}

/// Every status but this one is an error.
fn only(status: u16) -> String {
    format!("1xx,2xx,3xx,4xx,5xx,!{status}")
}

impl Rival {
    /// Its name in results.
    pub(super) fn name(self) -> &'static str {
        match self {
            Rival::Larder => "larder",
            Rival::Redis => "redis-server",
            Rival::Valkey => "valkey",
            Rival::Dragonfly => "dragonfly",
            Rival::Pogocache => "pogocache",
            Rival::Memcached => "memcached",
            Rival::NginxStatic => "nginx static",
            Rival::NginxCache => "nginx proxy_cache",
            Rival::Varnish => "varnish",
            Rival::Gcache => "gcache",
            Rival::GroupcacheGo => "groupcache-go",
        }
    }

    /// Its binary.
    ///
    /// # Errors
    /// If there is none: how to have it.
    pub(super) fn binary(self, larder: Option<&Path>) -> anyhow::Result<PathBuf> {
        let given =
            |variable: &str| servers::given(variable)?.with_context(|| format!("its binary is not given ({variable})"));
        match self {
            Rival::Larder => {
                let path = larder.context("its binary is not given (--larder)")?;
                path.canonicalize().with_context(|| format!("cannot find {}", path.display()))
            }
            Rival::Redis => servers::require("redis-server"),
            Rival::Memcached => servers::require("memcached"),
            Rival::NginxStatic | Rival::NginxCache => servers::require("nginx"),
            Rival::Varnish => servers::require("varnishd"),
            Rival::Valkey => given("LARDER_BENCH_VALKEY"),
            Rival::Dragonfly => given("LARDER_BENCH_DRAGONFLY"),
            Rival::Pogocache => given(servers::POGOCACHE),
            Rival::Gcache => given("LARDER_BENCH_GCACHE"),
            Rival::GroupcacheGo => given("LARDER_BENCH_GROUPCACHE_GO"),
        }
    }

    /// What its binary says of its version.
    pub(super) fn version(self, binary: &Path) -> anyhow::Result<String> {
        let argument = match self {
            Rival::Memcached | Rival::Varnish => "-V",
            Rival::NginxStatic | Rival::NginxCache => "-v",
            Rival::Gcache | Rival::GroupcacheGo => return Ok("its binary does not say".to_owned()),
            _ => "--version",
        };
        let output = Command::new(binary).arg(argument).output()?;
        // Some write it to standard error.
        let text = [output.stdout, output.stderr].concat();
        Ok(String::from_utf8_lossy(&text).lines().next().unwrap_or_default().trim().to_owned())
    }

    /// The file in its folder that holds its configuration.
    pub(super) fn configuration(self) -> Option<&'static str> {
        match self {
            Rival::NginxStatic | Rival::NginxCache => Some("nginx.conf"),
            Rival::Varnish => Some("default.vcl"),
            Rival::Gcache => Some("config.toml"),
            _ => None,
        }
    }

    /// Does its memory lie in its processes?
    ///
    /// # Errors
    /// If not: where else; or if it is not a store of values of any size.
    pub(super) fn holds_values(self) -> Result<(), &'static str> {
        match self {
            Rival::NginxStatic | Rival::NginxCache => Err("the values lie in files, not in its processes"),
            Rival::Gcache | Rival::GroupcacheGo => Err("it takes part in its own table only"),
            _ => Ok(()),
        }
    }

    /// Starts it on `core` with what stands behind it on `source_core`; nothing is stored yet.
    /// `memory_mib` bounds what it keeps, where that has a bound.
    pub(super) fn start(
        self,
        part: Preparation,
        binary: &Path,
        (core, source_core): (usize, usize),
        (value_size, memory_mib): (usize, u64),
    ) -> anyhow::Result<Started> {
        let (core, source_core) = (Some(core), Some(source_core));
        let memory = format!("{memory_mib}MiB");
        let value = vec![b'v'; value_size];
        let alone = |server| Started { server, source: None };
        let before =
            |source, start: &dyn Fn(&ServerProcess) -> anyhow::Result<ServerProcess>| -> anyhow::Result<Started> {
                Ok(Started { server: start(&source)?, source: Some(source) })
            };
        Ok(match (self, part) {
            (Rival::Larder, Preparation::Hits) => alone(servers::larder(binary, core, &["--max-memory", &memory])?),
            (Rival::Larder, Preparation::Misses) => before(servers::redis(source_core)?, &|source| {
                let url = format!("redis://{}", source.address);
                servers::larder(binary, core, &["--source", &url, "--max-keys", "1", "--max-memory", &memory])
            })?,
            (Rival::Redis, _) => alone(servers::redis(core)?),
            (Rival::Valkey, _) => alone(servers::valkey(binary, core)?),
            (Rival::Dragonfly, _) => alone(servers::dragonfly(binary, core)?),
            (Rival::Pogocache, _) => alone(servers::pogocache(binary, core)?),
            (Rival::Memcached, _) => alone(servers::memcached(core, memory_mib)?),
            (Rival::NginxStatic, _) => {
                let text = String::from_utf8_lossy(&value);
                let files: Vec<(String, Vec<u8>)> = (0..HTTP_KEYS)
                    .flat_map(|number| {
                        let lookup = format!("{{\"key\":\"key:{number}\",\"value\":\"{text}\",\"status\":200}}");
                        let files = [("kv", value.clone()), ("lookup", lookup.into_bytes())];
                        files.map(|(folder, bytes)| (format!("{folder}/key:{number}"), bytes))
                    })
                    .collect();
                let files: Vec<(&str, &[u8])> = files.iter().map(|(name, bytes)| (&name[..], &bytes[..])).collect();
                alone(servers::nginx(core, &files)?)
            }
            (Rival::NginxCache, _) => {
                before(servers::backend(source_core, &value)?, &|source| servers::nginx_cache(core, source.address))?
            }
            (Rival::Varnish, _) => before(servers::backend(source_core, &value)?, &|source| {
                servers::varnish(core, source.address, memory_mib)
            })?,
            (Rival::Gcache, _) => alone(servers::gcache(binary, core)?),
            (Rival::GroupcacheGo, _) => alone(servers::groupcache_go(binary, core)?),
        })
    }

    /// What fills it (or, for Larder's misses, its source): asked once for each key. `None`: it has
    /// its entries, or gets them with the loads.
    pub(super) fn fill(self) -> Option<Ask> {
        let load = match self {
            Rival::NginxCache | Rival::Varnish | Rival::GroupcacheGo => RivalLoad::HttpHit,
            Rival::NginxStatic | Rival::Gcache => return None,
            _ => RivalLoad::Set,
        };
        Some(Ask { distribution: KeyDistribution::Sequential, ..self.ask(load, 0)? })
    }

    /// How it is asked for a load; `None` if it has nothing like it. `nonce` is another for each
    /// run, where keys must be new.
    pub(super) fn ask(self, load: RivalLoad, nonce: u64) -> Option<Ask> {
        let http = |path, key: &str, status| Ask {
            part: Preparation::Hits,
            scheme: "http",
            path,
            op: "get".to_owned(),
            key: key.to_owned(),
            keys: HTTP_KEYS,
            distribution: KeyDistribution::Uniform,
            header: Vec::new(),
            error_status: only(status),
            all_found: false,
        };
        // Keys of which each is asked for once.
        let once = |path, key| Ask {
            part: Preparation::Misses,
            keys: 1 << 40,
            distribution: KeyDistribution::Sequential,
            ..http(path, key, 200)
        };
        // Keys that the source has, of which the cache can keep one.
        let behind = |path| Ask { keys: COMMAND_KEYS, ..once(path, KEY) };
        let new_key = format!("{nonce}:{{n}}");
        let item = |op: String, error_status: &str| Ask {
            op,
            header: vec!["Content-Type: application/json".to_owned()],
            error_status: error_status.to_owned(),
            ..Ask { part: Preparation::Hits, ..once("", &new_key) }
        };
        const SUCCESS: &str = "1xx,3xx,4xx,5xx";
        Some(match (self, load) {
            (Rival::Larder, RivalLoad::HttpHit) => http("/v1/kv/{key}", KEY, 200),
            (Rival::Larder, RivalLoad::LookupHit) => http("/lookup?key={key}", KEY, 200),
            (Rival::Larder, RivalLoad::HttpMiss) => behind("/v1/kv/{key}"),
            (Rival::Larder, RivalLoad::LookupMiss) => behind("/lookup?key={key}"),
            (Rival::Larder, RivalLoad::NotFound) => http("/v1/kv/{key}", "absent:{n}", 404),
            (Rival::Larder, RivalLoad::BadRequest) => http("/lookup", KEY, 400),
            (Rival::Larder, RivalLoad::Miss) => {
                Ask { op: "get".to_owned(), scheme: "redis", path: "", all_found: true, ..behind("") }
            }
            (Rival::NginxStatic | Rival::NginxCache | Rival::Varnish, RivalLoad::HttpHit) => {
                http("/kv/{key}", KEY, 200)
            }
            (Rival::NginxStatic, RivalLoad::LookupHit) => http("/lookup/{key}", KEY, 200),
            (Rival::NginxCache | Rival::Varnish, RivalLoad::HttpMiss) => once("/miss/{key}", &new_key),
            (Rival::NginxStatic | Rival::NginxCache | Rival::Varnish, RivalLoad::NotFound) => {
                http("/absent/{key}", KEY, 404)
            }
            (Rival::NginxStatic | Rival::NginxCache | Rival::Varnish, RivalLoad::BadRequest) => http("/bad", KEY, 400),
            (Rival::Pogocache, RivalLoad::HttpHit) => http("/{key}", KEY, 200),
            (Rival::Pogocache, RivalLoad::NotFound) => http("/{key}", "absent:{n}", 404),
            (Rival::Pogocache, RivalLoad::BadRequest) => Ask { op: "POST /bad".to_owned(), ..http("", KEY, 400) },
            (Rival::GroupcacheGo, RivalLoad::HttpHit) => http("/data/{key}", KEY, 200),
            (
                Rival::Larder | Rival::Redis | Rival::Valkey | Rival::Dragonfly | Rival::Pogocache,
                RivalLoad::Get | RivalLoad::Set | RivalLoad::Mget,
            ) => redis_ask(operation(load)),
            // To compare with: the source itself.
            (Rival::Redis, RivalLoad::Miss) => redis_ask("get"),
            (Rival::Memcached, RivalLoad::Get | RivalLoad::Set | RivalLoad::Mget) => {
                Ask { scheme: "memcache", ..redis_ask(operation(load)) }
            }
            (Rival::Larder | Rival::Gcache, RivalLoad::ItemUnique) => {
                let body = r#"{"key":"{key}","value":"some test string here","ttl":600}"#;
                item(format!("POST {ITEM} {body}"), SUCCESS)
            }
            (Rival::Larder | Rival::Gcache, RivalLoad::ItemUpdate) => {
                let body = r#"{"key":"one","value":"some test string here","ttl":60}"#;
                item(format!("POST {ITEM} {body}"), SUCCESS)
            }
            (Rival::Larder | Rival::Gcache, RivalLoad::ItemAbsent) => Ask {
                key: "absent:{n}".to_owned(),
                ..item(format!("GET {ITEM} {{\"key\":\"{{key}}\"}}"), "1xx,2xx,3xx,5xx")
            },
            (Rival::Larder | Rival::Gcache, RivalLoad::ItemStored) => {
                item(format!("GET {ITEM} {{\"key\":\"{{key}}\"}}"), SUCCESS)
            }
            (Rival::Larder | Rival::Gcache, RivalLoad::ItemDelete) => {
                item(format!("DELETE {ITEM} {{\"key\":\"{{key}}\"}}"), SUCCESS)
            }
            _ => return None,
        })
    }
}

/// GCache's route, which Larder is to have as well.
pub(super) const ITEM: &str = "/cache/v1/item";

fn operation(load: RivalLoad) -> &'static str {
    match load {
        RivalLoad::Set => "set",
        RivalLoad::Mget => "mget:10",
        _ => "get",
    }
}

fn redis_ask(op: &str) -> Ask {
    Ask {
        part: Preparation::Hits,
        scheme: "redis",
        path: "",
        op: op.to_owned(),
        key: KEY.to_owned(),
        keys: COMMAND_KEYS,
        distribution: KeyDistribution::Uniform,
        header: Vec::new(),
        error_status: "4xx,5xx".to_owned(),
        all_found: true,
    }
}
