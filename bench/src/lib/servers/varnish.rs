//! varnish.
use super::{
    installed::require,
    nginx::{folder_in_memory, serves},
    port::free_port,
    process::{Ending, PROBE, ServerProcess},
};
use crate::lib::blocking_clients::HttpClient;
use std::{fs, net::SocketAddr};

/// varnish in front of `backend`: storage of malloc with so many mebibytes, its log in memory, one
/// pool of threads.
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
