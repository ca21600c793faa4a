//! Clients of two Larders in front of one cluster, whose operations are judged: whatever happens to
//! the nodes, some order explains what each client saw.
use super::{
    history::{Action, Operation, is_linearizable},
    server::wait_for_cluster,
    shown,
};
use crate::{
    common::{Client, Reply},
    larder::Larder,
};
use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
};

const CLIENTS: u64 = 6;
/// Operations after which clients go on to other keys: long histories take long to check.
const ROUND: u64 = 80;
/// Operations that must succeed during each fault, and after it.
const PROGRESS: u64 = 300;

/// What clients did, by key.
#[derive(Default)]
pub struct JudgedClients {
    /// Of all begins and ends.
    events: AtomicU64,
    begun: AtomicU64,
    succeeded: AtomicU64,
    unknown: AtomicU64,
    is_over: AtomicBool,
    /// Reads that begin now are not judged.
    reads_may_be_old: AtomicBool,
    went_back: Mutex<Vec<String>>,
    histories: Mutex<BTreeMap<String, Vec<Operation>>>,
}

impl JudgedClients {
    /// Runs clients of both Larders while `faults` runs, and then judges what they saw.
    pub fn run(url: &str, faults: impl FnOnce(&JudgedClients)) {
        let larders = [(); 2].map(|()| Larder::start(&["--source", url, "--source-timeout", "1s", "--ttl", "50ms"]));
        let clients = JudgedClients::default();
        thread::scope(|scope| {
            // Ends the clients, also when this thread panics.
            let _over = End(&clients.is_over);
            for seed in 0..CLIENTS {
                let (clients, larder) = (&clients, &larders[seed as usize % 2]);
                scope.spawn(move || {
                    let _over = End(&clients.is_over);
                    clients.work(larder, seed);
                });
            }
            faults(&clients);
        });
        clients.read_all(&larders);
        clients.judge();
    }

    /// Reads the last value of each key: what all clients did is known now.
    fn read_all(&self, larders: &[Larder; 2]) {
        let keys: Vec<String> = self.histories.lock().unwrap().keys().cloned().collect();
        thread::scope(|scope| {
            for (keys, larder) in keys.chunks(keys.len().div_ceil(CLIENTS as usize)).zip(larders.iter().cycle()) {
                scope.spawn(move || {
                    let mut client = larder.client();
                    keys.iter().for_each(|key| wait_for_cluster("an answer", || self.read(&mut client, key).is_some()));
                });
            }
        });
    }

    /// Sends a command. `learned`: what its reply tells, or that the outcome is unknown; `None`: it
    /// did nothing and told nothing.
    fn operate(
        &self,
        client: &mut Client,
        key: &str,
        commands: &[&[&str]],
        learned: impl FnOnce(Option<&Reply>) -> Option<Action>,
    ) {
        let begun = self.events.fetch_add(1, SeqCst);
        let replies: Vec<Reply> = commands.iter().map(|command| client.command(command)).collect();
        let ended = self.events.fetch_add(1, SeqCst);
        let reply = match replies.last().unwrap() {
            Reply::Array(Some(replies)) => replies.last().unwrap(),
            reply => reply,
        };
        let (action, ended) = match reply {
            Reply::Error(text) if text.contains("nothing has changed") => return,
            Reply::Error(text) => {
                assert!(text.starts_with("ERR source unavailable: "), "{commands:?}: {text}");
                self.unknown.fetch_add(1, SeqCst);
                (learned(None), None)
            }
            reply => {
                self.succeeded.fetch_add(1, SeqCst);
                (learned(Some(reply)), Some(ended))
            }
        };
        let Some(action) = action else { return };
        let operation = Operation { action, begun, ended };
        self.histories.lock().unwrap().entry(key.to_owned()).or_default().push(operation);
    }

    /// Reads a value from the cluster, past the copies in memory.
    fn read(&self, client: &mut Client, key: &str) -> Option<i64> {
        let (mut found, may_be_old) = (None, self.reads_may_be_old.load(SeqCst));
        self.operate(client, key, &[&["GETEX", key]], |reply| {
            found = reply.map(value);
            found.map(Action::Read).filter(|_| !may_be_old)
        });
        found
    }

    /// One client, until all is over.
    fn work(&self, larder: &Larder, seed: u64) {
        let (mut client, mut random) = (larder.client(), fastrand::Rng::with_seed(seed));
        let (mut latest_key, mut latest) = (String::new(), 0);
        while !self.is_over.load(SeqCst) {
            let number = self.begun.fetch_add(1, SeqCst);
            // Plain writes and transactions are not mixed on one key.
            let counter = format!("counter:{}", number / ROUND);
            let register = format!("register:{}", number / ROUND);
            match random.u8(..8) {
                0..3 => self.operate(&mut client, &counter, &[&["INCR", &counter]], |reply| {
                    Some(Action::Increment(reply.map(Reply::int)))
                }),
                3 => {
                    if client.command(&["WATCH", &counter]) != Reply::ok() {
                        continue;
                    }
                    let Some(from) = self.read(&mut client, &counter) else {
                        client.command(&["UNWATCH"]);
                        continue;
                    };
                    let to = from + 1000;
                    let commands: &[&[&str]] = &[&["MULTI"], &["SET", &counter, &to.to_string()], &["EXEC"]];
                    self.operate(&mut client, &counter, commands, |reply| match reply {
                        Some(Reply::Array(None)) => None,
                        _ => Some(Action::CompareAndSet(from, to)),
                    });
                }
                4 => drop(self.read(&mut client, &counter)),
                5 => drop(self.read(&mut client, &register)),
                6 => {
                    let to = i64::try_from(number).unwrap() + 1;
                    self.operate(&mut client, &register, &[&["SET", &register, &to.to_string()]], |_| {
                        Some(Action::Set(to))
                    });
                }
                // Copies may be old, but do not go back.
                _ => {
                    let may_be_old = self.reads_may_be_old.load(SeqCst);
                    let reply = client.command(&["GET", &counter]);
                    if matches!(reply, Reply::Error(_)) {
                        continue;
                    }
                    if latest_key != counter {
                        (latest_key, latest) = (counter, 0);
                    }
                    let found = value(&reply);
                    if found < latest && !may_be_old {
                        let text = format!("{latest_key} goes back from {latest} to {found}");
                        self.went_back.lock().unwrap().push(text);
                    }
                    latest = found;
                }
            }
        }
    }

    /// Does not judge the reads that begin while `change` runs. The writes are judged.
    pub fn with_old_reads(&self, change: impl FnOnce()) {
        self.reads_may_be_old.store(true, SeqCst);
        change();
        self.reads_may_be_old.store(false, SeqCst);
    }

    /// Waits until enough has succeeded since now. How many operations had no known outcome meanwhile.
    pub fn proceed(&self, when: &str) -> u64 {
        let (from, unknown) = (self.succeeded.load(SeqCst), self.unknown.load(SeqCst));
        wait_for_cluster(when, || self.succeeded.load(SeqCst) >= from + PROGRESS);
        let unknown = self.unknown.load(SeqCst) - unknown;
        let events = self.events.load(SeqCst);
        println!("{when}: {unknown} operations without a known outcome, until event {events}");
        unknown
    }

    /// Whatever happened, there is an order that explains it.
    fn judge(&self) {
        let histories = self.histories.lock().unwrap();
        for (key, history) in histories.iter() {
            if !is_linearizable(history) {
                let shown: Vec<_> = history.iter().map(|operation| format!("{operation:?}\n")).collect();
                panic!("no order of these operations explains {key}:\n{}", shown.concat());
            }
        }
        let went_back = self.went_back.lock().unwrap();
        assert!(went_back.is_empty(), "{went_back:?}");
        let operations = histories.values().map(Vec::len).sum::<usize>();
        println!("{} histories with {operations} operations", histories.len());
    }
}

fn value(reply: &Reply) -> i64 {
    match reply {
        Reply::Bulk(None) => 0,
        reply => shown(reply).parse().unwrap(),
    }
}

/// Ends the work of the clients when it is dropped.
struct End<'a>(&'a AtomicBool);
impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}
