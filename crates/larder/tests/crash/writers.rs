//! Clients that write as fast as they are answered, and know what the store must and what it may
//! hold.
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Instant,
};

/// Keys of each writer.
const KEYS: u64 = 40;

/// One writer's history since the state that it found.
pub(crate) struct Writer {
    id: usize,
    random: u64,
    /// What each key held at the begin.
    before: BTreeMap<u64, Option<u64>>,
    /// In the order in which they were sent: key, new state (`None`: deleted), when it was
    /// acknowledged.
    ops: Vec<(u64, Option<u64>, Option<Instant>)>,
    sequence: u64,
}

/// A connection that asks one thing at a time.
pub(crate) struct Http(BufReader<TcpStream>);
impl Http {
    pub(crate) fn connect(port: u16) -> std::io::Result<Http> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(super::PATIENCE))?;
        Ok(Http(BufReader::new(stream)))
    }
    /// Status and body.
    pub(crate) fn ask(&mut self, method: &str, path: &str, body: &[u8]) -> std::io::Result<(u16, Vec<u8>)> {
        let mut request =
            format!("{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len()).into_bytes();
        request.extend_from_slice(body);
        self.0.get_mut().write_all(&request)?;
        let (mut status, mut length) = (0, 0);
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line)? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(rest) = line.strip_prefix("http/1.1 ") {
                status = rest[..3].parse().unwrap();
            } else if let Some(rest) = line.strip_prefix("content-length: ") {
                length = rest.parse().unwrap();
            } else if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body)?;
        Ok((status, body))
    }
}

/// A value that shows whether it is whole: a number, and bytes that follow from it.
pub(crate) fn value(id: usize, sequence: u64) -> Vec<u8> {
    let mut bytes = format!("{id}:{sequence}:").into_bytes();
    let mut state = sequence.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    for _ in 0..sequence * 7919 % 1500 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.push(b'a' + (state % 26) as u8);
    }
    bytes
}

impl Writer {
    pub(crate) fn new(id: usize) -> Writer {
        let before = (0..KEYS).map(|key| (key, None)).collect();
        Writer { id, random: id as u64 * 7 + 1, before, ops: Vec::new(), sequence: 0 }
    }
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.random >> 33
    }
    fn path(&self, key: u64) -> String {
        format!("/v1/kv/w{}-{key}", self.id)
    }

    /// Writes until the connection breaks.
    pub(crate) fn write(&mut self, port: u16, stop: &Arc<AtomicBool>) {
        let Ok(mut http) = Http::connect(port) else {
            return;
        };
        while !stop.load(Relaxed) {
            let key = self.random() % KEYS;
            self.sequence += 1;
            let state = (!self.random().is_multiple_of(4)).then_some(self.sequence);
            self.ops.push((key, state, None));
            let answer = match state {
                Some(sequence) => http.ask("PUT", &self.path(key), &value(self.id, sequence)),
                None => http.ask("DELETE", &self.path(key), b""),
            };
            match answer {
                Ok((status, body)) => {
                    assert!(matches!(status, 201 | 204 | 404), "{status} {}", String::from_utf8_lossy(&body));
                    self.ops.last_mut().unwrap().2 = Some(Instant::now());
                }
                Err(_) => return,
            }
        }
    }

    /// How many were acknowledged.
    pub(crate) fn acknowledged(&self) -> usize {
        self.ops.iter().filter(|op| op.2.is_some()).count()
    }

    /// Reads everything back: it must be what was there after some one of the writes, and every key
    /// whole. Returns how many of those that were acknowledged are missing, and when the first
    /// of these had been acknowledged. Goes on from what there is.
    pub(crate) fn verify(&mut self, port: u16) -> (usize, Option<Instant>) {
        let mut http = Http::connect(port).unwrap();
        let mut found = BTreeMap::new();
        for key in 0..KEYS {
            let (status, body) = http.ask("GET", &self.path(key), b"").unwrap();
            let state = match status {
                404 => None,
                200 => {
                    let text = String::from_utf8_lossy(&body);
                    let sequence = text.split(':').nth(1).unwrap_or_else(|| panic!("torn: {text}")).parse().unwrap();
                    assert!(body == value(self.id, sequence), "torn: {text}");
                    Some(sequence)
                }
                _ => panic!("{status} {}", String::from_utf8_lossy(&body)),
            };
            found.insert(key, state);
        }
        // The moments (after so many writes) at which each key was as it is now: one must be common to all.
        let mut possible = vec![true; self.ops.len() + 1];
        for (key, now) in &found {
            let mut state = self.before[key];
            possible[0] &= state == *now;
            for (at, (other, to, _)) in self.ops.iter().enumerate() {
                if other == key {
                    state = *to;
                }
                possible[at + 1] &= state == *now;
            }
        }
        let latest = possible.iter().rposition(|possible| *possible);
        let latest = latest.unwrap_or_else(|| {
            panic!(
                "writer {}: what is there was never there together\n{found:?}\n{:?}\n{:?}",
                self.id, self.before, self.ops
            )
        });
        let missing: Vec<Instant> = self.ops[latest..].iter().filter_map(|op| op.2).collect();
        self.before = found;
        self.ops.clear();
        (missing.len(), missing.first().copied())
    }
}
