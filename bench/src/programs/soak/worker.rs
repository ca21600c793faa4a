//! A connection: a closed loop that sends, reads and judges.
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

/// What a reply is.
enum Answer {
    Value(Vec<u8>),
    Absent,
    /// The error that says so.
    Unavailable(&'static str),
    Other(String),
}

impl From<RedisReply> for Answer {
    fn from(reply: RedisReply) -> Answer {
        match reply {
            RedisReply::Bulk(Some(value)) => Answer::Value(value),
            RedisReply::Bulk(None) => Answer::Absent,
            RedisReply::Error(text) if text.starts_with(UNAVAILABLE) => Answer::Unavailable(UNAVAILABLE),
            other => Answer::Other(format!("{other:?}")),
        }
    }
}

/// The body of `/lookup`.
#[derive(Debug, Deserialize)]
struct LookupBody {
    key: Option<String>,
    value: Option<String>,
    status: u16,
}

/// The answer to `/v1/kv/`, or to `/lookup`, for this key.
fn over_http(HttpAnswer { status, body, .. }: HttpAnswer, lookup: bool, key: &[u8]) -> Answer {
    let value = match lookup {
        false => Some(body.clone()),
        true => serde_json::from_slice(&body).ok().and_then(|body: LookupBody| {
            let right = body.key.as_deref().map(str::as_bytes) == Some(key) && body.status == status;
            (right && body.value.is_none() == (status == 503)).then(|| body.value.unwrap_or_default().into_bytes())
        }),
    };
    match (status, value) {
        (200, Some(value)) => Answer::Value(value),
        (503, Some(_)) => Answer::Unavailable("503"),
        _ => Answer::Other(format!("{status}: {}", String::from_utf8_lossy(&body[..body.len().min(200)]))),
    }
}

pub(super) struct Worker<'s> {
    source: &'s SoakSource,
    id: u64,
    random: fastrand::Rng,
    own: Vec<OwnedKey>,
    tally: SoakTally,
}

impl<'s> Worker<'s> {
    pub(super) fn new(source: &'s SoakSource, id: u64) -> Worker<'s> {
        let own = vec![OwnedKey::new(); OWN_KEYS as usize];
        Worker { source, id, random: fastrand::Rng::with_seed(id), own, tally: SoakTally::default() }
    }

    /// Reads, writes and deletes over one connection of the Redis protocol until the end.
    pub(super) fn over_redis(self, address: SocketAddr, timeout: Duration) -> SoakTally {
        self.keep_connected(
            || RespClient::connect(address, timeout),
            |worker, client, view| match worker.random.u8(0..100) {
                0..10 => worker.write(client, view, false),
                10..12 => worker.write(client, view, true),
                12..80 => worker.read(client, view, 1),
                _ => worker.read(client, view, PIPELINE),
            },
        )
    }

    /// Reads over one HTTP connection until the end.
    pub(super) fn over_http(self, address: SocketAddr, timeout: Duration) -> SoakTally {
        self.keep_connected(
            || HttpClient::connect(address, timeout),
            |worker, client, view| {
                let read = match worker.random.u8(0..10) {
                    0..6 => Read::Fixed(HOT, worker.random.u64(..HOT.keys)),
                    _ => Read::Fixed(COLD, worker.random.u64(..COLD.keys)),
                };
                let (key, lookup) = (worker.key(read), worker.random.bool());
                let path = if lookup { "/lookup?key=" } else { "/v1/kv/" };
                let answer = client.get(&format!("{path}{}", String::from_utf8_lossy(&key)))?;
                worker.judge(read, &key, over_http(answer, lookup, &key), view);
                Ok(1)
            },
        )
    }

    /// Turns until the end. A connection that fails (a timeout is a failure) is a wrong reply, and
    /// is replaced.
    fn keep_connected<C>(
        mut self,
        connect: impl Fn() -> anyhow::Result<C>,
        turn: impl Fn(&mut Self, &mut C, SourceView) -> anyhow::Result<u64>,
    ) -> SoakTally {
        let mut connection = None;
        while let Some(view) = self.source.view() {
            let start = Instant::now();
            let turned = match &mut connection {
                Some(connection) => turn(&mut self, connection, view),
                none => connect().map(|new| {
                    *none = Some(new);
                    0
                }),
            };
            self.tally.slowest_ms = self.tally.slowest_ms.max(start.elapsed().as_millis() as u64);
            match turned {
                Ok(requests) => self.tally.requests += requests,
                Err(error) => {
                    self.tally.wrong(format!("a connection failed: {error:#}"));
                    connection = None;
                }
            }
        }
        self.tally
    }

    fn key(&self, read: Read) -> Vec<u8> {
        match read {
            Read::Fixed(family, number) => family.key(number),
            Read::Own(index) => format!("own:{}:{index}", self.id).into_bytes(),
        }
    }

    fn write(&mut self, client: &mut RespClient, view: SourceView, delete: bool) -> anyhow::Result<u64> {
        let index = self.random.usize(..self.own.len());
        let (key, mut value) = (self.key(Read::Own(index)), Vec::new());
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
            reply => self.judge_error(&key, reply.into(), view),
        }
        Ok(1)
    }

    fn read(&mut self, client: &mut RespClient, view: SourceView, count: usize) -> anyhow::Result<u64> {
        let reads: Vec<Read> = (0..count).map(|_| self.choose()).collect();
        for &read in &reads {
            client.queue(&[b"GET", &self.key(read)]);
        }
        client.flush()?;
        for read in reads {
            let reply = client.reply()?;
            self.judge(read, &self.key(read), reply.into(), view);
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

    fn judge(&mut self, read: Read, key: &[u8], answer: Answer, before: SourceView) {
        // The read of a hot key counts if the source was down from before the request until after the
        // reply.
        let hot = matches!(read, Read::Fixed(family, _) if family.keys == HOT.keys);
        if hot && before.down && self.source.view().is_some_and(|after| after == before) {
            self.source.hot_read(matches!(answer, Answer::Value(_) | Answer::Absent));
        }
        let name = String::from_utf8_lossy(key);
        let (right, what) = match &answer {
            Answer::Value(value) => {
                self.tally.values += 1;
                match value_stamp::read(key, value) {
                    Err(error) => (false, format!("the value of {name} {error}")),
                    Ok(sequence) => {
                        let right = match read {
                            Read::Fixed(..) => sequence == 0,
                            Read::Own(index) => self.own[index].may_be(sequence),
                        };
                        (right, format!("write {sequence} was read of {name}"))
                    }
                }
            }
            Answer::Absent => {
                self.tally.absent += 1;
                let after = self.source.view().unwrap_or(before);
                let right = match read {
                    Read::Fixed(..) => false,
                    Read::Own(index) => self.own[index].may_be_absent(after),
                };
                (right, format!("{name} is absent"))
            }
            _ => return self.judge_error(key, answer, before),
        };
        if !right {
            let known = match read {
                Read::Fixed(..) => "it is only read".into(),
                Read::Own(index) => format!("{:?}", self.own[index]),
            };
            self.tally.wrong(format!("{what}: {known}"));
        }
    }

    fn judge_error(&mut self, key: &[u8], answer: Answer, before: SourceView) {
        // The source was or is away: it may have gone between the request and the reply.
        let excused = before.excused || self.source.view().is_none_or(|after| after.excused);
        let what = match answer {
            Answer::Unavailable(kind) if excused => return *self.tally.errors.entry(kind.into()).or_default() += 1,
            Answer::Unavailable(kind) => kind.to_owned(),
            Answer::Other(text) => text,
            Answer::Value(_) | Answer::Absent => "as a read".to_owned(),
        };
        let name = String::from_utf8_lossy(key);
        self.tally.wrong(format!("{name} was answered {what} with the source {before:?}"));
    }
}
