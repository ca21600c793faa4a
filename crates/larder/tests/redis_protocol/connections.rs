//! Connections as such: how many, how long, on which core, and how one is ended.
use super::{
    common::{Client, PATIENCE, Reply, wait_until},
    larder::{Larder, connect, encode, expect, expect_end},
};
use std::{
    io::{Read, Write},
    time::{Duration, Instant},
};

/// `id=… addr=…` lines of CLIENT LIST.
fn list(client: &mut Client) -> Vec<String> {
    match client.command(&["CLIENT", "LIST"]) {
        Reply::Bulk(Some(text)) => String::from_utf8(text).unwrap().lines().map(str::to_owned).collect(),
        other => panic!("CLIENT LIST answers {other:?}"),
    }
}
fn id(client: &mut Client) -> String {
    client.command(&["CLIENT", "ID"]).int().to_string()
}

#[test]
fn beyond_max_connections_the_reason_is_given() {
    let larder = Larder::start(&["--max-connections", "3"]);
    let mut open: Vec<_> = (0..3).map(|_| larder.client()).collect();
    for client in &mut open {
        assert_eq!(client.command(&["PING"]), Reply::Simple("PONG".into()));
    }
    let mut refused = larder.stream();
    expect(&mut refused, b"-ERR max number of clients reached (max-connections)\r\n");
    expect_end(&mut refused);
    let (status, head, body) = larder.http("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(status, 503);
    assert!(head.contains("retry-after: "), "{head}");
    let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(problem["type"], "/problems/too-many-connections");
    assert!(problem["detail"].as_str().unwrap().contains("`max-connections`"));
    // The operator still gets in.
    assert_eq!(larder.admin("GET /healthz HTTP/1.0\r\n\r\n").0, 200);
    assert!(larder.metric("larder_connections_refused_total") >= 2.0);
    // A place that becomes free is given again.
    drop(open.pop());
    wait_until("a free place", || {
        larder.client().try_command(&["PING"]).is_ok_and(|reply| reply == Reply::Simple("PONG".into()))
    });
}

#[test]
fn a_connection_without_a_word_is_closed_and_one_that_talks_is_not() {
    let larder = Larder::start(&["--idle-timeout", "2s"]);
    let start = Instant::now();
    let (mut silent, mut talking) = (larder.stream(), larder.client());
    silent.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let mut byte = [0];
    let ended = loop {
        assert_eq!(talking.command(&["PING"]), Reply::Simple("PONG".into()));
        match silent.read(&mut byte) {
            Ok(0) => break start.elapsed(),
            Ok(_) => panic!("a word to a silent client"),
            Err(_timeout) => assert!(start.elapsed() < PATIENCE, "it stays open"),
        }
    };
    assert!(ended >= Duration::from_secs(2), "closed after {ended:?}");
    assert_eq!(talking.command(&["PING"]), Reply::Simple("PONG".into()));
}

#[test]
fn client_kill_ends_other_connections_and_its_own_after_the_reply() {
    let larder = Larder::start(&["--threads", "2"]);
    let mut killer = larder.client();
    // On both workers, so that one of them is another thread's.
    for _ in 0..4 {
        let mut victim = larder.client();
        let victim_id = id(&mut victim);
        assert_eq!(killer.command(&["CLIENT", "KILL", "ID", &victim_id]), Reply::Int(1));
        assert!(victim.read().is_err(), "the victim is still served");
        wait_until("the victim to leave the list", || list(&mut killer).len() == 1);
    }
    let own = id(&mut killer);
    assert_eq!(killer.command(&["CLIENT", "KILL", "ID", &own, "SKIPME", "no"]), Reply::Int(1));
    assert!(killer.read().is_err());
}

#[test]
fn connections_are_spread_evenly_whatever_their_number() {
    let larder = Larder::start(&["--threads", "3"]);
    let per_worker = || -> Vec<u64> {
        let worker = |id| larder.metric(&format!("larder_worker_connections{{worker=\"{id}\"}}"));
        // The metrics are read over a connection of their own, which sits on one of them.
        (0..3).map(|id| worker(id) as u64).collect()
    };
    let mut open = Vec::new();
    for count in [2, 3, 7, 30] {
        while open.len() < count {
            let mut client = larder.client();
            client.command(&["PING"]);
            open.push(client);
        }
        let spread = per_worker();
        let (least, most) = (spread.iter().min().unwrap(), spread.iter().max().unwrap());
        assert!(most - least <= 2, "{count} connections: {spread:?}");
    }
    // Those that come later fill the gaps that others leave.
    let keep = open.iter_mut().map(id).collect::<Vec<_>>();
    assert_eq!(keep.len(), 30);
    open.drain(..15);
    wait_until("the connections to end", || per_worker().iter().sum::<u64>() <= 16);
    while open.len() < 30 {
        let mut client = larder.client();
        client.command(&["PING"]);
        open.push(client);
    }
    let spread = per_worker();
    assert!(spread.iter().max().unwrap() - spread.iter().min().unwrap() <= 2, "{spread:?}");
}

#[test]
fn one_client_cannot_keep_the_others_waiting() {
    // One core. A client keeps its pipeline full; another asks one thing at a time.
    let larder = Larder::start(&["--threads", "1"]);
    let mut flood = larder.stream();
    let mut replies = flood.try_clone().unwrap();
    let sending = std::thread::spawn(move || {
        let batch = encode(&[b"PING"]).repeat(10_000);
        while flood.write_all(&batch).is_ok() {}
    });
    let (flows, flowing) = std::sync::mpsc::channel();
    let reading = std::thread::spawn(move || {
        let mut sink = vec![0; 1 << 20];
        while let Ok(n) = replies.read(&mut sink)
            && n > 0
        {
            let _ = flows.send(());
        }
    });
    flowing.recv().unwrap();
    let mut polite = larder.client();
    let start = Instant::now();
    for _ in 0..200 {
        assert_eq!(polite.command(&["PING"]), Reply::Simple("PONG".into()));
    }
    let took = start.elapsed();
    drop(larder);
    sending.join().unwrap();
    reading.join().unwrap();
    assert!(took < Duration::from_secs(30), "200 requests took {took:?}");
}

#[test]
fn quit_is_answered_and_ends_the_connection() {
    let larder = Larder::start(&[]);
    let mut stream = connect(larder.redis);
    stream.write_all(b"PING\r\nQUIT\r\nPING\r\n").unwrap();
    expect(&mut stream, b"+PONG\r\n+OK\r\n");
    expect_end(&mut stream);
}
