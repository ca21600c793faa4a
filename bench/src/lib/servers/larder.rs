//! Larder, and the floors of this program, which print the same ready line.
use super::{port::Port, process::ServerProcess};
use anyhow::Context;
use serde::Deserialize;
use std::{fs, net::SocketAddr, path::Path};

/// The value that a floor answers every request with.
pub(crate) const FLOOR_VALUE: [u8; 64] = [b'v'; 64];

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
    with_ready_line("larder", program, core, Port::unknown(), &[&serve, arguments].concat())
}

/// The same, its HTTP on a port that is known before, so that others can be told.
pub(crate) fn larder_on(
    port: Port,
    program: &Path,
    core: Option<usize>,
    arguments: &[&str],
) -> anyhow::Result<ServerProcess> {
    let http = port.address.to_string();
    let serve = ["serve", "--http", &http, "--redis", "127.0.0.1:0", "--admin", "off", "--threads", "1"];
    with_ready_line("larder", program, core, port, &[&serve, arguments].concat())
}

/// `larder-bench floor`, this very program, with one of its kinds.
pub(crate) fn floor(name: &'static str, kind: &str, core: Option<usize>) -> anyhow::Result<ServerProcess> {
    with_ready_line(name, &std::env::current_exe()?, core, Port::unknown(), &["floor", kind, "127.0.0.1:0"])
}

/// The floor of a proxy, in front of a server.
pub(crate) fn floor_proxy(upstream: SocketAddr, core: Option<usize>) -> anyhow::Result<ServerProcess> {
    let arguments = ["floor", "--proxy", "127.0.0.1:0", &upstream.to_string()];
    with_ready_line("floor proxy", &std::env::current_exe()?, core, Port::unknown(), &arguments)
}

/// A server that names its ports in a ready line.
fn with_ready_line(
    name: &'static str,
    program: &Path,
    core: Option<usize>,
    port: Port,
    arguments: &[&str],
) -> anyhow::Result<ServerProcess> {
    let program = program.canonicalize().with_context(|| format!("cannot find {}", program.display()))?;
    let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
    let folder = tempfile::tempdir()?;
    let mut server = ServerProcess::start(name, folder, core, &program, &arguments, port)?;
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
