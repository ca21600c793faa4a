//! `larder-bench overload`: goodput while more is asked than a server can do, with
//! `max-queue-delay` and without.
use crate::lib::{
    blocking_clients::{RedisReply, RespClient},
    figures::{self, Figure, FigureTarget, median, rounded},
    machine::{pin, server_and_client_core},
    servers,
};
use anyhow::{Context, ensure};
use serde::Serialize;
use std::{
    collections::VecDeque,
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    time::{Duration, Instant},
};

/// Goodput while more is asked than a server can do, with `max-queue-delay` and without
///
/// One server of each kind, on one core, the clients on another. First the capacity: the most
/// commands per second while each connection waits for its replies. Then, for each multiple of it
/// in --loads, clients send at that rate whatever the server does (an open loop), over
/// --connections connections. A reply counts as good if it is no error and comes within --deadline
/// of the time at which its command was due. The command is JSON.ARRLEN of a document of
/// --document-size bytes: small requests and replies, and work that costs the server more than a
/// refusal does.
///
/// Commands that the program itself sent over 5 ms after they were due, because it was not given
/// its core, count nowhere.
///
/// Prints a line for each load and server, the median of --runs, and the ratios of the goodput at
/// three times the capacity to the best.
#[derive(Debug, clap::Args)]
pub(crate) struct OverloadArgs {
    /// The larder to measure
    #[arg(long, default_value = "target/release/larder")]
    larder: PathBuf,
    /// `max-queue-delay` of the server that has it
    #[arg(long, default_value = "10ms")]
    queue_delay: String,
    /// Replies that come later are not good, milliseconds
    #[arg(long, default_value_t = 50)]
    deadline: u64,
    /// Multiples of the capacity
    #[arg(long, value_delimiter = ',', default_value = "0.5,0.8,1,1.5,2,3,4")]
    loads: Vec<f64>,
    /// Open connections
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    connections: u64,
    /// Bytes of the document whose elements are counted, about
    #[arg(long, default_value_t = 131_072, value_parser = clap::value_parser!(u64).range(1..=1 << 26))]
    document_size: u64,
    /// Length of each load, seconds
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Turns, of which the median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
}

const PATIENCE: Duration = Duration::from_secs(60);
/// A command that the program sends later than this counts nowhere.
const SLACK: Duration = Duration::from_millis(5);
const COMMAND: &[u8] = b"*3\r\n$11\r\nJSON.ARRLEN\r\n$1\r\nv\r\n$1\r\n.\r\n";
/// Commands that each connection has under way while the capacity is measured.
const PIPELINE: usize = 4;
/// The multiple of the capacity at which goodput is held against the best.
const HELD_AT: f64 = 3.0;
/// With the limit, so much of the best goodput is left there.
const KEPT: FigureTarget = FigureTarget::AtLeast(0.9);

#[derive(Debug, Serialize)]
struct LoadRow {
    program: &'static str,
    max_queue_delay: Option<String>,
    /// Of the capacity.
    load: f64,
    offered_per_s: f64,
    goodput_per_s: f64,
    refused_per_s: f64,
    late_per_s: f64,
    unanswered_per_s: f64,
    p99_ms: f64,
}

/// What became of the commands of one load.
#[derive(Debug, Default)]
struct Outcome {
    sent: u64,
    good: u64,
    refused: u64,
    late: u64,
    /// Of replies that are no errors, in microseconds.
    latencies: Vec<u64>,
}

struct Connection {
    stream: TcpStream,
    output: Vec<u8>,
    /// When the commands without a reply were due; `None`: they do not count.
    due: VecDeque<Option<Instant>>,
    /// A reply that has come in part.
    line: Vec<u8>,
}

impl Connection {
    fn open(address: SocketAddr) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(address).context("cannot connect")?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Connection { stream, output: Vec::new(), due: VecDeque::new(), line: Vec::new() })
    }

    fn ask(&mut self, due: Option<Instant>) {
        self.output.extend_from_slice(COMMAND);
        self.due.push_back(due);
    }

    /// Sends and receives what is possible now; calls `replied` for each reply.
    fn turn(&mut self, sink: &mut [u8], mut replied: impl FnMut(Option<Instant>, bool)) -> anyhow::Result<()> {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(sent) => drop(self.output.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        if self.due.is_empty() {
            return Ok(());
        }
        loop {
            let read = match self.stream.read(sink) {
                Ok(0) => anyhow::bail!("the server closed the connection"),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            for byte in &sink[..read] {
                self.line.push(*byte);
                if *byte == b'\n' {
                    let is_error = self.line[0] == b'-';
                    ensure!(is_error || self.line[0] == b':', "{}", String::from_utf8_lossy(&self.line));
                    let overloaded = self.line.starts_with(b"-ERR overloaded");
                    ensure!(!is_error || overloaded, "{}", String::from_utf8_lossy(&self.line));
                    self.line.clear();
                    replied(self.due.pop_front().context("a reply too many")?, is_error);
                }
            }
            if read < sink.len() {
                return Ok(());
            }
        }
    }
}

/// Sends at a rate for a time, whatever comes back.
fn open_loop(address: SocketAddr, args: &OverloadArgs, rate: f64) -> anyhow::Result<Outcome> {
    let mut connections: Vec<_> =
        (0..args.connections).map(|_| Connection::open(address)).collect::<anyhow::Result<_>>()?;
    let (mut outcome, mut sink) = (Outcome::default(), vec![0; 1 << 16]);
    let deadline = Duration::from_millis(args.deadline);
    let (start, length) = (Instant::now(), Duration::from_secs(args.seconds));
    let (mut next, mut asked) = (0, 0);
    // Replies that come later than this after the last command are late in any case.
    while start.elapsed() < length + deadline {
        let now = start.elapsed();
        let due = (now.min(length).as_secs_f64() * rate) as u64;
        while asked < due {
            let at = start + Duration::from_secs_f64(asked as f64 / rate);
            let counts = at.elapsed() <= SLACK;
            connections[next].ask(counts.then_some(at));
            next = (next + 1) % connections.len();
            asked += 1;
            outcome.sent += u64::from(counts);
        }
        for connection in &mut connections {
            connection.turn(&mut sink, |due, is_error| {
                let Some(due) = due else { return };
                let took = due.elapsed();
                match is_error {
                    true => outcome.refused += 1,
                    false => {
                        outcome.latencies.push(took.as_micros() as u64);
                        if took <= deadline { outcome.good += 1 } else { outcome.late += 1 }
                    }
                }
            })?;
        }
    }
    Ok(outcome)
}

/// Commands per second while each connection waits for its replies.
fn capacity(address: SocketAddr, args: &OverloadArgs) -> anyhow::Result<f64> {
    let mut connections: Vec<_> =
        (0..args.connections).map(|_| Connection::open(address)).collect::<anyhow::Result<_>>()?;
    let (start, length, mut sink) = (Instant::now(), Duration::from_secs(args.seconds), vec![0; 1 << 16]);
    let mut replies = 0_u64;
    while start.elapsed() < length {
        for connection in &mut connections {
            while connection.due.len() < PIPELINE {
                connection.ask(None);
            }
            connection.turn(&mut sink, |_, _| replies += 1)?;
        }
    }
    Ok(replies as f64 / start.elapsed().as_secs_f64())
}

/// Waits until the server has forgotten the last load.
fn settle(address: SocketAddr) -> anyhow::Result<()> {
    let start = Instant::now();
    let mut quick = 0;
    while quick < 20 {
        ensure!(start.elapsed() < PATIENCE, "the server does not come to rest");
        let asked = Instant::now();
        let reply = RespClient::connect(address, PATIENCE)?.call(&[b"JSON.ARRLEN", b"v", b"."])?;
        let is_quick = asked.elapsed() < Duration::from_millis(5) && matches!(reply, RedisReply::Integer(_));
        quick = if is_quick { quick + 1 } else { 0 };
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Runs the program.
pub(crate) fn run(args: &OverloadArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let (server_core, client_core) = server_and_client_core()?;
    let limit = format!("--max-queue-delay={}", args.queue_delay);
    let servers = [None, Some(limit)].map(|limit| {
        let arguments: Vec<&str> = limit.as_deref().into_iter().collect();
        let server = servers::larder(&args.larder, Some(server_core), &arguments)?;
        let document = format!("[{}1]", "1234567,".repeat(args.document_size as usize / 8));
        let set = [&b"JSON.SET"[..], b"v", b".", document.as_bytes()];
        let reply = RespClient::connect(server.address, PATIENCE)?.call(&set)?;
        ensure!(reply == RedisReply::Status("OK".into()), "{reply:?}");
        Ok((server, limit.map(|_| args.queue_delay.clone())))
    });
    let servers = servers.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    pin(client_core)?;
    let mut best = [0.0_f64; 2];
    let mut held = [None; 2];
    let rates = (0..args.runs).map(|_| capacity(servers[0].0.address, args)).collect::<anyhow::Result<Vec<_>>>()?;
    let capacity = median(&rates);
    figures::line(out, &Figure::new("overload", "capacity, commands per second".into(), capacity, None))?;
    for load in &args.loads {
        let mut rows: [Vec<Outcome>; 2] = Default::default();
        for _ in 0..args.runs {
            for ((server, _), rows) in servers.iter().zip(&mut rows) {
                // All: a server still works through the last load for a while, on the same core.
                servers.iter().try_for_each(|(server, _)| settle(server.address))?;
                rows.push(open_loop(server.address, args, capacity * load)?);
            }
        }
        for (at, mut outcomes) in rows.into_iter().enumerate() {
            let per_second = |count: &dyn Fn(&Outcome) -> u64| {
                let counts: Vec<f64> = outcomes.iter().map(|of| count(of) as f64).collect();
                rounded(median(&counts) / args.seconds as f64)
            };
            let goodput = per_second(&|of| of.good);
            let row = LoadRow {
                program: "overload",
                max_queue_delay: servers[at].1.clone(),
                load: *load,
                offered_per_s: per_second(&|of| of.sent),
                goodput_per_s: goodput,
                refused_per_s: per_second(&|of| of.refused),
                late_per_s: per_second(&|of| of.late),
                unanswered_per_s: per_second(&|of| of.sent - of.good - of.late - of.refused),
                p99_ms: rounded(p99(&mut outcomes)),
            };
            figures::line(out, &row)?;
            best[at] = best[at].max(goodput);
            if *load == HELD_AT {
                held[at] = Some(goodput);
            }
        }
    }
    for (at, name) in ["without max-queue-delay", "with max-queue-delay"].into_iter().enumerate() {
        if let Some(goodput) = held[at] {
            let figure = format!("goodput at {HELD_AT} x capacity / best goodput, {name}");
            figures::line(out, &Figure::new("overload", figure, goodput / best[at], (at == 1).then_some(KEPT)))?;
        }
    }
    Ok(())
}

/// Of the replies of all runs, in milliseconds.
fn p99(outcomes: &mut [Outcome]) -> f64 {
    let mut all: Vec<u64> = outcomes.iter_mut().flat_map(|of| of.latencies.drain(..)).collect();
    all.sort_unstable();
    all.get(all.len().saturating_sub(1) * 99 / 100).map_or(f64::NAN, |micros| *micros as f64 / 1000.0)
}
