//! Commands that keep Redis busy for longer than `source-timeout`: other clients wait, as they
//! would at Redis itself.
use super::{
    common::{RedisServer, Reply, wait_until},
    larder::Larder,
};
use std::net::TcpListener;

const TIMEOUT: [&str; 2] = ["--source-timeout", "500ms"];

/// Redis stands still while it runs each of them. How long is counted in timeouts of another Larder,
/// whose source never answers.
#[test]
fn others_wait_while_a_slow_command_runs() {
    let redis = RedisServer::start();
    assert_eq!(redis.command(&["ZADD", "z1", "1", "a"]), Reply::Int(1));
    let larder = Larder::start(&[&["--threads", "2", "--source", &redis.url()], &TIMEOUT[..]].concat());
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = format!("http://{}/{{key}}", silent.local_addr().unwrap());
    let timeouts = Larder::start(&[&["--threads", "1", "--source", &origin], &TIMEOUT[..]].concat());
    let pass_a_timeout = || {
        let (status, _, body) = timeouts.http("GET /v1/kv/k HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        assert!(status >= 500 && String::from_utf8_lossy(&body).contains("source-timeout"), "{status}");
    };
    let (mut client, mut other) = (larder.client(), larder.client());
    wait_until("the source to be connected", || other.command(&["INCR", "n"]) == Reply::Int(1));
    let mut count = 1;
    let slow: [(&[&str], bool); 4] = [
        (&["ZUNIONSTORE", "to", "2", "z1", "z1"], true),
        (&["SORT", "z1", "BY", "none*", "GET", "none*", "STORE", "sorted"], true),
        // This one explains the silence for five times as long.
        (&["COPY", "z1", "copy", "REPLACE"], true),
        (&["SET", "k", "v"], false),
    ];
    for (command, explains) in slow {
        // The connection for slow commands is made before Redis stands still.
        let answer = client.command(command);
        redis.stop();
        client.send(command).unwrap();
        other.send(&["INCR", "n"]).unwrap();
        (0..2).for_each(|_| pass_a_timeout());
        redis.cont();
        let after = other.read().unwrap();
        if explains {
            count += 1;
            assert_eq!((after, client.read().unwrap()), (Reply::Int(count), answer), "{command:?}");
        } else {
            assert!(after.error().contains("source-timeout"), "{command:?}: {after:?}");
        }
    }
}

/// A script has run for longer than Redis lets it: Redis refuses the scripts of all other clients, and each
/// of them learns so from Redis, although they share a connection.
#[test]
fn a_busy_server_refuses_each_client_in_its_own_words() {
    const CLIENTS: usize = 20;
    let redis = RedisServer::with(&["--lua-time-limit", "20"]);
    let larder = Larder::start(&["--threads", "1", "--source", &redis.url(), "--source-timeout", "5s"]);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| larder.client()).collect();
    for client in &mut clients {
        assert_eq!(client.command(&["EVAL", "return 1", "0"]), Reply::Int(1));
    }
    let mut endless = redis.client();
    endless.send(&["EVAL", "while true do end", "0"]).unwrap();
    let mut direct = redis.client();
    wait_until(
        "Redis to be busy",
        || matches!(direct.command(&["GET", "k"]), Reply::Error(text) if text.starts_with("BUSY ")),
    );
    for _ in 0..3 {
        clients.iter_mut().for_each(|client| client.send(&["EVAL", "return 1", "0"]).unwrap());
        for client in &mut clients {
            let answer = client.read().unwrap();
            assert!(answer.error().starts_with("BUSY Redis is busy running a script"), "{answer:?}");
        }
    }
    assert_eq!(direct.command(&["SCRIPT", "KILL"]), Reply::ok());
    assert!(endless.read().unwrap().error().contains("killed"));
    wait_until("scripts to run again", || {
        clients.iter_mut().all(|client| client.command(&["EVAL", "return 1", "0"]) == Reply::Int(1))
    });
}
