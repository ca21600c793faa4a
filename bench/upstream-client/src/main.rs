//! Larder's upstream Redis client beside the `redis` crate: CPU time of the client for each key that it fetches.
//!
//! One redis-server on the first core; this process, with one runtime of one thread, on the second. Both clients fetch random keys of 100,000
//! with values of 64 bytes, in turn; the median of the rounds counts. One JSON object is one line.
//!
//! - `one`: one task with one key in flight. `concurrent`: 50 tasks, each with one key in flight. `batch`: one task with 16 keys in flight as one
//!   batch. `batches`: 8 such tasks.
//! - `expiry`: each fetch learns the value and its expiry of one moment (MULTI, GET, PTTL, EXEC), as a miss of Larder does. On our side the
//!   figure includes the look-up, the flight and the fill of the memory tier, which holds one key.
//! - `get`: GET alone. Our side relays the command's bytes and hands back those of the reply.
use anyhow::{Context, ensure};
use larder_base::buffers::Buffers;
use larder_config::SourceUrl;
use larder_core::read::{Group, StartedRead};
use larder_engine::{Cache, Config};
use larder_source::{FillPolicy, SourceLimits, SourceSetup};
use redis::{Value, aio::MultiplexedConnection};
use rustix::{
    thread::{CpuSet, sched_setaffinity},
    time::{ClockId, clock_gettime},
};
use std::{cell::Cell, process::Command, rc::Rc, sync::Arc, time::Duration};

const KEYS: u64 = 100_000;
const VALUE: [u8; 64] = [b'v'; 64];
const ROUNDS: usize = 9;
/// Name, tasks, keys of a batch, keys of a round.
const SHAPES: [(&str, usize, usize, u64); 4] =
    [("one", 1, 1, 12_000), ("concurrent", 50, 1, 120_000), ("batch", 1, 16, 160_000), ("batches", 8, 16, 320_000)];

/// A client, and what it asks.
#[derive(Clone)]
enum Client {
    OursExpiry(Rc<Group>),
    OursGet(Rc<Group>),
    CrateExpiry(MultiplexedConnection),
    CrateGet(MultiplexedConnection),
}

impl Client {
    /// Fetches these keys as one batch; how many were found.
    async fn fetch(&mut self, keys: &[String]) -> anyhow::Result<usize> {
        Ok(match self {
            Client::OursExpiry(group) => {
                let (mut batch, now) = (Vec::new(), larder_store::clock::now());
                let begin = |key: &String| group.begin(group.cache.key(key.as_bytes()), now, &mut batch, |_| ());
                let begun: Vec<_> = keys.iter().map(begin).collect();
                group.source.fetch(&mut batch);
                let mut found = 0;
                for begun in begun {
                    found += match begun {
                        StartedRead::Wait(wait) => usize::from(Group::end(wait).await?.is_some()),
                        StartedRead::Hit(()) => 1,
                        StartedRead::Absent => 0,
                    };
                }
                found
            }
            Client::OursGet(group) => {
                let text: String =
                    keys.iter().map(|key| format!("*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len())).collect();
                let redis = group.source.as_redis().context("a Redis source")?;
                let replies = redis.relay(text.into(), keys.len(), true).await?;
                replies.iter().filter(|reply| reply.starts_with(b"$64")).count()
            }
            Client::CrateExpiry(connection) => {
                let mut pipe = redis::pipe();
                pipe.atomic();
                for key in keys {
                    pipe.get(key).pttl(key);
                }
                let replies: Vec<Value> = pipe.query_async(connection).await?;
                replies.iter().filter(|reply| matches!(reply, Value::BulkString(_))).count()
            }
            Client::CrateGet(connection) => {
                if let [key] = keys {
                    let reply: Value = redis::cmd("GET").arg(key).query_async(connection).await?;
                    return Ok(usize::from(matches!(reply, Value::BulkString(_))));
                }
                let mut pipe = redis::pipe();
                for key in keys {
                    pipe.get(key);
                }
                let replies: Vec<Value> = pipe.query_async(connection).await?;
                replies.iter().filter(|reply| matches!(reply, Value::BulkString(_))).count()
            }
        })
    }
}

/// CPU time of this process for each key, in microseconds.
async fn round(client: &Client, tasks: usize, batch: usize, count: u64, seed: u64) -> anyhow::Result<f64> {
    let left = Rc::new(Cell::new(count / batch as u64));
    let cpu = || Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).expect("a time");
    let before = cpu();
    let work = |task: usize| {
        let (mut client, left) = (client.clone(), left.clone());
        let mut number = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ task as u64;
        tokio::task::spawn_local(async move {
            while let Some(next) = left.get().checked_sub(1) {
                left.set(next);
                let mut key = || {
                    number = number.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
                    format!("key:{:012}", (number >> 32) % KEYS)
                };
                let keys: Vec<_> = (0..batch).map(|_| key()).collect();
                ensure!(client.fetch(&keys).await? == batch, "keys are missing");
            }
            anyhow::Ok(())
        })
    };
    let running: Vec<_> = (0..tasks).map(work).collect();
    for task in running {
        task.await??;
    }
    Ok((cpu() - before).as_secs_f64() * 1e6 / count as f64)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

async fn measure(port: u16) -> anyhow::Result<()> {
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}/?protocol=resp3"))?;
    let rival = client.get_multiplexed_async_connection().await?;
    for first in (0..KEYS).step_by(1000) {
        let mut pipe = redis::pipe();
        for number in first..first + 1000 {
            pipe.set(format!("key:{number:012}"), &VALUE[..]).ignore();
        }
        let () = pipe.query_async(&mut rival.clone()).await?;
    }
    let url: SourceUrl = format!("redis://127.0.0.1:{port}").parse().map_err(anyhow::Error::msg)?;
    let timeout = Duration::from_secs(10);
    let (store, max_value) = (larder_store::disk::StoreSettings::DEFAULT, 512 << 20);
    let (max_in_flight, max_backlog) = (10_000, 32 << 20);
    let limits = SourceLimits {
        timeout,
        slow_timeout: timeout,
        max_in_flight,
        adaptive: true,
        breaker: None,
        connections: 1,
        max_value,
        max_backlog,
        store,
    };
    let setup = SourceSetup::new(&url, limits, &Buffers::unbounded()).map_err(anyhow::Error::msg)?;
    let cache = Cache::new(Config { max_keys: Some(1), ..Config::default() });
    let (source, policy) = (setup.open(None, false), Arc::new(FillPolicy::default()));
    let (name, writes) = ("default".into(), Arc::default());
    let ours = Rc::new(Group { name, number: 0, cache, source, policy, writes, peers: None, events: None });
    let pairs = [
        ("expiry", Client::OursExpiry(ours.clone()), Client::CrateExpiry(rival.clone())),
        ("get", Client::OursGet(ours), Client::CrateGet(rival)),
    ];
    for (asked, ours, rival) in pairs {
        for (shape, tasks, batch, count) in SHAPES {
            let (mut own, mut other, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
            for seed in 0..=ROUNDS as u64 {
                let a = round(&ours, tasks, batch, count, seed).await?;
                let b = round(&rival, tasks, batch, count, seed).await?;
                // The first round warms up.
                if seed > 0 {
                    (own.push(a), other.push(b), ratios.push(a / b));
                }
            }
            let [own, other, ratio] = [&mut own, &mut other, &mut ratios].map(|values| median(values));
            println!(
                r#"{{"asked":"{asked}","shape":"{shape}","larder_us":{own:.3},"redis_crate_us":{other:.3},"ratio":{ratio:.3}}}"#
            );
        }
    }
    Ok(())
}

fn main() -> anyhow::Result<()> {
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let folder = tempfile::tempdir()?;
    let (number, path) = (port.to_string(), folder.path().display().to_string());
    let mut server = Command::new("taskset")
        .args(["-c", "0", "redis-server", "--port", &number, "--bind", "127.0.0.1", "--save", "", "--dir", &path])
        .stdout(std::process::Stdio::null())
        .spawn()
        .context("cannot start redis-server under taskset")?;
    let mut cores = CpuSet::new();
    cores.set(1);
    sched_setaffinity(None, &cores)?;
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        ensure!(server.try_wait()?.is_none(), "redis-server has ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default())?;
    let result = runtime.block_on(measure(port));
    server.kill()?;
    server.wait()?;
    result
}
