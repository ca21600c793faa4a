//! nginx: with static files, as a cache (`proxy_cache`), and as the HTTP backend behind a cache.
use super::{
    installed::require,
    port::{Port, free_port},
    process::{Ending, PROBE, ServerProcess},
};
use crate::lib::blocking_clients::HttpClient;
use anyhow::Context;
use std::{fs, net::SocketAddr, path::Path};
use tempfile::TempDir;

/// nginx at its best for small static files, given as (path, bytes): one process, open-file cache,
/// no sendfile (which is slower for small files), no log, connections kept for ever. `/bad` answers
/// 400.
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
    let configuration = NginxConfiguration { http: more, server: "root root;", ..NginxConfiguration::default() };
    nginx_like("nginx", folder, core, free_port()?, &configuration, |client| {
        let mut serves = |&(name, bytes): &(&str, &[u8])| {
            let answer = client.get(&format!("/{name}"));
            answer.is_ok_and(|answer| answer.status == 200 && answer.body == bytes)
        };
        files.first().is_none_or(&mut serves) && files.last().is_none_or(serves)
    })
}

/// What is told to an nginx besides what all of them are told.
#[derive(Default)]
struct NginxConfiguration<'a> {
    /// A master with a worker and a cache manager; else it is one process.
    master: bool,
    /// For `http { … }`.
    http: &'a str,
    /// For `server { … }`.
    server: &'a str,
}

/// Starts an nginx, and waits until `ready` finds it so.
fn nginx_like(
    name: &'static str,
    folder: TempDir,
    core: Option<usize>,
    port: Port,
    NginxConfiguration { master, http, server }: &NginxConfiguration<'_>,
    mut ready: impl FnMut(&mut HttpClient) -> bool,
) -> anyhow::Result<ServerProcess> {
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

/// The value under every path below `/kv/` and `/miss/`; any other path is answered 404.
pub(crate) fn backend(core: Option<usize>, value: &[u8]) -> anyhow::Result<ServerProcess> {
    let folder = tempfile::tempdir()?;
    fs::create_dir(folder.path().join("root"))?;
    fs::write(folder.path().join("root/value"), value)?;
    let server = "root root; add_header Cache-Control max-age=3600;
        location /kv/ { rewrite ^ /value break; }
        location /miss/ { rewrite ^ /value break; }
        location / { return 404 absent; }";
    let configuration = NginxConfiguration { server, ..NginxConfiguration::default() };
    nginx_like("backend", folder, core, free_port()?, &configuration, serves)
}

pub(super) fn serves(client: &mut HttpClient) -> bool {
    client.get("/kv/ready").is_ok_and(|answer| answer.status == 200)
}

/// A folder in memory if there is such a place, else on disk.
pub(super) fn folder_in_memory() -> anyhow::Result<TempDir> {
    let memory = Path::new("/dev/shm");
    Ok(if memory.is_dir() { tempfile::tempdir_in(memory)? } else { tempfile::tempdir()? })
}

/// nginx with `proxy_cache` in front of `backend`: its files in memory, a master with one worker,
/// connections to the backend kept.
pub(crate) fn nginx_cache(core: Option<usize>, backend: SocketAddr) -> anyhow::Result<ServerProcess> {
    let folder = folder_in_memory()?;
    let http = format!(
        "proxy_cache_path cache levels=1:2 use_temp_path=off keys_zone=all:64m max_size=256m inactive=3600s;
    upstream backend {{ server {backend}; keepalive 64; keepalive_requests 1000000000; keepalive_timeout 3600s; }}"
    );
    let server = "location / {
            proxy_pass http://backend; proxy_http_version 1.1; proxy_set_header Connection '';
            proxy_cache all; proxy_cache_key $uri; proxy_cache_valid 200 404 3600s;
        }";
    let configuration = NginxConfiguration { master: true, http: &http, server };
    nginx_like("nginx proxy_cache", folder, core, free_port()?, &configuration, serves)
}

/// The same, made to outlive a backend that suffers: one fetch for each key (`proxy_cache_lock`),
/// stale answers while it is renewed and when the backend fails (`proxy_cache_use_stale`),
/// lifetimes from the backend, and a deadline of a second as Larder has.
pub(crate) fn nginx_shield(backend: SocketAddr) -> anyhow::Result<ServerProcess> {
    let folder = folder_in_memory()?;
    let http = format!(
        "proxy_cache_path cache levels=1:2 use_temp_path=off keys_zone=all:64m max_size=256m inactive=3600s;
    upstream backend {{ server {backend} max_fails=0; keepalive 64; keepalive_requests 1000000000; keepalive_timeout 3600s; }}"
    );
    let server = "location / {
            proxy_pass http://backend; proxy_http_version 1.1; proxy_set_header Connection '';
            proxy_connect_timeout 1s; proxy_read_timeout 1s; proxy_send_timeout 1s;
            proxy_cache all; proxy_cache_key $uri; proxy_cache_lock on; proxy_cache_lock_timeout 1s; proxy_cache_background_update on;
            proxy_cache_use_stale error timeout updating http_500 http_502 http_503 http_504;
        }";
    let configuration = NginxConfiguration { master: true, http: &http, server };
    nginx_like("nginx proxy_cache", folder, None, free_port()?, &configuration, serves)
}

/// nginx that leads to Larders in turn. A node that cannot be reached is left out for two seconds,
/// and its request goes to the next one.
pub(crate) fn nginx_balancer(port: Port, nodes: &[SocketAddr]) -> anyhow::Result<ServerProcess> {
    let nodes: String = nodes.iter().map(|node| format!("server {node} max_fails=1 fail_timeout=2s; ")).collect();
    let http = format!("upstream nodes {{ {nodes} keepalive 32; }}");
    let server = "location / {
            proxy_pass http://nodes; proxy_http_version 1.1; proxy_set_header Connection '';
            proxy_connect_timeout 1s; proxy_next_upstream error timeout; add_header X-Served-By $upstream_addr always;
        }";
    let configuration = NginxConfiguration { http: &http, server, ..NginxConfiguration::default() };
    nginx_like("nginx", tempfile::tempdir()?, None, port, &configuration, |client| {
        client.get("/healthz").is_ok_and(|answer| answer.status == 200)
    })
}
