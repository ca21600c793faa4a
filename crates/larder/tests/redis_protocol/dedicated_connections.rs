//! Clients with connections to Redis of their own: subscriptions, MONITOR, SELECT, CLIENT TRACKING.
//! Each script runs against Redis itself first, which shows that what is expected is what Redis
//! says.
use super::{
    common::{RedisServer, wait_until},
    larder::{Larder, connect, expect, expect_end, send, skip_until},
};
use std::{
    io::{Read, Write},
    net::TcpStream,
    thread,
};

/// Runs a script against Redis itself and through Larder.
fn at_both_doors(args: &[&str], script: impl Fn(&RedisServer, u16)) {
    let redis = RedisServer::start();
    script(&redis, redis.port());
    redis.command(&["FLUSHALL"]);
    let larder = Larder::start(&[&["--source", &redis.url(), "--threads", "2"], args].concat());
    script(&redis, larder.redis);
}
const HELLO: &str = "HELLO 3";
fn hello(port: u16) -> TcpStream {
    let mut stream = connect(port);
    // What it says differs.
    send(&mut stream, &[HELLO, "PING hello-is-over"]);
    skip_until(&mut stream, b"$13\r\nhello-is-over\r\n");
    stream
}

#[test]
fn subscriptions_in_resp2() {
    at_both_doors(&[], |_, port| {
        let (mut reads, mut writes) = (connect(port), connect(port));
        send(&mut reads, &["SET before 1", "SUBSCRIBE a b", "PSUBSCRIBE p*"]);
        expect(
            &mut reads,
            b"+OK\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n",
        );
        expect(&mut reads, b"*3\r\n$10\r\npsubscribe\r\n$2\r\np*\r\n:3\r\n");
        send(&mut writes, &["PUBLISH a one", "PUBLISH nobody x", "PUBLISH pq two", "PUBSUB NUMSUB a"]);
        expect(&mut writes, b":1\r\n:0\r\n:1\r\n*2\r\n$1\r\na\r\n:1\r\n");
        expect(&mut reads, b"*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$3\r\none\r\n");
        expect(&mut reads, b"*4\r\n$8\r\npmessage\r\n$2\r\np*\r\n$2\r\npq\r\n$3\r\ntwo\r\n");
        send(&mut reads, &["PING", "PING x", "GET before"]);
        expect(&mut reads, b"*2\r\n$4\r\npong\r\n$0\r\n\r\n*2\r\n$4\r\npong\r\n$1\r\nx\r\n");
        expect(&mut reads, b"-ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context\r\n");
        send(&mut reads, &["UNSUBSCRIBE a b", "PUNSUBSCRIBE", "UNSUBSCRIBE", "GET before"]);
        expect(
            &mut reads,
            b"*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:2\r\n*3\r\n$11\r\nunsubscribe\r\n$1\r\nb\r\n:1\r\n",
        );
        expect(&mut reads, b"*3\r\n$12\r\npunsubscribe\r\n$2\r\np*\r\n:0\r\n");
        expect(&mut reads, b"*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n$1\r\n1\r\n");
        send(&mut reads, &["SSUBSCRIBE shard", "SUNSUBSCRIBE", "SUBSCRIBE again", "RESET", "GET before"]);
        expect(
            &mut reads,
            b"*3\r\n$10\r\nssubscribe\r\n$5\r\nshard\r\n:1\r\n*3\r\n$12\r\nsunsubscribe\r\n$5\r\nshard\r\n:0\r\n",
        );
        expect(&mut reads, b"*3\r\n$9\r\nsubscribe\r\n$5\r\nagain\r\n:1\r\n+RESET\r\n$1\r\n1\r\n");
    });
}

#[test]
fn subscriptions_in_resp3_leave_the_connection_free() {
    at_both_doors(&[], |_, port| {
        let (mut reads, mut writes) = (hello(port), connect(port));
        send(&mut reads, &["SUBSCRIBE a", "SET k v", "GET k"]);
        expect(&mut reads, b">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n+OK\r\n$1\r\nv\r\n");
        send(&mut writes, &["PUBLISH a m"]);
        expect(&mut writes, b":1\r\n");
        expect(&mut reads, b">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nm\r\n");
        send(&mut reads, &["HSET h f v", "UNSUBSCRIBE", "UNSUBSCRIBE", "HGETALL h"]);
        expect(&mut reads, b":1\r\n>3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n>3\r\n$11\r\nunsubscribe\r\n_\r\n:0\r\n%1\r\n$1\r\nf\r\n$1\r\nv\r\n");
        send(&mut writes, &["PUBLISH a m"]);
        expect(&mut writes, b":0\r\n");
    });
}

#[test]
fn what_comes_unasked_comes_without_replies_as_well() {
    at_both_doors(&[], |redis, port| {
        for (mut reads, push) in [(connect(port), "*"), (hello(port), ">")] {
            wait_until("nobody else to be subscribed", || redis.command(&["PUBLISH", "c", ""]).int() == 0);
            let mut writes = connect(port);
            let frame =
                |kind: &str, count: u8| format!("{push}3\r\n${}\r\n{kind}\r\n$1\r\nc\r\n:{count}\r\n", kind.len());
            send(&mut reads, &["CLIENT REPLY OFF", "NOSUCH", "SUBSCRIBE c", "SUBSCRIBE"]);
            expect(&mut reads, frame("subscribe", 1).as_bytes());
            send(&mut writes, &["PUBLISH c m"]);
            expect(&mut writes, b":1\r\n");
            expect(&mut reads, format!("{push}3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n").as_bytes());
            send(
                &mut reads,
                &["PING", "UNSUBSCRIBE c", "CLIENT REPLY ON", "CLIENT REPLY SKIP", "SUBSCRIBE c", "PING x"],
            );
            expect(&mut reads, format!("{}+OK\r\n{}", frame("unsubscribe", 0), frame("subscribe", 1)).as_bytes());
            skip_until(&mut reads, b"$1\r\nx\r\n");
        }
        // What is tracked is told of, too.
        let mut stream = hello(port);
        send(&mut stream, &["CLIENT TRACKING ON", "SET k 1", "GET k", "CLIENT REPLY OFF", "SET k 2"]);
        expect(&mut stream, b"+OK\r\n+OK\r\n$1\r\n1\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n");
        send(&mut stream, &["GET k", "CLIENT REPLY ON", "GET k"]);
        expect(&mut stream, b"+OK\r\n$1\r\n2\r\n");
    });
}

#[test]
fn a_transaction_refuses_at_once_what_redis_refuses_at_once() {
    at_both_doors(&["--forward-admin"], |_, port| {
        for (refused, error) in [
            ("NOSUCH a", "ERR unknown command 'NOSUCH', with args beginning with: 'a' "),
            ("SAVE", "ERR Command not allowed inside a transaction"),
            ("SHUTDOWN", "ERR Command not allowed inside a transaction"),
            ("XGROUP NOSUCH", "ERR unknown subcommand 'NOSUCH'. Try XGROUP HELP."),
            ("HSET h", "ERR wrong number of arguments for 'hset' command"),
        ] {
            // On a new connection, and so with a new server: nothing has asked for its commands before.
            let mut stream = connect(port);
            send(&mut stream, &["MULTI", refused, "HSET h f v", "EXEC", "EXISTS h"]);
            expect(&mut stream, format!("+OK\r\n-{error}\r\n+QUEUED\r\n-EXECABORT Transaction discarded because of previous errors.\r\n:0\r\n").as_bytes());
        }
    });
}

#[test]
fn a_transaction_may_change_the_database() {
    at_both_doors(&[], |redis, port| {
        let mut stream = connect(port);
        send(&mut stream, &["SET k home", "MULTI", "SELECT 3", "SET k away", "SELECT 99", "GET k", "EXEC", "GET k"]);
        expect(&mut stream, b"+OK\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n");
        expect(&mut stream, b"*4\r\n+OK\r\n+OK\r\n-ERR DB index is out of range\r\n$4\r\naway\r\n$4\r\naway\r\n");
        assert_eq!(redis.command(&["GET", "k"]), super::common::Reply::bulk("home"));
        // Called off, it changes nothing; carried out, it leads back.
        send(
            &mut stream,
            &["WATCH k", "SET k 1", "MULTI", "SELECT 0", "EXEC", "GET k", "MULTI", "SELECT 0", "EXEC", "GET k"],
        );
        expect(
            &mut stream,
            b"+OK\r\n+OK\r\n+OK\r\n+QUEUED\r\n*-1\r\n$1\r\n1\r\n+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n$4\r\nhome\r\n",
        );
    });
}

#[test]
fn every_message_of_a_flood_arrives_in_order() {
    at_both_doors(&[], |_, port| {
        let (mut reads, mut writes) = (connect(port), connect(port));
        send(&mut reads, &["SUBSCRIBE c"]);
        expect(&mut reads, b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
        let publish: Vec<String> = (0..5000).map(|i| format!("PUBLISH c {i:05}")).collect();
        writes.write_all((publish.join("\r\n") + "\r\n").as_bytes()).unwrap();
        let wanted: String = (0..5000).map(|i| format!("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$5\r\n{i:05}\r\n")).collect();
        expect(&mut reads, wanted.as_bytes());
        expect(&mut writes, ":1\r\n".repeat(5000).as_bytes());
    });
}

#[test]
fn monitor_shows_commands() {
    at_both_doors(&[], |redis, port| {
        let mut stream = connect(port);
        send(&mut stream, &["MONITOR"]);
        expect(&mut stream, b"+OK\r\n");
        redis.command(&["SET", "watched", "v"]);
        skip_until(&mut stream, b"\"SET\" \"watched\" \"v\"\r\n");
    });
}

#[test]
fn lines_of_a_busy_redis_come_behind_the_ok_of_monitor() {
    at_both_doors(&[], |redis, port| {
        let mut busy = connect(redis.port());
        // It ends with Redis.
        thread::spawn(move || while busy.write_all(b"PING\r\n").is_ok() && busy.read_exact(&mut [0; 7]).is_ok() {});
        for _ in 0..100 {
            let mut stream = connect(port);
            send(&mut stream, &["MONITOR"]);
            expect(&mut stream, b"+OK\r\n+");
        }
    });
}

#[test]
fn another_database_is_another_world() {
    at_both_doors(&[], |redis, port| {
        let (mut first, mut other) = (connect(port), connect(port));
        send(
            &mut first,
            &[
                "SET k home",
                "GET k",
                "SELECT 3",
                "GET k",
                "SET k away",
                "GET k",
                "MULTI",
                "GET k",
                "EXEC",
                "SELECT 99",
                "GET k",
            ],
        );
        expect(&mut first, b"+OK\r\n$4\r\nhome\r\n+OK\r\n$-1\r\n+OK\r\n$4\r\naway\r\n+OK\r\n+QUEUED\r\n*1\r\n$4\r\naway\r\n-ERR DB index is out of range\r\n$4\r\naway\r\n");
        send(&mut other, &["GET k"]);
        expect(&mut other, b"$4\r\nhome\r\n");
        // WATCH and what ends it leave the database as it is; so does a command that waits.
        send(&mut first, &["WATCH k", "MULTI", "DISCARD", "GET k", "WATCH k"]);
        expect(&mut first, b"+OK\r\n+OK\r\n+OK\r\n$4\r\naway\r\n+OK\r\n");
        send(&mut first, &["SET k changed", "MULTI", "GET k", "EXEC", "LPUSH l x", "BLPOP l 0", "GET k"]);
        expect(&mut first, b"+OK\r\n+OK\r\n+QUEUED\r\n*-1\r\n:1\r\n*2\r\n$1\r\nl\r\n$1\r\nx\r\n$7\r\nchanged\r\n");
        send(&mut first, &["SELECT 0", "GET k", "SELECT 3", "RESET", "GET k"]);
        expect(&mut first, b"+OK\r\n$4\r\nhome\r\n+OK\r\n+RESET\r\n$4\r\nhome\r\n");
        assert_eq!(redis.command(&["EXISTS", "l"]).int(), 0);
    });
    // In mode `ttl` what was written elsewhere is no copy of what is here.
    at_both_doors(&["--coherence", "ttl", "--ttl", "1h"], |_, port| {
        let mut stream = connect(port);
        send(&mut stream, &["SELECT 3", "SET k away", "SELECT 0", "GET k"]);
        expect(&mut stream, b"+OK\r\n+OK\r\n+OK\r\n$-1\r\n");
    });
}

#[test]
fn tracking_tells_of_changes_in_their_place() {
    at_both_doors(&[], |redis, port| {
        let mut stream = hello(port);
        send(&mut stream, &["CLIENT TRACKING ON", "SET k 1", "GET k", "CLIENT GETREDIR"]);
        expect(&mut stream, b"+OK\r\n+OK\r\n$1\r\n1\r\n:0\r\n");
        redis.command(&["SET", "k", "2"]);
        expect(&mut stream, b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n");
        // Read, changed by itself, read: the news stands between.
        send(&mut stream, &["GET k", "SET k 3", "GET k", "HSET h f v", "HGET h f", "PING"]);
        expect(
            &mut stream,
            b"$1\r\n2\r\n+OK\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n$1\r\n3\r\n:1\r\n$1\r\nv\r\n+PONG\r\n",
        );
        redis.command(&["DEL", "h"]);
        expect(&mut stream, b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nh\r\n");
        send(&mut stream, &["MULTI", "GET k", "INCR k", "EXEC", "GET k"]);
        expect(&mut stream, b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n$1\r\n3\r\n:4\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n$1\r\n4\r\n");
        send(&mut stream, &["CLIENT TRACKING OFF", "GET k"]);
        expect(&mut stream, b"+OK\r\n$1\r\n4\r\n");
        redis.command(&["SET", "k", "5"]);
        send(
            &mut stream,
            &["CLIENT TRACKING ON OPTIN NOLOOP", "GET k", "CLIENT CACHING YES", "GET k", "SET k 6", "GET k"],
        );
        expect(&mut stream, b"+OK\r\n$1\r\n5\r\n+OK\r\n$1\r\n5\r\n+OK\r\n$1\r\n6\r\n");
        send(
            &mut stream,
            &["CLIENT TRACKING OFF", "CLIENT TRACKING ON BCAST PREFIX user:", "SET x 1", "SET user:1 1", "PING"],
        );
        expect(&mut stream, b"+OK\r\n+OK\r\n+OK\r\n+OK\r\n");
        skip_until(&mut stream, b">2\r\n$10\r\ninvalidate\r\n*1\r\n$6\r\nuser:1\r\n");
    });
}

#[test]
fn a_client_with_a_connection_of_its_own_may_change_the_protocol() {
    at_both_doors(&[], |redis, port| {
        let mut stream = connect(port);
        let hello = |stream: &mut TcpStream, version: &str| {
            send(stream, &[&format!("HELLO {version}"), "PING hello-is-over"]);
            skip_until(stream, b"$13\r\nhello-is-over\r\n");
        };
        // In RESP2 it tracks, and is told nothing.
        send(&mut stream, &["HSET h f v", "CLIENT TRACKING ON", "HGETALL h"]);
        expect(&mut stream, b":1\r\n+OK\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n");
        redis.command(&["HSET", "h", "f", "w"]);
        hello(&mut stream, "3");
        send(&mut stream, &["HGETALL h", "HSET h f x", "HGET h f"]);
        expect(&mut stream, b"%1\r\n$1\r\nf\r\n$1\r\nw\r\n:0\r\n");
        expect(&mut stream, b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nh\r\n$1\r\nx\r\n");
        // What was said before the change of protocol stands before it.
        redis.command(&["DEL", "h"]);
        send(&mut stream, &["HELLO 2", "HGETALL h"]);
        expect(&mut stream, b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nh\r\n*14\r\n");
        skip_until(&mut stream, b"modules\r\n*0\r\n*0\r\n");
        send(&mut stream, &["HELLO 9", "CLIENT TRACKING OFF", "PING"]);
        expect(&mut stream, b"-NOPROTO unsupported protocol version\r\n+OK\r\n+PONG\r\n");
        // A client that watches, or has another database selected, may as well.
        send(&mut stream, &["HSET h f v", "SELECT 3", "HSET h f 3", "WATCH h"]);
        expect(&mut stream, b":1\r\n+OK\r\n:1\r\n+OK\r\n");
        hello(&mut stream, "3");
        send(&mut stream, &["HGETALL h", "HSET h f 4", "MULTI", "HGETALL h", "EXEC"]);
        expect(&mut stream, b"%1\r\n$1\r\nf\r\n$1\r\n3\r\n:0\r\n+OK\r\n+QUEUED\r\n_\r\n");
        send(&mut stream, &["SELECT 0", "HGETALL h"]);
        expect(&mut stream, b"+OK\r\n%1\r\n$1\r\nf\r\n$1\r\nv\r\n");
        // The connection that was given back is not taken for one of the other protocol.
        // Two of each: one on each core.
        let (mut resp2, mut resp3) = ([connect(port), connect(port)], [self::hello(port), self::hello(port)]);
        for (other, map) in
            resp2.iter_mut().map(|other| (other, "*2")).chain(resp3.iter_mut().map(|other| (other, "%1")))
        {
            send(other, &["WATCH k", "HGETALL h", "UNWATCH"]);
            expect(other, format!("+OK\r\n{map}\r\n$1\r\nf\r\n$1\r\nv\r\n+OK\r\n").as_bytes());
        }
    });
}

#[test]
fn a_subscriber_that_does_not_read_is_cut_off() {
    let redis = RedisServer::start();
    let larder = Larder::start(&["--source", &redis.url(), "--max-backlog", "1MiB"]);
    let mut slow = connect(larder.redis);
    send(&mut slow, &["SUBSCRIBE c"]);
    expect(&mut slow, b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    let message = "x".repeat(100_000);
    // What fits the sockets, what is due, and the backlog: less than Redis itself would let lie.
    let mut sent = 0;
    wait_until("the subscriber to be cut off", || {
        sent += message.len();
        redis.command(&["PUBLISH", "c", &message]) == super::common::Reply::Int(0)
    });
    assert!(sent < 25 << 20, "after {sent} bytes");
    let mut client = larder.client();
    wait_until("the cut to be counted", || {
        let super::common::Reply::Bulk(Some(info)) = client.command(&["INFO", "larder"]) else {
            panic!("INFO is text")
        };
        String::from_utf8(info).unwrap().contains("larder_backlog_disconnections:1\r\n")
    });
    assert_eq!(larder.metric("larder_backlog_cutoffs_total"), 1.0);
    // A reset is an end as well.
    let _ = std::io::Read::read_to_end(&mut slow, &mut Vec::new());
    expect_end(&mut slow);
}

#[test]
fn connections_that_are_as_new_are_used_again() {
    let redis = RedisServer::start();
    let larder = Larder::start(&["--source", &redis.url(), "--threads", "1"]);
    let made = || {
        let super::common::Reply::Bulk(Some(info)) = redis.command(&["INFO", "stats"]) else {
            panic!("INFO has no text")
        };
        let info = String::from_utf8(info).unwrap();
        let line = info.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
        // Each question is one.
        line.unwrap().trim().parse::<u64>().unwrap()
    };
    let mut stream = connect(larder.redis);
    send(&mut stream, &["HSET h f v"]);
    expect(&mut stream, b":1\r\n");
    let before = made();
    for _ in 0..20 {
        send(&mut stream, &["LPUSH l x", "BLPOP l 0", "WATCH k", "SET k 1", "MULTI", "GET k", "EXEC"]);
        expect(&mut stream, b":1\r\n*2\r\n$1\r\nl\r\n$1\r\nx\r\n+OK\r\n+OK\r\n+OK\r\n+QUEUED\r\n*-1\r\n");
        send(
            &mut stream,
            &["WATCH k", "MULTI", "GET k", "EXEC", "SELECT 1", "GET k", "SELECT 0", "WATCH k", "UNWATCH"],
        );
        expect(&mut stream, b"+OK\r\n+OK\r\n+QUEUED\r\n*1\r\n$1\r\n1\r\n+OK\r\n$-1\r\n+OK\r\n+OK\r\n+OK\r\n");
    }
    assert_eq!(made() - before, 2, "one of Larder's and this question's own");
}

#[test]
fn whoever_waits_is_not_idle() {
    let redis = RedisServer::start();
    let larder = Larder::start(&["--source", &redis.url(), "--idle-timeout", "2s"]);
    let (mut reads, mut waits, mut idle) = (connect(larder.redis), connect(larder.redis), connect(larder.redis));
    send(&mut reads, &["SUBSCRIBE c"]);
    expect(&mut reads, b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    send(&mut waits, &["BLPOP l 0"]);
    wait_until("the pop to wait", || blocked(&redis, 1));
    // Opened no earlier than the others, and gone: so is everybody's time.
    expect_end(&mut idle);
    redis.command(&["PUBLISH", "c", "m"]);
    redis.command(&["LPUSH", "l", "x"]);
    expect(&mut reads, b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n");
    expect(&mut waits, b"*2\r\n$1\r\nl\r\n$1\r\nx\r\n");
}
fn blocked(redis: &RedisServer, clients: usize) -> bool {
    let super::common::Reply::Bulk(Some(info)) = redis.command(&["INFO", "clients"]) else {
        panic!("INFO has no text")
    };
    String::from_utf8(info).unwrap().contains(&format!("blocked_clients:{clients}\r"))
}

#[test]
fn a_thousand_clients_share_a_handful_of_connections() {
    const CLIENTS: usize = 1000;
    // Each has an end in this process and one in Larder's, which inherits the limit.
    rustix::process::setrlimit(rustix::process::Resource::Nofile, {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        assert!(limit.maximum.is_none_or(|most| most >= 1500), "ulimit -n is {limit:?}: 1,000 clients need 1,500");
        rustix::process::Rlimit { current: limit.maximum, ..limit }
    })
    .unwrap();
    let redis = RedisServer::start();
    // A busy machine takes a while over sixteen thousand commands at once. Larder would take that for
    // an overload of the source, and refuse fetches that wait for 250 ms.
    let options = ["--source-max-in-flight=fixed:4096", "--source-timeout=60s"];
    let larder = Larder::start(&[&["--source", &redis.url(), "--threads", "2"], &options[..]].concat());
    let mut clients: Vec<TcpStream> = (0..CLIENTS).map(|_| connect(larder.redis)).collect();
    let connections = || {
        let super::common::Reply::Bulk(Some(list)) = redis.command(&["CLIENT", "LIST"]) else { panic!("a list") };
        list.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count()
    };
    // All at once: misses and hits, a string and other types, 16 commands each in a pipeline.
    for (number, stream) in clients.iter_mut().enumerate() {
        let commands = [
            &format!("SET k{number} {number:03}"),
            &format!("GET k{number}"),
            &format!("HSET h f{number} {number}"),
            &format!("HGET h f{number}"),
        ];
        let pipeline: Vec<&str> = commands.iter().map(|command| command.as_str()).cycle().take(16).collect();
        send(stream, &pipeline);
    }
    for (number, stream) in clients.iter_mut().enumerate() {
        let (padded, plain) = (format!("{number:03}"), number.to_string());
        for new in [1, 0, 0, 0] {
            let [string, field] = [&padded, &plain].map(|text| format!("${}\r\n{text}\r\n", text.len()));
            expect(stream, format!("+OK\r\n{string}:{new}\r\n{field}").as_bytes());
        }
    }
    assert!(connections() <= 8, "{} for {CLIENTS} clients", connections());
    // What waits has a connection of its own, which is used again.
    for round in 0..3 {
        for stream in &mut clients[..8] {
            send(stream, &["BLPOP queue 0"]);
        }
        wait_until("8 to wait", || blocked(&redis, 8));
        assert!(connections() <= 16, "{} in round {round}", connections());
        redis.command(&["RPUSH", "queue", "1", "2", "3", "4", "5", "6", "7", "8"]);
        for stream in &mut clients[..8] {
            expect(stream, b"*2\r\n$5\r\nqueue\r\n$1\r\n");
            skip_until(stream, b"\r\n");
        }
    }
    for stream in &mut clients {
        send(stream, &["GET k7"]);
        expect(stream, b"$3\r\n007\r\n");
    }
}

#[test]
fn own_connections_end_with_their_clients_and_clients_with_them() {
    let mut redis = RedisServer::start();
    let larder = Larder::start(&["--source", &redis.url(), "--threads", "1"]);
    let connections = |redis: &RedisServer| {
        let list = redis.command(&["CLIENT", "LIST"]);
        let super::common::Reply::Bulk(Some(list)) = list else { panic!("a list") };
        list.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count()
    };
    let mut warm = connect(larder.redis);
    send(&mut warm, &["HGET h f"]);
    expect(&mut warm, b"$-1\r\n");
    let before = connections(&redis);
    let mut streams: Vec<TcpStream> = (0..4).map(|_| hello(larder.redis)).collect();
    for (stream, line) in streams.iter_mut().zip(["SUBSCRIBE a", "SELECT 1", "CLIENT TRACKING ON", "MONITOR"]) {
        send(stream, &[line]);
        skip_until(stream, b"\r\n");
    }
    assert_eq!(connections(&redis), before + 4);
    streams.truncate(2);
    wait_until("the connections of two clients to end", || connections(&redis) == before + 2);
    for stream in &mut streams {
        send(stream, &["PING mark"]);
        skip_until(stream, b"$4\r\nmark\r\n");
    }
    redis.kill();
    streams.iter_mut().for_each(expect_end);
}
