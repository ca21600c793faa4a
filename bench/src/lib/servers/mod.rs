//! Servers under test, as child processes: found, started on a free port, waited for until they
//! answer, stopped when dropped.
//!
//! What each is started with is data: `bench/servers/servers.toml`. A server dies with the program
//! that started it, even if that is killed: it runs under `setpriv --pdeathsig`.
mod process;
#[cfg(test)]
mod tests;

pub(crate) use process::{Port, ServerProcess, free_port};

use crate::lib::blocking_clients::{HttpClient, RedisReply, RespClient};
use anyhow::Context;
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    env, fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
    time::Duration,
};

/// How a kind of server is started.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct ServerKind {
    /// Its name in results.
    pub(crate) name: String,
    /// The program in `PATH`, or the variable that names the binary. Larder has neither: an option
    /// names it.
    program: Option<String>,
    variable: Option<String>,
    /// The argument that makes the binary say its version.
    version: Option<String>,
    arguments: String,
    /// Its configuration, one of [`FILES`].
    pub(crate) file: Option<String>,
    #[serde(default)]
    set: BTreeMap<String, String>,
    /// Its folder lies in memory if there is such a place.
    #[serde(default)]
    in_memory: bool,
    /// It is asked to end, since only it can end the processes that it has started.
    #[serde(default)]
    several_processes: bool,
    ready: Ready,
}

/// How a server shows that it is ready.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Ready {
    /// Larder's line on standard output, which names its ports.
    #[serde(rename = "ready-line")]
    Line,
    /// Its INFO names its process, and it has loaded its data.
    Redis,
    Ping,
    /// It lets a user in.
    Postgres,
    /// It says which versions it speaks.
    Cassandra,
    Memcached,
    /// This path is answered with this status; 0: with any.
    Http(String, u16),
}

const FILES: [(&str, &str); 5] = [
    ("cassandra.sh", include_str!("../../../servers/cassandra.sh")),
    ("postgres.sh", include_str!("../../../servers/postgres.sh")),
    ("nginx.conf", include_str!("../../../servers/nginx.conf")),
    ("default.vcl", include_str!("../../../servers/default.vcl")),
    ("config.toml", include_str!("../../../servers/config.toml")),
];

static KINDS: LazyLock<BTreeMap<String, ServerKind>> = LazyLock::new(|| {
    toml::from_str(include_str!("../../../servers/servers.toml")).expect("servers.toml is well-formed")
});

/// How long one question to a starting server may take.
const PROBE: Duration = Duration::from_secs(1);

/// A kind by its name in `servers.toml`.
pub(crate) fn kind(name: &str) -> anyhow::Result<&'static ServerKind> {
    KINDS.get(name).with_context(|| format!("there is no server {name:?}"))
}

impl ServerKind {
    /// Its binary; `larder` is that of Larder.
    ///
    /// # Errors
    /// If there is none: how to have it.
    pub(crate) fn binary(&self, larder: Option<&Path>) -> anyhow::Result<PathBuf> {
        let given = match (&self.program, &self.variable) {
            (Some(program), _) => return require(program),
            (None, Some(variable)) => {
                let path = env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from);
                path.with_context(|| format!("its binary is not given ({variable})"))?
            }
            (None, None) => larder.context("its binary is not given (--larder)")?.to_owned(),
        };
        given.canonicalize().with_context(|| format!("cannot find {}", given.display()))
    }

    /// What a binary says of its version.
    pub(crate) fn version(&self, binary: &Path) -> anyhow::Result<String> {
        let Some(argument) = &self.version else { return Ok("its binary does not say".to_owned()) };
        let output = Command::new(binary).arg(argument).output()?;
        // Some write it to standard error.
        let text = [output.stdout, output.stderr].concat();
        Ok(String::from_utf8_lossy(&text).lines().next().unwrap_or_default().trim().to_owned())
    }
}

/// A program in `PATH`, or in the folders where Debian keeps servers.
pub(crate) fn require(program: &str) -> anyhow::Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
    let found = folders.map(|folder| folder.join(program)).find(|file| file.is_file());
    found.with_context(|| format!("{program} is not installed (not found in PATH)"))
}

/// What a server is started with besides what its kind has.
pub(crate) struct Start<'a> {
    pub(crate) core: Option<usize>,
    /// The larder binary, for Larder.
    pub(crate) larder: Option<&'a Path>,
    /// A port that others know already.
    pub(crate) port: Option<Port>,
    /// What stands behind it.
    pub(crate) source: Option<SocketAddr>,
    /// More arguments, in which `@dir@` and `@source@` are replaced.
    pub(crate) more: &'a [&'a str],
    /// More to replace.
    pub(crate) set: &'a [(&'a str, &'a str)],
    /// Files in its folder.
    pub(crate) files: &'a [(String, Vec<u8>)],
    pub(crate) memory_mib: u64,
}

impl Default for Start<'_> {
    fn default() -> Self {
        let (more, set, files) = (&[][..], &[][..], &[][..]);
        Start { core: None, larder: None, port: None, source: None, more, set, files, memory_mib: 256 }
    }
}

/// Starts a server and waits until it is ready.
pub(crate) fn start(name: &str, with: Start) -> anyhow::Result<ServerProcess> {
    let kind = kind(name)?;
    let binary = kind.binary(with.larder)?;
    let port = match with.port {
        Some(port) => port,
        // It chooses its ports itself, and says which.
        None if matches!(kind.ready, Ready::Line) => Port::unknown(),
        None => free_port()?,
    };
    let memory = Path::new("/dev/shm");
    let folder = if kind.in_memory && memory.is_dir() { tempfile::tempdir_in(memory)? } else { tempfile::tempdir()? };
    let source = with.source.map_or(String::new(), |source| source.to_string());
    // A worker of nginx under another user could not write into the folder.
    let user = if rustix::process::getuid().is_root() { "user root;" } else { "" };
    let (address, number, dir) =
        (port.address.to_string(), port.address.port().to_string(), folder.path().to_string_lossy());
    let (memory_mib, source_port) = (with.memory_mib.to_string(), source.rsplit(':').next().unwrap_or_default());
    let known = [
        ("address", &address[..]),
        ("port", &number),
        ("dir", &dir),
        ("source", &source),
        ("source-port", source_port),
        ("memory", &memory_mib),
        ("user", user),
    ];
    let filled = |text: &str| {
        let put = |text: String, (name, value): (&str, &str)| text.replace(&format!("@{name}@"), value);
        let own = kind.set.iter().map(|(name, value)| (&name[..], &value[..]));
        let given = with.set.iter().copied();
        // First what was given, which stands for what the kind has of the same name.
        given.clone().chain(own).chain(given).chain(known).fold(text.to_owned(), put)
    };
    for (name, bytes) in with.files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().context("a file has a folder")?)?;
        fs::write(path, bytes)?;
    }
    if let Some(file) = &kind.file {
        let (name, text) = FILES.iter().find(|(name, _)| name == file).context("its configuration is there")?;
        fs::write(folder.path().join(name), filled(text))?;
    }
    let words = kind.arguments.split_whitespace().chain(with.more.iter().copied());
    let arguments: Vec<String> = words.map(|word| filled(if word == "''" { "" } else { word })).collect();
    let (asked, name) = (kind.several_processes, &kind.name[..]);
    let mut server = ServerProcess::start(name, asked, folder, with.core, &binary, &arguments, port)?;
    wait(kind, &mut server)?;
    Ok(server)
}

/// The part of Larder's ready line that is needed.
#[derive(Debug, Deserialize)]
struct ReadyLine {
    http: Vec<SocketAddr>,
    redis: Vec<SocketAddr>,
    memcached: Vec<SocketAddr>,
}

fn wait(kind: &ServerKind, server: &mut ServerProcess) -> anyhow::Result<()> {
    let (address, id) = (server.address, server.id());
    let mut line = None;
    server.wait_until(|folder| {
        match &kind.ready {
            Ready::Line => {
                let written = fs::read_to_string(folder.join("stdout")).ok()?;
                line = Some(serde_json::from_str::<ReadyLine>(&written[..written.find('\n')?]).ok()?);
            }
            Ready::Redis => {
                let mut client = RespClient::connect(address, PROBE).ok()?;
                let RedisReply::Bulk(Some(info)) = client.call(&[b"INFO"]).ok()? else { return None };
                let info = String::from_utf8_lossy(&info);
                // It must be this very process: another one may have taken the port a moment before.
                let own = info.contains(&format!("process_id:{id}\r\n"));
                return (own && info.contains("\r\nloading:0\r\n")).then_some(());
            }
            Ready::Ping => {
                let mut client = RespClient::connect(address, PROBE).ok()?;
                return (client.call(&[b"PING"]).ok()? == RedisReply::Status("PONG".into())).then_some(());
            }
            Ready::Postgres => {
                let mut stream = TcpStream::connect_timeout(&address, PROBE).ok()?;
                stream.set_read_timeout(Some(PROBE)).ok()?;
                stream.write_all(b"\0\0\0\x20\0\x03\0\0user\0app\0database\0shop\0\0").ok()?;
                let mut kind = [0];
                stream.read_exact(&mut kind).ok()?;
                return (kind == *b"R").then_some(());
            }
            Ready::Cassandra => {
                let mut stream = TcpStream::connect_timeout(&address, PROBE).ok()?;
                stream.set_read_timeout(Some(PROBE)).ok()?;
                // OPTIONS of version 4, and SUPPORTED.
                stream.write_all(b"\x04\0\0\0\x05\0\0\0\0").ok()?;
                let mut head = [0; 5];
                stream.read_exact(&mut head).ok()?;
                return (head[4] == 6).then_some(());
            }
            Ready::Memcached => {
                let mut stream = TcpStream::connect_timeout(&address, PROBE).ok()?;
                stream.set_read_timeout(Some(PROBE)).ok()?;
                stream.write_all(b"version\r\n").ok()?;
                let mut start = [0; 7];
                stream.read_exact(&mut start).ok()?;
                return (&start == b"VERSION").then_some(());
            }
            Ready::Http(path, status) => {
                let answer = HttpClient::connect(address, PROBE).ok()?.get(path).ok()?;
                return (*status == 0 || answer.status == *status).then_some(());
            }
        }
        Some(())
    })?;
    server.http = Some(address);
    if let Some(ReadyLine { http, redis, memcached }) = line {
        server.http = http.first().copied();
        server.memcached = memcached.first().copied();
        server.address = redis.first().copied().context("larder's ready line names no address")?;
    }
    Ok(())
}

/// redis-server that writes nothing to disk unless it is told to (`SAVE`); what it saved is there
/// again after [`restart`].
pub(crate) fn redis(core: Option<usize>) -> anyhow::Result<ServerProcess> {
    start("redis", Start { core, ..Start::default() })
}

/// Brings a killed server back on its port, with what it had saved.
pub(crate) fn restart(server: &mut ServerProcess) -> anyhow::Result<()> {
    let kind = KINDS.values().find(|kind| kind.name == server.name).context("its kind is known")?;
    server.start_again()?;
    wait(kind, server)
}

/// `larder serve` with one thread, on ports that it chooses and names in its ready line.
pub(crate) fn larder(program: &Path, core: Option<usize>, more: &[&str]) -> anyhow::Result<ServerProcess> {
    start("larder", Start { core, larder: Some(program), more, ..Start::default() })
}
