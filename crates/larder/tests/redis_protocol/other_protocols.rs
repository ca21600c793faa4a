//! What strangers and careless clients send must not reach the connections to Redis that all
//! clients share. An innocent client talks all the while.
use super::{
    common::{Client, RedisServer, Reply, wait_until},
    innocent::Innocent,
    larder::{Larder, connect, encode, expect, expect_end, send},
};
use std::{io::Write, net::TcpStream};

/// A Larder with one worker, so that all clients share the same connections.
fn in_front(redis: &RedisServer, args: &[&str]) -> Larder {
    let larder = Larder::start(&[&["--source", &redis.url(), "--threads", "1"], args].concat());
    wait_until("the source to be connected", || larder.metric("larder_source_up{group=\"default\"}") == 1.0);
    larder
}
fn reconnects(larder: &Larder) -> f64 {
    larder.metric("larder_source_reconnects_total{group=\"default\"}")
}
const BROWSER: &str = "POST / HTTP/1.1\r\nHost: localhost:6380\r\nUser-Agent: x\r\nContent-Type: text/plain\r\nContent-Length: 60\r\n\r\n\
SET owned 1\r\nSET owned2 yes\r\nSET owned3 yes\r\nSET owned4 yes\r\n";

#[test]
fn stray_requests_harm_nobody_and_store_nothing() {
    let redis = RedisServer::start();
    let larder = in_front(&redis, &[]);
    let innocent = Innocent::start(larder.redis);
    let post: &[&[u8]] = &[b"POST", b"/"];
    let tls = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\nSET owned 1\r\nSET owned2 yes\r\n".to_vec();
    let requests: Vec<Vec<u8>> = [
        BROWSER.as_bytes().to_vec(),
        BROWSER.replace("POST /", "OPTIONS *").into_bytes(),
        BROWSER.replace("POST /", "GET /key").into_bytes(),
        BROWSER.replace("POST / HTTP/1.1\r\n", "").into_bytes(),
        [encode(post), BROWSER.as_bytes().to_vec()].concat(),
        [encode(&[b"hOsT:", b"x"]), encode(&[b"SET", b"owned", b"1"])].concat(),
        [b"MULTI\r\n", BROWSER.as_bytes()].concat(),
        [b"SUBSCRIBE c\r\n", BROWSER.as_bytes()].concat(),
        tls,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nSET owned 1\r\n".to_vec(),
    ]
    .into();
    for request in requests.iter().cycle().take(30) {
        let mut stream = larder.stream();
        stream.write_all(request).unwrap();
        // What was said before the stranger's words is answered; then comes the end.
        if request.starts_with(b"MULTI") {
            expect(&mut stream, b"+OK\r\n");
        } else if request.starts_with(b"SUBSCRIBE") {
            expect(&mut stream, b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
        }
        expect_end(&mut stream);
    }
    assert!(innocent.end() > 0);
    assert_eq!(redis.command(&["EXISTS", "owned", "owned2", "owned3", "owned4"]), Reply::Int(0));
    assert_eq!(reconnects(&larder), 0.0);
    assert_eq!(larder.metric("larder_cross_protocol_total{request=\"http\"}"), 27.0);
    assert_eq!(larder.metric("larder_cross_protocol_total{request=\"tls\"}"), 3.0);
}

#[test]
fn what_came_before_a_stray_request_is_carried_out() {
    let redis = RedisServer::start();
    let larder = in_front(&redis, &[]);
    let mut stream = larder.stream();
    stream.write_all(format!("SET before 1\r\nHSET hash f v\r\nGET nothing\r\n{BROWSER}").as_bytes()).unwrap();
    expect(&mut stream, b"+OK\r\n:1\r\n$-1\r\n");
    expect_end(&mut stream);
    assert_eq!(redis.command(&["EXISTS", "before", "hash", "owned", "owned2"]), Reply::Int(2));
}

#[test]
fn strays_are_hung_up_on_with_every_source_and_before_a_login() {
    let dir = tempfile::tempdir().unwrap();
    let disk = format!("disk:{}", dir.path().display());
    for args in [&[][..], &["--source", &disk], &["--password=secret"]] {
        let larder = Larder::start(args);
        let mut stream = larder.stream();
        stream.write_all(BROWSER.as_bytes()).unwrap();
        expect_end(&mut stream);
        let mut stream = larder.stream();
        stream.write_all(b"PING\r\nhost: x\r\nSET owned 1\r\n").unwrap();
        let first: &[u8] =
            if args.contains(&"--password=secret") { b"-NOAUTH Authentication required.\r\n" } else { b"+PONG\r\n" };
        expect(&mut stream, first);
        expect_end(&mut stream);
        assert_eq!(larder.metric("larder_cross_protocol_total{request=\"http\"}"), 2.0, "{args:?}");
    }
}

#[test]
fn strays_are_logged_once_in_a_while_with_their_address() {
    let mut larder = Larder::start(&[]);
    let mut peers = Vec::new();
    for _ in 0..20 {
        let mut stream = larder.stream();
        peers.push(stream.local_addr().unwrap().to_string());
        stream.write_all(b"POST / HTTP/1.1\r\n").unwrap();
        expect_end(&mut stream);
    }
    larder.signal(rustix::process::Signal::TERM);
    larder.wait();
    let log = larder.stderr();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("instead of a Redis command")).collect();
    assert!(matches!(&lines[..], [line] if line.contains(&peers[0]) && line.contains("WARN")), "{log}");
}

#[test]
fn lines_go_to_redis_only_when_it_knows_them() {
    let redis = RedisServer::start();
    let larder = in_front(&redis, &[]);
    let before = redis.calls("config|resetstat");
    assert_eq!(before, 0);
    // On a new Larder nothing has asked for the source's commands before.
    for line in
        ["Accept: text/plain", "version", "proxy TCP4 1.2.3.4 5.6.7.8 1 2", "set0 k 0 0 5", "\x16\x02x", "{a: 1}"]
    {
        let mut stream = larder.stream();
        send(&mut stream, &[line, "PING"]);
        let text = String::from_utf8(super::larder::read_line(&mut stream)).unwrap();
        assert!(text.starts_with("-ERR unknown command '"), "{line}: {text}");
        expect(&mut stream, b"+PONG\r\n");
    }
    let mut stream = larder.stream();
    send(&mut stream, &["HSET h f", "XGROUP NOSUCH a", "HSET h f v", "HGET h f", "MULTI", "NOSUCH", "EXEC"]);
    expect(&mut stream, b"-ERR wrong number of arguments for 'hset' command\r\n");
    expect(&mut stream, b"-ERR unknown subcommand 'NOSUCH'. Try XGROUP HELP.\r\n:1\r\n$1\r\nv\r\n+OK\r\n");
    expect(&mut stream, b"-ERR unknown command 'NOSUCH', with args beginning with: \r\n-EXECABORT Transaction discarded because of previous errors.\r\n");
    let Reply::Bulk(Some(info)) = redis.command(&["INFO", "errorstats"]) else { panic!("no text") };
    assert!(!String::from_utf8(info).unwrap().contains("errorstat_ERR"), "nothing unknown has reached Redis");
}

/// The replies to lines, until each has one.
fn replies(port: u16, lines: &[&str]) -> Vec<Reply> {
    let mut client = Client::connect(port).unwrap();
    lines.iter().map(|line| client.command(&line.split(' ').collect::<Vec<_>>())).collect()
}

#[test]
fn what_stops_or_takes_over_the_server_is_refused() {
    let redis = RedisServer::start();
    // On a busy machine any command may be slow.
    let larder = in_front(&redis, &["--slowlog-log-slower-than", "off"]);
    let innocent = Innocent::start(larder.redis);
    for line in [
        "SHUTDOWN",
        "SHUTDOWN NOSAVE",
        "DEBUG SEGFAULT",
        "DEBUG SLEEP 100",
        "REPLICAOF 127.0.0.1 1",
        "SLAVEOF 127.0.0.1 1",
        "FAILOVER",
        "MODULE LOAD /tmp/x.so",
        "MODULE LOADEX /tmp/x.so",
        "MODULE UNLOAD x",
        "MIGRATE 127.0.0.1 1 k 0 10",
        "ACL SETUSER default off",
        "ACL DELUSER x",
        "ACL LOAD",
        "ACL SAVE",
        "ACL LOG RESET",
        "CONFIG SET requirepass x",
        "CONFIG SET maxmemory-policy noeviction requirepass x",
        "CONFIG SET dir /tmp",
        "CONFIG SET dbfilename x",
        "CONFIG SET protected-mode yes",
        "CONFIG SET masterauth x",
        "CONFIG SET aclfile x",
        "CONFIG SET maxmemory-clients 1",
        "CONFIG SET tls-port 1",
        "CONFIG SET unixsocket /tmp/x",
        "CONFIG SET logfile /tmp/x",
        "CONFIG REWRITE",
        "PFDEBUG GETREG k",
        "PFSELFTEST",
    ] {
        // Alone, on a new connection; and in a transaction, which is then refused as a whole.
        let refused = replies(larder.redis, &[line, "MULTI", line, "SET in transaction", "EXEC", "GET in"]);
        for reply in [&refused[0], &refused[2]] {
            assert!(reply.error().ends_with(": set forward-admin to allow it"), "{line}: {reply:?}");
            assert!(reply.error().starts_with(&format!("ERR {}", line.split(' ').next().unwrap())), "{reply:?}");
        }
        assert!(refused[4].error().starts_with("EXECABORT"), "{line}: {refused:?}");
        assert_eq!(refused[5], Reply::nil());
    }
    for line in ["SCRIPT DEBUG YES", "SYNC", "PSYNC ? -1", "REPLCONF ACK 1"] {
        let refused = replies(larder.redis, &[line, "MULTI", line]);
        for reply in [&refused[0], &refused[2]] {
            assert!(reply.error().ends_with("it changes a connection that clients share"), "{line}: {reply:?}");
        }
    }
    for (line, reply) in [
        ("CONFIG SET maxmemory-policy allkeys-lru", Reply::ok()),
        ("CONFIG SET slowlog-max-len 17 hash-max-listpack-entries 64", Reply::ok()),
        ("ACL WHOAMI", Reply::bulk("default")),
        ("MODULE LIST", Reply::Array(Some(vec![]))),
        ("SLOWLOG LEN", Reply::Int(0)),
        ("SAVE", Reply::ok()),
    ] {
        assert_eq!(replies(larder.redis, &[line]), [reply], "{line}");
    }
    // A script may say what it likes.
    let said = larder.client().command(&["EVAL", "return redis.error_reply('NOAUTH not at all')", "0"]);
    assert_eq!(said.error(), "NOAUTH not at all");
    innocent.end();
    assert_eq!(reconnects(&larder), 0.0);
}

#[test]
fn an_administrator_may_have_it_forwarded() {
    let mut redis = RedisServer::start();
    let larder = in_front(&redis, &["--forward-admin"]);
    let innocent = Innocent::start(larder.redis);
    let pong = |what: &str| what.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mut client = larder.client();
    for line in [
        "CONFIG SET maxmemory-clients 0",
        "ACL SETUSER someone on nopass ~* +@all",
        "REPLICAOF NO ONE",
        "DEBUG SLEEP 0",
    ] {
        assert_eq!(client.command(&pong(line)), Reply::ok(), "{line}");
    }
    assert_eq!(redis.command(&["ACL", "DELUSER", "someone"]), Reply::Int(1));
    // It speaks of its own accord on the connection that it is asked on.
    let mut third = connect(larder.redis);
    send(&mut third, &["HELLO 3", "PING hello-is-over"]);
    super::larder::skip_until(&mut third, b"$13\r\nhello-is-over\r\n");
    send(&mut third, &["DEBUG PROTOCOL push", "DEBUG PROTOCOL attrib"]);
    super::larder::skip_until(&mut third, b"Some real reply following the attribute\r\n");
    assert!(matches!(client.command(&["SYNC"]), Reply::Error(_)));
    innocent.end();
    assert_eq!(reconnects(&larder), 0.0);
    // With no client beside: now it ends.
    let _ = client.command(&["SHUTDOWN", "NOSAVE"]);
    wait_until("redis to end", || Client::connect(redis.port()).is_err());
    redis.restart();
}

#[test]
fn large_commands_do_not_end_what_others_share() {
    // Less than Larder takes: Redis hangs up on what is longer.
    let redis = RedisServer::with(&["--proto-max-bulk-len", "1mb", "--client-query-buffer-limit", "2mb"]);
    let larder = in_front(&redis, &[]);
    let innocent = Innocent::start(larder.redis);
    let mut client = larder.client();
    let value = vec![b'v'; 3 << 20];
    for _ in 0..3 {
        let told = client.command(&[&b"SET"[..], b"large", &value]);
        let expected =
            "ERR an argument of 3145728 bytes is longer than the source takes: 1048576 (its proto-max-bulk-len)";
        assert_eq!(told.error(), expected);
        assert_eq!(client.command(&[&b"RPUSH"[..], b"list", &value]).error(), expected);
        assert_eq!(client.command(&["EXISTS", "large", "list"]), Reply::Int(0));
        assert_eq!(client.command(&[&b"SET"[..], b"fits", &value[..1 << 20]]), Reply::ok());
        assert_eq!(client.command(&["GET", "fits"]), Reply::bulk(&value[..1 << 20]));
    }
    // In a transaction.
    assert_eq!(client.command(&["MULTI"]), Reply::ok());
    assert_eq!(client.command(&[&b"SET"[..], b"large", &value]), Reply::Simple("QUEUED".into()));
    assert!(client.command(&["EXEC"]).error().contains("its proto-max-bulk-len"));
    // Over HTTP.
    let body = String::from_utf8(value.clone()).unwrap();
    let put = |body: &str| {
        let length = body.len();
        let head =
            format!("PUT /v1/kv/large HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
        larder.http(&(head + body)).0
    };
    assert!(put(&body) >= 400);
    assert_eq!(put(&body[..1 << 20]), 201);
    // Many small arguments: Redis takes them however many they are.
    let fields: Vec<Vec<u8>> = (0..200_000).map(|i| format!("{i}").into_bytes()).collect();
    let many: Vec<&[u8]> = [&b"RPUSH"[..], b"many"].into_iter().chain(fields.iter().map(Vec::as_slice)).collect();
    assert_eq!(client.command(&many), Reply::Int(200_000));
    innocent.end();
    assert_eq!(reconnects(&larder), 0.0);
}

#[test]
fn replies_that_are_too_long_end_no_connection() {
    let redis = RedisServer::start();
    let larder = in_front(&redis, &["--max-value", "64KiB", "--source-timeout", "2s"]);
    let innocent = Innocent::start(larder.redis);
    let mut client = larder.client();
    let value = "v".repeat(60_000);
    assert_eq!(client.command(&["SADD", "set", &value]), Reply::Int(1));
    assert_eq!(client.command(&["HSET", "hash", "f", &value]), Reply::Int(1));
    for _ in 0..2 {
        // Some 120 MB of a single member.
        let told = client.command(&["SRANDMEMBER", "set", "-2000"]);
        let expected = "ERR the source's reply is longer than 67174400 bytes (follows from max-value)";
        assert_eq!(told.error(), expected);
        let fields: Vec<&str> = ["HMGET", "hash"].into_iter().chain(std::iter::repeat_n("f", 2000)).collect();
        assert_eq!(client.command(&fields).error(), expected);
        assert_eq!(client.command(&["SCARD", "set"]), Reply::Int(1));
    }
    innocent.end();
    assert_eq!(reconnects(&larder), 0.0);
}

#[test]
fn where_redis_shows_no_commands_nothing_unknown_shares_a_connection() {
    let redis = RedisServer::start();
    redis.command(&["ACL", "SETUSER", "blind", "on", ">secret", "~*", "&*", "+@all", "-command"]);
    let url = format!("redis://blind:secret@127.0.0.1:{}", redis.port());
    let larder = Larder::start(&["--source", &url, "--threads", "1", "--source-slow-timeout", "20s"]);
    wait_until("the source to be connected", || larder.metric("larder_source_up{group=\"default\"}") == 1.0);
    let mut waiting: TcpStream = larder.stream();
    send(&mut waiting, &["PING"]);
    waiting.write_all(&encode(&[b"BLPOP", b"jobs", b"0"])).unwrap();
    expect(&mut waiting, b"+PONG\r\n");
    // Beside one that waits, others are answered.
    let mut client = larder.client();
    for _ in 0..5 {
        assert_eq!(client.command(&["HSET", "h", "f", "v"]).int() | 1, 1);
        assert_eq!(client.command(&["SET", "k", "v"]), Reply::ok());
    }
    assert!(client.command(&["SHUTDOWN"]).error().contains("forward-admin"));
    assert_eq!(client.command(&["LPUSH", "jobs", "one"]), Reply::Int(1));
    expect(&mut waiting, b"*2\r\n$4\r\njobs\r\n$3\r\none\r\n");
}
