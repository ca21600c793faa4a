//! Connections that move between epoll and io_uring (`transport = alternate`: all the time) lose and
//! reorder nothing. `make test` also runs suites of connections over this.
use super::{
    common::{Client, RedisServer, Reply, wait_until},
    larder::{Larder, encode, expect, skip_until},
};
use std::{
    collections::HashMap,
    fs,
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

/// Moves that a test must have seen, so that it tests anything.
const LEAST_MOVES: f64 = 100.0;

fn moving(redis: &RedisServer, args: &[&str]) -> Larder {
    let url = redis.url();
    Larder::start(&[&["--transport=alternate", "--threads=1", "--source", &url], args].concat())
}

fn assert_moved(larder: &Larder) {
    for to in ["io_uring", "epoll"] {
        let moves = larder.metric(&format!("larder_transport_moves_total{{to=\"{to}\"}}"));
        assert!(moves >= LEAST_MOVES, "{moves} moves to {to}");
    }
}

/// Waits until the server has no connection but those of this test's `clients`.
fn wait_for_clients(larder: &Larder, clients: f64) {
    wait_until("ended connections to be closed", || larder.metric("larder_connections{protocol=\"redis\"}") == clients);
}

fn bulk(value: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
}

/// A client whose replies are known from what it has sent.
struct Modelled {
    stream: TcpStream,
    random: fastrand::Rng,
    name: String,
    values: HashMap<u8, Vec<u8>>,
}

impl Modelled {
    fn new(larder: &Larder, seed: u64) -> Modelled {
        let random = fastrand::Rng::with_seed(seed);
        Modelled { stream: larder.stream(), random, name: format!("client{seed}"), values: HashMap::new() }
    }

    fn value(&mut self) -> Vec<u8> {
        let most = [20, 500, 9_000, 20_000, 150_000][self.random.usize(..5)];
        let mut value = vec![0; self.random.usize(..most)];
        self.random.fill(&mut value);
        value
    }

    /// Appends a command and its reply.
    fn command(&mut self, commands: &mut Vec<u8>, replies: &mut Vec<u8>) {
        let number = self.random.u8(..8);
        let key = format!("{}:{number}", self.name).into_bytes();
        match self.random.u8(..10) {
            0..3 => {
                let value = self.value();
                commands.extend(encode(&[b"SET", &key, &value]));
                replies.extend(b"+OK\r\n");
                self.values.insert(number, value);
            }
            3..7 => {
                commands.extend(encode(&[b"GET", &key]));
                replies.extend(self.values.get(&number).map_or(b"$-1\r\n".to_vec(), |value| bulk(value)));
            }
            7 => {
                commands.extend(encode(&[b"DEL", &key]));
                replies.extend(if self.values.remove(&number).is_some() { b":1\r\n" } else { b":0\r\n" });
            }
            8 => {
                let (queue, value) = (format!("{}:queue", self.name), self.value());
                commands.extend(encode(&[b"RPUSH", queue.as_bytes(), &value]));
                commands.extend(encode(&[b"BLPOP", queue.as_bytes(), b"0"]));
                replies.extend([b":1\r\n*2\r\n", &*bulk(queue.as_bytes()), &bulk(&value)].concat());
            }
            _ => {
                commands.extend(b"PING\r\n");
                replies.extend(b"+PONG\r\n");
            }
        }
    }

    /// Sends a pipeline in random pieces and reads its replies in others.
    fn round(&mut self) {
        let (mut commands, mut replies) = (Vec::new(), Vec::new());
        for _ in 0..self.random.usize(1..20) {
            // So much is answered though nothing is read.
            if commands.len() + replies.len() < 400_000 {
                self.command(&mut commands, &mut replies);
            }
        }
        let mut rest = &commands[..];
        while !rest.is_empty() {
            let most = [3, 100, 10_000, 1_000_000][self.random.usize(..4)];
            // As small pieces of as much would take long.
            let least = rest.len() / 50 + 1;
            let (piece, after) = rest.split_at(self.random.usize(least..=least + most).min(rest.len()));
            self.stream.write_all(piece).unwrap();
            rest = after;
        }
        let half = self.random.usize(..=replies.len());
        expect(&mut self.stream, &replies[..half]);
        expect(&mut self.stream, &replies[half..]);
    }
}

#[test]
fn random_pipelines_get_their_replies_in_order() {
    let redis = RedisServer::start();
    let larder = moving(&redis, &[]);
    std::thread::scope(|scope| {
        for seed in 0..6 {
            let larder = &larder;
            scope.spawn(move || {
                let mut client = Modelled::new(larder, seed);
                (0..120).for_each(|_| client.round());
            });
        }
    });
    assert_moved(&larder);
    wait_for_clients(&larder, 0.0);
    assert_eq!(larder.metric("larder_io_uring_connections"), 0.0);
}

/// Clients end in the middle of all this: between two moves, in one, with replies due, inside a
/// command, by CLIENT KILL.
#[test]
fn clients_that_end_in_a_move_take_nothing_with_them() {
    let redis = RedisServer::start();
    let larder = moving(&redis, &[]);
    let files = || fs::read_dir(format!("/proc/{}/fd", larder.pid())).unwrap().count();
    let mut witness = Modelled::new(&larder, 1_000);
    (0..20).for_each(|_| witness.round());
    let before = files();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (larder, is_over) = (&larder, &is_over);
        let witness = scope.spawn(move || {
            while !is_over.load(Relaxed) {
                witness.round();
            }
            witness
        });
        let enders: Vec<_> = (0..3)
            .map(|seed| {
                scope.spawn(move || {
                    let mut killer = larder.client();
                    for round in 0..60 {
                        let mut client = Modelled::new(larder, 2_000 + seed * 100 + round);
                        (0..client.random.usize(1..6)).for_each(|_| client.round());
                        let (mut commands, mut replies) = (Vec::new(), Vec::new());
                        (0..4).for_each(|_| client.command(&mut commands, &mut replies));
                        let cut = client.random.usize(..commands.len());
                        client.stream.write_all(&commands[..cut]).unwrap();
                        match round % 3 {
                            0 => {}
                            1 => client.stream.shutdown(Shutdown::Write).unwrap(),
                            _ => {
                                let address = client.stream.local_addr().unwrap().to_string();
                                assert_eq!(killer.command(&["CLIENT", "KILL", &address]), Reply::ok());
                            }
                        }
                        if round % 3 > 0 {
                            // Until the end of the connection.
                            let _ = client.stream.read_to_end(&mut Vec::new());
                        }
                    }
                })
            })
            .collect();
        let failed: Vec<_> = enders.into_iter().filter_map(|ender| ender.join().err()).collect();
        is_over.store(true, Relaxed);
        let _witness = witness.join().unwrap();
        assert!(failed.is_empty());
        wait_for_clients(larder, 1.0);
        // Its connections to Redis come and go.
        wait_until("all sockets to be closed", || files() <= before + 4);
    });
    assert_moved(&larder);
}

/// Messages arrive on a connection that moves and is otherwise silent, or talks meanwhile.
#[test]
fn pushed_messages_arrive_in_order() {
    let redis = RedisServer::start();
    let larder = moving(&redis, &[]);
    let mut publisher = larder.client();
    let mut subscriber = larder.stream();
    subscriber.write_all(b"HELLO 3\r\nSUBSCRIBE news\r\nPING is-on\r\n").unwrap();
    skip_until(&mut subscriber, b"$5\r\nis-on\r\n");
    let mut tracker = larder.stream();
    tracker.write_all(b"HELLO 3\r\nCLIENT TRACKING on\r\nPING is-on\r\n").unwrap();
    skip_until(&mut tracker, b"$5\r\nis-on\r\n");
    let mut random = fastrand::Rng::with_seed(5);
    for round in 0..400 {
        let mut expected = Vec::new();
        for _ in 0..random.usize(..4) {
            let message = vec![b'a' + (round % 26) as u8; random.usize(..20_000)];
            assert_eq!(publisher.command(&[&b"PUBLISH"[..], b"news", &message]), Reply::Int(1));
            expected.extend([b">3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n", &*bulk(&message)].concat());
        }
        expect(&mut subscriber, &expected);
        if random.f64() < 0.7 {
            // It reads, and so it moves.
            subscriber.write_all(b"PING\r\n").unwrap();
            expect(&mut subscriber, b"+PONG\r\n");
        }
        let value = round.to_string();
        assert_eq!(publisher.command(&["SET", "tracked", &value]), Reply::ok());
        if round > 0 {
            expect(&mut tracker, b">2\r\n$10\r\ninvalidate\r\n*1\r\n$7\r\ntracked\r\n");
        }
        tracker.write_all(b"GET tracked\r\n").unwrap();
        expect(&mut tracker, &bulk(value.as_bytes()));
    }
    assert_moved(&larder);
}

/// What waits at Redis is answered, and ends with its client, wherever its connection was before.
#[test]
fn blocking_commands_are_answered_and_end_with_their_client() {
    let redis = RedisServer::start();
    let larder = moving(&redis, &[]);
    let blocked = |count: usize| {
        wait_until(&format!("{count} blocked clients"), || {
            let Reply::Bulk(Some(info)) = redis.command(&["INFO", "clients"]) else { panic!("INFO has no text") };
            String::from_utf8(info).unwrap().contains(&format!("blocked_clients:{count}\r"))
        });
    };
    let mut pusher = larder.client();
    let mut waits: Client = larder.client();
    for round in 0..210 {
        let value = format!("value{round}");
        // At one place after an even number of reads, at the other after an odd one.
        (0..round % 3).for_each(|_| assert_eq!(waits.command(&["PING"]), Reply::Simple("PONG".to_owned())));
        waits.send(&["BLPOP", "queue", "0"]).unwrap();
        if round % 7 == 0 {
            blocked(1);
        }
        if round % 21 == 0 {
            // It leaves: nothing is taken for it afterwards.
            waits = larder.client();
            blocked(0);
            assert_eq!(pusher.command(&["RPUSH", "queue", &value]), Reply::Int(1));
            assert_eq!(pusher.command(&["DEL", "queue"]), Reply::Int(1));
            continue;
        }
        // More commands come while it waits.
        waits.send(&["ECHO", &value]).unwrap();
        assert_eq!(pusher.command(&["RPUSH", "queue", &value]), Reply::Int(1));
        assert_eq!(waits.read().unwrap(), Reply::Array(Some(vec![Reply::bulk("queue"), Reply::bulk(&value)])));
        assert_eq!(waits.read().unwrap(), Reply::bulk(&value));
    }
    assert_moved(&larder);
}

/// `transport = auto`: connections whose requests come together move, and a lone one moves back.
#[test]
fn busy_connections_move_and_a_lone_one_moves_back() {
    let larder = Larder::start(&["--transport=auto", "--threads=1"]);
    let mut clients: Vec<TcpStream> = (0..32).map(|_| larder.stream()).collect();
    let say = |clients: &mut [TcpStream]| {
        clients.iter_mut().for_each(|client| client.write_all(b"PING\r\n").unwrap());
        clients.iter_mut().for_each(|client| expect(client, b"+PONG\r\n"));
    };
    let on_ring = || larder.metric("larder_io_uring_connections");
    (0..500).for_each(|_| say(&mut clients[..1]));
    assert_eq!(on_ring(), 0.0, "it was alone");
    wait_until("busy connections to move to the ring", || {
        (0..50).for_each(|_| say(&mut clients));
        on_ring() == 32.0
    });
    clients.push(larder.stream());
    say(&mut clients[32..]);
    assert_eq!(on_ring(), 33.0, "who joins a crowd begins on the ring");
    wait_until("a lone connection to move back", || {
        (0..500).for_each(|_| say(&mut clients[..1]));
        on_ring() == 32.0
    });
    assert_eq!(larder.metric("larder_transport_moves_total{to=\"epoll\"}"), 1.0);
    say(&mut clients);
}
