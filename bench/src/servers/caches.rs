//! Caches in front of an HTTP backend, and the backend: Debian's nginx and varnish.
use super::{
    Ending, ServerProcess, free_port,
    kinds::{Nginx, PROBE, nginx_like},
    require,
};
use crate::wire::HttpClient;
use std::{fs, net::SocketAddr, path::Path};
use tempfile::TempDir;

/// The value under every path below `/kv/` and `/miss/`; any other path is answered 404.
pub(crate) fn backend(core: Option<usize>, value: &[u8]) -> anyhow::Result<ServerProcess> {
    let folder = tempfile::tempdir()?;
    fs::create_dir(folder.path().join("root"))?;
    fs::write(folder.path().join("root/value"), value)?;
    let server = "root root; add_header Cache-Control max-age=3600;
        location /kv/ { rewrite ^ /value break; }
        location /miss/ { rewrite ^ /value break; }
        location / { return 404 absent; }";
    let configuration = Nginx { server, ..Nginx::default() };
    nginx_like("backend", folder, core, &configuration, serves)
}

fn serves(client: &mut HttpClient) -> bool {
    client.get("/kv/ready").is_ok_and(|answer| answer.status == 200)
}

/// A folder in memory if there is such a place, else on disk.
fn folder_in_memory() -> anyhow::Result<TempDir> {
    let memory = Path::new("/dev/shm");
    Ok(if memory.is_dir() { tempfile::tempdir_in(memory)? } else { tempfile::tempdir()? })
}

/// nginx with `proxy_cache` in front of `backend`: its files in memory, a master with one worker, connections to the backend kept.
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
    let configuration = Nginx { master: true, http: &http, server };
    nginx_like("nginx proxy_cache", folder, core, &configuration, serves)
}

/// varnish in front of `backend`: storage of malloc with so many mebibytes, its log in memory, one pool of threads.
pub(crate) fn varnish(core: Option<usize>, backend: SocketAddr, memory_mib: u64) -> anyhow::Result<ServerProcess> {
    let folder = folder_in_memory()?;
    let (host, port) = (backend.ip(), backend.port());
    let configuration = format!(
        "vcl 4.1;
backend default {{ .host = \"{host}\"; .port = \"{port}\"; }}
sub vcl_recv {{
    if (req.url == \"/bad\") {{ return (synth(400)); }}
    return (hash);
}}
sub vcl_backend_response {{ set beresp.ttl = 1h; set beresp.grace = 0s; set beresp.keep = 0s; }}
"
    );
    let file = folder.path().join("default.vcl");
    fs::write(&file, configuration)?;
    let port = free_port()?;
    let address = port.address;
    let (listen, storage) = (format!("{address},HTTP"), format!("malloc,{memory_mib}m"));
    let (work, file) = (folder.path().join("work"), file.to_string_lossy().into_owned());
    let work = work.to_string_lossy().into_owned();
    let arguments = [
        &["-F", "-j", "none", "-n", &work, "-f", &file, "-a", &listen, "-T", "none", "-s", &storage][..],
        // 600 threads: a connection under load holds one.
        &["-p", "thread_pools=1", "-p", "thread_pool_min=600", "-p", "timeout_idle=3600"],
    ]
    .concat()
    .into_iter()
    .map(str::to_owned)
    .collect::<Vec<_>>();
    let program = require("varnishd")?;
    let mut server = ServerProcess::start_ending(Ending::Asked, "varnish", folder, core, &program, &arguments, port)?;
    server.http = Some(address);
    server.wait_until(|_| serves(&mut HttpClient::connect(address, PROBE).ok()?).then_some(()))?;
    Ok(server)
}
