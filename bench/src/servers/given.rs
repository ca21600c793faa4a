//! Servers that Debian does not have: their binaries are given by the one who runs the comparison.
use super::{
    ServerProcess, free_port,
    kinds::{PROBE, redis_like},
};
use crate::wire::{HttpClient, RedisClient, RedisReply};
use anyhow::Context;
use std::{fs, path::Path};

/// Valkey, started as redis-server is.
pub(crate) fn valkey(program: &Path, core: Option<usize>) -> anyhow::Result<ServerProcess> {
    redis_like("valkey", program, core)
}

/// Names Pogocache's binary.
pub(crate) const POGOCACHE: &str = "LARDER_BENCH_POGOCACHE";

/// Pogocache with one thread. It tells HTTP, memcached and the Redis protocol apart by their first bytes.
pub(crate) fn pogocache(program: &Path, core: Option<usize>) -> anyhow::Result<ServerProcess> {
    let port = free_port()?;
    let number = port.address.port().to_string();
    let arguments = ["-h", "127.0.0.1", "-p", &number, "--threads", "1"].map(str::to_owned);
    let mut server = ServerProcess::start("pogocache", tempfile::tempdir()?, core, program, &arguments, port)?;
    server.http = Some(server.address);
    wait_for_ping(&mut server)?;
    Ok(server)
}

/// Dragonfly with one thread, without snapshots.
pub(crate) fn dragonfly(program: &Path, core: Option<usize>) -> anyhow::Result<ServerProcess> {
    let port = free_port()?;
    let number = port.address.port().to_string();
    let arguments =
        ["--bind", "127.0.0.1", "--port", &number, "--proactor_threads", "1", "--dbfilename", "", "--logtostderr"]
            .map(str::to_owned);
    let mut server = ServerProcess::start("dragonfly", tempfile::tempdir()?, core, program, &arguments, port)?;
    wait_for_ping(&mut server)?;
    Ok(server)
}

fn wait_for_ping(server: &mut ServerProcess) -> anyhow::Result<()> {
    let address = server.address;
    server.wait_until(|_| {
        let mut client = RedisClient::connect(address, PROBE).ok()?;
        (client.call(&[b"PING"]).ok()? == RedisReply::Status("PONG".into())).then_some(())
    })
}

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

/// A program around a groupcache-go node: it takes its address as the only argument and answers `GET /data/{id}`.
pub(crate) fn groupcache_go(program: &Path, core: Option<usize>) -> anyhow::Result<ServerProcess> {
    let port = free_port()?;
    let address = port.address.to_string();
    http(ServerProcess::start("groupcache-go", tempfile::tempdir()?, core, program, &[address], port)?)
}

/// A server that is ready when it answers a request, whatever it says.
fn http(mut server: ServerProcess) -> anyhow::Result<ServerProcess> {
    let address = server.address;
    server.http = Some(address);
    server.wait_until(|_| HttpClient::connect(address, PROBE).ok()?.get("/").ok().map(|_| ()))?;
    Ok(server)
}

/// A binary that an environment variable names; absent if it is not set.
///
/// # Errors
/// If it names no file.
pub(crate) fn given(variable: &str) -> anyhow::Result<Option<std::path::PathBuf>> {
    let path = std::env::var_os(variable).filter(|path| !path.is_empty());
    path.map(|path| {
        fs::canonicalize(&path).with_context(|| format!("{variable}: cannot find {}", Path::new(&path).display()))
    })
    .transpose()
}
