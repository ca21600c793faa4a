//! The loads under which a larder is looked at.
use crate::lib::{
    load::{self, GeneratorOptions, LoadPlan, PlanOptions},
    servers::{self, ServerProcess},
};
use clap::Parser;
use std::{env, path::Path};
use tempfile::TempDir;

/// One way of loading a larder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum ProfileLoad {
    /// GET, one at a time, all hits
    GetP1,
    /// GET, 16 at a time, all hits
    GetP16,
    /// SET, 16 at a time
    SetP16,
    /// MGET of 10 keys, all hits
    Mget,
    /// GET /v1/kv/{key}, all hits
    HttpKv,
    /// GET /lookup?key=, all hits
    HttpLookup,
    /// GET /v1/kv/{key} of what is not there
    #[value(name = "http-404")]
    Http404,
    /// GET, one at a time, of what only redis-server has
    MissesP1,
    /// The same, 16 at a time
    MissesP16,
    /// HSET, 16 at a time, which is forwarded to redis-server
    ForwardedP16,
    /// GET, 16 at a time, of copies that redis-server tells the changes of
    CoherentP16,
    /// PUT /v1/kv/{key} of keys that a disk store has
    DiskPut,
    /// GET /v1/kv/{key} of what only a disk store has
    DiskGet,
}

/// A larder, ready for its load.
pub(super) struct LoadedLarder {
    larder: ServerProcess,
    pub(super) plan: LoadPlan,
    /// Its source.
    _source: Option<ServerProcess>,
    /// Its store.
    _store: Option<TempDir>,
}

impl LoadedLarder {
    pub(super) fn server(&self) -> &ServerProcess {
        &self.larder
    }
}

/// The options of the generator that a load is made of, as `larder-bench run` has them.
#[derive(Debug, Parser)]
struct LoadOptions {
    #[command(flatten)]
    plan: PlanOptions,
    #[command(flatten)]
    client: GeneratorOptions,
}

const KEYS: &str = "100000";
/// Of a disk store: more than it keeps in its memtables.
const STORED: &str = "1000000";

impl ProfileLoad {
    /// What the generator does: the protocol's URL without host, and further options.
    fn options(self) -> (&'static str, &'static [&'static str]) {
        match self {
            ProfileLoad::GetP1 | ProfileLoad::MissesP1 => ("redis://{}", &[]),
            ProfileLoad::GetP16 | ProfileLoad::MissesP16 | ProfileLoad::CoherentP16 => {
                ("redis://{}", &["--pipeline", "16"])
            }
            ProfileLoad::SetP16 => ("redis://{}", &["--pipeline", "16", "--op", "set"]),
            ProfileLoad::Mget => ("redis://{}", &["--op", "mget:10"]),
            ProfileLoad::HttpKv | ProfileLoad::DiskGet => ("http://{}/v1/kv/{key}", &[]),
            ProfileLoad::DiskPut => ("http://{}/v1/kv/{key}", &["--op", "set"]),
            ProfileLoad::HttpLookup => ("http://{}/lookup?key={key}", &[]),
            ProfileLoad::Http404 => ("http://{}/v1/kv/absent:{key}", &[]),
            ProfileLoad::ForwardedP16 => ("redis://{}", &["--pipeline", "16", "--op", "HSET h:{key} f {value}"]),
        }
    }

    pub(super) fn start(
        self,
        larder: &Path,
        core: usize,
        client_core: usize,
        seconds: u64,
    ) -> anyhow::Result<LoadedLarder> {
        let more: Option<&[&str]> = match self {
            ProfileLoad::MissesP1 | ProfileLoad::MissesP16 => Some(&["--max-keys", "1"]),
            ProfileLoad::ForwardedP16 => Some(&[]),
            ProfileLoad::CoherentP16 => Some(&["--coherence", "coherent", "--ttl", "1h"]),
            _ => None,
        };
        let source = more.map(|_| servers::redis(Some(client_core))).transpose()?;
        let url = source.as_ref().map(|source| format!("redis://{}", source.address));
        let mut arguments = vec!["--max-memory", "256MiB"];
        if let (Some(url), Some(more)) = (&url, more) {
            arguments.extend(["--source", url].iter().chain(more));
        }
        let is_disk = matches!(self, ProfileLoad::DiskPut | ProfileLoad::DiskGet);
        let store = is_disk.then(|| tempfile::tempdir_in(env::current_dir()?)).transpose()?;
        let path = store.as_ref().map(|store| format!("disk:{}", store.path().display()));
        if let Some(path) = &path {
            arguments.extend(["--source", path, "--max-keys", "1"]);
        }
        let server = servers::larder(larder, Some(core), &arguments)?;
        let (target, options) = self.options();
        let http = server.http.filter(|_| target.starts_with("http"));
        let target = target.replace("{}", &http.unwrap_or(server.address).to_string());
        let keys = if is_disk { STORED } else { KEYS };
        let (client, duration) = (client_core.to_string(), format!("{seconds}s"));
        let common =
            ["run", "--url", &target, "--keys", keys, "--connections", "50", "--pin", &client, "--duration", &duration];
        let options = LoadOptions::try_parse_from(common.iter().chain(options))?;
        let plan = options.plan.plan(&options.client, None)?;
        load::preload(&plan, url.as_deref().unwrap_or(&format!("redis://{}", server.address)))?;
        if self == ProfileLoad::CoherentP16 {
            // Every key is asked for, so that what is looked at are hits.
            let mut fill = LoadPlan { stop: load::RunEnd::Requests(plan.keys.count), ..plan.clone() };
            fill.keys.distribution = load::keys::KeyDistribution::Sequential;
            load::run(&fill, &mut |_| {})?;
        }
        Ok(LoadedLarder { larder: server, plan, _source: source, _store: store })
    }
}
