//! What integration tests share: a real redis-server under their control, and a plain client for
//! the Redis protocol.

pub mod left_behind;

use rustix::process::{Pid, Signal, kill_process};
use socket2::{Domain, Socket, Type};
use std::{
    ffi::{OsStr, OsString},
    io::{self, BufRead, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Longest wait for something that a test expects; far beyond what it takes on the busiest machine,
/// so that only a fault runs into it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `done`, looking every few milliseconds.
#[track_caller]
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "waited too long: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Passes on what two ends send, each to the other, in the background. Either may go away.
pub fn relay(one: &TcpStream, other: &TcpStream) {
    for (from, to) in [(one, other), (other, one)] {
        let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        std::thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        });
    }
}

/// A port of 127.0.0.1 that no process is given as long as this lives, neither who asks for any free
/// port nor a connection for its own end.
///
/// It is bound here without being listened on. Who names it and says SO_REUSEADDR, as all servers
/// here do, can listen on it all the same (ip(7), socket(7)).
pub struct Port {
    pub number: u16,
    _bound: Socket,
}
impl Port {
    pub fn free() -> Port {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_reuse_address(true).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        Port { number: address.port(), _bound: socket }
    }
}

/// A redis-server of the test's own, ready when made, killed when dropped.
pub struct RedisServer {
    child: Child,
    program: OsString,
    port: Port,
    args: Vec<String>,
    password: Option<String>,
    dir: TempDir,
}

impl RedisServer {
    /// Starts one on a free port, without persistence.
    pub fn start() -> RedisServer {
        RedisServer::with(&[])
    }

    /// Starts one with more arguments (`--maxmemory 1mb`, `--requirepass x`, …).
    pub fn with(args: &[&str]) -> RedisServer {
        RedisServer::in_dir(tempfile::tempdir().unwrap(), args)
    }

    /// The same with its working directory given, for sockets and certificates.
    pub fn in_dir(dir: TempDir, args: &[&str]) -> RedisServer {
        RedisServer::of(redis_server(), dir, args)
    }
    /// The same of another program.
    pub fn of(program: OsString, dir: TempDir, args: &[&str]) -> RedisServer {
        let mut password = args.iter().skip_while(|arg| **arg != "--requirepass");
        let password = password.nth(1).map(|p| p.to_string());
        let args: Vec<String> = args.iter().map(|arg| arg.to_string()).collect();
        // A node of a cluster takes a second port, 10,000 higher: there may be none, or another process
        // may have it.
        for _ in 0..100 {
            let port = Port::free();
            let mut child = spawn(&program, port.number, &args, dir.path());
            if ready(&mut child, port.number, password.as_deref()) {
                return RedisServer { child, program, port, args, password, dir };
            }
        }
        panic!("redis-server does not start with {args:?}");
    }

    pub fn port(&self) -> u16 {
        self.port.number
    }
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }
    /// `redis://127.0.0.1:PORT`
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port())
    }

    /// A connection to it.
    pub fn client(&self) -> Client {
        let mut client = Client::connect(self.port()).unwrap();
        if let Some(password) = &self.password {
            assert_eq!(client.command(&["AUTH", password]), Reply::ok());
        }
        client
    }
    /// One command on a connection of its own.
    pub fn command<A: AsRef<[u8]>>(&self, args: &[A]) -> Reply {
        self.client().command(args)
    }

    /// How often a command was called, by `INFO commandstats`.
    pub fn calls(&self, command: &str) -> u64 {
        let Reply::Bulk(Some(info)) = self.command(&["INFO", "commandstats"]) else {
            panic!("INFO has no text");
        };
        let info = String::from_utf8(info).unwrap();
        let start = format!("cmdstat_{command}:calls=");
        let line = info.lines().find_map(|line| line.strip_prefix(&start));
        line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
    }

    /// Ends it as a crash would.
    pub fn kill(&mut self) {
        // Already dead is as good.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
    /// Starts it again on the same port, empty.
    pub fn restart(&mut self) {
        self.kill();
        let start = Instant::now();
        loop {
            self.child = spawn(&self.program, self.port(), &self.args, self.dir.path());
            if ready(&mut self.child, self.port.number, self.password.as_deref()) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "redis-server does not start again");
        }
    }
    /// Freezes it: connections are accepted by the kernel, nothing is answered.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
    }
    /// Lets it go on.
    pub fn cont(&self) {
        self.signal(Signal::CONT);
    }
    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }
}
impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Debian's redis-server 7.0, or the program that `LARDER_TEST_REDIS` names: `make test-valkey` runs
/// suites on a Valkey.
pub fn redis_server() -> OsString {
    std::env::var_os("LARDER_TEST_REDIS").unwrap_or_else(|| "redis-server".into())
}

fn spawn(program: &OsStr, port: u16, args: &[String], dir: &Path) -> Child {
    Command::new(program)
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args(["--save", "", "--appendonly", "no", "--enable-debug-command", "yes"])
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server is installed")
}

/// Waits until it answers PING; false if it ended instead.
fn ready(child: &mut Child, port: u16, password: Option<&str>) -> bool {
    let start = Instant::now();
    loop {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        if let Ok(mut client) = Client::connect(port) {
            if let Some(password) = password {
                client.try_command(&["AUTH", password]).ok();
            }
            if let Ok(Reply::Simple(pong)) = client.try_command(&["PING"]) {
                return pong == "PONG";
            }
        }
        assert!(start.elapsed() < PATIENCE, "redis-server does not answer");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A reply of RESP2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Simple(String),
    Error(String),
    Int(i64),
    Bulk(Option<Vec<u8>>),
    Array(Option<Vec<Reply>>),
}
impl Reply {
    pub fn ok() -> Reply {
        Reply::Simple("OK".to_owned())
    }
    pub fn nil() -> Reply {
        Reply::Bulk(None)
    }
    pub fn bulk(value: impl AsRef<[u8]>) -> Reply {
        Reply::Bulk(Some(value.as_ref().to_vec()))
    }
    pub fn error(&self) -> &str {
        match self {
            Reply::Error(text) => text,
            other => panic!("not an error: {other:?}"),
        }
    }
    pub fn int(&self) -> i64 {
        match self {
            Reply::Int(value) => *value,
            other => panic!("not an integer: {other:?}"),
        }
    }
}

/// A blocking RESP2 connection, to redis-server or to Larder.
pub struct Client {
    stream: BufReader<TcpStream>,
}
impl Client {
    pub fn connect(port: u16) -> std::io::Result<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Client { stream: BufReader::new(stream) })
    }
    /// The other side has not closed it, as far as is known here; nothing is owed by it.
    pub fn is_open(&self) -> bool {
        let stream = self.stream.get_ref();
        stream.set_nonblocking(true).unwrap();
        let peeked = stream.peek(&mut [0]);
        stream.set_nonblocking(false).unwrap();
        matches!(peeked, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
    }
    /// Sends a command and reads its reply.
    #[track_caller]
    pub fn command<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Reply {
        self.try_command(args).unwrap()
    }
    pub fn try_command<A: AsRef<[u8]>>(&mut self, args: &[A]) -> std::io::Result<Reply> {
        self.send(args)?;
        self.read()
    }
    /// Sends a command only.
    pub fn send<A: AsRef<[u8]>>(&mut self, args: &[A]) -> std::io::Result<()> {
        let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args {
            let arg = arg.as_ref();
            bytes.extend(format!("${}\r\n", arg.len()).into_bytes());
            bytes.extend(arg);
            bytes.extend(b"\r\n");
        }
        self.stream.get_mut().write_all(&bytes)
    }
    /// Reads a reply.
    pub fn read(&mut self) -> std::io::Result<Reply> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let (kind, text) = line.trim_end().split_at(1);
        let number = || text.parse::<i64>().expect("a number");
        Ok(match kind {
            "+" => Reply::Simple(text.to_owned()),
            "-" => Reply::Error(text.to_owned()),
            ":" => Reply::Int(number()),
            "$" if number() < 0 => Reply::Bulk(None),
            "$" => {
                let mut value = vec![0; usize::try_from(number()).unwrap() + 2];
                self.stream.read_exact(&mut value)?;
                value.truncate(value.len() - 2);
                Reply::Bulk(Some(value))
            }
            "*" if number() < 0 => Reply::Array(None),
            "*" => Reply::Array(Some((0..number()).map(|_| self.read()).collect::<Result<_, _>>()?)),
            other => panic!("not a RESP2 reply: {other:?} {text}"),
        })
    }
}
