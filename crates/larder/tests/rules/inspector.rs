//! `inspect`: what the comparison of sampled hits with the source finds.
use super::{
    before,
    common::{RedisServer, Reply, wait_until},
    group_metric,
    larder::Larder,
    set,
};
use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
};

#[test]
fn a_copy_that_a_direct_write_made_older_is_found() {
    let redis = RedisServer::start();
    set(&redis, "k", "old");
    set(&redis, "same", "1");
    let larder = before(&redis, &["--coherence", "ttl", "--ttl", "1h", "--inspect", "100%"]);
    let mut client = larder.client();
    for key in ["k", "same"] {
        client.command(&["GET", key]);
    }
    set(&redis, "k", "new");
    assert_eq!(client.command(&["GET", "k"]), Reply::bulk("old"));
    assert_eq!(client.command(&["GET", "same"]), Reply::bulk("1"));
    wait_until("both hits to be compared", || group_metric(&larder, "inspected_total") == 2.0);
    assert_eq!(group_metric(&larder, "inspected_older_total"), 1.0);
    assert_eq!(group_metric(&larder, "inspected_older_age_seconds_count"), 1.0);
    // The comparison changes nothing in the tier.
    assert_eq!(client.command(&["GET", "k"]), Reply::bulk("old"));
}

#[test]
fn coherent_copies_are_never_older() {
    let redis = RedisServer::start();
    let larder = before(&redis, &["--inspect", "100%"]);
    let (mut reader, mut writer) = (larder.client(), redis.client());
    let mut n = 0;
    wait_until("many hits to be compared", || {
        for _ in 0..20 {
            n += 1;
            let key = format!("k{}", n % 200);
            if n % 20 == 0 {
                // All keys in turn, each often enough that a copy changes between a hit and its comparison.
                let changed = format!("k{}", n / 20 * 37 % 200);
                assert_eq!(writer.command(&["SET", &changed, &n.to_string()]), Reply::ok());
            }
            reader.command(&["GET", &key]);
        }
        group_metric(&larder, "inspected_total") >= 20.0 && group_metric(&larder, "inspected_forgotten_total") >= 1.0
    });
    assert_eq!(group_metric(&larder, "inspected_older_total"), 0.0);
}

#[test]
fn nothing_is_compared_while_the_source_fails_or_unless_it_is_asked_for() {
    let mut redis = RedisServer::start();
    set(&redis, "k", "1");
    let larder = before(&redis, &["--coherence", "ttl", "--ttl", "1h", "--inspect", "100%", "--source-timeout", "10s"]);
    let off = before(&redis, &["--coherence", "ttl", "--ttl", "1h"]);
    let (mut client, mut of_off) = (larder.client(), off.client());
    client.command(&["GET", "k"]);
    for _ in 0..50 {
        of_off.command(&["GET", "k"]);
    }
    redis.kill();
    wait_until("a comparison to be given up", || {
        assert_eq!(client.command(&["GET", "k"]), Reply::bulk("1"));
        group_metric(&larder, "inspected_skipped_total") >= 1.0
    });
    assert_eq!(group_metric(&larder, "inspected_total"), 0.0);
    assert_eq!(group_metric(&off, "source_fetches_total"), 1.0, "no comparison without the setting");
}

/// An HTTP API whose every answer is another.
#[test]
fn an_origin_s_changes_are_found() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://127.0.0.1:{}/{{key}}", listener.local_addr().unwrap().port());
    std::thread::spawn(move || {
        for (n, stream) in listener.incoming().enumerate() {
            std::thread::spawn(move || answer(n, BufReader::new(stream.unwrap())));
        }
    });
    let larder = Larder::start(&["--source", &url, "--ttl", "1h", "--inspect", "100%"]);
    let mut client = larder.client();
    let first = client.command(&["GET", "k"]);
    wait_until("an older copy", || {
        assert_eq!(client.command(&["GET", "k"]), first);
        group_metric(&larder, "inspected_older_total") >= 1.0
    });
    assert!(group_metric(&larder, "inspected_older_age_seconds_count") >= 1.0);
}
fn answer(n: usize, mut stream: BufReader<TcpStream>) {
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        if stream.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
    }
    // A client that is gone needs no answer.
    let _ = write!(stream.get_mut(), "HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: close\r\n\r\n{n:06}");
}
