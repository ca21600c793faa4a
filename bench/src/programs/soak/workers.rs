//! The connections: closed loops that send, read and judge.
use super::model::{COLD, HOT, KeyFamily, OwnedKey, SoakSource, SoakTally, SourceView};
use crate::lib::{
    blocking_clients::{HttpAnswer, HttpClient, RedisReply, RespClient},
    value_stamp,
};
use serde::Deserialize;
use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

/// What all workers share.
#[derive(Clone, Copy)]
pub(super) struct SoakWorkers<'s> {
    pub(super) source: &'s SoakSource,
    pub(super) redis: SocketAddr,
    pub(super) http: SocketAddr,
    pub(super) timeout: Duration,
}

/// The only error that a source's absence may cause over the Redis protocol.
const UNAVAILABLE: &str = "ERR source unavailable";
/// Keys that a connection writes.
const OWN_KEYS: u64 = 1000;
/// Commands in a pipeline.
const PIPELINE: usize = 16;

/// A key that is read, and what may be found.
#[derive(Clone, Copy)]
enum Read {
    Fixed(KeyFamily, u64),
    Own(usize),
}

impl<'s> SoakWorkers<'s> {
    /// Reads, writes and deletes over one connection of the Redis protocol until the end.
    pub(super) fn over_redis(self, id: u64) -> SoakTally {
        let mut worker = RedisWorker {
            source: self.source,
            id,
            random: fastrand::Rng::with_seed(id),
            own: vec![OwnedKey::new(); OWN_KEYS as usize],
            tally: SoakTally::default(),
        };
        self.keep_connected(
            &mut worker,
            || RespClient::connect(self.redis, self.timeout),
            RedisWorker::turn,
            |worker| &mut worker.tally,
        );
        worker.tally
    }

    /// Reads over one HTTP connection until the end.
    pub(super) fn over_http(self, id: u64) -> SoakTally {
        let mut worker = HttpWorker {
            source: self.source,
            random: fastrand::Rng::with_seed(1000 + id),
            tally: SoakTally::default(),
        };
        self.keep_connected(
            &mut worker,
            || HttpClient::connect(self.http, self.timeout),
            HttpWorker::turn,
            |worker| &mut worker.tally,
        );
        worker.tally
    }

    /// Turns until the end. A connection that fails (a timeout is a failure) is a wrong reply, and
    /// is replaced.
    fn keep_connected<W, C>(
        self,
        worker: &mut W,
        connect: impl Fn() -> anyhow::Result<C>,
        turn: impl Fn(&mut W, &mut C, SourceView) -> anyhow::Result<u64>,
        tally: impl Fn(&mut W) -> &mut SoakTally,
    ) {
        let mut connection = None;
        while let Some(view) = self.source.view() {
            let start = Instant::now();
            let turned = match &mut connection {
                Some(connection) => turn(worker, connection, view),
                none => connect().map(|new| {
                    *none = Some(new);
                    0
                }),
            };
            let tally = tally(worker);
            tally.slowest_ms = tally.slowest_ms.max(start.elapsed().as_millis() as u64);
            match turned {
                Ok(requests) => tally.requests += requests,
                Err(error) => {
                    tally.wrong(format!("a connection failed: {error:#}"));
                    connection = None;
                }
            }
        }
    }
}

struct RedisWorker<'s> {
    source: &'s SoakSource,
    id: u64,
    random: fastrand::Rng,
    own: Vec<OwnedKey>,
    tally: SoakTally,
}

impl RedisWorker<'_> {
    /// One request or one pipeline; returns the number of requests.
    fn turn(&mut self, client: &mut RespClient, view: SourceView) -> anyhow::Result<u64> {
        match self.random.u8(0..100) {
            0..10 => self.write(client, view, false),
            10..12 => self.write(client, view, true),
            12..80 => self.read(client, view, 1),
            _ => self.read(client, view, PIPELINE),
        }
    }

    fn key(&self, read: Read, out: &mut Vec<u8>) {
        match read {
            Read::Fixed(family, number) => family.key(number, out),
            Read::Own(index) => {
                out.clear();
                out.extend_from_slice(format!("own:{}:{index}", self.id).as_bytes());
            }
        }
    }

    fn write(&mut self, client: &mut RespClient, view: SourceView, delete: bool) -> anyhow::Result<u64> {
        let index = self.random.usize(..self.own.len());
        let (mut key, mut value) = (Vec::new(), Vec::new());
        self.key(Read::Own(index), &mut key);
        let sequence = self.own[index].try_write();
        // Should the connection fail, the write may have been done or not: as if refused.
        self.own[index].refuse(delete);
        let reply = if delete {
            client.call(&[b"DEL", &key])?
        } else {
            value_stamp::write(&key, sequence, self.random.usize(50..2000), &mut value);
            client.call(&[b"SET", &key, &value])?
        };
        self.tally.writes += 1;
        match reply {
            RedisReply::Status(ok) if !delete && ok == "OK" => self.own[index].acknowledge(false, view),
            RedisReply::Integer(0 | 1) if delete => self.own[index].acknowledge(true, view),
            reply => self.judge_error(&key, reply, view),
        }
        Ok(1)
    }

    fn read(&mut self, client: &mut RespClient, view: SourceView, count: usize) -> anyhow::Result<u64> {
        let mut key = Vec::new();
        let reads: Vec<Read> = (0..count).map(|_| self.choose()).collect();
        for &read in &reads {
            self.key(read, &mut key);
            client.queue(&[b"GET", &key]);
        }
        client.flush()?;
        for read in reads {
            let reply = client.reply()?;
            self.key(read, &mut key);
            self.judge(read, &key, reply, view);
        }
        Ok(count as u64)
    }

    fn choose(&mut self) -> Read {
        match self.random.u8(0..10) {
            0..5 => Read::Fixed(HOT, self.random.u64(..HOT.keys)),
            5..8 => Read::Fixed(COLD, self.random.u64(..COLD.keys)),
            _ => Read::Own(self.random.usize(..self.own.len())),
        }
    }

    fn judge(&mut self, read: Read, key: &[u8], reply: RedisReply, before: SourceView) {
        let answered = matches!(reply, RedisReply::Bulk(_));
        note_hot(self.source, read, before, answered);
        match reply {
            RedisReply::Bulk(Some(value)) => {
                self.tally.values += 1;
                let name = String::from_utf8_lossy(key);
                match value_stamp::read(key, &value) {
                    Err(error) => self.tally.wrong(format!("the value of {name} {error}")),
                    Ok(sequence) => {
                        let right = match read {
                            Read::Fixed(..) => sequence == 0,
                            Read::Own(index) => self.own[index].may_be(sequence),
                        };
                        if !right {
                            let known = self.known(read);
                            self.tally.wrong(format!("write {sequence} was read of {name}: {known}"));
                        }
                    }
                }
            }
            RedisReply::Bulk(None) => {
                self.tally.absent += 1;
                let after = self.source.view().unwrap_or(before);
                let right = match read {
                    Read::Fixed(..) => false,
                    Read::Own(index) => self.own[index].may_be_absent(after),
                };
                if !right {
                    let (name, known) = (String::from_utf8_lossy(key), self.known(read));
                    self.tally.wrong(format!("{name} is absent: {known}"));
                }
            }
            reply => self.judge_error(key, reply, before),
        }
    }

    fn known(&self, read: Read) -> String {
        match read {
            Read::Fixed(..) => "it is only read".into(),
            Read::Own(index) => format!("{:?}", self.own[index]),
        }
    }

    fn judge_error(&mut self, key: &[u8], reply: RedisReply, before: SourceView) {
        let name = String::from_utf8_lossy(key);
        match reply {
            RedisReply::Error(text) if text.starts_with(UNAVAILABLE) && excused(self.source, before) => {
                *self.tally.errors.entry(UNAVAILABLE.into()).or_default() += 1;
            }
            reply => self.tally.wrong(format!("{name} was answered {reply:?} with the source {before:?}")),
        }
    }
}

/// The source was or is away: it may have gone between the request and the reply.
fn excused(source: &SoakSource, before: SourceView) -> bool {
    before.excused || source.view().is_none_or(|after| after.excused)
}

/// Counts the read of a hot key if the source was down from before the request until after the
/// reply.
fn note_hot(source: &SoakSource, read: Read, before: SourceView, answered: bool) {
    let hot = matches!(read, Read::Fixed(family, _) if family.keys == HOT.keys);
    if hot && before.down && source.view().is_some_and(|after| after == before) {
        source.hot_read(answered);
    }
}

struct HttpWorker<'s> {
    source: &'s SoakSource,
    random: fastrand::Rng,
    tally: SoakTally,
}

/// The body of `/lookup`.
#[derive(Debug, Deserialize)]
struct LookupBody {
    key: Option<String>,
    value: Option<String>,
    status: u16,
}

impl HttpWorker<'_> {
    fn turn(&mut self, client: &mut HttpClient, view: SourceView) -> anyhow::Result<u64> {
        let read = match self.random.u8(0..10) {
            0..6 => Read::Fixed(HOT, self.random.u64(..HOT.keys)),
            _ => Read::Fixed(COLD, self.random.u64(..COLD.keys)),
        };
        let mut key = Vec::new();
        if let Read::Fixed(family, number) = read {
            family.key(number, &mut key);
        }
        let name = String::from_utf8_lossy(&key).into_owned();
        let lookup = self.random.bool();
        let path = if lookup { format!("/lookup?key={name}") } else { format!("/v1/kv/{name}") };
        let HttpAnswer { status, body, .. } = client.get(&path)?;
        note_hot(self.source, read, view, status == 200);
        if status == 503 && excused(self.source, view) && (!lookup || is_lookup_503(&name, &body)) {
            *self.tally.errors.entry("503".into()).or_default() += 1;
            return Ok(1);
        }
        let value = match lookup {
            _ if status != 200 => None,
            true => lookup_value(&name, &body),
            false => Some(body.clone()),
        };
        let wrong = match value.map(|value| value_stamp::read(&key, &value)) {
            Some(Ok(0)) => None,
            Some(Ok(sequence)) => Some(format!("write {sequence}")),
            Some(Err(error)) => Some(format!("{error}")),
            None => Some(String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned()),
        };
        match wrong {
            None => self.tally.values += 1,
            Some(wrong) => {
                let what = format!("{path} was answered {status} with the source {view:?}: {wrong}");
                self.tally.wrong(what);
            }
        }
        Ok(1)
    }
}

fn lookup_value(name: &str, body: &[u8]) -> Option<Vec<u8>> {
    let body: LookupBody = serde_json::from_slice(body).ok()?;
    let right = body.key.as_deref() == Some(name) && body.status == 200;
    body.value.filter(|_| right).map(String::into_bytes)
}

fn is_lookup_503(name: &str, body: &[u8]) -> bool {
    serde_json::from_slice(body)
        .is_ok_and(|body: LookupBody| body.key.as_deref() == Some(name) && body.value.is_none() && body.status == 503)
}
