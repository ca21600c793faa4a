//! The load generators of Debian: redis-benchmark and wrk. They are run pinned to a core, and what
//! they print is read.
use crate::lib::{machine, servers::require};
use anyhow::{Context, ensure};
use std::{
    io::Write,
    net::SocketAddr,
    process::{Command, Stdio},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Connections that a load keeps open.
const CONNECTIONS: &str = "50";

/// What a client did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Done {
    /// Requests that were answered.
    pub(crate) requests: u64,
    /// Requests per second.
    pub(crate) per_second: f64,
}

/// What a command printed, and the CPU time (user and system) that it took; resolution 10 ms.
#[derive(Debug)]
pub(crate) struct Ran<T> {
    pub(crate) result: T,
    pub(crate) cpu: Duration,
}

/// Runs a client while no other child of this process ends, and takes its CPU time.
pub(crate) fn with_cpu<T>(client: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<Ran<T>> {
    let before = machine::ended_children_cpu_time()?;
    let result = client()?;
    Ok(Ran { result, cpu: machine::ended_children_cpu_time()? - before })
}

/// redis-benchmark: a command in which `__rand_int__` stands for `000000000000` to one below
/// `keys`, at random, `pipeline` at a time.
pub(crate) fn redis_benchmark(
    core: usize,
    address: SocketAddr,
    keys: u64,
    pipeline: u32,
    requests: u64,
    request: &[&str],
) -> anyhow::Result<Done> {
    let mut command = Command::new(require("redis-benchmark")?);
    command.args(["-h", &address.ip().to_string(), "-p", &address.port().to_string()]);
    command.args(["-c", CONNECTIONS, "-n", &requests.to_string(), "-r", &keys.to_string()]);
    command.args(["-P", &pipeline.to_string(), "--csv"]).args(request);
    let text = output(core, &mut command)?;
    let per_second = parse_csv(&text).with_context(|| format!("redis-benchmark printed {text:?}"))?;
    Ok(Done { requests, per_second })
}

fn parse_csv(text: &str) -> Option<f64> {
    let (_, row) = text.lines().find(|line| !line.starts_with("\"test\""))?.split_once("\",\"")?;
    row.split('"').next()?.parse().ok()
}

/// wrk: GET of one URL for some seconds. An answer that is not 2xx, or a failed connection, is an
/// error.
pub(crate) fn wrk(core: usize, address: SocketAddr, path: &str, seconds: u64) -> anyhow::Result<Done> {
    wrk_with(core, address, path, seconds, &[])
}

/// The same, with more options.
pub(crate) fn wrk_with(
    core: usize,
    address: SocketAddr,
    path: &str,
    seconds: u64,
    more: &[&str],
) -> anyhow::Result<Done> {
    let mut command = Command::new(require("wrk")?);
    command.args(["-t", "1", "-c", CONNECTIONS, "-d", &format!("{seconds}s")]).args(more);
    command.arg(format!("http://{address}{path}"));
    let text = output(core, &mut command)?;
    ensure!(!text.contains("Non-2xx") && !text.contains("Socket errors"), "wrk met errors: {text}");
    parse_wrk(&text).with_context(|| format!("wrk printed {text:?}"))
}

/// The same on paths that begin with `path` and are asked for once each, ever.
pub(crate) fn wrk_new_paths(core: usize, address: SocketAddr, path: &str, seconds: u64) -> anyhow::Result<Done> {
    let mut script = tempfile::NamedTempFile::with_suffix(".lua")?;
    let run = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros();
    writeln!(
        script,
        "local n = 0 request = function() n = n + 1 return wrk.format(nil, string.format('{path}{run:x}-%012d', n)) end"
    )?;
    let script = script.path().to_string_lossy().into_owned();
    wrk_with(core, address, "/", seconds, &["-s", &script])
}

fn parse_wrk(text: &str) -> Option<Done> {
    let find = |find: fn(&str) -> Option<&str>| text.lines().find_map(|line| find(line.trim()));
    let requests = find(|line| Some(line.split_once(" requests in ")?.0))?;
    let per_second = find(|line| line.strip_prefix("Requests/sec:"))?;
    Some(Done { requests: requests.parse().ok()?, per_second: per_second.trim().parse().ok()? })
}

/// Runs a command to its end, on one core; what it printed.
pub(crate) fn output(core: usize, command: &mut Command) -> anyhow::Result<String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let name = command.get_program().to_string_lossy().into_owned();
    let child = machine::spawn_on(Some(core), command).with_context(|| format!("cannot start {name}"))?;
    let output = child.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "{name} ended with {}: {text}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let expected = Done { requests: 85_345, per_second: 77_600.31 };
        assert_eq!(parse_wrk(text), Some(expected));
        assert_eq!(parse_wrk("unable to connect\n"), None);
    }
}
