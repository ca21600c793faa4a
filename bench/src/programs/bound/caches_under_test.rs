//! What the bound is checked on: the engine in this process, or a server over the Redis protocol.
use crate::lib::{
    blocking_clients::{RedisReply, RespClient},
    machine::MeasuredProcess,
    rival_caches::NOW,
    servers::ServerProcess,
};
use anyhow::{Context, bail, ensure};
use larder_engine::{Cache, Condition, Config, Expiry, Millis};
use std::{
    net::{SocketAddr, ToSocketAddrs},
    sync::Arc,
    time::{Duration, Instant},
};

/// What is written to.
pub(super) trait CacheUnderTest {
    /// Its name in results.
    const NAME: &'static str;
    /// Moves on to the next operation and returns the time.
    fn advance(&mut self) -> anyhow::Result<Millis>;
    /// Stores an entry that lives so many milliseconds.
    fn set(&mut self, key: &[u8], value: &[u8], lifetime: Option<u64>) -> anyhow::Result<()>;
    /// Copies a value to `out`; false if there is none.
    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> anyhow::Result<bool>;
    /// Bytes in use by its own count, if they can be had after each write.
    fn used(&self) -> Option<u64>;
    /// Where it holds its memory.
    fn process(&self) -> MeasuredProcess;
}

/// The engine in this process.
pub(super) struct EngineUnderTest {
    cache: Arc<Cache>,
    now: Millis,
    operations: u64,
}

impl EngineUnderTest {
    pub(super) fn new(max_memory: usize) -> EngineUnderTest {
        let config = Config { max_memory, ..Config::default() };
        EngineUnderTest { cache: Cache::new(config), now: NOW, operations: 0 }
    }
}

impl CacheUnderTest for EngineUnderTest {
    const NAME: &'static str = "engine";

    fn advance(&mut self) -> anyhow::Result<Millis> {
        self.operations += 1;
        if self.operations.is_multiple_of(20) {
            self.now += 1;
            if self.now.is_multiple_of(100) {
                self.cache.tick(self.now);
            }
        }
        Ok(self.now)
    }

    fn set(&mut self, key: &[u8], value: &[u8], lifetime: Option<u64>) -> anyhow::Result<()> {
        let write = larder_engine::Write {
            value,
            expiry: lifetime.map_or(Expiry::Never, |lifetime| Expiry::At(self.now + lifetime)),
            attributes: larder_engine::Attributes::NONE,
            condition: Condition::Always,
        };
        let stored = self.cache.tier().set(self.cache.key(key), write, self.now);
        match stored {
            Ok(_) => Ok(()),
            Err(error) => bail!("the engine refused {} bytes: {error:?}", value.len()),
        }
    }

    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> anyhow::Result<bool> {
        let read = self.cache.tier().get(self.cache.key(key), self.now, |entry| {
            out.clear();
            out.extend_from_slice(entry.value.as_bytes());
        });
        Ok(read.is_some())
    }

    fn used(&self) -> Option<u64> {
        Some(self.cache.stats().used_bytes)
    }

    fn process(&self) -> MeasuredProcess {
        MeasuredProcess::Own
    }
}

/// A server over the Redis protocol.
pub(super) struct ServerUnderTest {
    client: RespClient,
    process: MeasuredProcess,
    start: Instant,
    /// Keeps a server that was started for this run.
    _server: Option<ServerProcess>,
}

const TIMEOUT: Duration = Duration::from_secs(30);

impl ServerUnderTest {
    pub(super) fn started(server: ServerProcess) -> anyhow::Result<ServerUnderTest> {
        Ok(ServerUnderTest {
            client: RespClient::connect(server.address, TIMEOUT)?,
            process: server.process(),
            start: Instant::now(),
            _server: Some(server),
        })
    }

    pub(super) fn running(url: &str, pid: Option<u32>) -> anyhow::Result<ServerUnderTest> {
        let mut client = RespClient::connect(address(url)?, TIMEOUT)?;
        let pid = match pid {
            Some(pid) => pid,
            None => process_id(&mut client).context("give --pid")?,
        };
        Ok(ServerUnderTest { client, process: MeasuredProcess::Id(pid), start: Instant::now(), _server: None })
    }
}

pub(super) fn address(url: &str) -> anyhow::Result<SocketAddr> {
    let host = url.strip_prefix("redis://").with_context(|| format!("--url {url:?} does not begin with redis://"))?;
    host.trim_end_matches('/')
        .to_socket_addrs()
        .ok()
        .and_then(|mut found| found.next())
        .with_context(|| format!("--url {url:?} names no host and port that can be found"))
}

fn process_id(client: &mut RespClient) -> anyhow::Result<u32> {
    let RedisReply::Bulk(Some(info)) = client.call(&[b"INFO", b"server"])? else {
        bail!("the server has no INFO");
    };
    String::from_utf8_lossy(&info)
        .lines()
        .find_map(|line| line.strip_prefix("process_id:")?.trim().parse().ok())
        .context("the server's INFO has no process_id")
}

impl CacheUnderTest for ServerUnderTest {
    const NAME: &'static str = "server";

    fn advance(&mut self) -> anyhow::Result<Millis> {
        Ok(self.start.elapsed().as_millis() as Millis)
    }

    fn set(&mut self, key: &[u8], value: &[u8], lifetime: Option<u64>) -> anyhow::Result<()> {
        let reply = match lifetime {
            None => self.client.call(&[b"SET", key, value]),
            Some(lifetime) => {
                let lifetime = lifetime.to_string();
                self.client.call(&[b"SET", key, value, b"PX", lifetime.as_bytes()])
            }
        }?;
        ensure!(reply == RedisReply::Status("OK".into()), "SET was answered {reply:?}");
        Ok(())
    }

    fn get(&mut self, key: &[u8], out: &mut Vec<u8>) -> anyhow::Result<bool> {
        match self.client.call(&[b"GET", key])? {
            RedisReply::Bulk(None) => Ok(false),
            RedisReply::Bulk(Some(value)) => {
                *out = value;
                Ok(true)
            }
            other => bail!("GET was answered {other:?}"),
        }
    }

    fn used(&self) -> Option<u64> {
        None
    }

    fn process(&self) -> MeasuredProcess {
        self.process
    }
}
