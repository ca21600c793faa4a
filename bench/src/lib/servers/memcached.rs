//! memcached.
use super::{
    installed::require,
    port::free_port,
    process::{PROBE, ServerProcess},
};
use std::{
    io::{Read, Write},
    net::TcpStream,
};

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
