//! Clients of which each sees its own writes, and whose writes can be counted afterwards.
use crate::{
    common::{Reply, wait_until},
    larder::Larder,
};
use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Mutex,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
    },
    thread,
    time::{Duration, Instant},
};

const WRITERS: usize = 8;
/// Keys that one client writes and all read.
const OWN_KEYS: u64 = 8;
/// Counters that all share.
const COUNTERS: u64 = 5;
/// Writes that must succeed before the test goes on.
const PROGRESS: u64 = 400;

/// What the clients did.
#[derive(Default)]
pub(super) struct Traffic {
    is_over: AtomicBool,
    writes: AtomicU64,
    increments: AtomicU64,
    /// The latest acknowledged value of each key that one client writes.
    own: [[AtomicU64; OWN_KEYS as usize]; WRITERS],
    appended: [AtomicU64; WRITERS],
    /// Writes of all clients in a second; 0: as many as they can.
    rate: u64,
    failed: Mutex<Vec<String>>,
}

impl Traffic {
    pub(super) fn at(rate: u64) -> Traffic {
        Traffic { rate, ..Traffic::default() }
    }

    /// Has clients write and read while `meanwhile` runs. None of their requests may fail.
    pub(super) fn run(&self, larder: &Larder, meanwhile: impl FnOnce()) {
        thread::scope(|scope| {
            for number in 0..WRITERS {
                scope.spawn(move || self.guarded(|| self.write(larder, number)));
            }
            for _ in 0..2 {
                scope.spawn(|| self.guarded(|| self.read(larder)));
            }
            let outcome = catch_unwind(AssertUnwindSafe(meanwhile));
            self.is_over.store(true, SeqCst);
            if let Err(panic) = outcome {
                resume_unwind(panic);
            }
        });
        assert_eq!(*self.failed.lock().unwrap(), Vec::<String>::new());
    }

    /// A client that finds a mistake says so at once: the others go on, and so does the test.
    fn guarded(&self, client: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(client)) {
            let text = panic.downcast_ref::<String>().cloned();
            self.failed.lock().unwrap().push(text.unwrap_or_else(|| "a client panicked".to_owned()));
        }
    }

    fn write(&self, larder: &Larder, number: usize) {
        let (mut client, log) = (larder.client(), format!("log:{number}"));
        let mut counters = [0; COUNTERS as usize];
        let begun = Instant::now();
        for step in 1.. {
            if self.is_over.load(SeqCst) {
                return;
            }
            self.keep_pace(begun, step);
            let (at, value) = (step % OWN_KEYS, step.to_string());
            let key = format!("own:{number}:{at}");
            let own = &self.own[number][at as usize];
            let before = match own.load(SeqCst) {
                0 => Reply::Bulk(None),
                before => Reply::bulk(before.to_string()),
            };
            let is_own = match step / OWN_KEYS % 8 {
                0 => {
                    let counter = step % COUNTERS;
                    let reply = client.command(&["INCR", &format!("counter:{counter}")]).int();
                    assert!(reply > counters[counter as usize], "counter:{counter}: {reply} after {counters:?}");
                    counters[counter as usize] = reply;
                    self.increments.fetch_add(1, SeqCst);
                    false
                }
                1 => {
                    let length = self.appended[number].fetch_add(1, SeqCst) + 1;
                    assert_eq!(client.command(&["APPEND", &log, "x"]), Reply::Int(length as i64), "{log}");
                    false
                }
                2 => {
                    let (path, length) = (format!("/v1/kv/{key}"), value.len());
                    let (status, head, _) = larder.http(&format!(
                        "PUT {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{value}"
                    ));
                    assert!(matches!(status, 201 | 204), "{path}: {head}");
                    true
                }
                3 => {
                    assert_eq!(client.command(&["SET", &key, &value, "GET"]), before, "{key}");
                    true
                }
                4 => {
                    let commands: [&[&str]; 4] = [&["MULTI"], &["GET", &key], &["SET", &key, &value], &["EXEC"]];
                    let replies = commands.map(|command| client.command(command));
                    assert_eq!(replies[3], Reply::Array(Some(vec![before, Reply::ok()])), "{key}");
                    true
                }
                5 => {
                    assert_eq!(client.command(&["DEL", &key]).int(), i64::from(before != Reply::Bulk(None)), "{key}");
                    assert_eq!(client.command(&["SET", &key, &value, "NX", "PX", "3600000"]), Reply::ok(), "{key}");
                    true
                }
                _ => {
                    assert_eq!(client.command(&["SET", &key, &value]), Reply::ok(), "{key}");
                    true
                }
            };
            self.writes.fetch_add(1, Relaxed);
            if is_own {
                own.store(step, SeqCst);
                assert_eq!(client.command(&["GET", &key]), Reply::bulk(&value), "{key}");
            }
        }
    }

    fn keep_pace(&self, begun: Instant, step: u64) {
        if self.rate > 0 {
            let due = begun + Duration::from_secs(step) * WRITERS as u32 / self.rate as u32;
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    }

    /// Reads what others write: never less than what was acknowledged before.
    fn read(&self, larder: &Larder) {
        let (mut client, mut random) = (larder.client(), fastrand::Rng::with_seed(7));
        while !self.is_over.load(SeqCst) {
            let (writer, at) = (random.usize(..WRITERS), random.usize(..OWN_KEYS as usize));
            let (key, acknowledged) = (format!("own:{writer}:{at}"), self.own[writer][at].load(SeqCst));
            match client.command(&["GET", &key]) {
                // It is deleted and written again by its writer.
                Reply::Bulk(None) => {}
                Reply::Bulk(Some(value)) => {
                    let value: u64 = String::from_utf8(value).unwrap().parse().unwrap();
                    assert!(value >= acknowledged, "{key}: {value} after {acknowledged}");
                }
                reply => panic!("{key}: {reply:?}"),
            }
            // Writers need most of the machine.
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until clients have written for a while.
    pub(super) fn proceed(&self, when: &str) {
        let from = self.writes.load(Relaxed);
        wait_until(when, || self.writes.load(Relaxed) >= from + PROGRESS || self.has_failed());
    }

    fn has_failed(&self) -> bool {
        !self.failed.lock().unwrap().is_empty()
    }

    /// What a store must have now: values by key, without the counters.
    pub(super) fn expected(&self) -> BTreeMap<String, String> {
        let own = self.own.iter().enumerate().flat_map(|(writer, keys)| {
            let written = keys.iter().enumerate().map(|(at, value)| (at, value.load(SeqCst)));
            written.map(move |(at, value)| (format!("own:{writer}:{at}"), value.to_string()))
        });
        let appended = self.appended.iter().map(|length| "x".repeat(length.load(SeqCst) as usize));
        own.chain(appended.enumerate().map(|(writer, text)| (format!("log:{writer}"), text))).collect()
    }

    /// Compares what a store has with what the clients were told.
    pub(super) fn judge(&self, mut get: impl FnMut(&str) -> Option<String>) {
        let lost: Vec<String> = self
            .expected()
            .into_iter()
            .filter_map(|(key, value)| {
                let found = get(&key);
                (found.as_deref() != Some(value.as_str())).then(|| format!("{key}: {found:?} instead of {value}"))
            })
            .collect();
        assert_eq!(lost, Vec::<String>::new());
        let counted: u64 = (0..COUNTERS).map(|at| get(&format!("counter:{at}")).unwrap().parse::<u64>().unwrap()).sum();
        assert_eq!(counted, self.increments.load(SeqCst), "increments");
    }
}
