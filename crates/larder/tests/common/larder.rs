//! A Larder of the test's own: the real binary on free ports, ready when made, killed when dropped.

use super::common::{Client, PATIENCE, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::PathBuf,
    process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

pub struct Larder {
    child: Child,
    stdout: BufReader<ChildStdout>,
    stderr: Option<ChildStderr>,
    pub http: u16,
    pub redis: u16,
    /// Ports of further listeners for the Redis protocol, in the order of the file.
    pub listeners: Vec<u16>,
    pub admin: u16,
    /// The line of a request that shows `--password`, if there is one.
    authorization: String,
    /// With TLS, in the order of the arguments.
    pub https: Vec<u16>,
    pub rediss: Vec<u16>,
    /// Ports of the memcached listeners.
    pub memcached: Vec<u16>,
}

impl Larder {
    /// Starts `larder serve` with one listener of each kind and these arguments; 128 MiB unless
    /// they say otherwise.
    pub fn start(args: &[&str]) -> Larder {
        Larder::on_ports(0, 0, args)
            .unwrap_or_else(|errors| panic!("larder {args:?} ends without a ready line: {errors}"))
    }
    /// The same with more of an environment.
    pub fn with_env(env: &[(&str, &str)], args: &[&str]) -> Larder {
        let mut command = command();
        command.envs(env.iter().copied());
        Larder::spawn(command, [0; 2], args)
            .unwrap_or_else(|errors| panic!("larder {args:?} ends without a ready line: {errors}"))
    }
    /// The same under limits that bash sets first (`ulimit -n 400`).
    pub fn with_limits(limits: &str, args: &[&str]) -> Larder {
        let plain = command();
        let mut command = Command::new("bash");
        command.args(["-c", &format!("{limits}; exec \"$0\" \"$@\"")]).arg(plain.get_program()).args(plain.get_args());
        command.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Larder::spawn(command, [0; 2], args)
            .unwrap_or_else(|errors| panic!("larder {args:?} ends without a ready line: {errors}"))
    }
    /// Starts another in the place of this one, which has ended: on the same port for the Redis
    /// protocol.
    pub fn start_again(&mut self, args: &[&str]) {
        *self = Larder::beside(self, args);
    }
    /// Starts another on the port for the Redis protocol of one that does not listen there any
    /// more.
    pub fn beside(other: &Larder, args: &[&str]) -> Larder {
        let mut started = None;
        // Meanwhile another process's connection may have had the port for its own end.
        wait_until("larder to start again", || {
            started = Larder::on_ports(0, other.redis, args).ok();
            started.is_some()
        });
        started.unwrap()
    }

    /// Starts one on a port for HTTP that others know.
    pub fn with_http_on(http: u16, args: &[&str]) -> Larder {
        Larder::on_ports(http, 0, args)
            .unwrap_or_else(|errors| panic!("larder {args:?} ends without a ready line: {errors}"))
    }

    /// Or what it said on standard error instead of a ready line.
    fn on_ports(http: u16, redis: u16, args: &[&str]) -> Result<Larder, String> {
        Larder::spawn(command(), [http, redis], args)
    }

    fn spawn(mut command: Command, [http, redis]: [u16; 2], args: &[&str]) -> Result<Larder, String> {
        let listeners = [("http", http), ("redis", redis), ("admin", 0)];
        let listeners = listeners.map(|(name, port)| format!("--{name}=127.0.0.1:{port}"));
        let mut child = command.args(listeners).args(args).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        if line.is_empty() {
            let mut errors = String::new();
            let mut stderr = child.stderr.take().unwrap();
            stderr.read_to_string(&mut errors).unwrap();
            child.wait().unwrap();
            return Err(errors);
        }
        let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(ready["ready"], true, "{line}");
        assert_eq!(ready["pid"], child.id(), "{line}");
        Ok(Larder {
            stderr: child.stderr.take(),
            child,
            stdout,
            http: port(&ready["http"][0]),
            redis: port(&ready["redis"][0]),
            listeners: ready["redis"].as_array().unwrap()[1..].iter().filter(|at| !is_unix(at)).map(port).collect(),
            admin: port(&ready["admin"]),
            authorization: args
                .iter()
                .find_map(|arg| arg.strip_prefix("--password="))
                .map_or_else(String::new, |password| format!("authorization: Bearer {password}\r\n")),
            https: ready["https"].as_array().unwrap().iter().filter(|at| !is_unix(at)).map(port).collect(),
            rediss: ready["rediss"].as_array().unwrap().iter().filter(|at| !is_unix(at)).map(port).collect(),
            memcached: ready["memcached"].as_array().unwrap().iter().filter(|at| !is_unix(at)).map(port).collect(),
        })
    }

    /// The number of the process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
    /// A client of the Redis protocol.
    pub fn client(&self) -> Client {
        Client::connect(self.redis).unwrap()
    }
    /// A bare connection to the Redis listener.
    pub fn stream(&self) -> TcpStream {
        connect(self.redis)
    }

    /// One HTTP request on a connection of its own: status, head and body.
    pub fn http(&self, request: &str) -> (u16, String, Vec<u8>) {
        exchange(connect(self.http), request)
    }
    /// The same on the admin listener.
    pub fn admin(&self, request: &str) -> (u16, String, Vec<u8>) {
        exchange(connect(self.admin), request)
    }
    /// `GET`, the body as text; the status must be 200.
    pub fn get(&self, path: &str) -> String {
        let authorization = &self.authorization;
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n{authorization}connection: close\r\n\r\n");
        let (status, _, body) = self.admin(&request);
        assert_eq!(status, 200, "{path}");
        String::from_utf8(body).unwrap()
    }
    /// The answer of `/v1/config/reload`: `GET` says what `POST` would change.
    pub fn reload(&self, method: &str) -> (u16, serde_json::Value) {
        let head =
            format!("{method} /v1/config/reload HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
        let (status, _, body) = self.admin(&head);
        (status, serde_json::from_slice(&body).unwrap())
    }
    /// The value of a metric, given with its labels as `/metrics` writes them; without labels, the
    /// sum over all.
    pub fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics");
        let value_of = |line: &str| {
            let rest = line.strip_prefix(name)?;
            let is_sample = rest.starts_with(' ') || rest.starts_with('{') && !name.contains('{');
            is_sample.then(|| rest.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap())
        };
        let values: Vec<f64> = text.lines().filter_map(value_of).collect();
        assert!(!values.is_empty(), "no {name} in\n{text}");
        values.iter().sum()
    }

    /// Resident memory in bytes.
    pub fn resident(&self) -> usize {
        self.status("VmRSS:")
    }
    /// The most that was ever resident.
    pub fn peak(&self) -> usize {
        self.status("VmHWM:")
    }
    /// Of the resident memory, what is no file's: how much of a mapped file is resident depends on the page cache.
    pub fn anonymous(&self) -> usize {
        self.status("RssAnon:")
    }
    /// Bytes of a line of proc_pid_status(5).
    fn status(&self, name: &str) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim_end_matches("kB").trim().parse::<usize>().unwrap() * 1024
    }
    /// What the process maps (proc_pid_maps(5)).
    pub fn maps(&self) -> String {
        std::fs::read_to_string(format!("/proc/{}/maps", self.child.id())).unwrap()
    }
    /// The number of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }
    /// Waits for the end of the process and says how it ended and after how long.
    pub fn wait(&mut self) -> (ExitStatus, Duration) {
        let start = Instant::now();
        let mut status = None;
        wait_until("larder to end", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        (status.unwrap(), start.elapsed())
    }
    /// What else came on standard output, once the process has ended.
    pub fn rest_of_stdout(&mut self) -> String {
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        rest
    }
    /// Reads and drops what comes on standard error. For tests that make the process say much: it waits
    /// when it is not read.
    pub fn drop_stderr(&mut self) {
        let mut stderr = self.stderr.take().unwrap();
        std::thread::spawn(move || io::copy(&mut stderr, &mut io::sink()));
    }
    /// Waits until this is on standard error. Returns what came there until then.
    pub fn wait_for_stderr(&mut self, text: &str) -> String {
        let stderr = self.stderr.as_mut().unwrap();
        rustix::io::ioctl_fionbio(&*stderr, true).unwrap();
        let mut seen = Vec::new();
        wait_until(text, || {
            let mut piece = [0; 4096];
            while let Ok(len @ 1..) = stderr.read(&mut piece) {
                seen.extend_from_slice(&piece[..len]);
            }
            String::from_utf8_lossy(&seen).contains(text)
        });
        String::from_utf8(seen).unwrap()
    }
    /// What came on standard error, once the process has ended.
    pub fn stderr(&mut self) -> String {
        let mut text = String::new();
        self.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }
}

impl Drop for Larder {
    fn drop(&mut self) {
        // Already dead is as good.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
}

/// The binary under test: this build's, or the one that `LARDER_BIN` names (`make acceptance`: the
/// release build).
pub fn binary() -> PathBuf {
    std::env::var_os("LARDER_BIN").map_or_else(|| env!("CARGO_BIN_EXE_larder").into(), PathBuf::from)
}

/// `larder serve`, without anything of the test's environment, and with a deadline for sources that
/// no busy machine meets by accident. Logs are few enough for a pipe that is not read.
pub fn command() -> Command {
    let mut command = Command::new(binary());
    command.env_clear();
    // `make test` runs some suites again with other transports.
    if let Some(transport) = std::env::var_os("TEST_TRANSPORT") {
        command.env("LARDER_TRANSPORT", transport);
    }
    command
        .env("LARDER_MAX_MEMORY", "128MiB")
        .env("LARDER_SOURCE_TIMEOUT", "20s")
        .args(["serve", "--log-level", "warn"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

pub fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends a request that asks for the connection's end, and reads to it.
fn exchange(mut stream: TcpStream, request: &str) -> (u16, String, Vec<u8>) {
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|w| w == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_ascii_lowercase(), answer.split_off(end + 4))
}

/// The names in a list of [`Larder::reload`].
pub fn changed_settings(list: &serde_json::Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|change| change["setting"].as_str().unwrap()).collect()
}

fn is_unix(address: &serde_json::Value) -> bool {
    address.as_str().unwrap().starts_with("unix:")
}

fn port(address: &serde_json::Value) -> u16 {
    let address: std::net::SocketAddr = address.as_str().unwrap().parse().unwrap();
    assert_ne!(address.port(), 0);
    address.port()
}

/// A command as its bytes.
pub fn encode(args: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend(format!("${}\r\n", arg.len()).into_bytes());
        bytes.extend_from_slice(arg);
        bytes.extend(b"\r\n");
    }
    bytes
}

/// Reads exactly what is expected, and says where it differs.
#[track_caller]
pub fn expect(stream: &mut impl Read, expected: &[u8]) {
    let mut got = vec![0; expected.len()];
    stream.read_exact(&mut got).unwrap();
    if let Some(at) = got.iter().zip(expected).position(|(a, b)| a != b) {
        let around = at.saturating_sub(40)..(at + 40).min(got.len());
        panic!(
            "differs at byte {at}: got {:?}, expected {:?}",
            String::from_utf8_lossy(&got[around.clone()]),
            String::from_utf8_lossy(&expected[around])
        );
    }
}

/// Reads until what was read ends with `mark`.
pub fn skip_until(stream: &mut TcpStream, mark: &[u8]) {
    let mut read = Vec::new();
    while !read.ends_with(mark) {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        read.extend(byte);
    }
}
/// Reads a line, without its end.
pub fn read_line(stream: &mut TcpStream) -> Vec<u8> {
    let mut line = Vec::new();
    while !line.ends_with(b"\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        line.extend(byte);
    }
    line.truncate(line.len() - 2);
    line
}
/// Sends lines, one behind the other in one write.
pub fn send(stream: &mut TcpStream, lines: &[&str]) {
    stream.write_all((lines.join("\r\n") + "\r\n").as_bytes()).unwrap();
}

/// The other side has ended the connection: nothing more comes.
#[track_caller]
pub fn expect_end(stream: &mut impl Read) {
    let mut rest = Vec::new();
    match stream.take(1).read_to_end(&mut rest) {
        Ok(0) => {}
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
        other => panic!("expected the end, got {other:?} ({:?})", rest.escape_ascii().to_string()),
    }
}
