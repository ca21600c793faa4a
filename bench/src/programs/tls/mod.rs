//! `larder-bench tls`: what TLS costs Larder, redis-server and nginx: a GET on a connection that
//! stays, a new connection, and a crowd of new connections.
mod newcomers;

use self::newcomers::Question;
use crate::lib::{
    figures::{self, Figure, FigureTarget, median},
    machine,
    servers::{ServerProcess, free_port, larder, nginx_with, redis_with},
};
use anyhow::{Context, ensure};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256,
};
use serde::Serialize;
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned, SupportedProtocolVersion,
    client::Resumption,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
    version::{TLS12, TLS13},
};

/// What TLS costs Larder, redis-server and nginx
///
/// Each server runs on one core, the client on the other. GETs of a value on --connections
/// connections that stay, one at a time on each; then new connections, one after the other, with a
/// full handshake and with a resumed one, each with one request. The client offers one version of
/// TLS, for new connections first 1.3, then 1.2: all servers do the same work. The CPU time of the
/// server for each (proc_pid_schedstat) is compared, medians of --runs turns in which the servers
/// take turns: Larder's `rediss` with redis-server, its `https` with nginx and a static file.
///
/// Then --newcomers clients connect at once, while the --connections that stay ask one GET at a
/// time each: the 99th percentile of their response times meanwhile is compared with that of the
/// seconds before. The newcomers run at idle priority (sched(7)).
#[derive(Debug, clap::Args)]
pub(crate) struct TlsArgs {
    /// The program under test
    #[arg(long, default_value = "target/release/larder")]
    larder: PathBuf,
    /// GETs of a turn
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..))]
    gets: u64,
    /// Bytes of the value
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(64..=16 << 20))]
    value_size: u32,
    /// Connections for GETs
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..))]
    connections: u64,
    /// New connections of a turn, of each kind (0: none)
    #[arg(long, default_value_t = 2_000)]
    handshakes: u64,
    /// Clients that connect at once (0: none)
    #[arg(long, default_value_t = 10_000)]
    newcomers: u64,
    /// Turns, of which the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// The kind of the certificate's key
    #[arg(long, default_value = "ecdsa")]
    key: KeyKind,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum KeyKind {
    /// P-256
    Ecdsa,
    /// 2048 bits, made by openssl
    Rsa,
}

const PROGRAM: &str = "tls";
const PATIENCE: Duration = Duration::from_secs(60);
/// How every value ends.
const VALUE_END: [u8; 64] = [b'v'; 64];
const HOST: &str = "bench.test";
/// A rival's is the most that Larder's may be.
const AS_CHEAP: FigureTarget = FigureTarget::AtMost(1.0);
/// What a crowd may do to the response times of connected clients.
const CALM_ENOUGH: FigureTarget = FigureTarget::AtMost(2.0);
/// Beside the newcomers.
const MOST_CONNECTIONS: &str = "12000";
/// Newcomers share a core with the connected clients: they may take long for their part of the
/// handshake.
const PATIENT: &str = "--tls-handshake-timeout=2m";

/// What is measured, with the version of TLS that the client offers.
const OPERATIONS: [(Operation, TlsVersion); 5] = [
    (Operation::Get, TlsVersion::Tls13),
    (Operation::NewConnection, TlsVersion::Tls13),
    (Operation::ResumedConnection, TlsVersion::Tls13),
    (Operation::NewConnection, TlsVersion::Tls12),
    (Operation::ResumedConnection, TlsVersion::Tls12),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Get,
    NewConnection,
    ResumedConnection,
}
impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Get => "GET",
            Operation::NewConnection => "new connection",
            Operation::ResumedConnection => "resumed connection",
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum TlsVersion {
    Tls12,
    Tls13,
}
impl TlsVersion {
    fn name(self) -> &'static str {
        match self {
            TlsVersion::Tls12 => "1.2",
            TlsVersion::Tls13 => "1.3",
        }
    }
    fn offered(self) -> &'static SupportedProtocolVersion {
        match self {
            TlsVersion::Tls12 => &TLS12,
            TlsVersion::Tls13 => &TLS13,
        }
    }
}

/// One measured turn.
#[derive(Debug, Serialize)]
struct TurnRow {
    program: &'static str,
    server: &'static str,
    protocol: &'static str,
    tls: &'static str,
    operation: &'static str,
    value_size: u32,
    cpu_us: f64,
    per_second: f64,
}

/// An authority, and a certificate of it.
struct Certificates {
    folder: TempDir,
}

impl Certificates {
    fn make(kind: KeyKind) -> anyhow::Result<Certificates> {
        let folder = tempfile::tempdir()?;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "larder-bench");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca_key = KeyPair::generate()?;
        fs::write(folder.path().join("ca.crt"), params.self_signed(&ca_key)?.pem())?;
        let key = match kind {
            KeyKind::Ecdsa => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?,
            // ring makes no RSA keys.
            KeyKind::Rsa => {
                let made = std::process::Command::new("openssl")
                    .args(["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"])
                    .output()
                    .context("openssl is not installed")?;
                KeyPair::from_pem_and_sign_algo(&String::from_utf8(made.stdout)?, &PKCS_RSA_SHA256)?
            }
        };
        let certificate =
            CertificateParams::new(vec![HOST.to_owned()])?.signed_by(&key, &Issuer::new(params, ca_key))?;
        fs::write(folder.path().join("server.crt"), certificate.pem())?;
        fs::write(folder.path().join("server.key"), key.serialize_pem())?;
        Ok(Certificates { folder })
    }
    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_string_lossy().into_owned()
    }
}

/// A server, and how it is asked.
struct Measured {
    /// Holds the process.
    server: ServerProcess,
    protocol: &'static str,
    address: SocketAddr,
    request: Vec<u8>,
    /// How every answer ends.
    end: Vec<u8>,
    /// For each [`TlsVersion`], keeps sessions for resumption.
    resuming: [Arc<ClientConfig>; 2],
}

/// Looks for the end of an answer in the bytes that came. `None`: it is there. Otherwise their last
/// bytes move to the front of the buffer, and more can be read behind them: this many.
fn keep_end(buffer: &mut [u8], filled: usize, end: &[u8]) -> Option<usize> {
    let kept = filled.min(end.len());
    buffer.copy_within(filled - kept..filled, 0);
    (&buffer[..kept] != end).then_some(kept)
}

/// A connection of the client.
type Client = StreamOwned<ClientConnection, TcpStream>;

impl Measured {
    fn connect(&self, config: &Arc<ClientConfig>) -> anyhow::Result<Client> {
        let stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let session = ClientConnection::new(config.clone(), ServerName::try_from(HOST)?)?;
        Ok(StreamOwned::new(session, stream))
    }

    fn ask(&self, client: &mut Client) -> anyhow::Result<()> {
        client.write_all(&self.request)?;
        self.take(client)
    }

    /// Takes the answer, which ends with the value.
    fn take(&self, client: &mut Client) -> anyhow::Result<()> {
        let mut buffer = [0; 16 * 1024];
        let mut kept = 0;
        loop {
            let read = client.read(&mut buffer[kept..])?;
            let filled = kept + read;
            ensure!(
                read > 0,
                "{}: instead of the value: {}",
                self.server.name,
                String::from_utf8_lossy(&buffer[..filled])
            );
            match keep_end(&mut buffer, filled, &self.end) {
                Some(bytes) => kept = bytes,
                None => return Ok(()),
            }
        }
    }

    /// CPU time of the server for each operation, and operations per second.
    fn measure(&self, operations: u64, run: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<(f64, f64)> {
        let (before, begun) = (self.server.run_time()?, Instant::now());
        run()?;
        let (spent, took) = (self.server.run_time()? - before, begun.elapsed());
        Ok((spent.as_secs_f64() * 1e6 / operations as f64, operations as f64 / took.as_secs_f64()))
    }

    fn gets(&self, args: &TlsArgs, config: &Arc<ClientConfig>) -> anyhow::Result<(f64, f64)> {
        let mut clients: Vec<Client> =
            (0..args.connections).map(|_| self.connect(config)).collect::<anyhow::Result<_>>()?;
        for client in &mut clients {
            self.ask(client)?;
        }
        let rounds = args.gets.div_ceil(args.connections);
        self.measure(rounds * args.connections, || {
            for _ in 0..rounds {
                for client in &mut clients {
                    client.write_all(&self.request)?;
                }
                for client in &mut clients {
                    self.take(client)?;
                }
            }
            Ok(())
        })
    }

    fn handshakes(&self, count: u64, config: &Arc<ClientConfig>, kind: HandshakeKind) -> anyhow::Result<(f64, f64)> {
        // The first one has nothing to resume.
        self.ask(&mut self.connect(config)?)?;
        self.measure(count, || {
            for _ in 0..count {
                let mut client = self.connect(config)?;
                self.ask(&mut client)?;
                let was = client.conn.handshake_kind();
                ensure!(was == Some(kind), "{}: a handshake was {was:?}, not {kind:?}", self.server.name);
            }
            Ok(())
        })
    }
}

fn client_config(
    certificates: &Certificates,
    version: TlsVersion,
    resumption: Resumption,
) -> anyhow::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(Path::new(&certificates.path("ca.crt")))?)?;
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_protocol_versions(&[version.offered()])?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.resumption = resumption;
    Ok(Arc::new(config))
}

fn start(args: &TlsArgs, core: usize, certificates: &Certificates) -> anyhow::Result<Vec<Measured>> {
    let (cert, key, ca) =
        (certificates.path("server.crt"), certificates.path("server.key"), certificates.path("ca.crt"));
    let get = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n".to_vec();
    let mut value = vec![b'.'; args.value_size as usize];
    let before_end = value.len() - VALUE_END.len();
    value[before_end..].copy_from_slice(&VALUE_END);
    let set = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", value.len()).into_bytes();
    let set = [&set[..], &value[..], b"\r\n"].concat();
    let http = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: {HOST}\r\n\r\n").into_bytes();
    let ports = [free_port()?, free_port()?, free_port()?, free_port()?].map(|port| (port.address, port));
    let [https, rediss, redis_tls, nginx_tls] = ports.each_ref().map(|(address, _)| *address);
    let most = format!("--max-connections={MOST_CONNECTIONS}");
    let larder_with = |listener: String| {
        let files = [format!("--tls-cert={cert}"), format!("--tls-key={key}")];
        larder(&args.larder, Some(core), &[&listener, &files[0], &files[1], "--max-memory=64MiB", &most, PATIENT])
    };
    let tls_port = redis_tls.port().to_string();
    let more = ["--tls-port", &tls_port, "--tls-cert-file", &cert, "--tls-key-file", &key, "--tls-ca-cert-file", &ca];
    let more: Vec<String> = [&more[..], &["--tls-auth-clients", "no", "--maxclients", MOST_CONNECTIONS]]
        .concat()
        .into_iter()
        .map(str::to_owned)
        .collect();
    // nginx 1.22 speaks no TLS 1.3 by default.
    let directives = format!(
        "ssl_certificate {cert}; ssl_certificate_key {key}; ssl_session_cache shared:all:8m;
    ssl_protocols TLSv1.2 TLSv1.3;
    server {{ listen {nginx_tls} ssl backlog=1024; root root; }}"
    );
    let resuming = |version| client_config(certificates, version, Resumption::in_memory_sessions(256));
    let measured = |server, protocol, address, request| {
        let end = if protocol == "redis" { [&VALUE_END[..], b"\r\n"].concat() } else { VALUE_END.to_vec() };
        let resuming = [resuming(TlsVersion::Tls12)?, resuming(TlsVersion::Tls13)?];
        Ok::<_, anyhow::Error>(Measured { server, protocol, address, request, end, resuming })
    };
    let servers = vec![
        measured(larder_with(format!("--rediss={rediss}"))?, "redis", rediss, get.clone())?,
        measured(redis_with(Some(core), &more)?, "redis", redis_tls, get)?,
        measured(larder_with(format!("--https={https}"))?, "http", https, http("/v1/kv/k"))?,
        measured(nginx_with(Some(core), &[("k", &value)], &directives)?, "http", nginx_tls, http("/k"))?,
    ];
    for of in &servers {
        if of.server.name != "nginx" {
            // Either Larder, and redis-server, take it in plain.
            let mut stream = TcpStream::connect_timeout(&of.server.address, PATIENCE)?;
            stream.write_all(&set)?;
            let mut ok = [0; 5];
            stream.read_exact(&mut ok)?;
            ensure!(&ok == b"+OK\r\n", "SET is not answered with OK");
        }
    }
    drop(ports);
    Ok(servers)
}

/// Runs the program.
pub(crate) fn run(args: &TlsArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let (server_core, client_core) = machine::server_and_client_core()?;
    machine::pin(client_core)?;
    let certificates = Certificates::make(args.key)?;
    let servers = start(args, server_core, &certificates)?;
    let once = |version| client_config(&certificates, version, Resumption::disabled());
    let once = [once(TlsVersion::Tls12)?, once(TlsVersion::Tls13)?];
    let operations: Vec<_> =
        OPERATIONS.into_iter().filter(|(of, _)| *of == Operation::Get || args.handshakes > 0).collect();
    let mut costs = vec![vec![Vec::new(); operations.len()]; servers.len()];
    for _ in 0..args.runs {
        for (number, &(operation, version)) in operations.iter().enumerate() {
            for (of, costs) in servers.iter().zip(&mut costs) {
                let [once, resuming] = [&once, &of.resuming].map(|configs| &configs[version as usize]);
                let (cpu, per_second) = match operation {
                    Operation::Get => of.gets(args, once)?,
                    Operation::NewConnection => of.handshakes(args.handshakes, once, HandshakeKind::Full)?,
                    Operation::ResumedConnection => of.handshakes(args.handshakes, resuming, HandshakeKind::Resumed)?,
                };
                costs[number].push(cpu);
                let (cpu_us, per_second) = (figures::rounded(cpu), per_second.round());
                let row = TurnRow {
                    program: PROGRAM,
                    server: of.server.name,
                    protocol: of.protocol,
                    tls: version.name(),
                    operation: operation.name(),
                    value_size: args.value_size,
                    cpu_us,
                    per_second,
                };
                figures::line(out, &row)?;
            }
        }
    }
    for pair in [[0, 1], [2, 3]] {
        for (number, (operation, version)) in operations.iter().enumerate() {
            let [own, rival] = pair.map(|server| median(&costs[server][number]));
            let [server, rival_server] = pair.map(|server| &servers[server]);
            let figure = format!(
                "CPU of a TLS {} {}, larder {}/{}",
                version.name(),
                operation.name(),
                server.protocol,
                rival_server.server.name
            );
            figures::line(out, &Figure::new(PROGRAM, figure, own / rival, Some(AS_CHEAP)))?;
        }
    }
    if args.newcomers > 0 {
        crowds(args, &servers, &once[TlsVersion::Tls13 as usize], out)?;
    }
    Ok(())
}

/// A crowd for each server in turn. nginx has none: it runs with as many connections as the other
/// programs here give it, which is fewer.
fn crowds(args: &TlsArgs, servers: &[Measured], config: &Arc<ClientConfig>, out: &mut dyn Write) -> anyhow::Result<()> {
    let servers = servers.iter().filter(|of| of.server.name != "nginx");
    let mut ratios: Vec<(&Measured, Vec<f64>)> = servers.map(|of| (of, Vec::new())).collect();
    for _ in 0..args.runs {
        for (of, ratios) in &mut ratios {
            let question = Question {
                address: of.address,
                request: of.request.clone(),
                end: of.end.clone(),
                config: config.clone(),
            };
            let row = question.measure(of.server.name, of.protocol, args.connections, args.newcomers)?;
            ratios.push(row.ratio());
            figures::line(out, &row)?;
        }
    }
    for (of, ratios) in &ratios {
        let figure = format!(
            "p99 of a TLS GET while {} newcomers connect to that before, {} {}",
            args.newcomers, of.server.name, of.protocol
        );
        let target = (of.server.name == "larder").then_some(CALM_ENOUGH);
        figures::line(out, &Figure::new(PROGRAM, figure, median(ratios), target))?;
    }
    Ok(())
}
