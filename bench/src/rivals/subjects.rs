//! Who is compared: how each is had and started, and how it is asked for a load.
use super::record::Load;
use crate::{
    load::keys::Distribution,
    servers::{self, Server},
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

/// A server of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Subject {
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
    /// a program around a groupcache-go node (LARDER_BENCH_GROUPCACHE_GO): takes its address as argument, answers GET /data/{id}
    GroupcacheGo,
}

/// What a server is started for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// It has all that it is asked for.
    Hits,
    /// It must fetch all that it is asked for.
    Misses,
}

/// A server, and what stands behind it.
pub(super) struct Started {
    pub(super) server: Server,
    pub(super) source: Option<Server>,
}

/// How a server is asked for a load.
pub(super) struct Ask {
    pub(super) part: Part,
    /// Scheme and path of the URL, with the address between them.
    pub(super) scheme: &'static str,
    pub(super) path: &'static str,
    /// As `larder-bench run` has them: `--op`, `--key`, `--keys`, `--dist`, `--header`, `--error-status`.
    pub(super) op: String,
    pub(super) key: String,
    pub(super) keys: u64,
    pub(super) distribution: Distribution,
    pub(super) header: Vec<String>,
    pub(super) error_status: String,
    /// A key that is not found is an error.
    pub(super) all_found: bool,
}

/// Every status but this one is an error.
fn only(status: u16) -> String {
    format!("1xx,2xx,3xx,4xx,5xx,!{status}")
}

impl Subject {
    /// Its name in results.
    pub(super) fn name(self) -> &'static str {
        match self {
            Subject::Larder => "larder",
            Subject::Redis => "redis-server",
            Subject::Valkey => "valkey",
            Subject::Dragonfly => "dragonfly",
            Subject::Pogocache => "pogocache",
            Subject::Memcached => "memcached",
            Subject::NginxStatic => "nginx static",
            Subject::NginxCache => "nginx proxy_cache",
            Subject::Varnish => "varnish",
            Subject::Gcache => "gcache",
            Subject::GroupcacheGo => "groupcache-go",
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
            Subject::Larder => {
                let path = larder.context("its binary is not given (--larder)")?;
                path.canonicalize().with_context(|| format!("cannot find {}", path.display()))
            }
            Subject::Redis => servers::require("redis-server"),
            Subject::Memcached => servers::require("memcached"),
            Subject::NginxStatic | Subject::NginxCache => servers::require("nginx"),
            Subject::Varnish => servers::require("varnishd"),
            Subject::Valkey => given("LARDER_BENCH_VALKEY"),
            Subject::Dragonfly => given("LARDER_BENCH_DRAGONFLY"),
            Subject::Pogocache => given(servers::POGOCACHE),
            Subject::Gcache => given("LARDER_BENCH_GCACHE"),
            Subject::GroupcacheGo => given("LARDER_BENCH_GROUPCACHE_GO"),
        }
    }

    /// What its binary says of its version.
    pub(super) fn version(self, binary: &Path) -> anyhow::Result<String> {
        let argument = match self {
            Subject::Memcached | Subject::Varnish => "-V",
            Subject::NginxStatic | Subject::NginxCache => "-v",
            Subject::Gcache | Subject::GroupcacheGo => return Ok("its binary does not say".to_owned()),
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
            Subject::NginxStatic | Subject::NginxCache => Some("nginx.conf"),
            Subject::Varnish => Some("default.vcl"),
            Subject::Gcache => Some("config.toml"),
            _ => None,
        }
    }

    /// Does its memory lie in its processes?
    ///
    /// # Errors
    /// If not: where else; or if it is not a store of values of any size.
    pub(super) fn holds_values(self) -> Result<(), &'static str> {
        match self {
            Subject::NginxStatic | Subject::NginxCache => Err("the values lie in files, not in its processes"),
            Subject::Gcache | Subject::GroupcacheGo => Err("it takes part in its own table only"),
            _ => Ok(()),
        }
    }

    /// Starts it on `core` with what stands behind it on `source_core`; nothing is stored yet. `memory_mib` bounds what it keeps, where that has a bound.
    pub(super) fn start(
        self,
        part: Part,
        binary: &Path,
        (core, source_core): (usize, usize),
        (value_size, memory_mib): (usize, u64),
    ) -> anyhow::Result<Started> {
        let (core, source_core) = (Some(core), Some(source_core));
        let memory = format!("{memory_mib}MiB");
        let value = vec![b'v'; value_size];
        let alone = |server| Started { server, source: None };
        let before = |source, start: &dyn Fn(&Server) -> anyhow::Result<Server>| -> anyhow::Result<Started> {
            Ok(Started { server: start(&source)?, source: Some(source) })
        };
        Ok(match (self, part) {
            (Subject::Larder, Part::Hits) => alone(servers::larder(binary, core, &["--max-memory", &memory])?),
            (Subject::Larder, Part::Misses) => before(servers::redis(source_core)?, &|source| {
                let url = format!("redis://{}", source.address);
                servers::larder(binary, core, &["--source", &url, "--max-keys", "1", "--max-memory", &memory])
            })?,
            (Subject::Redis, _) => alone(servers::redis(core)?),
            (Subject::Valkey, _) => alone(servers::valkey(binary, core)?),
            (Subject::Dragonfly, _) => alone(servers::dragonfly(binary, core)?),
            (Subject::Pogocache, _) => alone(servers::pogocache(binary, core)?),
            (Subject::Memcached, _) => alone(servers::memcached(core, memory_mib)?),
            (Subject::NginxStatic, _) => {
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
            (Subject::NginxCache, _) => {
                before(servers::backend(source_core, &value)?, &|source| servers::nginx_cache(core, source.address))?
            }
            (Subject::Varnish, _) => before(servers::backend(source_core, &value)?, &|source| {
                servers::varnish(core, source.address, memory_mib)
            })?,
            (Subject::Gcache, _) => alone(servers::gcache(binary, core)?),
            (Subject::GroupcacheGo, _) => alone(servers::groupcache_go(binary, core)?),
        })
    }

    /// What fills it (or, for Larder's misses, its source): asked once for each key. `None`: it has its entries, or gets them with the loads.
    pub(super) fn fill(self) -> Option<Ask> {
        let load = match self {
            Subject::NginxCache | Subject::Varnish | Subject::GroupcacheGo => Load::HttpHit,
            Subject::NginxStatic | Subject::Gcache => return None,
            _ => Load::Set,
        };
        Some(Ask { distribution: Distribution::Sequential, ..self.ask(load, 0)? })
    }

    /// How it is asked for a load; `None` if it has nothing like it. `nonce` is another for each run, where keys must be new.
    pub(super) fn ask(self, load: Load, nonce: u64) -> Option<Ask> {
        let http = |path, key: &str, status| Ask {
            part: Part::Hits,
            scheme: "http",
            path,
            op: "get".to_owned(),
            key: key.to_owned(),
            keys: HTTP_KEYS,
            distribution: Distribution::Uniform,
            header: Vec::new(),
            error_status: only(status),
            all_found: false,
        };
        // Keys of which each is asked for once.
        let once = |path, key| Ask {
            part: Part::Misses,
            keys: 1 << 40,
            distribution: Distribution::Sequential,
            ..http(path, key, 200)
        };
        // Keys that the source has, of which the cache can keep one.
        let behind = |path| Ask { keys: COMMAND_KEYS, ..once(path, KEY) };
        let new_key = format!("{nonce}:{{n}}");
        let item = |op: String, error_status: &str| Ask {
            op,
            header: vec!["Content-Type: application/json".to_owned()],
            error_status: error_status.to_owned(),
            ..Ask { part: Part::Hits, ..once("", &new_key) }
        };
        const SUCCESS: &str = "1xx,3xx,4xx,5xx";
        Some(match (self, load) {
            (Subject::Larder, Load::HttpHit) => http("/v1/kv/{key}", KEY, 200),
            (Subject::Larder, Load::LookupHit) => http("/lookup?key={key}", KEY, 200),
            (Subject::Larder, Load::HttpMiss) => behind("/v1/kv/{key}"),
            (Subject::Larder, Load::LookupMiss) => behind("/lookup?key={key}"),
            (Subject::Larder, Load::NotFound) => http("/v1/kv/{key}", "absent:{n}", 404),
            (Subject::Larder, Load::BadRequest) => http("/lookup", KEY, 400),
            (Subject::Larder, Load::Miss) => {
                Ask { op: "get".to_owned(), scheme: "redis", path: "", all_found: true, ..behind("") }
            }
            (Subject::NginxStatic | Subject::NginxCache | Subject::Varnish, Load::HttpHit) => {
                http("/kv/{key}", KEY, 200)
            }
            (Subject::NginxStatic, Load::LookupHit) => http("/lookup/{key}", KEY, 200),
            (Subject::NginxCache | Subject::Varnish, Load::HttpMiss) => once("/miss/{key}", &new_key),
            (Subject::NginxStatic | Subject::NginxCache | Subject::Varnish, Load::NotFound) => {
                http("/absent/{key}", KEY, 404)
            }
            (Subject::NginxStatic | Subject::NginxCache | Subject::Varnish, Load::BadRequest) => http("/bad", KEY, 400),
            (Subject::Pogocache, Load::HttpHit) => http("/{key}", KEY, 200),
            (Subject::Pogocache, Load::NotFound) => http("/{key}", "absent:{n}", 404),
            (Subject::Pogocache, Load::BadRequest) => Ask { op: "POST /bad".to_owned(), ..http("", KEY, 400) },
            (Subject::GroupcacheGo, Load::HttpHit) => http("/data/{key}", KEY, 200),
            (
                Subject::Larder | Subject::Redis | Subject::Valkey | Subject::Dragonfly | Subject::Pogocache,
                Load::Get | Load::Set | Load::Mget,
            ) => redis_ask(operation(load)),
            // To compare with: the source itself.
            (Subject::Redis, Load::Miss) => redis_ask("get"),
            (Subject::Memcached, Load::Get | Load::Set | Load::Mget) => {
                Ask { scheme: "memcache", ..redis_ask(operation(load)) }
            }
            (Subject::Larder | Subject::Gcache, Load::ItemUnique) => {
                let body = r#"{"key":"{key}","value":"some test string here","ttl":600}"#;
                item(format!("POST {ITEM} {body}"), SUCCESS)
            }
            (Subject::Larder | Subject::Gcache, Load::ItemUpdate) => {
                let body = r#"{"key":"one","value":"some test string here","ttl":60}"#;
                item(format!("POST {ITEM} {body}"), SUCCESS)
            }
            (Subject::Larder | Subject::Gcache, Load::ItemAbsent) => Ask {
                key: "absent:{n}".to_owned(),
                ..item(format!("GET {ITEM} {{\"key\":\"{{key}}\"}}"), "1xx,2xx,3xx,5xx")
            },
            (Subject::Larder | Subject::Gcache, Load::ItemStored) => {
                item(format!("GET {ITEM} {{\"key\":\"{{key}}\"}}"), SUCCESS)
            }
            (Subject::Larder | Subject::Gcache, Load::ItemDelete) => {
                item(format!("DELETE {ITEM} {{\"key\":\"{{key}}\"}}"), SUCCESS)
            }
            _ => return None,
        })
    }
}

/// GCache's route, which Larder is to have as well.
pub(super) const ITEM: &str = "/cache/v1/item";

fn operation(load: Load) -> &'static str {
    match load {
        Load::Set => "set",
        Load::Mget => "mget:10",
        _ => "get",
    }
}

fn redis_ask(op: &str) -> Ask {
    Ask {
        part: Part::Hits,
        scheme: "redis",
        path: "",
        op: op.to_owned(),
        key: KEY.to_owned(),
        keys: COMMAND_KEYS,
        distribution: Distribution::Uniform,
        header: Vec::new(),
        error_status: "4xx,5xx".to_owned(),
        all_found: true,
    }
}
