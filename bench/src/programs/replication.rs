//! `larder-bench replication`: what a replica costs its primary, how far it is behind, and how long
//! a full copy takes.
use crate::lib::{
    blocking_clients::{RedisReply, RespClient},
    figures::{self, Figure, FigureTarget, median},
    machine,
    servers::{ServerProcess, larder},
};
use serde::Serialize;
use std::{
    io::Write,
    path::PathBuf,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// What a replica costs its primary, how far it is behind, and how long a full copy takes
///
/// The primary runs on one core, the client and the replica on the other. SETs of --entries keys
/// with values of 64 bytes, one at a time and 16 in a pipeline, on one connection, are sent to a
/// primary without a replica and to one with, in turns; the CPU time per SET of the primary
/// (proc_pid_stat(5)) is compared, medians of --runs turns. Then the lag: while the pipelines go
/// on, one key is set to the present time and read from the replica; the age of what is read, p50
/// and p99. Last, the time from REPLICAOF until a replica has a copy of --copied entries.
#[derive(Debug, clap::Args)]
pub(crate) struct ReplicationArgs {
    /// The program under test
    #[arg(long, default_value = "target/release/larder")]
    larder: PathBuf,
    /// Keys that are written
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    entries: u64,
    /// SETs of a turn with pipelines; one at a time, a fifth of it
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(100..))]
    sets: u64,
    /// Turns, of which the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// Entries of the full copy
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    copied: u64,
}

const PATIENCE: Duration = Duration::from_secs(120);
const VALUE: [u8; 64] = [b'v'; 64];
/// A replica may cost its primary so much of a SET's CPU time.
const COST: FigureTarget = FigureTarget::AtMost(1.1);
const MEMORY: &str = "--max-memory=1GiB";

#[derive(Debug, Serialize)]
struct TurnRow {
    program: &'static str,
    pipeline: u64,
    replicas: u64,
    cpu_us_per_set: f64,
}

fn start(args: &ReplicationArgs, core: usize) -> anyhow::Result<ServerProcess> {
    larder(&args.larder, Some(core), &[MEMORY])
}

fn client(server: &ServerProcess) -> anyhow::Result<RespClient> {
    RespClient::connect(server.address, PATIENCE)
}

/// Makes a server follow another, or none, and waits until it does.
fn follow(server: &ServerProcess, primary: Option<&ServerProcess>) -> anyhow::Result<()> {
    let mut client = client(server)?;
    match primary {
        None => drop(client.call(&[b"REPLICAOF", b"NO", b"ONE"])?),
        Some(primary) => {
            let (host, port) = (primary.address.ip().to_string(), primary.address.port().to_string());
            client.call(&[b"REPLICAOF", host.as_bytes(), port.as_bytes()])?;
            let begun = Instant::now();
            loop {
                let RedisReply::Bulk(Some(info)) = client.call(&[b"INFO", b"replication"])? else {
                    anyhow::bail!("INFO has no text")
                };
                if String::from_utf8_lossy(&info).contains("master_link_status:up") {
                    break;
                }
                anyhow::ensure!(begun.elapsed() < PATIENCE, "the replica does not follow");
                thread::sleep(Duration::from_millis(1));
            }
        }
    }
    Ok(())
}

/// Sends so many SETs, `pipeline` at a time.
fn set(client: &mut RespClient, sets: u64, entries: u64, pipeline: u64) -> anyhow::Result<()> {
    let mut random = fastrand::Rng::with_seed(sets);
    for _ in 0..sets / pipeline {
        for _ in 0..pipeline {
            let key = format!("key:{:012}", random.u64(..entries));
            client.queue(&[b"SET", key.as_bytes(), &VALUE]);
        }
        client.flush()?;
        for _ in 0..pipeline {
            client.reply()?;
        }
    }
    Ok(())
}

/// Runs the program.
pub(crate) fn run(args: &ReplicationArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let (server_core, client_core) = machine::server_and_client_core()?;
    machine::pin(client_core)?;
    let (primary, replica) = (start(args, server_core)?, start(args, client_core)?);
    let mut writer = client(&primary)?;
    set(&mut writer, args.entries * 3, args.entries, 16)?;
    for (pipeline, sets) in [(16, args.sets), (1, args.sets / 5)] {
        let mut costs = [Vec::new(), Vec::new()];
        for _ in 0..args.runs {
            // A primary that logs nothing: a new one for each turn, since it goes on logging for a while.
            let alone = start(args, server_core)?;
            let mut other = client(&alone)?;
            set(&mut other, args.entries, args.entries, 16)?;
            follow(&replica, Some(&primary))?;
            for (replicas, server, writer) in [(0, &alone, &mut other), (1, &primary, &mut writer)] {
                let before = server.process().cpu_time()?;
                set(writer, sets, args.entries, pipeline)?;
                let spent = server.process().cpu_time()? - before;
                let cpu = spent.as_secs_f64() * 1e6 / sets as f64;
                costs[replicas].push(cpu);
                let cpu_us_per_set = figures::rounded(cpu);
                figures::line(
                    out,
                    &TurnRow { program: "replication", pipeline, replicas: replicas as u64, cpu_us_per_set },
                )?;
            }
        }
        let [without, with] = costs.map(|costs| median(&costs));
        let figure = format!("CPU per SET with a replica/without, pipeline {pipeline}");
        figures::line(out, &Figure::new("replication", figure, with / without, Some(COST)))?;
    }
    for (name, lag) in lags(args, &primary, &replica, &mut writer)? {
        figures::line(out, &Figure::new("replication", format!("lag under load, {name}, ms"), lag, None))?;
    }
    follow(&replica, None)?;
    let full = start(args, server_core)?;
    let mut filler = client(&full)?;
    for from in (0..args.copied).step_by(1000) {
        let batch = from..(from + 1000).min(args.copied);
        for key in batch.clone() {
            filler.queue(&[b"SET", format!("key:{key:012}").as_bytes(), &VALUE]);
        }
        filler.flush()?;
        for _ in batch {
            filler.reply()?;
        }
    }
    let begun = Instant::now();
    follow(&replica, Some(&full))?;
    let figure = format!("full copy of {} entries, s", args.copied);
    figures::line(out, &Figure::new("replication", figure, begun.elapsed().as_secs_f64(), None))
}

/// The age of what a replica has, while writes go on: p50 and p99, ms.
fn lags(
    args: &ReplicationArgs,
    primary: &ServerProcess,
    replica: &ServerProcess,
    writer: &mut RespClient,
) -> anyhow::Result<[(&'static str, f64); 2]> {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let mut reader = client(replica)?;
    let mut clock = client(primary)?;
    let mut lags = Vec::new();
    let begun = Instant::now();
    while lags.len() < 2000 && begun.elapsed() < PATIENCE {
        let set_at = now().to_string();
        clock.call(&[b"SET", b"clock", set_at.as_bytes()])?;
        set(writer, 160, args.entries, 16)?;
        if let RedisReply::Bulk(Some(read)) = reader.call(&[b"GET", b"clock"])? {
            let then: u128 = String::from_utf8_lossy(&read).parse()?;
            lags.push((now() - then) as f64 / 1e6);
        }
    }
    anyhow::ensure!(!lags.is_empty(), "nothing has reached the replica");
    lags.sort_by(f64::total_cmp);
    Ok([("p50", lags[lags.len() / 2]), ("p99", lags[lags.len() * 99 / 100])])
}
