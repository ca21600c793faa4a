//! All buffers together have one bound (`max-buffers`): clients that hold much are held back and
//! then cut, the others are served.
use super::{
    common::{Client, RedisServer, Reply, left_behind::call, wait_until},
    larder::{Larder, connect, encode, expect, expect_end},
};
use larder_redis::{COMMANDS, Leaves};
use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
};

const MIB: usize = 1 << 20;
/// The bound on all buffers in these tests, and the one on the memory tier.
const BUFFERS: usize = 32 * MIB;
const MEMORY: usize = 16 * MIB;
const ARGS: [&str; 6] = ["--max-buffers", "32MiB", "--max-memory", "16MiB", "--threads", "2"];

fn start(more: &[&str]) -> Larder {
    Larder::start(&[&ARGS, more].concat())
}

/// A client among those that hold too much: what it gets must be right, and what the process
/// occupies within the bound.
struct Innocent<'l> {
    larder: &'l Larder,
    client: Client,
    /// What the process may occupy.
    most: usize,
    rounds: usize,
}

impl Innocent<'_> {
    fn of(larder: &Larder) -> Innocent<'_> {
        let mut client = larder.client();
        assert_eq!(client.command(&["PING"]), Reply::Simple("PONG".into()));
        let most = (MEMORY + BUFFERS + larder.resident()) * 5 / 4;
        Innocent { larder, client, most, rounds: 0 }
    }

    #[track_caller]
    fn round(&mut self) {
        self.rounds += 1;
        let (key, value) = (format!("innocent{}", self.rounds % 7), format!("value{}", self.rounds));
        assert_eq!(self.client.command(&["SET", &key, &value]), Reply::ok());
        assert_eq!(self.client.command(&["GET", &key]), Reply::bulk(&value));
        if self.rounds.is_multiple_of(10) {
            let request = format!("GET /v1/kv/{key} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
            let (status, _, body) = self.larder.http(&request);
            assert_eq!((status, body), (200, value.into_bytes()));
        }
        let resident = self.larder.resident();
        assert!(resident <= self.most, "{} MiB of {}", resident / MIB, self.most / MIB);
    }
}

/// A client that sends all it can and reads nothing.
struct Flood {
    stream: TcpStream,
    head: Vec<u8>,
    /// Bytes of `x` that follow.
    body: usize,
    sent: usize,
    is_over: bool,
}

impl Flood {
    fn new(port: u16, head: Vec<u8>, body: usize) -> Flood {
        let stream = connect(port);
        stream.set_nonblocking(true).unwrap();
        Flood { stream, head, body, sent: 0, is_over: false }
    }

    /// Sends what is taken; true if something was.
    fn push(&mut self) -> bool {
        let filler = [b'x'; 64 * 1024];
        let before = self.sent;
        while !self.is_over {
            let left = (self.head.len() + self.body).saturating_sub(self.sent);
            let next = match self.head.get(self.sent..) {
                Some(head) if !head.is_empty() => head,
                _ => &filler[..left.min(filler.len())],
            };
            if next.is_empty() {
                self.is_over = true;
                break;
            }
            match self.stream.write(next) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_cut) => self.is_over = true,
            }
        }
        self.sent > before
    }

    /// What it is told, once it is cut; `None`: it has not been.
    fn told(&mut self) -> Option<Vec<u8>> {
        let mut told = Vec::new();
        match self.stream.read_to_end(&mut told) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Ok(_) | Err(_) => Some(told),
        }
    }
}

/// Has all of them send until nothing is taken any more, while the innocent is served.
#[track_caller]
fn flood(innocent: &mut Innocent<'_>, floods: &mut [Flood]) {
    let mut idle = 0;
    while idle < 100 {
        let pushed: Vec<bool> = floods.iter_mut().map(Flood::push).collect();
        idle = if pushed.contains(&true) { 0 } else { idle + 1 };
        innocent.round();
    }
}

fn cutoffs(larder: &Larder, protocol: &str) -> f64 {
    larder.metric(&format!("larder_buffers_cutoffs_total{{protocol=\"{protocol}\"}}"))
}
/// So many of them are cut in the end. On a busy machine nothing is taken for a while before the
/// next is cut.
#[track_caller]
fn expect_cut(larder: &Larder, floods: &mut [Flood], protocol: &str, least: f64) {
    wait_until("enough of them to be cut", || {
        floods.iter_mut().for_each(|flood| _ = flood.push());
        cutoffs(larder, protocol) >= least
    });
}
fn held(larder: &Larder) -> f64 {
    larder.metric("larder_buffers_bytes")
}
/// Nothing is left on the account but what those who ask hold themselves.
#[track_caller]
fn expect_given_back(larder: &Larder) {
    expect_kept(larder, 300_000.0);
}

fn expect_kept(larder: &Larder, most: f64) {
    wait_until("all else to be given back", || held(larder) < most);
}

fn redis_or_none(with_redis: bool) -> (Option<RedisServer>, Vec<String>) {
    let redis = with_redis.then(RedisServer::start);
    let args = redis.iter().flat_map(|redis| ["--source".to_owned(), redis.url()]).collect();
    (redis, args)
}

#[test]
fn pipelines_whose_replies_nobody_reads() {
    for with_redis in [false, true] {
        let (_redis, args) = redis_or_none(with_redis);
        let larder = start(&args.iter().map(String::as_str).collect::<Vec<_>>());
        let mut innocent = Innocent::of(&larder);
        innocent.client.command(&[&b"SET"[..], b"k", &[b'v'; 4096]]);
        innocent.client.command(&["GET", "k"]);
        let pipeline = encode(&[b"GET", b"k"]).repeat(5000);
        let mut floods: Vec<_> = (0..150).map(|_| Flood::new(larder.redis, pipeline.clone(), 0)).collect();
        flood(&mut innocent, &mut floods);
        assert_eq!(larder.metric("larder_buffers_max_bytes"), BUFFERS as f64);
        assert!(held(&larder) > MIB as f64);
        // Most of them are only held back: they get all their replies when they read.
        assert!(cutoffs(&larder, "redis") < 75.0, "{}", cutoffs(&larder, "redis"));
        let reply = [b"$4096\r\n", &[b'v'; 4096][..], b"\r\n"].concat();
        let mut patient = floods.into_iter().rev().find_map(|flood| (!flood.is_over).then_some(flood.stream));
        if let Some(stream) = &mut patient {
            stream.set_nonblocking(false).unwrap();
            (0..100).for_each(|_| expect(stream, &reply));
        }
        drop(patient);
        expect_given_back(&larder);
        innocent.round();
    }
}

#[test]
fn large_commands_and_bodies_that_are_not_finished() {
    for (with_redis, over_http) in [(false, false), (false, true), (true, false), (true, true)] {
        let (_redis, args) = redis_or_none(with_redis);
        let larder = start(&args.iter().map(String::as_str).collect::<Vec<_>>());
        let mut innocent = Innocent::of(&larder);
        let (port, protocol) = if over_http { (larder.http, "http") } else { (larder.redis, "redis") };
        let head = |n: usize| match over_http {
            true => format!("PUT /v1/kv/large{n} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", 25 * MIB),
            false => format!("*3\r\n$3\r\nSET\r\n$7\r\nlarge{n:02}\r\n${}\r\n", 25 * MIB),
        };
        let mut floods: Vec<_> = (0..30).map(|n| Flood::new(port, head(n).into_bytes(), 15 * MIB)).collect();
        flood(&mut innocent, &mut floods);
        expect_cut(&larder, &mut floods, protocol, 20.0);
        // Who was cut is told why, unless it was sending so much that it could not hear it.
        let told: Vec<_> = floods.iter_mut().filter_map(Flood::told).collect();
        let (status, said) = match over_http {
            true => (&b"HTTP/1.1 503 "[..], "(setting `max-buffers`)"),
            false => (&b"-ERR connection closed: "[..], "(max-buffers)"),
        };
        assert!(told.iter().any(|told| !told.is_empty()));
        for told in told.iter().filter(|told| !told.is_empty()) {
            let text = String::from_utf8_lossy(told);
            assert!(told.starts_with(status) && text.contains(said), "{text}");
        }
        drop(floods);
        expect_given_back(&larder);
        let value = vec![b'y'; 6 * MIB];
        assert_eq!(innocent.client.command(&[&b"SET"[..], b"large", &value]), Reply::ok());
        assert_eq!(innocent.client.command(&["STRLEN", "large"]), Reply::Int(value.len() as i64));
        innocent.round();
    }
}

#[test]
fn what_cannot_fit_is_refused_before_it_is_read() {
    let larder = start(&[]);
    // A length that is only claimed takes nothing.
    let mut claims: Vec<TcpStream> = (0..100).map(|_| larder.stream()).collect();
    for stream in &mut claims {
        stream.write_all(format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", 30 * MIB).as_bytes()).unwrap();
    }
    let mut stream = larder.stream();
    stream.write_all(format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", 33 * MIB).as_bytes()).unwrap();
    expect(&mut stream, b"-ERR Protocol error: command longer than 33554432 bytes (follows from max-buffers)\r\n");
    expect_end(&mut stream);
    let put = format!("PUT /v1/kv/k HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", 33 * MIB);
    let (status, _, body) = larder.http(&put);
    let body = String::from_utf8(body).unwrap();
    assert!(status == 413 && body.contains("exceeds the limit of 33554432 (setting `max-buffers`)"), "{status} {body}");
    assert_eq!(larder.metric("larder_buffers_refusals_total"), 1.0);
    assert_eq!(cutoffs(&larder, "redis"), 0.0);
    assert!(held(&larder) < 8.0 * MIB as f64, "{}", held(&larder));
}

#[test]
fn one_reply_that_does_not_fit() {
    let larder = start(&[]);
    let mut innocent = Innocent::of(&larder);
    let mut client = larder.client();
    client.command(&[&b"SET"[..], b"k", &[b'v'; 12 * 1024]]);
    // Together they would be 240 MB.
    let keys = vec!["k"; 20_000];
    // Not `Reply::error`, which would print it all.
    let refused = |reply: &Reply| matches!(reply, Reply::Error(text) if text.starts_with("ERR the reply does not fit"));
    assert!(refused(&client.command(&[&["MGET"], &keys[..]].concat())));
    innocent.round();
    // Within a transaction those that would are refused, and nothing else.
    client.command(&["MULTI"]);
    for _ in 0..10_000 {
        client.send(&["GET", "k"]).unwrap();
    }
    client.send(&["SET", "after", "1"]).unwrap();
    (0..10_001).for_each(|_| assert_eq!(client.read().unwrap(), Reply::Simple("QUEUED".into())));
    let Reply::Array(Some(replies)) = client.command(&["EXEC"]) else { panic!("EXEC has an array") };
    assert_eq!(replies.len(), 10_001);
    assert_eq!(replies[0], Reply::bulk([b'v'; 12 * 1024]));
    assert!(refused(&replies[10_000]), "a command that is refused changes nothing");
    assert_eq!(client.command(&["EXISTS", "after"]), Reply::Int(0));
    let body = format!("{{\"keys\":[{}]}}", vec!["\"k\""; 1000].join(","));
    for _ in 0..3 {
        let length = body.len();
        let request =
            format!("POST /v1/mget HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
        assert_eq!(larder.http(&request).0, 200, "12 MB fit");
        innocent.round();
    }
    assert!(larder.metric("larder_buffers_refusals_total") >= 2.0);
    expect_given_back(&larder);
}

/// A reply of the source is refused before it takes more than a tenth above the bound.
#[test]
fn replies_of_a_redis_that_do_not_fit() {
    let redis = RedisServer::start();
    let size = (48 * MIB - 1).to_string();
    redis.command(&["SETRANGE", "big", &size, "v"]);
    let fill = "redis.call('hset', 'h', 'f', redis.call('get', 'big')) \
                for _ = 1, 6 do redis.call('rpush', 'l', redis.call('getrange', 'big', 0, 8388607)) end return 1";
    assert_eq!(redis.command(&["EVAL", fill, "0"]), Reply::Int(1));
    let larder = start(&["--source", &redis.url(), "--max-value", "64MiB"]);
    let mut innocent = Innocent::of(&larder);
    let most = larder.peak() + MEMORY + BUFFERS * 11 / 10;
    let mut client = larder.client();
    let commands: [&[&str]; 9] = [
        &["GET", "big"],
        &["MGET", "big", "big"],
        &["GETRANGE", "big", "0", "-1"],
        &["HGET", "h", "f"],
        &["HGETALL", "h"],
        &["HVALS", "h"],
        &["LRANGE", "l", "0", "-1"],
        &["SORT", "l", "BY", "none*"],
        &["EVAL", "return redis.call('get', 'big')", "0"],
    ];
    for command in commands {
        client.send(command).unwrap();
        let reply = client.read().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        // Not `Reply::error`, which would print it all.
        assert!(matches!(&reply, Reply::Error(text) if text.contains("(max-buffers)")), "{command:?}");
        innocent.round();
        assert!(larder.peak() <= most, "{command:?}: {} MiB of {}", larder.peak() / MIB, most / MIB);
    }
    let (status, _, body) = larder.http("GET /v1/kv/big HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert!(status == 502 && String::from_utf8_lossy(&body).contains("(max-buffers)"), "{status}");
    assert!(larder.peak() <= most, "{} MiB of {}", larder.peak() / MIB, most / MIB);
}

/// A value leaves by reference: while the memory tier has it, it counts there; once another has
/// taken its place, it counts here.
#[test]
fn large_values_that_slow_readers_hold() {
    let larder = start(&[]);
    let mut innocent = Innocent::of(&larder);
    let mut floods = Vec::new();
    let lent = || larder.metric("larder_buffers_bytes{kind=\"lent\"}");
    for n in 0..60 {
        let value = vec![n; 3 * MIB];
        // The writer holds as much as one of the others, and may be cut like them.
        wait_until("the value to be replaced", || {
            larder.client().try_command(&[&b"SET"[..], b"large", &value]).is_ok_and(|reply| reply == Reply::ok())
        });
        let mut flood = Flood::new(larder.redis, encode(&[b"GET", b"large"]).repeat(20), 0);
        flood.push();
        floods.push(flood);
        innocent.round();
    }
    assert!(lent() > MIB as f64, "{}", lent());
    assert!(lent() <= BUFFERS as f64 * 1.1, "{}", lent());
    assert!(cutoffs(&larder, "redis") > 20.0, "{}", cutoffs(&larder, "redis"));
    drop(floods);
    wait_until("the values to be let go", || lent() == 0.0);
    // Many readers of one value hold it once.
    let before = cutoffs(&larder, "redis");
    let mut floods: Vec<_> = (0..60).map(|_| Flood::new(larder.redis, encode(&[b"GET", b"large"]), 0)).collect();
    flood(&mut innocent, &mut floods);
    assert_eq!(cutoffs(&larder, "redis"), before);
    drop(floods);
    expect_given_back(&larder);
}

#[test]
fn subscribers_that_do_not_read() {
    let larder = start(&[]);
    let mut innocent = Innocent::of(&larder);
    let mut subscribers: Vec<TcpStream> = (0..40).map(|_| larder.stream()).collect();
    for (n, stream) in subscribers.iter_mut().enumerate() {
        stream.write_all(&encode(&[b"SUBSCRIBE", format!("channel{n}").as_bytes(), b"all"])).unwrap();
    }
    wait_until("all to have subscribed", || {
        innocent.client.command(&["PUBSUB", "NUMSUB", "all"])
            == Reply::Array(Some(vec![Reply::bulk("all"), Reply::Int(40)]))
    });
    // A message that all get is held once.
    let message = vec![b'm'; 100 * 1024];
    for _ in 0..100 {
        assert_eq!(innocent.client.command(&[&b"PUBLISH"[..], b"all", &message]), Reply::Int(40));
    }
    assert_eq!(cutoffs(&larder, "redis"), 0.0);
    innocent.round();
    // 40 times 5 MB, each less than max-backlog.
    for _ in 0..50 {
        for n in 0..40 {
            innocent.client.command(&[&b"PUBLISH"[..], format!("channel{n}").as_bytes(), &message]);
        }
        innocent.round();
    }
    assert!(cutoffs(&larder, "redis") > 10.0, "{}", cutoffs(&larder, "redis"));
    assert_eq!(larder.metric("larder_backlog_cutoffs_total"), 0.0);
    drop(subscribers);
    expect_given_back(&larder);
}

/// The clients read each reply, so nothing but the state is held for them.
#[test]
fn state_that_commands_leave_behind() {
    for command in COMMANDS.iter().filter(|command| command.leaves == Leaves::Connection) {
        match command.name {
            // Each takes the place of the one before, and has a limit of its own.
            "client|setname" | "client|setinfo" | "hello" => continue,
            // What they leave is at the subscribers (`subscribers_that_do_not_read`), or needs a Redis
            // (`lines_of_monitor_that_are_not_read`).
            "publish" | "spublish" | "monitor" => continue,
            _ => {}
        }
        let larder = start(&[]);
        let mut innocent = Innocent::of(&larder);
        let mut clients: Vec<Client> = (0..20).map(|_| larder.client()).collect();
        for n in 0..60 {
            let words = call(command, n, 60_000);
            for client in &mut clients {
                // A client that was cut gets an error.
                _ = client.try_command(&words.iter().map(String::as_str).collect::<Vec<_>>());
            }
            innocent.round();
        }
        assert!(cutoffs(&larder, "redis") >= 1.0, "{}: nobody was cut", command.name);
        assert!(clients.iter().any(Client::is_open), "{}: all were cut", command.name);
        drop(clients);
        expect_given_back(&larder);
    }
}

/// What is queued by MULTI, and what waits for something to happen at a Redis.
#[test]
fn commands_that_wait() {
    let larder = start(&[]);
    let mut innocent = Innocent::of(&larder);
    let mut clients: Vec<Client> = (0..20).map(|_| larder.client()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.command(&["MULTI"]), Reply::ok()));
    let text = "x".repeat(60_000);
    for _ in 0..60 {
        for client in &mut clients {
            _ = client.try_command(&["ECHO", &text]);
        }
        innocent.round();
    }
    assert!(cutoffs(&larder, "redis") >= 1.0 && clients.iter().any(Client::is_open));
    drop(clients);
    expect_given_back(&larder);
    let redis = RedisServer::start();
    let larder = start(&["--source", &redis.url()]);
    let mut innocent = Innocent::of(&larder);
    let keys: Vec<_> = (0..20).map(|n| format!("{n}:{text}")).collect();
    let words: Vec<&str> = ["BLPOP"].into_iter().chain(keys.iter().map(String::as_str)).chain(["0"]).collect();
    let mut clients: Vec<Client> = (0..60).map(|_| larder.client()).collect();
    for client in &mut clients {
        // Cut or refused while it sends, or taken.
        _ = client.send(&words);
        innocent.round();
    }
    let refused = || larder.metric("larder_buffers_refusals_total");
    wait_until("most to be cut or refused", || cutoffs(&larder, "redis") + refused() >= 30.0);
    wait_until("the others to fit", || held(&larder) <= BUFFERS as f64);
    innocent.round();
    drop(clients);
    expect_kept(&larder, 2.5e6);
}

/// The fetches go on when their clients have gone.
#[test]
fn long_keys_that_wait_for_a_redis_that_has_stopped() {
    let redis = RedisServer::start();
    let larder = start(&["--source", &redis.url(), "--source-timeout", "60s"]);
    let mut client = larder.client();
    assert_eq!(client.command(&["GET", "before"]), Reply::nil());
    let most = (MEMORY + BUFFERS + larder.resident()) * 5 / 4;
    redis.stop();
    for round in 0..20 {
        let mut stream = larder.stream();
        for n in 0..50 {
            _ = stream.write_all(&encode(&[b"GET", format!("{round}:{n}:{:x>60000}", "").as_bytes()]));
        }
        drop(stream);
        assert_eq!(client.command(&["PING"]), Reply::Simple("PONG".into()));
        assert!(larder.resident() <= most, "{} MiB of {}", larder.resident() / MIB, most / MIB);
    }
    let refused = |reply: Reply| matches!(reply, Reply::Error(text) if text.contains("max-buffers"));
    wait_until("a fetch to be refused", || refused(client.command(&["GET", &"y".repeat(60_000)])));
    redis.cont();
    wait_until("the fetches to end", || held(&larder) < 2.5e6);
    assert_eq!(client.command(&["GET", &"y".repeat(60_000)]), Reply::nil());
}

/// Subscribers in front of a Redis have connections of their own to it.
#[test]
fn subscribers_at_a_redis_that_do_not_read() {
    let redis = RedisServer::start();
    let larder = start(&["--source", &redis.url()]);
    let mut innocent = Innocent::of(&larder);
    let mut clients: Vec<Client> = (0..40).map(|_| larder.client()).collect();
    clients.iter_mut().for_each(|client| _ = client.command(&["SUBSCRIBE", "all"]));
    let message = "m".repeat(100_000);
    // The kernel's buffers take an unknown part of it.
    let mut sent = 0;
    while cutoffs(&larder, "redis") <= 10.0 {
        assert!(sent < 500, "subscribers are not cut");
        redis.command(&["PUBLISH", "all", &message]);
        innocent.round();
        sent += 1;
    }
    assert_eq!(larder.metric("larder_backlog_cutoffs_total"), 0.0, "it was max-buffers, not max-backlog");
    drop(clients);
    expect_kept(&larder, 2.5e6);
}

/// Messages that come faster than their clients have turns: what waits for a client is on the
/// account before its connection receives more.
#[test]
fn a_flood_of_small_messages_from_a_redis() {
    let redis = RedisServer::with(&["--client-output-buffer-limit", "pubsub 0 0 0"]);
    let larder = start(&["--source", &redis.url(), "--max-backlog", "1GiB"]);
    let mut innocent = Innocent::of(&larder);
    let mut clients: Vec<Client> = (0..20).map(|_| larder.client()).collect();
    clients.iter_mut().for_each(|client| _ = client.command(&["SUBSCRIBE", "all"]));
    let most = larder.peak() + BUFFERS * 2;
    let publish = "for _ = 1, 500 do redis.call('publish', 'all', ARGV[1]) end return 1";
    let mut sent = 0;
    while cutoffs(&larder, "redis") <= 10.0 {
        assert!(sent < 100, "subscribers are not cut");
        // One turn of Redis, so all of it comes at once.
        redis.command(&["EVAL", publish, "0", &"m".repeat(1000)]);
        innocent.round();
        sent += 1;
    }
    assert!(larder.peak() <= most, "{} MiB of {}", larder.peak() / MIB, most / MIB);
}

#[test]
fn lines_of_monitor_that_are_not_read() {
    let redis = RedisServer::start();
    let larder = start(&["--source", &redis.url()]);
    let mut innocent = Innocent::of(&larder);
    let mut clients: Vec<Client> = (0..20).map(|_| larder.client()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.command(&["MONITOR"]), Reply::ok()));
    for _ in 0..60 {
        innocent.client.command(&["GET", &"k".repeat(60_000)]);
        innocent.round();
    }
    wait_until("those that monitor to be cut", || cutoffs(&larder, "redis") >= 1.0);
    drop(clients);
    expect_kept(&larder, 2.5e6);
}

/// They are users of the process, and no connection's: they have a share of the buffers.
#[test]
fn users_that_clients_make() {
    let larder = start(&[]);
    let mut innocent = Innocent::of(&larder);
    let mut client = larder.client();
    let rule = format!("~{:x>60000}", "");
    let made = (0..200).map(|n| client.command(&["ACL", "SETUSER", &format!("user{n}"), &rule])).collect::<Vec<_>>();
    let refused = "ERR users made with ACL SETUSER may occupy 4194304 bytes, an eighth of max-buffers";
    assert!(made[0] == Reply::ok() && made[199] == Reply::Error(refused.into()), "{:?}", made[199]);
    let bytes = larder.metric("larder_buffers_bytes{kind=\"users\"}");
    assert!((MIB as f64..=(BUFFERS / 8) as f64).contains(&bytes), "{bytes} bytes");
    innocent.round();
    assert_eq!(client.command(&["ACL", "DELUSER", "user0"]), Reply::Int(1));
    assert_eq!(client.command(&["ACL", "SETUSER", "user0", &rule]), Reply::ok(), "room that was given back");
    let long = "n".repeat(1025);
    assert_eq!(client.command(&["ACL", "SETUSER", &long]), Reply::Error("ERR a name has at most 1024 bytes".into()));
}

#[test]
fn keys_of_which_clients_hold_copies() {
    let larder = start(&[]);
    let mut innocent = Innocent::of(&larder);
    let mut clients: Vec<Client> = (0..20).map(|_| larder.client()).collect();
    for (n, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.command(&["CLIENT", "TRACKING", "ON"]), Reply::ok());
        for key in (0..60).map(|key| format!("{n}:{key}:{:0>60000}", "")) {
            assert_eq!(client.command(&["GET", &key]), Reply::nil());
        }
        innocent.round();
    }
    let tracked = larder.metric("larder_buffers_bytes{kind=\"tracking\"}");
    assert!((MIB as f64..=(BUFFERS / 8) as f64).contains(&tracked), "{tracked} bytes");
    assert_eq!(cutoffs(&larder, "redis"), 0.0);
    drop(clients);
    expect_given_back(&larder);
}

#[test]
fn large_writes_to_a_redis_that_has_stopped() {
    let redis = RedisServer::start();
    let larder = start(&["--source", &redis.url()]);
    let mut client = larder.client();
    assert_eq!(client.command(&["SET", "before", "1"]), Reply::ok());
    let most = (MEMORY + BUFFERS + larder.resident()) * 5 / 4;
    redis.stop();
    let relayed = || larder.metric("larder_buffers_bytes{kind=\"relayed\"}");
    let mut seen: f64 = 0.0;
    for n in 0..40 {
        let mut stream = larder.stream();
        let command = encode(&[b"SET", format!("key{n}").as_bytes(), &vec![b'x'; 3 * MIB]]);
        // Cut or refused while it sends, or taken. Who goes away then leaves its command behind.
        let _ = stream.write_all(&command);
        assert_eq!(client.command(&["PING"]), Reply::Simple("PONG".into()));
        seen = seen.max(relayed());
        assert!(larder.resident() <= most, "{} MiB of {}", larder.resident() / MIB, most / MIB);
    }
    assert!(seen > 3e6, "{seen}");
    redis.cont();
    assert_eq!(client.command(&["GET", "before"]), Reply::bulk("1"));
    assert_eq!(client.command(&["SET", "after", "2"]), Reply::ok());
    // Each worker keeps up to 16 connections that carried large commands, with 64 KiB of input each.
    expect_kept(&larder, 2.5e6);
}

#[test]
fn half_sent_heads_and_idle_connections() {
    let larder = start(&[]);
    let mut idle: Vec<Client> = (0..1000).map(|_| larder.client()).collect();
    idle.iter_mut().for_each(|client| assert_eq!(client.command(&["PING"]), Reply::Simple("PONG".into())));
    let mut innocent = Innocent::of(&larder);
    // A connection over HTTP occupies this much besides what is buffered for it; over io_uring up to
    // 7 KiB more.
    let is_on_ring = std::env::var("TEST_TRANSPORT").is_ok_and(|transport| transport == "io-uring");
    innocent.most += 1000 * 1024 * if is_on_ring { 32 } else { 16 };
    let head = [b"GET /v1/kv/k HTTP/1.1\r\nhost: x\r\ncookie: ", &[b'c'; 100 * 1024][..]].concat();
    let mut floods: Vec<_> = (0..1000).map(|_| Flood::new(larder.http, head.clone(), 0)).collect();
    flood(&mut innocent, &mut floods);
    expect_cut(&larder, &mut floods, "http", 300.0);
    assert_eq!(cutoffs(&larder, "redis"), 0.0, "who holds nothing is left alone");
    idle.iter_mut().for_each(|client| assert_eq!(client.command(&["PING"]), Reply::Simple("PONG".into())));
    let told: Vec<_> = floods.iter_mut().filter_map(Flood::told).filter(|told| !told.is_empty()).collect();
    assert!(!told.is_empty());
    for told in told {
        let text = String::from_utf8_lossy(&told);
        assert!(text.starts_with("HTTP/1.1 503 ") && text.contains("(setting `max-buffers`)"), "{text}");
    }
    drop((floods, idle));
    expect_given_back(&larder);
}
