//! `larder-bench postgres`: Larder in front of PostgreSQL.
use crate::lib::{
    blocking_clients::RespClient,
    figures::{self, Figure, FigureTarget, in_turn, median},
    machine,
    results::{chart::Axis, chart_file::file, origin, server_use::ServerWatch},
    servers::{self, ServerProcess, Start},
    sql_client::SqlClient,
};
use anyhow::{Context, ensure};
use serde::Serialize;
use std::{
    io::Write,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

/// Measures Larder in front of PostgreSQL: misses, the change stream, staleness, and a cache-aside
/// loop beside it
///
/// The database, Larder and redis-server run on one core, all clients on another. Of the table, the
/// key is an integer and the value a column. miss: GETs of keys that were never read, one at a time
/// and by 16, beside the same query prepared by tokio-postgres, and hits; in turn, medians count.
/// stream: what Larder uses while 5,000 rows a second of its table change, each in a transaction,
/// and nothing is cached. staleness: 2,000 such changes a second; a row is changed, and read until
/// the read is new; the time from the commit to the start of the last old read. aside: eight clients
/// read skewed keys through Larder, or from redis-server, as cache-aside does (GET; SELECT; SET for
/// a minute), while rows change; its writer deletes the key after each change. A read is wrong if a
/// newer value was committed 100 ms before it began.
///
/// Prints a line for each figure; with --out also charts.
#[derive(Debug, clap::Args)]
pub(crate) struct PostgresArgs {
    /// The larder binary (a release build)
    #[arg(long, value_name = "PATH")]
    larder: PathBuf,
    /// Only these parts: miss, stream, staleness, aside
    #[arg(long, value_delimiter = ',')]
    part: Vec<String>,
    /// Length of each load
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Folder for the charts
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

const PARTS: [&str; 4] = ["miss", "stream", "staleness", "aside"];
const ROWS: u64 = 200_000;
const TIMEOUT: Duration = Duration::from_secs(10);
/// Rows that readers and writers of a load use.
const HOT: u64 = 10_000;
/// An old value that was read this long after its change was committed is a wrong read.
const GRACE: Duration = Duration::from_millis(100);
/// Changes a second beside the cache-aside loop.
const WRITES: [u64; 4] = [0, 200, 1_000, 2_000];
const CLIENTS: u64 = 8;
/// How often writers send.
const BEAT: Duration = Duration::from_millis(10);

/// The servers of a measurement. Larder ends before its database.
struct Bench {
    larder: ServerProcess,
    database: ServerProcess,
    cores: (usize, usize),
    length: Duration,
}

/// Runs the program.
pub(crate) fn run(args: &PostgresArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let unknown = args.part.iter().find(|part| !PARTS.contains(&&part[..]));
    ensure!(unknown.is_none(), "--part {} is none of {}", unknown.map_or("", |part| part), PARTS.join(", "));
    let cores = machine::server_and_client_core()?;
    machine::pin(cores.1)?;
    let database = servers::start("postgres", Start { core: Some(cores.0), ..Start::default() })?;
    let mut sql = SqlClient::connect(database.address)?;
    sql.run(&format!(
        "CREATE TABLE t (id int PRIMARY KEY, v bigint NOT NULL, pad text); \
         INSERT INTO t SELECT id, 0, repeat('x', 100) FROM generate_series(1, {ROWS}) id; ANALYZE t"
    ))?;
    let source = format!("postgres://app@{}/shop?table=t&columns=v", database.address);
    let more = ["--source", &source, "--max-memory", "256MiB"];
    let larder = servers::larder(&args.larder, Some(cores.0), &more)?;
    let bench = Bench { larder, database, cores, length: Duration::from_secs(args.seconds) };
    bench.until_announced()?;
    for part in PARTS.iter().filter(|part| args.part.is_empty() || args.part.iter().any(|of| of == *part)) {
        match *part {
            "miss" => bench.misses(out)?,
            "stream" => bench.stream(out)?,
            "staleness" => bench.staleness(out)?,
            _ => {
                let cells = bench.aside(out)?;
                let Some(folder) = &args.out else { continue };
                std::fs::create_dir_all(folder)?;
                for (name, chart) in charts(&cells, &origin::of_this_run()?) {
                    let path = folder.join(format!("{name}.svg"));
                    std::fs::write(&path, chart).with_context(|| format!("cannot write {}", path.display()))?;
                }
            }
        }
    }
    Ok(())
}

fn figure(
    out: &mut dyn Write,
    name: impl Into<String>,
    value: f64,
    target: Option<FigureTarget>,
) -> anyhow::Result<()> {
    figures::line(out, &Figure::new("postgres", name.into(), value, target))
}

/// Changes rows of [`HOT`], so many a second, each in a transaction, until `over`. `done` is told of
/// each, its row and its new value.
fn write_rows(
    database: SocketAddr,
    rate: u64,
    over: &AtomicBool,
    mut done: impl FnMut(u64, u64) -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    let (mut sql, mut random) = (SqlClient::connect(database)?, fastrand::Rng::with_seed(1));
    let (begun, mut sent) = (Instant::now(), 0u64);
    while !over.load(Relaxed) {
        let due = (begun.elapsed().as_secs_f64() * rate as f64) as u64;
        let rows: Vec<i32> = (sent..due).map(|_| skewed(&mut random) as i32).collect();
        sent = due;
        for (row, value) in rows.iter().zip(sql.add_one(&rows)?) {
            done(u64::try_from(*row)?, u64::try_from(value)?)?;
        }
        thread::sleep(BEAT);
    }
    Ok(sent)
}

/// A row, of which few are asked for often.
fn skewed(random: &mut fastrand::Rng) -> u64 {
    1 + (random.f64().powi(3) * HOT as f64) as u64
}

impl Bench {
    fn client(&self) -> anyhow::Result<RespClient> {
        RespClient::connect(self.larder.address, TIMEOUT)
    }
    fn until_announced(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        while self.client()?.info("larder", "larder_source_tracking_connections:")? != Some(1) {
            ensure!(Instant::now() < deadline, "PostgreSQL announces no changes");
            thread::sleep(BEAT);
        }
        Ok(())
    }

    fn misses(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        const KEYS: u64 = 1_600;
        const TURNS: u64 = 9;
        let (mut sql, mut client) = (SqlClient::connect(self.database.address)?, self.client()?);
        let [direct, miss, hit, together] = in_turn(TURNS, KEYS, |turn, kind| {
            let alone = HOT + turn * 2 * KEYS;
            let (alone, together) = (alone..alone + KEYS, alone + KEYS..alone + 2 * KEYS);
            let is_right = |value| {
                ensure!(value == Some(0), "a wrong row");
                anyhow::Ok(())
            };
            match kind {
                0 => together.into_iter().try_for_each(|id| is_right(Some(sql.value(id as i32)?.try_into()?))),
                // Not found, then found.
                1 | 2 => alone.into_iter().try_for_each(|id| is_right(client.value(&id.to_string())?)),
                _ => {
                    let all: Vec<String> = together.map(|id| id.to_string()).collect();
                    all.chunks(16).try_for_each(|some| client.values(some)?.into_iter().try_for_each(is_right))
                }
            }
        })?;
        for (name, value) in [
            ("the query by tokio-postgres, us", direct),
            ("miss, us", miss),
            ("hit, us", hit),
            ("miss of 16 together, us", together),
        ] {
            figure(out, name, value, None)?;
        }
        figure(out, "miss/(query+hit)", miss / (direct + hit), Some(FigureTarget::AtMost(1.15)))?;
        figure(out, "misses by 16/one by one, throughput", miss / together, Some(FigureTarget::AtLeast(3.0)))
    }

    /// While rows change, so many a second.
    fn beside<R>(&self, rate: u64, run: impl FnOnce() -> anyhow::Result<R>) -> anyhow::Result<(R, u64)> {
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let writer = scope.spawn(|| write_rows(self.database.address, rate, &over, |_, _| Ok(())));
            let ran = run();
            over.store(true, Relaxed);
            let written = writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            Ok((ran?, written))
        })
    }

    fn stream(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        const RATE: u64 = 5_000;
        let ((cpu, seconds), written) = self.beside(RATE, || {
            thread::sleep(Duration::from_millis(500));
            let (watch, begun) = (ServerWatch::begin(self.larder.id())?, Instant::now());
            thread::sleep(self.length);
            Ok((watch.end(1)?.cpu_s, begun.elapsed().as_secs_f64()))
        })?;
        let rate = written as f64 / (seconds + 0.5);
        ensure!(rate > 0.9 * RATE as f64, "only {rate:.0} rows a second were changed");
        figure(out, "share of a core at 5000 changes/s", cpu / seconds, Some(FigureTarget::AtMost(0.05)))
    }

    fn staleness(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let (mut ages, _) = self.beside(2_000, || {
            let (mut sql, mut client) = (SqlClient::connect(self.database.address)?, self.client()?);
            let (begun, mut ages) = (Instant::now(), Vec::new());
            while begun.elapsed() < self.length {
                // A row that no other writer changes.
                let row = i32::try_from(HOT + 1 + ages.len() as u64 % 100)?;
                let key = row.to_string();
                let mut read = || client.value(&key);
                read()?;
                let value = u64::try_from(sql.add_one(&[row])?[0])?;
                let (committed, mut age) = (Instant::now(), Duration::ZERO);
                loop {
                    let asked = committed.elapsed();
                    if read()? == Some(value) {
                        break;
                    }
                    age = asked;
                    ensure!(age < TIMEOUT, "row {row} is still old");
                }
                ages.push(age.as_secs_f64() * 1e3);
                thread::sleep(Duration::from_millis(1));
            }
            Ok(ages)
        })?;
        ages.sort_by(f64::total_cmp);
        let worst = ages.last().copied().context("nothing was read")?;
        figure(out, "staleness at 2000 changes/s, p50 ms", median(&ages), None)?;
        figure(out, "staleness at 2000 changes/s, p99 ms", ages[ages.len() * 99 / 100], None)?;
        figure(out, "staleness at 2000 changes/s, worst ms", worst, None)
    }

    fn aside(&self, out: &mut dyn Write) -> anyhow::Result<Vec<Cell>> {
        let redis = servers::redis(Some(self.cores.0))?;
        let mut cells = Vec::new();
        for writes in WRITES {
            for redis in [None, Some(redis.address)] {
                let cell = self.cell(writes, redis)?;
                figures::line(out, &cell)?;
                cells.push(cell);
            }
        }
        Ok(cells)
    }

    /// Readers and a writer. `redis`: cache-aside.
    fn cell(&self, writes: u64, redis: Option<SocketAddr>) -> anyhow::Result<Cell> {
        let over = AtomicBool::new(false);
        // What was committed of each row, and when.
        let committed: Vec<Mutex<Vec<(Instant, u64)>>> = (0..=HOT).map(|_| Mutex::default()).collect();
        let [reads, queries, wrong] = [const { AtomicU64::new(0) }; 3];
        let note = |row: u64, value| {
            let mut all = committed[usize::try_from(row)?].lock().map_err(|_| anyhow::anyhow!("a thread panicked"))?;
            all.push((Instant::now(), value));
            anyhow::Ok(())
        };
        let fetches = || self.client()?.info("larder", "larder_source_fetches:");
        let (cache, before) = (redis.unwrap_or(self.larder.address), fetches()?.unwrap_or(0));
        let reader = |seed| -> anyhow::Result<()> {
            let (mut client, mut random) = (RespClient::connect(cache, TIMEOUT)?, fastrand::Rng::with_seed(seed));
            let mut sql = redis.map(|_| SqlClient::connect(self.database.address)).transpose()?;
            while !over.load(Relaxed) {
                let (row, begun) = (skewed(&mut random), Instant::now());
                let key = row.to_string();
                let mut value = client.value(&key)?;
                if let (None, Some(sql)) = (value, &mut sql) {
                    let read = u64::try_from(sql.value(i32::try_from(row)?)?)?;
                    client.call(&[b"SET", key.as_bytes(), read.to_string().as_bytes(), b"EX", b"60"])?;
                    queries.fetch_add(1, Relaxed);
                    value = Some(read);
                }
                reads.fetch_add(1, Relaxed);
                let all = committed[usize::try_from(row)?].lock().map_err(|_| anyhow::anyhow!("a thread panicked"))?;
                let due = all.iter().rev().find(|(at, _)| *at + GRACE <= begun);
                if due.is_some_and(|(_, due)| value < Some(*due)) {
                    wrong.fetch_add(1, Relaxed);
                }
            }
            Ok(())
        };
        let seconds = thread::scope(|scope| -> anyhow::Result<f64> {
            let reader = &reader;
            let mut threads: Vec<_> = (0..CLIENTS).map(|seed| scope.spawn(move || reader(seed))).collect();
            threads.push(scope.spawn(|| {
                let mut client = redis.map(|redis| RespClient::connect(redis, TIMEOUT)).transpose()?;
                let done = |row: u64, value| {
                    if let Some(client) = &mut client {
                        client.call(&[b"DEL", row.to_string().as_bytes()])?;
                    }
                    note(row, value)
                };
                write_rows(self.database.address, writes, &over, done).map(drop)
            }));
            let begun = Instant::now();
            while begun.elapsed() < self.length && !threads.iter().any(|thread| thread.is_finished()) {
                thread::sleep(BEAT);
            }
            over.store(true, Relaxed);
            let seconds = begun.elapsed().as_secs_f64();
            for thread in threads {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            }
            Ok(seconds)
        })?;
        let [reads, queries, wrong] = [reads, queries, wrong].map(AtomicU64::into_inner);
        let queries = if redis.is_some() { queries } else { fetches()?.unwrap_or(0) - before };
        Ok(Cell {
            program: "postgres",
            server: if redis.is_some() { "cache-aside" } else { "Larder" },
            writes_per_second: writes,
            reads_per_second: (reads as f64 / seconds).round(),
            queries_per_second: (queries as f64 / seconds).round(),
            wrong_reads: wrong,
            wrong_reads_per_million: (wrong as f64 * 1e6 / reads as f64).round(),
        })
    }
}

/// A cache under a load.
#[derive(Debug, Clone, Serialize)]
struct Cell {
    program: &'static str,
    server: &'static str,
    writes_per_second: u64,
    reads_per_second: f64,
    queries_per_second: f64,
    wrong_reads: u64,
    wrong_reads_per_million: f64,
}

/// A name for each file, and the picture.
fn charts(cells: &[Cell], origin: &str) -> Vec<(&'static str, String)> {
    let x = Axis::linear(WRITES.into_iter().max().unwrap_or(1) as f64, "changed rows per second");
    let draw = |title: &str, label: &'static str, of: fn(&Cell) -> f64| {
        let lines = ["Larder", "cache-aside"].map(|server| {
            let points = cells.iter().filter(|cell| cell.server == server);
            (server, points.map(|cell| (cell.writes_per_second as f64, of(cell))).collect::<Vec<_>>())
        });
        let y = Axis::linear(cells.iter().map(of).fold(0.0, f64::max), label);
        file(title, &x, &y, lines.into_iter().map(Into::into).collect(), origin)
    };
    vec![
        ("reads", draw("Reads of eight clients while rows change", "reads per second", |cell| cell.reads_per_second)),
        ("queries", draw("Queries at the database", "queries per second", |cell| cell.queries_per_second)),
        ("wrong", draw("Reads that are older than 100 ms", "per million reads", |cell| cell.wrong_reads_per_million)),
    ]
}

#[test]
fn charts_have_both() {
    let cell = |server, writes_per_second| Cell {
        program: "postgres",
        server,
        writes_per_second,
        reads_per_second: 10.0,
        queries_per_second: 1.0,
        wrong_reads: 0,
        wrong_reads_per_million: 0.0,
    };
    let cells: Vec<Cell> =
        WRITES.iter().flat_map(|of| ["Larder", "cache-aside"].map(|server| cell(server, *of))).collect();
    let charts = charts(&cells, "then");
    assert_eq!(charts.len(), 3);
    assert!(charts.iter().all(|(_, chart)| chart.contains(">Larder<") && chart.contains(">cache-aside<")));
}
