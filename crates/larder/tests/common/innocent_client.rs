//! A client that does nothing wrong: its commands share Larder's connections to Redis with whatever
//! others send, and each reply must be right.

use super::common::{Client, Reply};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread::JoinHandle,
};

pub struct Innocent {
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}
impl Innocent {
    /// Begins to talk to the Larder on this port, about keys that begin with `innocent:`.
    pub fn start(port: u16) -> Innocent {
        Innocent::named(port, "innocent")
    }
    /// The same with another beginning.
    pub fn named(port: u16, name: &'static str) -> Innocent {
        let (stop, rounds) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (stopped, counted) = (stop.clone(), rounds.clone());
        let thread = std::thread::spawn(move || {
            let mut client = Client::connect(port).unwrap();
            for round in 0.. {
                if stopped.load(Relaxed) {
                    break;
                }
                talk(&mut client, name, round);
                counted.store(round as u64 + 1, Relaxed);
            }
        });
        Innocent { stop, rounds, thread: Some(thread) }
    }
    /// Has it got a wrong reply, or none?
    pub fn has_failed(&self) -> bool {
        self.thread.as_ref().is_some_and(JoinHandle::is_finished)
    }
    /// Waits until it has been answered some more times, or has failed.
    #[track_caller]
    pub fn goes_on(&self) {
        let before = self.rounds.load(Relaxed);
        super::common::wait_until("the innocent client to be answered", || {
            assert!(!self.has_failed(), "the innocent client has failed: see above");
            self.rounds.load(Relaxed) > before + 1
        });
    }
    /// Ends it; how often it was answered.
    #[track_caller]
    pub fn end(mut self) -> u64 {
        self.goes_on();
        self.stop.store(true, Relaxed);
        self.thread.take().unwrap().join().expect("the innocent client gets right replies");
        self.rounds.load(Relaxed)
    }
}
impl Drop for Innocent {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
    }
}

/// Commands that are answered from the tier, fetched, written and forwarded, alone and in a
/// transaction.
fn talk(client: &mut Client, name: &str, round: i64) {
    let number = round.to_string();
    let key = format!("{name}:{}", round % 7);
    assert_eq!(client.command(&["SET", &key, &number]), Reply::ok());
    assert_eq!(client.command(&["GET", &key]), Reply::bulk(&number));
    assert_eq!(client.command(&["GET", &key]), Reply::bulk(&number));
    let hash = format!("{name}:hash:{}", round % 5);
    let added = i64::from(round < 5);
    assert_eq!(client.command(&["HSET", &hash, "field", &number]), Reply::Int(added));
    assert_eq!(client.command(&["HGET", &hash, "field"]), Reply::bulk(&number));
    assert_eq!(client.command(&["HGET", &hash, "field"]), Reply::bulk(&number));
    assert_eq!(client.command(&["INCR", &format!("{name}:count")]), Reply::Int(round + 1));
    let script = "return redis.call('GET', KEYS[1]) .. ARGV[1]";
    assert_eq!(client.command(&["EVAL", script, "1", &key, "!"]), Reply::bulk(format!("{number}!")));
    client.send(&["MULTI"]).unwrap();
    client.send(&["APPEND", &key, "x"]).unwrap();
    let list = format!("{name}:list");
    client.send(&["LPUSH", &list, &number]).unwrap();
    client.send(&["RPOP", &list]).unwrap();
    client.send(&["EXEC"]).unwrap();
    assert_eq!(client.read().unwrap(), Reply::ok());
    for _ in 0..3 {
        assert_eq!(client.read().unwrap(), Reply::Simple("QUEUED".into()));
    }
    let length = Reply::Int(number.len() as i64 + 1);
    assert_eq!(client.read().unwrap(), Reply::Array(Some(vec![length, Reply::Int(1), Reply::bulk(&number)])));
}
