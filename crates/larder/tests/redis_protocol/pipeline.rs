//! What comes in is answered in order, however it comes in and whatever must be fetched.
use super::{
    common::{RedisServer, Reply, wait_until},
    larder::{Larder, encode, expect, expect_end, skip_until},
};
use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    thread,
};

/// Sends all of `input` from another thread while the replies are read here: either alone would
/// fill the sockets.
fn exchange(mut stream: TcpStream, input: Vec<u8>, expected: &[u8]) {
    let mut sender = stream.try_clone().unwrap();
    let sending = thread::spawn(move || {
        sender.write_all(&input).unwrap();
        sender.shutdown(Shutdown::Write).unwrap();
    });
    expect(&mut stream, expected);
    // Having read our end, the server ends its half when everything is answered.
    expect_end(&mut stream);
    sending.join().unwrap();
}

fn bulk(value: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
}

/// More keys than are prefetched together, and commands among which the glance at their keys ends.
#[test]
fn rows_of_keys_are_answered_whole() {
    let redis = RedisServer::start();
    for larder in [Larder::start(&[]), Larder::start(&["--source", &redis.url()])] {
        let (mut input, mut expected) = (Vec::new(), Vec::new());
        let names: Vec<String> = (0..50).map(|number| format!("key:{number}")).collect();
        for name in names.iter().step_by(3) {
            input.extend(encode(&[b"SET", name.as_bytes(), &[b'x'; 300]]));
            input.extend(encode(&[b"ECHO", &[b'e'; 300]]));
            input.extend(b"PING\r\n*0\r\n");
            expected.extend([b"+OK\r\n", &bulk(&[b'e'; 300])[..], b"+PONG\r\n"].concat());
        }
        // Twice: in front of a source the second is answered from memory.
        for _ in 0..2 {
            let mget: Vec<&[u8]> =
                std::iter::once(&b"MGET"[..]).chain(names.iter().map(|name| name.as_bytes())).collect();
            input.extend(encode(&mget));
            expected.extend(b"*50\r\n");
            for number in 0..50 {
                expected.extend(if number % 3 == 0 { bulk(&[b'x'; 300]) } else { b"$-1\r\n".to_vec() });
            }
        }
        exchange(larder.stream(), input, &expected);
    }
}

#[test]
fn ten_thousand_commands_keep_their_order() {
    let larder = Larder::start(&[]);
    let (mut input, mut expected) = (Vec::new(), Vec::new());
    for i in 0..10_000u32 {
        let key = format!("key:{i}");
        let value = format!("value {i}").repeat(1 + i as usize % 7);
        match i % 4 {
            0 => {
                input.extend(encode(&[b"SET", key.as_bytes(), value.as_bytes()]));
                expected.extend(b"+OK\r\n");
            }
            1 => {
                let before = format!("key:{}", i - 1);
                let value = format!("value {}", i - 1).repeat(1 + (i as usize - 1) % 7);
                input.extend(encode(&[b"GET", before.as_bytes()]));
                expected.extend(bulk(value.as_bytes()));
            }
            2 => {
                input.extend(encode(&[b"GET", key.as_bytes()]));
                expected.extend(b"$-1\r\n");
            }
            _ => {
                input.extend(b"PING\r\n");
                expected.extend(b"+PONG\r\n");
            }
        }
    }
    exchange(larder.stream(), input, &expected);
}

#[test]
fn misses_hits_and_writes_keep_their_order_in_front_of_redis() {
    let redis = RedisServer::start();
    let mut seed = redis.client();
    for i in 0..3000 {
        seed.command(&["SET", &format!("old:{i}"), &format!("fetched {i}")]);
    }
    // A bound that the pipeline passes many times over.
    let larder = Larder::start(&["--source", &redis.url(), "--max-pipeline", "64"]);
    let (mut input, mut expected) = (Vec::new(), Vec::new());
    for i in 0..10_000u32 {
        let old = format!("old:{}", i % 3000);
        let new = format!("new:{}", i / 40);
        match i % 40 {
            // The first 3000 miss, then they hit.
            0..=29 => {
                input.extend(encode(&[b"GET", old.as_bytes()]));
                expected.extend(bulk(format!("fetched {}", i % 3000).as_bytes()));
            }
            // Within one pipeline: absent, written, read back, deleted, absent.
            30 | 39 => {
                input.extend(encode(&[b"GET", new.as_bytes()]));
                expected.extend(b"$-1\r\n");
            }
            31 => {
                input.extend(encode(&[b"SET", new.as_bytes(), i.to_string().as_bytes()]));
                expected.extend(b"+OK\r\n");
            }
            32..=34 => {
                input.extend(encode(&[b"GET", new.as_bytes()]));
                expected.extend(bulk((i - i % 40 + 31).to_string().as_bytes()));
            }
            35 => {
                input.extend(encode(&[b"DEL", new.as_bytes()]));
                expected.extend(b":1\r\n");
            }
            36 => {
                input.extend(encode(&[b"MGET", old.as_bytes(), b"none", old.as_bytes()]));
                let value = bulk(format!("fetched {}", i % 3000).as_bytes());
                expected.extend(b"*3\r\n");
                expected.extend([&value[..], b"$-1\r\n", &value].concat());
            }
            _ => {
                input.extend(encode(&[b"ECHO", old.as_bytes()]));
                expected.extend(bulk(old.as_bytes()));
            }
        }
    }
    exchange(larder.stream(), input, &expected);
    assert!(redis.calls("get") < 10_000, "hits were fetched");
}

/// What follows a run of GETs that wait for the source is answered behind them, and sees what they
/// have fetched.
#[test]
fn whatever_follows_a_run_of_misses_comes_behind_them() {
    let redis = RedisServer::start();
    let larder = Larder::start(&["--source", &redis.url()]);
    let tails: &[(&str, &str)] = &[
        ("PING", "+PONG"),
        ("SET {1} new|GET {1}|GET {2}", "+OK|$3|new|$4|two!"),
        ("APPEND {1} more|GET {1}", ":8|$8|one!more"),
        ("DEL {1}|GET {1}|GET {2}", ":1|$-1|$4|two!"),
        ("INCR {n}|INCR {n}|GET {n}|GET {1}", ":1|:2|$1|2|$4|one!"),
        ("MULTI|GET {1}|SET {1} new|EXEC|GET {1}", "+OK|+QUEUED|+QUEUED|*2|$4|one!|+OK|$3|new"),
        ("SELECT 1|GET {1}|SELECT 0|GET {1}", "+OK|$-1|+OK|$4|one!"),
        ("CLIENT REPLY OFF|GET {2}|GET {3}|CLIENT REPLY ON|GET {1}", "+OK|$4|one!"),
        ("CLIENT REPLY SKIP|GET {3}|GET {2}|GET {4}", "$4|two!|$-1"),
        ("LPUSH {l} x|BLPOP {l} 0|GET {3}|GET {1}", ":1|*2|${len}|{l}|$1|x|$5|three|$4|one!"),
        ("MGET {1} {3} {4}|GET {2}", "*3|$4|one!|$5|three|$-1|$4|two!"),
        ("NONSENSE|GET {3}", "-ERR unknown command 'NONSENSE', with args beginning with: |$5|three"),
        ("GET|GET {3}", "-ERR wrong number of arguments for 'get' command|$5|three"),
        (
            "SUBSCRIBE {l}|UNSUBSCRIBE {l}|GET {3}",
            "*3|$9|subscribe|${len}|{l}|:1|*3|$11|unsubscribe|${len}|{l}|:0|$5|three",
        ),
        ("HELLO 2 SETNAME me|CLIENT GETNAME", ""),
        ("QUIT|GET {3}", "+OK"),
    ];
    for (number, (tail, replies)) in tails.iter().enumerate() {
        let lines = |text: &str| -> Vec<u8> {
            let list = format!("list{number:02}");
            let named = text.replace("{len}", &list.len().to_string()).replace("{l}", &list);
            let named = ["1", "2", "3", "4", "n"]
                .iter()
                .fold(named, |named, key| named.replace(&format!("{{{key}}}"), &format!("key{number}:{key}")));
            named
                .split('|')
                .filter(|line| !line.is_empty())
                .flat_map(|line| format!("{line}\r\n").into_bytes())
                .collect()
        };
        for (key, value) in [("1", "one!"), ("2", "two!"), ("3", "three")] {
            redis.command(&["SET", &format!("key{number}:{key}"), value]);
        }
        let mut stream = larder.stream();
        // It is in memory, the others are not.
        stream.write_all(&lines("GET {2}")).unwrap();
        expect(&mut stream, &lines("$4|two!"));
        let gets: Vec<u8> = ["1", "2", "4", "1", "2"]
            .iter()
            .flat_map(|key| encode(&[b"GET", format!("key{number}:{key}").as_bytes()]))
            .collect();
        stream.write_all(&[gets, lines(tail)].concat()).unwrap();
        expect(&mut stream, &lines("$4|one!|$4|two!|$-1|$4|one!|$4|two!"));
        if replies.is_empty() {
            skip_until(&mut stream, b"$2\r\nme\r\n");
        }
        expect(&mut stream, &lines(replies));
        if tail.starts_with("QUIT") {
            expect_end(&mut stream);
        } else {
            stream.write_all(b"ECHO over\r\n").unwrap();
            expect(&mut stream, b"$4\r\nover\r\n");
        }
    }
}

#[test]
fn what_is_read_behind_misses_is_tracked() {
    let redis = RedisServer::start();
    let larder = Larder::start(&["--source", &redis.url()]);
    redis.command(&["SET", "late", "value"]);
    let mut stream = larder.stream();
    stream.write_all(b"HELLO 3\r\nPING is-on\r\n").unwrap();
    skip_until(&mut stream, b"$5\r\nis-on\r\n");
    let pipeline = [encode(&[b"GET", b"a"]), encode(&[b"GET", b"b"]), encode(&[b"CLIENT", b"TRACKING", b"on"])];
    stream.write_all(&[pipeline.concat(), encode(&[b"GET", b"late"])].concat()).unwrap();
    expect(&mut stream, b"_\r\n_\r\n+OK\r\n$5\r\nvalue\r\n");
    redis.command(&["SET", "late", "new"]);
    expect(&mut stream, b">2\r\n$10\r\ninvalidate\r\n*1\r\n$4\r\nlate\r\n");
}

#[test]
fn misses_of_one_pipeline_leave_in_one_batch() {
    let redis = RedisServer::start();
    let larder = Larder::start(&["--source", &redis.url()]);
    let (mut input, mut expected) = (Vec::new(), Vec::new());
    for i in 0..100 {
        input.extend(encode(&[b"GET", format!("k{i}").as_bytes()]));
        expected.extend(b"$-1\r\n");
    }
    let mut stream = larder.stream();
    stream.write_all(&input).unwrap();
    expect(&mut stream, &expected);
    assert_eq!(redis.calls("get"), 100);
    assert!(redis.calls("multi") <= 3, "{} batches for one pipeline", redis.calls("multi"));
}

#[test]
fn commands_that_arrive_byte_by_byte() {
    let larder = Larder::start(&[]);
    let mut stream = larder.stream();
    let input = [
        encode(&[b"SET", b"key", b"a value\r\nwith line ends"]),
        encode(&[b"GET", b"key"]),
        b"  get   key \r\n".to_vec(),
        b"\r\n*0\r\n".to_vec(),
        encode(&[b"PING"]),
    ]
    .concat();
    for byte in &input {
        stream.write_all(std::slice::from_ref(byte)).unwrap();
    }
    let value = bulk(b"a value\r\nwith line ends");
    expect(&mut stream, &[b"+OK\r\n", &value[..], &value, b"+PONG\r\n"].concat());
}

#[test]
fn a_large_value_goes_both_ways_to_a_slow_reader() {
    let larder = Larder::start(&[]);
    let value: Vec<u8> = (0..20u32 << 20).map(|i| (i ^ (i >> 8)) as u8).collect();
    let mut stream = larder.stream();
    stream.write_all(&encode(&[b"SET", b"big", &value])).unwrap();
    expect(&mut stream, b"+OK\r\n");

    let mut slow = larder.stream();
    slow.write_all(&[encode(&[b"GET", b"big"]), encode(&[b"PING"])].concat()).unwrap();
    let expected = [bulk(&value), b"+PONG\r\n".to_vec()].concat();
    for piece in expected.chunks(expected.len() / 10) {
        expect(&mut slow, piece);
        // The others are served while this one's reply waits for its reader.
        stream.write_all(&encode(&[b"PING"])).unwrap();
        expect(&mut stream, b"+PONG\r\n");
    }
}

#[test]
fn a_client_that_does_not_read_is_not_read_from() {
    does_not_read(&Larder::start(&["--threads", "1"]));
}

/// Nothing is kept, so that each GET waits for the source.
#[test]
fn a_client_that_does_not_read_what_is_fetched_is_not_read_from() {
    let redis = RedisServer::start();
    does_not_read(&Larder::start(&["--threads", "1", "--coherence", "off", "--source", &redis.url()]));
    assert!(redis.calls("get") > 5, "those that wait together share a fetch");
}

fn does_not_read(larder: &Larder) {
    let mut stream = larder.stream();
    let value = vec![b'x'; 100];
    stream.write_all(&encode(&[b"SET", b"key", &value])).unwrap();
    expect(&mut stream, b"+OK\r\n");
    let get = encode(&[b"GET", b"key"]);
    stream.set_nonblocking(true).unwrap();
    let mut asked = 0;
    // Until both directions are full; without a bound at the server this would not end.
    let mut full_since = None;
    while full_since.is_none_or(|since: std::time::Instant| since.elapsed().as_millis() < 300) {
        match stream.write(&get[asked % get.len()..]) {
            Ok(n) => {
                asked += n;
                full_since = None;
            }
            Err(_would_block) => {
                full_since.get_or_insert_with(std::time::Instant::now);
                thread::yield_now();
            }
        }
        assert!(asked < 1 << 30, "the server takes commands without end");
    }
    // Now read: everything that was asked is answered, in order.
    stream.set_nonblocking(false).unwrap();
    let rest = get[asked % get.len()..].to_vec();
    exchange(stream, rest, &bulk(&value).repeat(asked / get.len() + 1));
}

#[test]
fn what_is_not_the_protocol_is_answered_and_ends_the_connection() {
    let larder = Larder::start(&[]);
    let cases: [(&[u8], &str); 4] = [
        (b"*1\r\n+PING\r\n", "-ERR Protocol error: expected '$', got '+'\r\n"),
        (b"*x\r\n", "-ERR Protocol error: invalid multibulk length\r\n"),
        (b"*1\r\n$-5\r\n", "-ERR Protocol error: invalid bulk length\r\n"),
        (b"GET \"a\r\n", "-ERR Protocol error: unbalanced quotes in request\r\n"),
    ];
    for (input, error) in cases {
        let mut stream = larder.stream();
        // What came before is answered first; what comes after is not looked at.
        stream.write_all(&[b"PING\r\n", input, b"PING\r\n"].concat()).unwrap();
        expect(&mut stream, b"+PONG\r\n");
        expect(&mut stream, error.as_bytes());
        expect_end(&mut stream);
    }
}

#[test]
fn a_length_that_is_only_claimed_costs_nothing() {
    let larder = Larder::start(&[]);
    let before = larder.metric("process_resident_memory_bytes");
    let streams: Vec<_> = (0..50)
        .map(|_| {
            let mut stream = larder.stream();
            stream.write_all(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$500000000\r\nbegin").unwrap();
            stream
        })
        .collect();
    // The server has read them all: it answers on a connection opened later on each worker.
    for _ in 0..10 {
        larder.client().command(&["PING"]);
    }
    let after = larder.metric("process_resident_memory_bytes");
    assert!(after - before < 32e6, "{before} to {after}");
    drop(streams);
}

#[test]
fn the_end_of_the_clients_half_ends_the_connection_after_the_replies() {
    let redis = RedisServer::start();
    redis.command(&["SET", "key", "value"]);
    let larder = Larder::start(&["--source", &redis.url()]);
    let mut stream = larder.stream();
    stream.write_all(&encode(&[b"GET", b"key"])).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    assert_eq!(all, b"$5\r\nvalue\r\n");
}

#[test]
fn replies_that_are_kept_relayed_or_fetched_keep_their_order() {
    let redis = RedisServer::start();
    let mut seed = redis.client();
    for i in 0..1000 {
        seed.command(&["HSET", &format!("h:{i}"), "f", &format!("field {i}")]);
    }
    seed.command(&["SET", "s", "value"]);
    let larder = Larder::start(&["--source", &redis.url()]);
    let mut client = larder.client();
    wait_until("a reply is kept", || {
        client.command(&["HGET", "h:0", "f"]);
        larder.metric("larder_cache_reply_hits_total{group=\"default\"}") > 0.0
    });
    client.command(&["HGET", "h:1", "f"]);
    let before = redis.calls("hget");
    let (mut input, mut expected) = (Vec::new(), Vec::new());
    let mut hget = |i: u32, value: &str| {
        input.extend(encode(&[b"HGET", format!("h:{i}").as_bytes(), b"f"]));
        expected.extend(bulk(value.as_bytes()));
        if i == 999 {
            // Reads wait for no reads, writes do, and what comes behind them sees them.
            input.extend(encode(&[b"GET", b"s"]));
            expected.extend(bulk(b"value"));
            input.extend(encode(&[b"HSET", b"h:0", b"f", b"written"]));
            expected.extend(b":0\r\n");
        }
    };
    for i in 2..1000 {
        // Kept; not asked for before; kept; asked for once.
        hget(0, "field 0");
        hget(i, &format!("field {i}"));
        hget(1, "field 1");
    }
    hget(0, "written");
    hget(1, "field 1");
    exchange(larder.stream(), input, &expected);
    let asked = redis.calls("hget") - before;
    assert!(asked < 1500, "what is kept is not relayed with the others: {asked} for 998");
}

#[test]
fn slow_commands_and_others_keep_their_order_though_they_travel_apart() {
    let redis = RedisServer::start();
    let larder = Larder::start(&["--source", &redis.url()]);
    let (mut input, mut expected) = (Vec::new(), Vec::new());
    let fast: &[&[u8]] = &[b"APPEND", b"log", b"f"];
    let slow: &[&[u8]] = &[b"EVAL", b"return redis.call('APPEND', KEYS[1], ARGV[1])", b"1", b"log", b"s"];
    let last_two: &[&[u8]] = &[b"GETRANGE", b"log", b"-2", b"-1"];
    for round in 0..200 {
        for (at, command) in [fast, slow, slow, last_two].iter().enumerate() {
            input.extend(encode(command));
            match at {
                3 => expected.extend(bulk(b"ss")),
                at => expected.extend(format!(":{}\r\n", round * 3 + at + 1).into_bytes()),
            }
        }
    }
    exchange(larder.stream(), input, &expected);
}

#[test]
fn a_command_does_not_overtake_a_slow_one_that_waits_for_its_connection() {
    let redis = RedisServer::start();
    let larder = Larder::start(&["--source", &redis.url(), "--threads", "1", "--source-timeout", "20s"]);
    let mut client = larder.client();
    assert_eq!(client.command(&["APPEND", "log", "a"]), Reply::Int(1));
    assert_eq!(client.command(&["HSET", "h", "f", "v"]), Reply::Int(1), "Larder knows the commands of Redis now");
    // What scripts travel on is not connected before Redis goes on; the other commands' connection is.
    redis.stop();
    let begun = larder.metric("larder_redis_commands_total");
    client.send(&["EVAL", "return redis.call('APPEND', KEYS[1], 'b')", "1", "log"]).unwrap();
    wait_until("the script is on its way", || larder.metric("larder_redis_commands_total") > begun);
    client.send(&["APPEND", "log", "c"]).unwrap();
    let mut other = larder.client();
    other.send(&["APPEND", "other", "y"]).unwrap();
    wait_until("others are", || larder.metric("larder_redis_commands_total") > begun + 1.0);
    redis.cont();
    assert_eq!([client.read().unwrap(), client.read().unwrap()], [Reply::Int(2), Reply::Int(3)]);
    assert_eq!(redis.command(&["GET", "log"]), Reply::bulk("abc"));
}
