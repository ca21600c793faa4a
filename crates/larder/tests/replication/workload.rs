//! Random writes of all kinds, what a process holds, and waiting until a replica has it.
use super::{
    common::{Client, Reply, wait_until},
    larder::Larder,
};
use std::{
    collections::BTreeMap,
    time::{SystemTime, UNIX_EPOCH},
};

/// Starts a replica of a Larder, or of whatever is on this port.
pub fn replica_of(port: u16, args: &[&str]) -> Larder {
    let primary = format!("--replica-of=redis://127.0.0.1:{port}");
    Larder::start(&[&[primary.as_str()], args].concat())
}

/// The value of a field of INFO replication.
pub fn info(larder: &Larder, field: &str) -> Option<String> {
    let Reply::Bulk(Some(text)) = larder.client().command(&["INFO", "replication"]) else { panic!("no INFO") };
    let text = String::from_utf8(text).unwrap();
    text.lines().find_map(|line| Some(line.strip_prefix(field)?.strip_prefix(':')?.to_owned()))
}

/// Waits until the replica's connection is up and it has a complete copy.
#[track_caller]
pub fn wait_for_link(replica: &Larder) {
    wait_until("the replica to follow", || info(replica, "master_link_status").as_deref() == Some("up"));
}

/// Of an entry its value, end, tags, and bytes where they do not depend on how it was written.
type Held = (Reply, Reply, Vec<Reply>);

/// What a process holds, by key.
pub fn held(larder: &Larder) -> BTreeMap<Vec<u8>, Held> {
    let mut client = larder.client();
    let Reply::Array(Some(keys)) = client.command(&["KEYS", "*"]) else { panic!("no keys") };
    let entry = |key: Reply| {
        let Reply::Bulk(Some(key)) = key else { panic!("no key") };
        let value = client.command(&[b"GET", &key[..]]);
        let end = client.command(&[b"PEXPIRETIME", &key[..]]);
        let Reply::Array(Some(known)) = client.command(&[b"LARDER.EXPLAIN", &key[..]]) else { panic!("no answer") };
        let fact = |name: &str| known.chunks(2).find(|pair| pair[0] == Reply::bulk(name)).unwrap()[1].clone();
        let is_small = matches!(&value, Reply::Bulk(Some(value)) if value.len() < 8000);
        // Tags are a set.
        let mut tags = match fact("tags") {
            Reply::Array(Some(tags)) => tags,
            other => vec![other],
        };
        tags.sort_by_key(|tag| format!("{tag:?}"));
        tags.extend(is_small.then(|| fact("bytes")));
        (key, (value, end, tags))
    };
    keys.into_iter().map(entry).collect()
}

/// Waits until a replica holds what its primary holds.
#[track_caller]
pub fn wait_for_equality(primary: &Larder, replica: &Larder) {
    wait_for_link(replica);
    let offset = |larder: &Larder| info(larder, "master_repl_offset");
    wait_until("the replica to have all changes", || offset(primary) == offset(replica));
    let (mut expected, mut found) = (held(primary), held(replica));
    // What has expired since the first look says nothing.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
    let has_expired = |entry: &Held| matches!(entry.1, Reply::Int(end) if end != -1 && end <= now);
    let expired: Vec<Vec<u8>> =
        expected.iter().chain(&found).filter(|(_, entry)| has_expired(entry)).map(|(key, _)| key.clone()).collect();
    for key in expired {
        expected.remove(&key);
        found.remove(&key);
    }
    if expected != found {
        let differ = |key: &&Vec<u8>| expected.get(*key) != found.get(*key);
        let keys: Vec<&Vec<u8>> = expected.keys().chain(found.keys()).filter(differ).collect();
        let key = keys[0];
        panic!(
            "{} keys differ, one is {:?}: primary {:?}, replica {:?}",
            keys.len(),
            String::from_utf8_lossy(key),
            expected.get(key),
            found.get(key)
        );
    }
}

/// Random commands on few keys, so that they meet.
pub struct Writes {
    rng: fastrand::Rng,
    keys: usize,
}
impl Writes {
    pub fn new(seed: u64, keys: usize) -> Writes {
        Writes { rng: fastrand::Rng::with_seed(seed), keys }
    }

    fn key(&mut self) -> String {
        let (kind, key) = (["a", "b", "c"][self.rng.usize(..3)], self.rng.usize(..self.keys));
        format!("{kind}:{key}")
    }
    fn tag(&mut self) -> String {
        format!("tag{}", self.rng.u8(..4))
    }
    fn value(&mut self) -> String {
        let len = match self.rng.u8(..20) {
            0 => self.rng.usize(20_000..60_000),
            1..4 => self.rng.usize(1000..9000),
            _ => self.rng.usize(..40),
        };
        let byte = self.rng.alphanumeric();
        std::iter::repeat_n(byte, len).collect()
    }

    /// A command; `clears` says whether it may clear many keys at once.
    fn command(&mut self, clears: bool) -> Vec<String> {
        let (key, value) = (self.key(), self.value());
        let number = self.rng.u32(..if clears { 1000 } else { 980 });
        let words: &[&str] = match number {
            0..300 => &["SET", &key, &value],
            300..400 => &["SET", &key, &value, "TAG", &self.tag(), "TAG", &self.tag()],
            400..500 => &["SET", &key, &value, "PX", &self.rng.u32(1..100_000).to_string()],
            500..600 => &["DEL", &key],
            600..680 => &["APPEND", &key, "more"],
            680..740 => &["PEXPIRE", &key, &self.rng.u32(..60_000).to_string()],
            740..780 => &["PERSIST", &key],
            780..840 => &["LARDER.TAG", &key, &self.tag()],
            840..880 => &["SETRANGE", &key, "7", "range"],
            880..910 => &["RENAME", &key, &self.key()],
            910..940 => &["COPY", &key, &self.key(), "REPLACE"],
            940..960 => &["GETDEL", &key],
            960..980 => &["MSET", &key, &value, &self.key(), "other"],
            980..996 => &["LARDER.CLEARTAG", &self.tag()],
            _ => &["FLUSHALL"],
        };
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    /// Runs so many random writes, over both protocols, some of them in transactions. What becomes
    /// of each does not matter.
    pub fn run(&mut self, to: &Larder, writes: usize, clears: bool) {
        let mut client = to.client();
        for _ in 0..writes {
            if self.rng.u8(..40) == 0 {
                client.command(&["MULTI"]);
                for _ in 0..self.rng.usize(1..5) {
                    let command = self.command(clears);
                    client.command(&command);
                }
                client.command(&["EXEC"]);
            }
            if clears && self.rng.u16(..500) == 0 {
                let path = ["/v1/keys?prefix=a:", "/v1/groups/default", "/v1/tags/tag1"][self.rng.usize(..3)];
                to.http(&format!("DELETE {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"));
            }
            let command = self.command(clears);
            client.command(&command);
        }
    }
}

/// Sets keys `PREFIX0` and on to a value, in pipelines.
pub fn fill(client: &mut Client, prefix: &str, keys: usize, value: &str) {
    for from in (0..keys).step_by(500) {
        let batch = from..(from + 500).min(keys);
        for key in batch.clone() {
            client.send(&["SET", &format!("{prefix}{key}"), value]).unwrap();
        }
        for _ in batch {
            assert_eq!(client.read().unwrap(), Reply::ok());
        }
    }
}
