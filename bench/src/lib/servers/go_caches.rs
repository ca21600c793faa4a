//! Caches written in Go: GCache, and a program around a groupcache-go node. Who runs the comparison
//! names their binaries.
use super::{
    port::{Port, free_port},
    process::{PROBE, ServerProcess},
};
use crate::lib::blocking_clients::HttpClient;
use anyhow::Context;
use std::{fs, path::Path};

/// GCache (<https://github.com/dgtony/gcache>), alone, without dumps, with the 64 shards of its own benchmark.
pub(crate) fn gcache(program: &Path, core: Option<usize>) -> anyhow::Result<ServerProcess> {
    let port = free_port()?;
    let folder = tempfile::tempdir()?;
    let configuration = format!(
        "[general]\nlog_level = \"error\"\nlog_format = \"short\"\nlog_out = \"stderr\"\n\
         [storage]\nshards = 64\nkey_exp_check_interval = 10\n\
         [replication]\nnode_role = \"standalone\"\nrestore_from_file = false\nsave_to_file = false\n\
         cache_file = \"dump\"\nfile_write_period = 3600\ndump_update_period = 3600\n\
         [client-HTTP]\naddress = \"127.0.0.1\"\nport = \"{}\"\nprefix = \"cache/v1\"\nidle_timeout = 900\n",
        port.address.port()
    );
    fs::write(folder.path().join("config.toml"), configuration)?;
    http(ServerProcess::start("gcache", folder, core, program, &["-c", "config.toml"].map(str::to_owned), port)?)
}

/// A program around a groupcache-go node: it takes its address as the only argument and answers
/// `GET /data/{id}`.
pub(crate) fn groupcache_go(program: &Path, core: Option<usize>) -> anyhow::Result<ServerProcess> {
    let port = free_port()?;
    let address = port.address.to_string();
    http(ServerProcess::start("groupcache-go", tempfile::tempdir()?, core, program, &[address], port)?)
}

/// A groupcache-go node as `tests/interop/node` builds it, one of several, with so many bytes for
/// its caches.
pub(crate) fn groupcache_go_among(
    port: Port,
    program: &Path,
    core: Option<usize>,
    peers: &str,
    bytes: &str,
) -> anyhow::Result<ServerProcess> {
    let program = program.canonicalize().with_context(|| format!("cannot find {}", program.display()))?;
    let arguments = ["-peers", peers, "-bytes", bytes, &port.address.to_string()].map(str::to_owned);
    http(ServerProcess::start("groupcache-go", tempfile::tempdir()?, core, &program, &arguments, port)?)
}

/// A server that is ready when it answers a request, whatever it says.
fn http(mut server: ServerProcess) -> anyhow::Result<ServerProcess> {
    let address = server.address;
    server.http = Some(address);
    server.wait_until(|_| HttpClient::connect(address, PROBE).ok()?.get("/").ok().map(|_| ()))?;
    Ok(server)
}
