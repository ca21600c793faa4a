//! How each server is started: with what makes it fastest or smallest for a cache (nothing is written to disk), else its defaults.
use super::{Ending, Port, ServerProcess, free_port, require};
use crate::wire::{HttpClient, RedisClient, RedisReply};
use anyhow::Context;
use serde::Deserialize;
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::Path,
    time::Duration,
};
use tempfile::TempDir;

pub(super) const PROBE: Duration = Duration::from_secs(1);

/// redis-server that writes nothing to disk unless it is told to (`SAVE`); what it saved is there again after [`restart_redis`].
pub(crate) fn redis(core: Option<usize>) -> anyhow::Result<ServerProcess> {
    redis_like("redis-server", &require("redis-server")?, core)
}

/// redis-server, or a program that takes its options.
pub(super) fn redis_like(name: &'static str, program: &Path, core: Option<usize>) -> anyhow::Result<ServerProcess> {
    let port = free_port()?;
    let number = port.address.port().to_string();
    let arguments = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port", &number].map(str::to_owned);
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
        let mut client = RedisClient::connect(address, PROBE).ok()?;
        let RedisReply::Bulk(Some(info)) = client.call(&[b"INFO"]).ok()? else {
            return None;
        };
        let info = String::from_utf8_lossy(&info);
        (info.contains(&own) && info.contains("\r\nloading:0\r\n")).then_some(())
    })
}

/// memcached with one worker thread and this many mebibytes.
pub(crate) fn memcached(core: Option<usize>, memory_mib: u64) -> anyhow::Result<ServerProcess> {
    let port = free_port()?;
    let address = port.address;
    let (number, memory) = (address.port().to_string(), memory_mib.to_string());
    // -u matters only to root, whom memcached refuses to run as unless it is named.
    let arguments =
        ["-u", "root", "-l", "127.0.0.1", "-U", "0", "-t", "1", "-p", &number, "-m", &memory].map(str::to_owned);
    let folder = tempfile::tempdir()?;
    let program = require("memcached")?;
    let mut server = ServerProcess::start("memcached", folder, core, &program, &arguments, port)?;
    server.wait_until(|_| {
        let mut stream = TcpStream::connect_timeout(&address, PROBE).ok()?;
        stream.set_read_timeout(Some(PROBE)).ok()?;
        stream.write_all(b"version\r\n").ok()?;
        let mut start = [0; 7];
        stream.read_exact(&mut start).ok()?;
        (&start == b"VERSION").then_some(())
    })?;
    Ok(server)
}

/// nginx at its best for small static files, given as (path, bytes): one process, open-file cache, no sendfile (which is slower for small
/// files), no log, connections kept for ever. `/bad` answers 400.
pub(crate) fn nginx(core: Option<usize>, files: &[(&str, &[u8])]) -> anyhow::Result<ServerProcess> {
    nginx_with(core, files, "")
}

/// The same, with more directives.
pub(crate) fn nginx_with(core: Option<usize>, files: &[(&str, &[u8])], more: &str) -> anyhow::Result<ServerProcess> {
    let folder = tempfile::tempdir()?;
    for (name, bytes) in files {
        let path = folder.path().join("root").join(name);
        fs::create_dir_all(path.parent().context("a file has a folder")?)?;
        fs::write(path, bytes)?;
    }
    let configuration = Nginx { http: more, server: "root root;", ..Nginx::default() };
    nginx_like("nginx", folder, core, &configuration, |client| {
        let mut serves = |&(name, bytes): &(&str, &[u8])| {
            let answer = client.get(&format!("/{name}"));
            answer.is_ok_and(|answer| answer.status == 200 && answer.body == bytes)
        };
        files.first().is_none_or(&mut serves) && files.last().is_none_or(serves)
    })
}

/// What is told to an nginx besides what all of them are told.
#[derive(Default)]
pub(super) struct Nginx<'a> {
    /// A master with a worker and a cache manager; else it is one process.
    pub(super) master: bool,
    /// For `http { … }`.
    pub(super) http: &'a str,
    /// For `server { … }`.
    pub(super) server: &'a str,
}

/// Starts an nginx, and waits until `ready` finds it so.
pub(super) fn nginx_like(
    name: &'static str,
    folder: TempDir,
    core: Option<usize>,
    Nginx { master, http, server }: &Nginx<'_>,
    mut ready: impl FnMut(&mut HttpClient) -> bool,
) -> anyhow::Result<ServerProcess> {
    let port = free_port()?;
    let address = port.address;
    // A worker of another user could not write into the folder.
    let user = if rustix::process::getuid().is_root() { "user root;" } else { "" };
    let (processes, ending) = match master {
        true => (user, Ending::Asked),
        false => ("master_process off;", Ending::Killed),
    };
    let configuration = format!(
        "daemon off; {processes} worker_processes 1; worker_rlimit_nofile 4096; pid nginx.pid; error_log stderr warn;
events {{ worker_connections 1024; multi_accept on; }}
http {{
    access_log off; log_not_found off; sendfile off; tcp_nodelay on; etag on; default_type application/octet-stream;
    keepalive_timeout 3600s; keepalive_requests 1000000000;
    open_file_cache max=2000 inactive=3600s; open_file_cache_valid 3600s; open_file_cache_min_uses 1; open_file_cache_errors on;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    {http}
    server {{
        listen {address} backlog=1024;
        location = /bad {{ return 400 bad; }}
        {server}
    }}
}}
"
    );
    fs::write(folder.path().join("nginx.conf"), configuration)?;
    let prefix = folder.path().to_string_lossy().into_owned();
    let arguments = ["-e", "stderr", "-p", &prefix, "-c", "nginx.conf"].map(str::to_owned);
    let program = require("nginx")?;
    let mut server = ServerProcess::start_ending(ending, name, folder, core, &program, &arguments, port)?;
    server.http = Some(address);
    server.wait_until(|_| ready(&mut HttpClient::connect(address, PROBE).ok()?).then_some(()))?;
    Ok(server)
}

/// The part of larder's ready line that is needed.
#[derive(Debug, Deserialize)]
struct Ready {
    ready: bool,
    http: Vec<SocketAddr>,
    redis: Vec<SocketAddr>,
}

/// `larder serve` with one thread, on ports that it chooses and names in its ready line.
pub(crate) fn larder(program: &Path, core: Option<usize>, arguments: &[&str]) -> anyhow::Result<ServerProcess> {
    let any = "127.0.0.1:0";
    let serve = ["serve", "--http", any, "--redis", any, "--admin", any, "--threads", "1"];
    with_ready_line("larder", program, core, &[&serve, arguments].concat())
}

/// `larder-bench floor`, this very program, with one of its kinds.
pub(crate) fn floor(name: &'static str, kind: &str, core: Option<usize>) -> anyhow::Result<ServerProcess> {
    with_ready_line(name, &std::env::current_exe()?, core, &["floor", kind, "127.0.0.1:0"])
}

/// A server that names its ports in a ready line.
fn with_ready_line(
    name: &'static str,
    program: &Path,
    core: Option<usize>,
    arguments: &[&str],
) -> anyhow::Result<ServerProcess> {
    let program = program.canonicalize().with_context(|| format!("cannot find {}", program.display()))?;
    let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
    let folder = tempfile::tempdir()?;
    let mut server = ServerProcess::start(name, folder, core, &program, &arguments, Port::unknown())?;
    let ready = server.wait_until(|folder| {
        let written = fs::read_to_string(folder.join("stdout")).ok()?;
        let line = &written[..written.find('\n')?];
        serde_json::from_str::<Ready>(line).ok().filter(|ready| ready.ready)
    })?;
    server.http = ready.http.first().copied();
    let address = ready.redis.first().copied().or(server.http);
    server.address = address.with_context(|| format!("{name}'s ready line names no address"))?;
    Ok(server)
}
