//! Transactions as other clients see them.
use super::{
    common::{RedisServer, Reply},
    larder::Larder,
};
use std::{
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread::{scope, spawn},
};

const TRANSACTIONS: usize = 2000;

/// Sends transactions that leave an even number behind each; meanwhile another client, of another
/// thread, looks for odd ones.
fn nothing_is_seen_halfway(steps: &[&[&str]]) {
    let larder = Larder::start(&["--threads", "2"]);
    let (mut writer, is_over) = (larder.client(), AtomicBool::new(false));
    assert_eq!(writer.command(&["SET", "k", "0"]), Reply::ok());
    scope(|scope| {
        scope.spawn(|| {
            let mut reader = larder.client();
            while !is_over.load(Relaxed) {
                let number: u64 = match reader.command(&["GET", "k"]) {
                    Reply::Bulk(Some(text)) => String::from_utf8(text).unwrap().parse().unwrap(),
                    other => panic!("{other:?}"),
                };
                assert_eq!(number % 2, 0, "seen within a transaction");
            }
        });
        for _ in 0..TRANSACTIONS {
            writer.send(&["MULTI"]).unwrap();
            writer.send(&["INCR", "k"]).unwrap();
            steps.iter().for_each(|step| writer.send(step).unwrap());
            writer.send(&["INCR", "k"]).unwrap();
            writer.send(&["EXEC"]).unwrap();
            (0..steps.len() + 4).for_each(|_| drop(writer.read().unwrap()));
        }
        is_over.store(true, Relaxed);
    });
    assert_eq!(writer.command(&["GET", "k"]), Reply::bulk((2 * TRANSACTIONS).to_string()));
}

#[test]
fn tags_are_part_of_a_transaction() {
    nothing_is_seen_halfway(&[&["LARDER.TAG", "k", "t"], &["LARDER.CLEARTAG", "other"]]);
}

/// A port that leads to a redis-server whose command table says what that of Valkey 8 and later
/// says: MULTI and WATCH are not for transactions.
fn with_the_flags_of_valkey(redis: &RedisServer) -> u16 {
    const FLAG: &[u8] = b"+allow_busy\r\n";
    let (listener, server) = (TcpListener::bind("127.0.0.1:0").unwrap(), redis.port());
    let port = listener.local_addr().unwrap().port();
    spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let mut server = TcpStream::connect(("127.0.0.1", server)).unwrap();
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            spawn(move || io::copy(&mut from, &mut to));
            spawn(move || {
                let (mut client, mut kept, mut part) = (client, Vec::new(), [0; 4096]);
                while let Ok(read @ 1..) = server.read(&mut part) {
                    kept.extend_from_slice(&part[..read]);
                    while let Some(at) = kept.windows(FLAG.len()).position(|bytes| bytes == FLAG) {
                        kept.splice(at..at + FLAG.len(), *b"+no_multi\r\n");
                    }
                    // The beginning of the flag may be all that has come.
                    let begun = |count: &usize| FLAG.starts_with(&kept[kept.len() - count..]);
                    let begun = (0..FLAG.len().min(kept.len() + 1)).rev().find(begun).unwrap_or(0);
                    let rest = kept.split_off(kept.len() - begun);
                    if client.write_all(&std::mem::replace(&mut kept, rest)).is_err() {
                        break;
                    }
                }
            });
        }
    });
    port
}

#[test]
fn a_nested_multi_ends_as_it_does_at_the_server() {
    let redis = RedisServer::start();
    let like_valkey = format!("redis://127.0.0.1:{}", with_the_flags_of_valkey(&redis));
    // Itself, if this is `make test-valkey`.
    let mut direct = redis.client();
    let replies = [&["MULTI"][..], &["MULTI"], &["EXEC"]].map(|command| direct.command(command));
    let server_aborts = matches!(&replies[2], Reply::Error(text) if text.starts_with("EXECABORT"));
    for (source, aborts) in [("none:", false), (redis.url().as_str(), server_aborts), (like_valkey.as_str(), true)] {
        let larder = Larder::start(&["--source", source]);
        for nested in [&["MULTI"][..], &["WATCH", "a"]] {
            let mut client = larder.client();
            assert_eq!(client.command(&["SET", "k", "before"]), Reply::ok());
            assert_eq!(client.command(&["MULTI"]), Reply::ok());
            assert!(matches!(client.command(nested), Reply::Error(_)), "{source} {nested:?}");
            assert_eq!(client.command(&["SET", "k", "after"]), Reply::Simple("QUEUED".to_owned()));
            let exec = client.command(&["EXEC"]);
            match aborts {
                true => assert!(matches!(&exec, Reply::Error(text) if text.starts_with("EXECABORT")), "{exec:?}"),
                false => assert_eq!(exec, Reply::Array(Some(vec![Reply::ok()])), "{source} {nested:?}"),
            }
            let left = if aborts { "before" } else { "after" };
            assert_eq!(client.command(&["GET", "k"]), Reply::bulk(left), "{source} {nested:?}");
        }
    }
}

/// More arguments than the 1,048,576 of Redis before version 7.
#[test]
fn a_command_may_have_a_million_arguments_and_more() {
    const KEYS: usize = 1_050_000;
    let redis = RedisServer::start();
    for args in [&[][..], &["--source", &redis.url()]] {
        let larder = Larder::start(args);
        let mut client = larder.client();
        assert_eq!(client.command(&["SET", "77", "v"]), Reply::ok());
        let keys: Vec<String> = (0..KEYS).map(|number| number.to_string()).collect();
        for (name, count) in [("EXISTS", 1), ("DEL", 1), ("DEL", 0)] {
            let parts: Vec<&str> = [name].into_iter().chain(keys.iter().map(String::as_str)).collect();
            assert_eq!(client.command(&parts), Reply::Int(count), "{name}");
        }
        assert_eq!(client.command(&["PING"]), Reply::Simple("PONG".to_owned()), "the connection is still there");
    }
}
