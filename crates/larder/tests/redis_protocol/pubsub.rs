//! Publish and subscribe, the clients on two cores.
use super::{
    common::{RedisServer, Reply, wait_until},
    larder::{self, Larder, connect, expect, expect_end},
};
use std::{io::Write, net::TcpStream, thread};

fn send(stream: &mut TcpStream, lines: &[&str]) {
    stream.write_all((lines.join("\r\n") + "\r\n").as_bytes()).unwrap();
}

#[test]
fn each_subscriber_has_all_messages_in_one_order() {
    let larder = Larder::start(&["--threads", "2"]);
    let mut readers: Vec<_> = (0..4).map(|_| connect(larder.redis)).collect();
    for reader in &mut readers {
        send(reader, &["SUBSCRIBE c"]);
        expect(reader, b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    }
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let mut client = larder.client();
            thread::spawn(move || {
                for i in 0..1000 {
                    assert_eq!(client.command(&["PUBLISH", "c", &format!("{writer}{i:03}")]), Reply::Int(4));
                }
            })
        })
        .collect();
    let frame = |text: &str| format!("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$4\r\n{text}\r\n");
    let len = frame("0000").len();
    let all: Vec<Vec<u8>> = readers
        .iter_mut()
        .map(|reader| {
            let mut read = vec![0; 4000 * len];
            std::io::Read::read_exact(reader, &mut read).unwrap();
            read
        })
        .collect();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert!(all.iter().all(|each| *each == all[0]), "not one order");
    // Of each writer in its order.
    let mut next = [0; 4];
    for message in all[0].chunks(len) {
        let text = std::str::from_utf8(&message[len - 6..len - 2]).unwrap();
        let writer: usize = text[..1].parse().unwrap();
        assert_eq!(text[1..], format!("{:03}", next[writer]));
        next[writer] += 1;
    }
}

#[test]
fn the_end_of_a_client_ends_its_subscriptions() {
    let larder = Larder::start(&["--threads", "2"]);
    let mut reader = connect(larder.redis);
    send(&mut reader, &["SUBSCRIBE c", "PSUBSCRIBE p*", "SSUBSCRIBE s"]);
    let mut client = larder.client();
    let mut all = |n: i64| {
        let channel = client.command(&["PUBLISH", "c", "m"]);
        let pattern = client.command(&["PUBLISH", "px", "m"]);
        let shard = client.command(&["SPUBLISH", "s", "m"]);
        [channel, pattern, shard].iter().all(|reply| *reply == Reply::Int(n))
    };
    wait_until("subscriptions", || all(1));
    drop(reader);
    wait_until("their end", || all(0));
    assert_eq!(client.command(&["PUBSUB", "CHANNELS"]), Reply::Array(Some(vec![])));
    assert_eq!(client.command(&["PUBSUB", "NUMPAT"]), Reply::Int(0));
}

#[test]
fn a_subscriber_that_does_not_read_is_cut_off() {
    let larder = Larder::start(&["--threads", "2", "--max-backlog", "1MiB"]);
    let mut slow = connect(larder.redis);
    send(&mut slow, &["SUBSCRIBE c"]);
    expect(&mut slow, b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    let mut client = larder.client();
    let message = "x".repeat(100_000);
    // What fits the sockets, what is due, and the backlog: some megabytes.
    wait_until("the subscriber to be cut off", || client.command(&["PUBLISH", "c", &message]) == Reply::Int(0));
    let Reply::Bulk(Some(info)) = client.command(&["INFO", "stats"]) else { panic!("INFO is text") };
    let info = String::from_utf8(info).unwrap();
    assert!(info.contains("client_output_buffer_limit_disconnections:1\r\n"), "{info}");
    let mut rest = Vec::new();
    // A reset is an end as well.
    let _ = std::io::Read::read_to_end(&mut slow, &mut rest);
    expect_end(&mut slow);
    assert!(rest.len() < 20 << 20, "{}", rest.len());
}

#[test]
fn transactions_and_reset() {
    let larder = Larder::start(&["--threads", "2"]);
    let mut client = connect(larder.redis);
    send(&mut client, &["SUBSCRIBE a b", "RESET", "PUBLISH a x", "PING"]);
    expect(&mut client, b"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n");
    expect(&mut client, b"+RESET\r\n:0\r\n+PONG\r\n");
    send(&mut client, &["MULTI", "SUBSCRIBE a", "EXEC", "GET k", "PUNSUBSCRIBE", "UNSUBSCRIBE", "GET k"]);
    expect(&mut client, b"+OK\r\n+QUEUED\r\n*1\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n");
    expect(&mut client, b"-ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context\r\n");
    expect(
        &mut client,
        b"*3\r\n$12\r\npunsubscribe\r\n$-1\r\n:1\r\n*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n$-1\r\n",
    );
}

/// The subscriber does not wait for its confirmation. The reply to its `PING` says that Larder has
/// read the command behind it too.
#[test]
fn a_message_does_not_overtake_a_subscription() {
    let redis = RedisServer::start();
    let larder = Larder::start(&["--threads", "2", "--source", &redis.url()]);
    let mut client = larder.client();
    wait_until("the source to be connected", || client.command(&["SET", "k", "v"]) == Reply::ok());
    let script = "return redis.call('PUBLISH', ARGV[1], 'm')";
    let mut subscribed = connect(larder.redis);
    for round in 0..60 {
        // The first one opens a connection to Redis.
        let mut fresh = connect(larder.redis);
        for (reader, channel) in [(&mut fresh, format!("fresh{round}")), (&mut subscribed, format!("more{round}"))] {
            let (subscribe, publish) = match round % 3 {
                0 => ("SUBSCRIBE", "PUBLISH"),
                1 => ("PSUBSCRIBE", "PUBLISH"),
                _ => ("SSUBSCRIBE", "SPUBLISH"),
            };
            send(reader, &["HELLO 3", "PING read", &format!("{subscribe} {channel}")]);
            larder::skip_until(reader, b"$4\r\nread\r\n");
            let publish: &[&str] = if round % 5 == 1 && round % 3 != 2 {
                &["EVAL", script, "0", &channel]
            } else {
                &[publish, &channel, "m"]
            };
            if round % 5 == 2 {
                for command in [&["MULTI"], publish, &["EXEC"]] {
                    client.send(command).unwrap();
                }
                client.read().unwrap();
                client.read().unwrap();
                assert_eq!(client.read().unwrap(), Reply::Array(Some(vec![Reply::Int(1)])), "round {round}");
                continue;
            }
            // In a pipeline: the replies keep their order.
            for command in [&["INCR", "n"], publish, &["GET", "k"]] {
                client.send(command).unwrap();
            }
            client.read().unwrap();
            assert_eq!(client.read().unwrap(), Reply::Int(1), "{publish:?} in round {round}");
            assert_eq!(client.read().unwrap(), Reply::bulk("v"));
        }
    }
}
