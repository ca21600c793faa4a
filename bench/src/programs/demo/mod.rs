//! `larder-bench demo`: a shop on a distant Redis or PostgreSQL, with Larder and without, on a live
//! page.
//!
//! ```text
//! visitors ──> shop ───────────────> delaying proxy ──> redis-server
//! visitors ──> shop ──> Larder ────> delaying proxy ──> redis-server
//! browser  ──> page: figures of both each second, a button that kills both redis-servers
//! ```
//! With PostgreSQL, both shops order there, and the second one reads from Larder. The main thread
//! starts and kills the servers: a server dies with the thread that started it.
mod pictures;
mod shop;

use crate::lib::{
    blocking_clients::RespClient,
    delaying_proxy, figures,
    load::{self, Interrupt, LoadPlan, measure::Slice},
    servers::{self, ServerProcess, Start},
    small_server::{Answer, listen},
    sql_client::SqlClient,
};
use anyhow::Context;
use serde::Serialize;
use serde_json::json;
use shop::Store;
use std::{
    io::{IsTerminal, Write},
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

/// A shop on a Redis that is a network away, with Larder and without, live in the browser
///
/// Two equal shops, each with a redis-server behind a proxy that adds --delay to each round trip.
/// Each page reads five keys, one after the other. 100 visitors a second open pages of 500 products
/// (Zipf 0.99), 5 a second order one. The second shop asks Larder instead of Redis. A page draws
/// both live, and its button kills both redis-servers and starts them again. With --store postgres,
/// a PostgreSQL takes the place of Redis, and both shops order there.
///
/// Runs until Ctrl-C. With --out it needs no browser: 20 seconds of calm, 20 without Redis, 20 of
/// recovery, then it prints a line for each shop and phase and writes charts.
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// The larder binary
    #[arg(long, value_name = "PATH")]
    larder: PathBuf,
    /// The store of the shops
    #[arg(long, value_enum, default_value_t = Kind::Redis)]
    store: Kind,
    /// Port of the page. 0: a free one
    #[arg(long, value_name = "PORT", default_value_t = 8070)]
    port: u16,
    /// Round trip between the shops and Redis, and between Larder and Redis
    #[arg(long, value_name = "DURATION", default_value = "1ms", value_parser = larder_units::parse_duration)]
    delay: Duration,
    /// Folder for charts
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Length of each phase with --out, in seconds
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(3..=600), requires = "out")]
    seconds: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, clap::ValueEnum)]
enum Kind {
    Redis,
    Postgres,
}

impl Kind {
    fn title(self) -> &'static str {
        match self {
            Kind::Redis => "Redis",
            Kind::Postgres => "PostgreSQL",
        }
    }

    fn at(self, address: SocketAddr) -> Store {
        match self {
            Kind::Redis => Store::Redis(address),
            Kind::Postgres => Store::Postgres(address),
        }
    }
}

/// How often the main thread looks at the button and the time.
const LOOK: Duration = Duration::from_millis(20);
/// How long it runs without --out, unless Ctrl-C ends it.
const DAY: Duration = Duration::from_secs(86_400);
/// Seconds that the page shows.
const SHOWN: usize = 120;
const PAGE: &str = include_str!("page.html");

/// The keys and the visitors, as of `larder-bench run`.
const VISITORS: [&str; 8] = ["--keys", "500", "--key", "{n}", "--dist", "zipf:0.99", "--timeout", "2s"];
const PAGES: [&str; 4] = ["--rate", "100", "--connections", "8"];
const ORDERS: [&str; 4] = ["--rate", "5", "--connections", "2"];

/// What happened in a second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Second {
    /// Pages that were served, and that failed.
    pages: u64,
    failed: u64,
    /// Orders that failed since the start.
    orders_failed: u64,
    /// Commands that the store was sent, or its transactions.
    requests: u64,
    /// Latency of pages, ms; absent if most failed.
    p50: Option<f64>,
    p99: Option<f64>,
}

/// A shop, its seconds, and the load on it.
struct Side {
    name: &'static str,
    shop: SocketAddr,
    /// The store itself, without the delay.
    store: Store,
    seconds: Arc<Mutex<Vec<Second>>>,
}

/// Runs the program.
pub(crate) fn run(args: &DemoArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let interrupt = Interrupt::watch()?;
    let kind = args.store;
    let mut sources = [store_with_a_shop(kind)?, store_with_a_shop(kind)?];
    let [plain, behind] = [0, 1].map(|number| sources[number].address);
    let [near, far] = [delaying_proxy::start(plain, args.delay)?, delaying_proxy::start(behind, args.delay)?];
    let source = match kind {
        Kind::Redis => format!("redis://{far}"),
        Kind::Postgres => format!("postgres://app@{far}/shop?table=shop&columns=value"),
    };
    let larder = servers::larder(&args.larder, None, &["--source", &source, "--stale-if-error", "1h"])?;
    let side = |name, store, reads, orders| -> anyhow::Result<Side> {
        Ok(Side { name, shop: shop::start(reads, orders)?, store: kind.at(store), seconds: Arc::default() })
    };
    let front = Store::Redis(larder.address);
    let orders = if kind == Kind::Redis { front } else { kind.at(far) };
    let sides =
        [side("without Larder", plain, kind.at(near), kind.at(near))?, side("with Larder", behind, front, orders)?];
    let is_down = Arc::new(AtomicBool::new(false));
    let page = page(args.port, kind, &sides, is_down.clone())?;
    match (&args.out, std::io::stdout().is_terminal()) {
        (Some(_), _) => {}
        (None, true) => greet(out, page, &sides)?,
        (None, false) => figures::line(out, &json!({"ready": true, "page": format!("http://{page}/")}))?,
    }
    let phase = args.out.as_ref().map(|_| Duration::from_secs(args.seconds));
    thread::scope(|scope| {
        let length = phase.map_or(DAY, |phase| 3 * phase);
        let mut loads = Vec::new();
        for side in &sides {
            let interrupt = &interrupt;
            let orders_failed = Arc::new(AtomicU64::new(0));
            let failed = orders_failed.clone();
            loads.push(scope.spawn(move || {
                side.load("POST /order/{key}", &ORDERS, length, interrupt, &mut |slice| {
                    failed.fetch_add(slice.counts.all_errors(), Relaxed);
                })
            }));
            loads.push(scope.spawn(move || {
                let mut before = requests(side.store).unwrap_or(0);
                side.load("GET /product/{key}", &PAGES, length, interrupt, &mut |slice| {
                    // A store that was started again counts from 0.
                    let now = requests(side.store).ok();
                    let requests = now.unwrap_or(before).saturating_sub(before);
                    before = now.unwrap_or(0);
                    let second = Second::of(slice, requests, orders_failed.load(Relaxed));
                    side.seconds.lock().unwrap_or_else(PoisonError::into_inner).push(second);
                })
            }));
        }
        let conducted = conduct(&mut sources, &is_down, phase, &interrupt);
        if conducted.is_err() {
            interrupt.set();
        }
        for load in loads {
            load.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        conducted
    })?;
    if let Some(folder) = &args.out {
        let sides: Vec<_> = sides
            .iter()
            .map(|side| (side.name, side.seconds.lock().unwrap_or_else(PoisonError::into_inner).clone()))
            .collect();
        pictures::write(folder, kind.title(), &sides, args.seconds as usize, out)?;
    }
    Ok(())
}

/// Kills the stores and starts them again, as the page's button says, or at the times of the
/// phases, until the end.
fn conduct(
    sources: &mut [ServerProcess],
    is_down: &AtomicBool,
    phase: Option<Duration>,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    let (begun, mut was_down) = (Instant::now(), false);
    while !interrupt.is_set() && phase.is_none_or(|phase| begun.elapsed() < 3 * phase) {
        if let Some(phase) = phase {
            is_down.store((phase..2 * phase).contains(&begun.elapsed()), Relaxed);
        }
        let down = is_down.load(Relaxed);
        if down != was_down {
            for source in &mut *sources {
                if down { source.kill()? } else { servers::restart(source)? }
            }
            was_down = down;
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

impl Second {
    fn of(slice: &Slice, requests: u64, orders_failed: u64) -> Second {
        let failed = slice.counts.all_errors();
        let pages = (slice.counts.requests + slice.counts.lost()).saturating_sub(failed);
        let latency = |quantile| (pages > failed).then(|| slice.latency.value_at_quantile(quantile) as f64 / 1e6);
        Second { pages, failed, orders_failed, requests, p50: latency(0.5), p99: latency(0.99) }
    }
}

impl Side {
    fn load(
        &self,
        request: &str,
        more: &[&str],
        length: Duration,
        interrupt: &Interrupt,
        each: &mut dyn FnMut(&Slice),
    ) -> anyhow::Result<()> {
        let (url, length) = (format!("http://{}", self.shop), format!("{}s", length.as_secs()));
        let common = ["--url", &url, "--op", request, "--duration", &length];
        let plan = load::plan(common.iter().chain(&VISITORS).chain(more))?;
        load::run(&LoadPlan { slice: Duration::from_secs(1), interrupt: interrupt.clone(), ..plan }, each)?;
        Ok(())
    }
}

/// Commands that a redis-server was sent, without these questions, or transactions of a PostgreSQL;
/// an error while it is gone.
fn requests(store: Store) -> anyhow::Result<u64> {
    let redis = match store {
        Store::Redis(address) => address,
        Store::Postgres(address) => {
            let sum = "SELECT (xact_commit + xact_rollback)::text FROM pg_stat_database WHERE datname = $1";
            return Ok(SqlClient::connect(address)?.text(sum, "shop")?.context("the database counts")?.parse()?);
        }
    };
    let mut client = RespClient::connect(redis, shop::TIMEOUT)?;
    let [all, own] = ["total_commands_processed:", "cmdstat_info:calls="].map(|name| {
        let section = if name.starts_with('t') { "stats" } else { "commandstats" };
        client.info(section, name)
    });
    Ok(all?.unwrap_or(0).saturating_sub(own?.unwrap_or(0)))
}

/// A store with the shop's data, which are there again after a kill.
fn store_with_a_shop(kind: Kind) -> anyhow::Result<ServerProcess> {
    let server = match kind {
        Kind::Redis => servers::redis(None)?,
        Kind::Postgres => servers::start("postgres", Start::default())?,
    };
    shop::fill(kind.at(server.address))?;
    Ok(server)
}

/// Serves the page, its data and its button.
fn page(port: u16, kind: Kind, sides: &[Side], is_down: Arc<AtomicBool>) -> anyhow::Result<SocketAddr> {
    let all: Vec<_> = sides.iter().map(|side| (side.name, side.shop, side.seconds.clone())).collect();
    let answer = move |request: &str| {
        let answer = |status, kind: &str, body: String| {
            Some(Answer { status, header: ("Content-Type", kind.to_owned()), body: body.into_bytes() })
        };
        match request {
            "GET /" => answer("200 OK", "text/html; charset=utf-8", PAGE.replace("Redis", kind.title())),
            "GET /data" => {
                let side = |(name, shop, seconds): &(_, SocketAddr, Arc<Mutex<Vec<Second>>>)| {
                    let seconds = seconds.lock().unwrap_or_else(PoisonError::into_inner);
                    let last = &seconds[seconds.len().saturating_sub(SHOWN)..];
                    json!({"name": name, "shop": format!("http://{shop}/product/1"), "seconds": last})
                };
                let sides: Vec<_> = all.iter().map(side).collect();
                let data = json!({"down": is_down.load(Relaxed), "shown": SHOWN, "sides": sides});
                answer("200 OK", "application/json", data.to_string())
            }
            "POST /store/kill" | "POST /store/start" => {
                is_down.store(request.ends_with("kill"), Relaxed);
                answer("204 No Content", "text/plain", String::new())
            }
            _ => answer("404 Not Found", "text/plain", "no such page\n".to_owned()),
        }
    };
    let answer = Arc::new(answer);
    listen(port, move || {
        let answer = answer.clone();
        move |request: &str| answer(request)
    })
}

/// What a person wants to know.
fn greet(out: &mut dyn Write, page: SocketAddr, sides: &[Side]) -> anyhow::Result<()> {
    writeln!(out, "Open in a browser:  http://{page}/\n")?;
    for side in sides {
        writeln!(out, "  the shop {:<15} http://{}/product/1", side.name, side.shop)?;
    }
    writeln!(out, "\nCtrl-C ends everything.")?;
    out.flush()?;
    Ok(())
}

#[test]
fn a_second_in_which_most_pages_fail_has_no_latency() {
    let mut slice = Slice::new(0);
    slice.latency.saturating_record_n(2_000_000, 100);
    slice.counts.requests = 98;
    let lost = load::measure::ErrorKind::Timeout as usize;
    slice.counts.errors[lost] = 2;
    let second = Second::of(&slice, 7, 3);
    assert_eq!((second.pages, second.failed, second.requests, second.orders_failed), (98, 2, 7, 3));
    assert!(second.p50.is_some_and(|ms| (ms - 2.0).abs() < 0.01), "{second:?}");
    slice.counts.errors[load::measure::ErrorKind::Http5xx as usize] = 90;
    let second = Second::of(&slice, 0, 0);
    assert_eq!((second.pages, second.failed, second.p50, second.p99), (8, 92, None, None));
}
