//! `larder-bench verify`: is the load generator itself honest?
use crate::lib::{
    blocking_clients::RespClient,
    dataset,
    figures::{self, Figure, FigureTarget, median},
    machine,
    servers::{self, ServerProcess, Start, require},
};
use anyhow::{Context, ensure};
use clap::ValueEnum;
use serde_json::Value;
use std::{
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Holds `larder-bench run` against arithmetic, its own schedule, wrk and redis-benchmark
///
/// stall: a server of this program falls silent for 200 ms every 10 s. Of the requests of a fixed
/// schedule, 2 % are due meanwhile and wait from 200 ms down to nothing, so p99 must be 100 ms and
/// p99.9 190 ms. Deviation from that; service times beside it, which hide the stall.
///
/// rate: throughput against what was asked for, from 1,000 to 200,000 requests a second on one
/// thread, 8 connections with up to 32 requests in flight, redis-server answering.
///
/// agreement: closed loops of 50 connections, this program and redis-benchmark or wrk in turn, the
/// medians of --runs: throughput. The servers have much to do for a request (redis-server: BITCOUNT
/// of a megabyte; nginx: a file to be compressed), so that they set the pace.
///
/// cost: the same against servers that are quick (redis-server: GET, unpipelined and 16 at a time;
/// nginx: a small file): requests per second of the client's CPU time (user and system, from its
/// start to its end).
///
/// page: the page of two runs in Chromium (headless): what it has of the charts, and that it draws
/// them.
///
/// The server runs on the first core, the client on the second; both should have nothing else to
/// do.
#[derive(Debug, clap::Args)]
pub(crate) struct VerifyArgs {
    /// Checks to run (default: all)
    #[arg(long, value_delimiter = ',')]
    check: Vec<Check>,
    /// Runs of each client, of which the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// Length of one load in seconds (stall: 20 in any case)
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Keep the page's picture
    #[arg(long, value_name = "FILE.png")]
    screenshot: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Check {
    /// A stalling server's percentiles against arithmetic
    Stall,
    /// Rates against what was asked for
    Rate,
    /// Throughput against redis-benchmark and wrk
    Agreement,
    /// Load per CPU second against redis-benchmark and wrk
    Cost,
    /// A page in Chromium
    Page,
}

/// Runs the program.
pub(crate) fn run(args: &VerifyArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let (server_core, core) = machine::server_and_client_core()?;
    let mut verification = Verification { args, server_core, core, out };
    for check in if args.check.is_empty() { Check::value_variants() } else { &args.check } {
        match check {
            Check::Stall => verification.stall()?,
            Check::Rate => verification.rates()?,
            Check::Agreement => verification.agreement()?,
            Check::Cost => verification.cost()?,
            Check::Page => verification.page()?,
        }
    }
    Ok(())
}

const KEYS: &[&str] = &["--keys", "100000", "--key", "key:{n:012}"];
/// redis-benchmark's command for the same keys.
const GET: &[&str] = &["GET", "key:__rand_int__"];

const PERIOD: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_millis(200);

/// The latency that a share of the requests of a fixed schedule does not exceed, if the server
/// answers at once but for its silence.
fn predicted_ms(share: f64) -> f64 {
    let (period, silence) = (PERIOD.as_secs_f64(), SILENCE.as_secs_f64());
    // A share silence/period of the requests waits, evenly from 0 to the whole silence.
    ((share - 1.0) * period + silence).max(0.0) * 1e3
}

/// Answers every request with OK, but for the last 200 ms of each 10 s.
fn serve(mut stream: TcpStream, start: Instant) {
    let mut input = [0; 65536];
    while let Ok(count @ 1..) = stream.read(&mut input) {
        let within = Duration::from_nanos((start.elapsed().as_nanos() % PERIOD.as_nanos()) as u64);
        if within > PERIOD - SILENCE {
            thread::sleep(PERIOD - within);
        }
        let requests = input[..count].iter().filter(|&&byte| byte == b'*').count();
        if stream.write_all(&b"+OK\r\n".repeat(requests)).is_err() {
            return;
        }
    }
}

/// What a client did: requests, requests per second, and its CPU time in seconds.
struct ClientRun {
    requests: f64,
    per_second: f64,
    cpu: f64,
}

/// A load of a server by a client.
type Client<'a> = &'a dyn Fn() -> anyhow::Result<ClientRun>;

struct Verification<'a> {
    args: &'a VerifyArgs,
    server_core: usize,
    core: usize,
    out: &'a mut dyn Write,
}

impl Verification<'_> {
    fn figure(&mut self, name: impl Into<String>, value: f64, target: Option<FigureTarget>) -> anyhow::Result<()> {
        figures::line(self.out, &Figure::new("verify", name.into(), value, target))
    }

    /// A deviation from 1, in either direction, and its bound.
    fn deviation(&mut self, name: String, ratio: f64, most: f64) -> anyhow::Result<()> {
        self.figure(name, (ratio - 1.0).abs(), Some(FigureTarget::AtMost(most)))
    }

    /// Runs a command to its end, on the client's core; what it printed.
    fn output(&self, command: &mut Command) -> anyhow::Result<String> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let name = command.get_program().to_string_lossy().into_owned();
        let child = machine::spawn_on(Some(self.core), command).with_context(|| format!("cannot start {name}"))?;
        let output = child.wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (status, errors) = (output.status, String::from_utf8_lossy(&output.stderr));
        ensure!(status.success(), "{name} ended with {status}: {text}{errors}");
        Ok(text)
    }

    /// `larder-bench run` in a process of its own, as the others are.
    fn larder_bench(&self, url: &str, options: &[&str]) -> anyhow::Result<Value> {
        let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
        let text = self.output(command.args(["run", "--json", "--url", url]).args(options))?;
        let result: Value = serde_json::from_str(text.lines().last().unwrap_or_default())?;
        let errors = result["errors"].as_object().context("a result without errors")?;
        ensure!(errors.values().all(|count| *count == 0), "errors in a verification: {result}");
        Ok(result)
    }

    /// redis-server with the keys that redis-benchmark asks for.
    fn redis(&self) -> anyhow::Result<(ServerProcess, String)> {
        let server = servers::redis(Some(self.server_core))?;
        let url = format!("redis://{}", server.address);
        self.larder_bench(&url, &[KEYS, &["--preload", "--requests", "1"]].concat())?;
        Ok((server, url))
    }

    fn nginx(&self, name: &str, bytes: &[u8], http: &str) -> anyhow::Result<Served> {
        let files = [(format!("root/{name}"), bytes.to_vec())];
        let with = Start { core: Some(self.server_core), files: &files, set: &[("http", http)], ..Start::default() };
        let server = servers::start("nginx-static", with)?;
        Ok((format!("http://{}/{name}", server.address), server))
    }

    /// Two periods at 5000 requests a second; what waited leaves quickly, 16 at a time on 8
    /// connections.
    fn stall(&mut self) -> anyhow::Result<()> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let url = format!("redis://{}", listener.local_addr()?);
        let (start, core) = (Instant::now(), self.server_core);
        // Ends with this program.
        thread::spawn(move || {
            if machine::pin(core).is_ok() {
                for stream in listener.incoming().map_while(Result::ok) {
                    thread::spawn(move || serve(stream, start));
                }
            }
        });
        let load = ["--rate", "5000", "--connections", "8", "--pipeline", "16", "--duration", "20s"];
        let result = self.larder_bench(&url, &load)?;
        for (name, share) in [("p99", 0.99), ("p999", 0.999)] {
            let (measured, predicted) = (number(&result, &["latency_ms", name])?, predicted_ms(share));
            self.figure(format!("stall {name} ms"), measured, None)?;
            self.deviation(format!("stall {name} deviation from {predicted:.0} ms"), measured / predicted, 0.05)?;
        }
        let service = number(&result, &["service_ms", "p99"])?;
        self.figure("stall p99 ms by service time, which hides it", service, None)
    }

    /// Throughput against the rate that was asked for, from 1,000 to 200,000 requests a second.
    fn rates(&mut self) -> anyhow::Result<()> {
        let (_server, url) = self.redis()?;
        for rate in ["1000", "20000", "100000", "200000"] {
            let duration = format!("{}s", self.args.seconds);
            let options = ["--rate", rate, "--connections", "8", "--pipeline", "32", "--duration", &duration];
            let result = self.larder_bench(&url, &[KEYS, &options].concat())?;
            let ratio = number(&result, &["throughput"])? / number(&result, &["target_rate"])?;
            self.deviation(format!("rate {rate}/s deviation"), ratio, 0.005)?;
            let lag = number(&result, &["client", "lag_ms", "p99"])?;
            self.figure(format!("rate {rate}/s lag p99 ms"), lag, None)?;
            self.figure(format!("rate {rate}/s latency p99 ms"), number(&result, &["latency_ms", "p99"])?, None)?;
        }
        Ok(())
    }

    /// Servers that answer sooner than redis-benchmark and wrk can ask: what a request costs the
    /// client.
    fn cost(&mut self) -> anyhow::Result<()> {
        let (server, url) = self.redis()?;
        let (wanted, cpu) = (Some(FigureTarget::AtLeast(1.0)), |run: &ClientRun| run.requests / run.cpu);
        for pipeline in [1, 16] {
            let depth = pipeline.to_string();
            let options = [KEYS, &["--pipeline", &depth]].concat();
            let (address, requests) = (server.address, self.benchmark_size(server.address, pipeline, GET)?);
            let compared =
                self.in_turn(&|| self.own(&url, &options), &|| self.benchmark(address, pipeline, requests, GET))?;
            self.report(&format!("cost: GET P{pipeline} larder-bench/redis-benchmark"), &compared, cpu, wanted)?;
        }
        drop(server);
        let (url, _nginx) = self.nginx("file", &[b'v'; 64], "")?;
        let compared = self.in_turn(&|| self.own(&url, &[]), &|| self.wrk(&url, &[]))?;
        self.report("cost: GET larder-bench/wrk", &compared, cpu, wanted)
    }

    /// Servers that have much to do for a request, so that they and not the clients set the
    /// throughput.
    fn agreement(&mut self) -> anyhow::Result<()> {
        let server = servers::redis(Some(self.server_core))?;
        let mut client = RespClient::connect(server.address, Duration::from_secs(10))?;
        client.call(&[b"SETBIT", b"bits", b"8000000", b"1"])?;
        const COUNT: &[&str] = &["BITCOUNT", "bits"];
        let (address, requests) = (server.address, self.benchmark_size(server.address, 1, COUNT)?);
        let own = || self.own(&format!("redis://{address}"), &["--op", "BITCOUNT bits"]);
        let compared = self.in_turn(&own, &|| self.benchmark(address, 1, requests, COUNT))?;
        let rate = |run: &ClientRun| run.per_second;
        self.report("agreement: BITCOUNT larder-bench/redis-benchmark", &compared, rate, None)?;
        drop(server);
        // Letters that do not compress well: some hundred microseconds for each answer, sent in chunks.
        let text: Vec<u8> = (0..16 * 1024).map(|number| b'a' + (dataset::mix(number) % 16) as u8).collect();
        let (url, _nginx) = self.nginx("text", &text, "gzip on; gzip_types *; gzip_min_length 0;")?;
        let header = "Accept-Encoding: gzip";
        let compared = self.in_turn(&|| self.own(&url, &["--header", header]), &|| self.wrk(&url, &["-H", header]))?;
        self.report("agreement: GET, gzip larder-bench/wrk", &compared, rate, None)
    }

    /// Runs both in turn, so that what happens to the machine happens to both.
    fn in_turn(&self, own: Client, rival: Client) -> anyhow::Result<[Vec<ClientRun>; 2]> {
        let mut compared = [Vec::new(), Vec::new()];
        for _ in 0..self.args.runs {
            compared[0].push(own()?);
            compared[1].push(rival()?);
        }
        Ok(compared)
    }

    /// The medians of two clients, and their ratio; without a target they must agree.
    fn report(
        &mut self,
        name: &str,
        compared: &[Vec<ClientRun>; 2],
        figure: fn(&ClientRun) -> f64,
        target: Option<FigureTarget>,
    ) -> anyhow::Result<()> {
        let [own, rival] = compared.each_ref().map(|runs| median(&runs.iter().map(figure).collect::<Vec<_>>()));
        self.figure(format!("{name}: ours"), own, None)?;
        self.figure(format!("{name}: theirs"), rival, None)?;
        match target {
            Some(_) => self.figure(name, own / rival, target),
            None => self.deviation(format!("{name} deviation"), own / rival, 0.05),
        }
    }

    /// Runs a client while no other child of this process ends, and takes its CPU time.
    fn with_cpu(&self, client: impl FnOnce() -> anyhow::Result<(f64, f64)>) -> anyhow::Result<ClientRun> {
        let before = machine::ended_children_cpu_time()?;
        let (requests, per_second) = client()?;
        let cpu = (machine::ended_children_cpu_time()? - before).as_secs_f64();
        Ok(ClientRun { requests, per_second, cpu })
    }

    fn own(&self, url: &str, options: &[&str]) -> anyhow::Result<ClientRun> {
        let duration = format!("{}s", self.args.seconds);
        let closed = ["--connections", "50", "--duration", &duration];
        self.with_cpu(|| {
            let result = self.larder_bench(url, &[&closed, options].concat())?;
            Ok((number(&result, &["requests"])?, number(&result, &["throughput"])?))
        })
    }

    /// redis-benchmark: a command in which `__rand_int__` stands for a random number of twelve
    /// digits, `pipeline` at a time.
    fn benchmark(
        &self,
        address: SocketAddr,
        pipeline: u32,
        requests: u64,
        request: &[&str],
    ) -> anyhow::Result<ClientRun> {
        self.with_cpu(|| {
            let mut command = Command::new(require("redis-benchmark")?);
            command.args(["-h", &address.ip().to_string(), "-p", &address.port().to_string(), "-c", "50"]);
            command.args(["-n", &requests.to_string(), "-r", "100000", "-P", &pipeline.to_string(), "--csv"]);
            let text = self.output(command.args(request))?;
            Ok((requests as f64, parse_csv(&text).with_context(|| format!("redis-benchmark printed {text:?}"))?))
        })
    }

    /// As many requests as redis-benchmark sends in the time of a load.
    fn benchmark_size(&self, address: SocketAddr, pipeline: u32, request: &[&str]) -> anyhow::Result<u64> {
        let first = self.benchmark(address, pipeline, 10_000 * u64::from(pipeline), request)?;
        Ok((first.per_second * self.args.seconds as f64) as u64)
    }

    /// wrk: GET of one URL. An answer that is not 2xx, or a failed connection, is an error.
    fn wrk(&self, url: &str, more: &[&str]) -> anyhow::Result<ClientRun> {
        self.with_cpu(|| {
            let mut command = Command::new(require("wrk")?);
            command.args(["-t", "1", "-c", "50", "-d", &format!("{}s", self.args.seconds)]).args(more);
            let text = self.output(command.arg(url))?;
            ensure!(!text.contains("Non-2xx") && !text.contains("Socket errors"), "wrk met errors: {text}");
            parse_wrk(&text).with_context(|| format!("wrk printed {text:?}"))
        })
    }

    /// Two runs on one page, which Chromium reads, draws, and is asked what it has.
    fn page(&mut self) -> anyhow::Result<()> {
        let chromium = require("chromium").context("the page is looked at with Chromium")?;
        let folder = tempfile::tempdir()?;
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        let (first, page, picture) = (path("first.json"), path("page.html"), path("page.png"));
        let (_server, url) = self.redis()?;
        let load = ["--rate", "5000", "--connections", "4", "--duration", "2s"];
        self.larder_bench(&url, &[KEYS, &load, &["--name", "first", "--save", &first]].concat())?;
        let more = ["--name", "second", "--compare", &first, "--report", &page];
        self.larder_bench(&url, &[KEYS, &load, &more].concat())?;
        let browse = |browser: &Self, option: &str| -> anyhow::Result<String> {
            let mut command = Command::new(&chromium);
            command.args(["--headless", "--disable-gpu", "--window-size=1120,2300", option]);
            if rustix::process::getuid().is_root() {
                command.arg("--no-sandbox");
            }
            browser.output(command.arg(format!("file://{page}")))
        };
        let (written, document) = (std::fs::read_to_string(&page)?, browse(self, "--dump-dom")?);
        let parts = [("charts", "<svg ", 4.0), ("lines", "<polyline ", 8.0), ("heat map cells", "<rect ", 100.0)];
        for (name, element, least) in parts {
            let (has, wanted) = (document.matches(element).count(), written.matches(element).count());
            ensure!(has == wanted, "of {wanted} {name} of the page the browser has {has}");
            self.figure(format!("page: {name} in the browser"), has as f64, Some(FigureTarget::AtLeast(least)))?;
        }
        browse(self, &format!("--screenshot={picture}"))?;
        let drawn = std::fs::read(&picture).context("the browser drew nothing")?;
        // An empty page of this size packs into a few kilobytes.
        let least = Some(FigureTarget::AtLeast(50_000.0));
        self.figure("page: bytes of its screenshot", drawn.len() as f64, least)?;
        let keep = |to: &Path| std::fs::write(to, &drawn).with_context(|| format!("cannot write {}", to.display()));
        self.args.screenshot.as_deref().map_or(Ok(()), keep)
    }
}

/// A URL, and the server that answers it.
type Served = (String, ServerProcess);

fn number(result: &Value, path: &[&str]) -> anyhow::Result<f64> {
    let value = path.iter().fold(result, |value, name| &value[*name]);
    value.as_f64().with_context(|| format!("the result has no {path:?}"))
}

fn parse_csv(text: &str) -> Option<f64> {
    let (_, row) = text.lines().find(|line| !line.starts_with("\"test\""))?.split_once("\",\"")?;
    row.split('"').next()?.parse().ok()
}

/// Requests, and requests per second.
fn parse_wrk(text: &str) -> Option<(f64, f64)> {
    let find = |find: fn(&str) -> Option<&str>| text.lines().find_map(|line| find(line.trim()));
    let requests = find(|line| Some(line.split_once(" requests in ")?.0))?;
    let per_second = find(|line| line.strip_prefix("Requests/sec:"))?;
    Some((requests.parse().ok()?, per_second.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_of_a_hundred_wait() {
        assert!(predicted_ms(0.97) == 0.0 && predicted_ms(0.98).abs() < 1e-9);
        assert!((predicted_ms(0.99) - 100.0).abs() < 1e-9);
        assert!((predicted_ms(0.999) - 190.0).abs() < 1e-9);
    }

    #[test]
    fn redis_benchmarks_table_is_read() {
        let text = "\"test\",\"rps\",\"avg_latency_ms\"\n\"GET\",\"194174.75\",\"3.424\"\n";
        assert_eq!(parse_csv(text), Some(194_174.75));
        assert_eq!(parse_csv("WARNING: nothing\n"), None);
    }

    #[test]
    fn wrks_report_is_read() {
        let text = "Running 1s test @ http://127.0.0.1:1/\n  1 threads and 50 connections\n  \
                    85345 requests in 1.10s, 20.02MB read\nRequests/sec:  77600.31\nTransfer/sec:     18.20MB\n";
        assert_eq!(parse_wrk(text), Some((85_345.0, 77_600.31)));
        assert_eq!(parse_wrk("unable to connect\n"), None);
    }
}
