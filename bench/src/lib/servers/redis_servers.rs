//! redis-server, and servers that answer like it: Valkey, Dragonfly, Pogocache.
use super::{
    installed::require,
    port::free_port,
    process::{PROBE, ServerProcess},
};
use crate::lib::blocking_clients::{RedisReply, RespClient};
use std::path::Path;

/// redis-server that writes nothing to disk unless it is told to (`SAVE`); what it saved is there
/// again after [`restart_redis`].
pub(crate) fn redis(core: Option<usize>) -> anyhow::Result<ServerProcess> {
    redis_with(core, &[])
}

/// The same, with more arguments.
pub(crate) fn redis_with(core: Option<usize>, more: &[String]) -> anyhow::Result<ServerProcess> {
    redis_like("redis-server", &require("redis-server")?, core, more)
}

/// redis-server, or a program that takes its options.
fn redis_like(
    name: &'static str,
    program: &Path,
    core: Option<usize>,
    more: &[String],
) -> anyhow::Result<ServerProcess> {
    let port = free_port()?;
    let number = port.address.port().to_string();
    let arguments = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port", &number].map(str::to_owned);
    let arguments = [&arguments, more].concat();
    let mut server = ServerProcess::start(name, tempfile::tempdir()?, core, program, &arguments, port)?;
    wait_for_redis(&mut server)?;
    Ok(server)
}

/// Brings a killed redis-server back on its port, with what it had saved.
pub(crate) fn restart_redis(server: &mut ServerProcess) -> anyhow::Result<()> {
    server.start_again()?;
    wait_for_redis(server)
}

fn wait_for_redis(server: &mut ServerProcess) -> anyhow::Result<()> {
    // It must be this very process that answers: another one may have taken the port a moment before.
    let own = format!("process_id:{}\r\n", server.child.id());
    let address = server.address;
    server.wait_until(|_| {
        let mut client = RespClient::connect(address, PROBE).ok()?;
        let RedisReply::Bulk(Some(info)) = client.call(&[b"INFO"]).ok()? else {
            return None;
        };
        let info = String::from_utf8_lossy(&info);
        (info.contains(&own) && info.contains("\r\nloading:0\r\n")).then_some(())
    })
}

/// Valkey, started as redis-server is.
pub(crate) fn valkey(program: &Path, core: Option<usize>) -> anyhow::Result<ServerProcess> {
    redis_like("valkey", program, core, &[])
}

/// Names Pogocache's binary.
pub(crate) const POGOCACHE: &str = "LARDER_BENCH_POGOCACHE";

/// Pogocache with one thread. It tells HTTP, memcached and the Redis protocol apart by their first
/// bytes.
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
        let mut client = RespClient::connect(address, PROBE).ok()?;
        (client.call(&[b"PING"]).ok()? == RedisReply::Status("PONG".into())).then_some(())
    })
}
