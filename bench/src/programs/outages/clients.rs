//! The clients: threads that read at a steady rate, each on its own connection.
use crate::lib::{
    blocking_clients::{HttpClient, RedisReply, RespClient},
    scripted_origin::SHORT,
};
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc::Sender,
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// A client gives up after this long.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Keys of the kinds that are read again.
pub(super) const KEYS: u64 = 200;

/// Which keys a client reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyKind {
    /// Cached before the start, and for as long as the run lasts.
    Hot,
    /// Cached for two seconds at a time; or invalidated all at once.
    Warm,
    /// Never read before.
    Cold,
}

/// The threads and requests per second for each kind.
pub(super) const LOAD: [(KeyKind, u64, u64); 3] =
    [(KeyKind::Hot, 4, 800), (KeyKind::Warm, 16, 200), (KeyKind::Cold, 32, 160)];

/// One request: when it was meant to begin, its latency from there, and whether a value came.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadResult {
    pub(super) kind: KeyKind,
    pub(super) at: Duration,
    pub(super) latency: Duration,
    pub(super) found: bool,
}

/// Where clients read, and what their keys are called.
#[derive(Debug, Clone)]
pub(super) struct ReadTarget {
    pub(super) address: SocketAddr,
    pub(super) redis: bool,
    /// Before the key, over HTTP.
    pub(super) path: &'static str,
    /// Part of the names of warm keys: a new number invalidates all of them.
    pub(super) generation: Arc<AtomicU64>,
    /// Whether warm keys live for two seconds.
    pub(super) short: bool,
    pub(super) next_cold: Arc<AtomicU64>,
}

enum Connection {
    Http(HttpClient),
    Redis(RespClient),
}

impl ReadTarget {
    /// Without a `/`: Larder sends a key as one segment of the path.
    fn key(&self, kind: KeyKind, number: u64) -> String {
        match kind {
            KeyKind::Hot => format!("hot-{}", number % KEYS),
            KeyKind::Warm => {
                let life = if self.short { SHORT.trim_matches(['/', '-']) } else { "warm" };
                format!("{life}-{}-{}", self.generation.load(Relaxed), number % KEYS)
            }
            KeyKind::Cold => format!("cold-{}", self.next_cold.fetch_add(1, Relaxed)),
        }
    }
    fn connect(&self) -> anyhow::Result<Connection> {
        Ok(match self.redis {
            true => Connection::Redis(RespClient::connect(self.address, TIMEOUT)?),
            false => Connection::Http(HttpClient::connect(self.address, TIMEOUT)?),
        })
    }
    /// Reads a key; a connection that failed is replaced at the next read.
    fn read(&self, connection: &mut Option<Connection>, key: &str) -> bool {
        let mut read = || -> anyhow::Result<bool> {
            let mut open = match connection.take() {
                Some(open) => open,
                None => self.connect()?,
            };
            let found = match &mut open {
                Connection::Http(client) => client.get(&format!("{}{key}", self.path))?.status == 200,
                Connection::Redis(client) => {
                    matches!(client.call(&[b"GET", key.as_bytes()])?, RedisReply::Bulk(Some(_)))
                }
            };
            *connection = Some(open);
            Ok(found)
        };
        read().unwrap_or(false)
    }
    /// Reads all hot keys, until each is found.
    pub(super) fn warm_up(&self) -> anyhow::Result<()> {
        let mut connection = None;
        for number in 0..KEYS {
            let key = self.key(KeyKind::Hot, number);
            let found = (0..100).any(|_| self.read(&mut connection, &key));
            anyhow::ensure!(found, "{key} is not found before the start");
        }
        Ok(())
    }
    /// Starts the clients of all kinds. They end when `ended` is set.
    pub(super) fn start(
        &self,
        begun: Instant,
        results: &Sender<ReadResult>,
        ended: &Arc<AtomicBool>,
    ) -> Vec<JoinHandle<()>> {
        let mut clients = Vec::new();
        for (kind, threads, rate) in LOAD {
            let pause = Duration::from_secs(1) * threads as u32 / rate as u32;
            for thread in 0..threads {
                let (target, results, ended) = (self.clone(), results.clone(), ended.clone());
                let first = begun + pause * thread as u32 / threads as u32;
                clients.push(thread::spawn(move || target.run(kind, thread, (begun, first, pause), &results, &ended)));
            }
        }
        clients
    }
    fn run(
        &self,
        kind: KeyKind,
        thread: u64,
        (begun, mut next, pause): (Instant, Instant, Duration),
        results: &Sender<ReadResult>,
        ended: &AtomicBool,
    ) {
        let mut connection = None;
        for turn in 0.. {
            thread::sleep(next.saturating_duration_since(Instant::now()));
            if ended.load(Relaxed) {
                return;
            }
            let key = self.key(kind, thread * 7919 + turn);
            let found = self.read(&mut connection, &key);
            let result = ReadResult { kind, at: next - begun, latency: next.elapsed(), found };
            if results.send(result).is_err() {
                return;
            }
            next += pause;
            if kind != KeyKind::Hot {
                // Only the rate of answers is of interest: requests that could not begin in time are not made up
                // for.
                next = next.max(Instant::now());
            }
        }
    }
}
