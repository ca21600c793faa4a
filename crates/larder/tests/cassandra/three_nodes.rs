//! Three nodes with three copies of each row, of which one dies or stops while clients write.
use super::{
    history::{Action, Operation, is_linearizable},
    server::CassandraNode,
    shown,
};
use crate::{
    common::{Client, Reply, wait_until},
    larder::Larder,
};
use rustix::process::Signal;
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
struct World {
    /// Of all begins and ends.
    events: AtomicU64,
    begun: AtomicU64,
    succeeded: AtomicU64,
    unknown: AtomicU64,
    is_over: AtomicBool,
    went_back: Mutex<Vec<String>>,
    histories: Mutex<BTreeMap<String, Vec<Operation>>>,
}

impl World {
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
        let mut found = None;
        self.operate(client, key, &[&["GETEX", key]], |reply| {
            found = reply.map(value);
            found.map(Action::Read)
        });
        found
    }

    /// One client, until all is over.
    fn run(&self, larder: &Larder, seed: u64) {
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
                    let reply = client.command(&["GET", &counter]);
                    if matches!(reply, Reply::Error(_)) {
                        continue;
                    }
                    if latest_key != counter {
                        (latest_key, latest) = (counter, 0);
                    }
                    let found = value(&reply);
                    if found < latest {
                        let text = format!("{latest_key} goes back from {latest} to {found}");
                        self.went_back.lock().unwrap().push(text);
                    }
                    latest = found;
                }
            }
        }
    }

    /// Waits until enough has succeeded since now.
    fn proceed(&self, when: &str) {
        let (from, unknown) = (self.succeeded.load(SeqCst), self.unknown.load(SeqCst));
        wait_until(when, || self.succeeded.load(SeqCst) >= from + PROGRESS);
        println!("{when}: {} operations without a known outcome", self.unknown.load(SeqCst) - unknown);
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

#[test]
#[ignore = "make test-clients"]
fn a_lost_or_stopped_node_loses_nothing_and_counts_nothing_twice() {
    let mut nodes = CassandraNode::three();
    let url = CassandraNode::url_of(&nodes, "histories");
    let larders = [(); 2].map(|()| Larder::start(&["--source", &url, "--source-timeout", "1s", "--ttl", "50ms"]));
    let world = World::default();
    thread::scope(|scope| {
        // Ends the clients, also when this thread panics.
        let over = End(&world.is_over);
        for seed in 0..CLIENTS {
            let (world, larder) = (&world, &larders[seed as usize % 2]);
            scope.spawn(move || {
                let _over = End(&world.is_over);
                world.run(larder, seed);
            });
        }
        world.proceed("three nodes");
        nodes[2].kill();
        world.proceed("a node is dead");
        nodes[2].restart();
        world.proceed("it is back");
        nodes[1].signal(Signal::STOP);
        world.proceed("a node has stopped");
        nodes[1].signal(Signal::CONT);
        world.proceed("it goes on");
        drop(over);
    });
    // What all clients did is known now: the last value of each key as well.
    let keys: Vec<String> = world.histories.lock().unwrap().keys().cloned().collect();
    let mut client = larders[0].client();
    for key in keys {
        wait_until("an answer", || world.read(&mut client, &key).is_some());
    }
    world.judge();
}

/// Says that all is over when it is dropped.
struct End<'a>(&'a AtomicBool);
impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}
