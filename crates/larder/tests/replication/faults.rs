//! Processes that are killed and frozen, and primaries that are none.
use super::{
    common::{Reply, wait_until},
    larder::Larder,
    link_proxy::LinkProxy,
    workload::{Writes, fill, held, info, replica_of, wait_for_equality, wait_for_link},
};
use rustix::process::Signal;
use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener},
    thread,
};

#[test]
fn a_killed_primary_comes_back_empty_and_so_does_its_replica() {
    let mut primary = Larder::start(&[]);
    let replica = replica_of(primary.redis, &[]);
    let mut writes = Writes::new(4, 200);
    writes.run(&primary, 2000, false);
    wait_for_equality(&primary, &replica);
    primary.signal(Signal::KILL);
    primary.wait();
    wait_until("the loss to be noticed", || info(&replica, "master_link_status").as_deref() == Some("down"));
    assert!(held(&replica).len() > 50, "a replica serves what it has");
    primary.start_again(&[]);
    wait_for_equality(&primary, &replica);
    assert_eq!(held(&replica).len(), 0);
    writes.run(&primary, 500, false);
    wait_for_equality(&primary, &replica);
}

#[test]
fn a_replica_killed_in_the_middle_comes_back() {
    let primary = Larder::start(&[]);
    fill(&mut primary.client(), "k", 50_000, &"v".repeat(200));
    let mut writes = Writes::new(5, 200);
    for round in 0..3 {
        let mut replica = replica_of(primary.redis, &[]);
        // In the first round in the middle of the copy.
        if round > 0 {
            wait_for_link(&replica);
        }
        writes.run(&primary, 300, false);
        replica.signal(Signal::KILL);
        replica.wait();
    }
    let replica = replica_of(primary.redis, &[]);
    wait_for_link(&replica);
    wait_until("all to arrive", || replica.client().command(&["DBSIZE"]) == primary.client().command(&["DBSIZE"]));
    wait_until("the dead replicas to be forgotten", || info(&primary, "connected_slaves").as_deref() == Some("1"));
}

#[test]
fn a_frozen_replica_does_not_make_the_primary_grow() {
    let primary = Larder::start(&["--max-memory=32MiB", "--replication-backlog=1MiB"]);
    let replica = replica_of(primary.redis, &[]);
    wait_for_link(&replica);
    let mut client = primary.client();
    let write = |client: &mut super::common::Client| fill(client, "k", 20_000, &"v".repeat(500));
    write(&mut client);
    replica.signal(Signal::STOP);
    write(&mut client);
    let before = primary.resident();
    for _ in 0..10 {
        write(&mut client);
    }
    let grown = primary.resident().saturating_sub(before);
    assert!(grown < 16 << 20, "the primary grew by {grown} bytes");
    assert!(primary.metric("larder_replication_backlog_bytes") <= f64::from(1 << 20));
    replica.signal(Signal::CONT);
    let mut writes = Writes::new(6, 100);
    writes.run(&primary, 500, false);
    wait_for_equality(&primary, &replica);
}

#[test]
fn a_stalled_link_is_noticed_and_mended() {
    let primary = Larder::start(&[]);
    let proxy = LinkProxy::to(primary.redis);
    let replica = replica_of(proxy.port, &[]);
    wait_for_link(&replica);
    proxy.stall(true);
    wait_until("the silence to be noticed", || info(&replica, "master_link_status").as_deref() == Some("down"));
    wait_until("the begin of the silence to be noted", || {
        let seconds = info(&replica, "master_link_down_since_seconds");
        seconds.and_then(|seconds| seconds.parse().ok()).is_some_and(|seconds: i64| seconds >= 0)
    });
    assert!(replica.metric("larder_replication_lag_seconds") >= 4.0, "its age grows");
    Writes::new(7, 100).run(&primary, 500, true);
    proxy.stall(false);
    wait_for_equality(&primary, &replica);
}

/// A primary that lets any replica in and then sends this.
fn false_primary(sends: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(sends);
            // Until the other side has had enough.
            let _ = stream.read(&mut [0; 4096]);
        }
    });
    port
}

#[test]
fn garbage_of_a_primary_is_refused_and_harms_nothing() {
    for (sends, says) in [
        (&b"+LARDER\r\n\xff\xff\xff\xff\x01"[..], "larger than max-key and max-value allow"),
        (b"+LARDER\r\n\x00\x00\x00\x00", "not a replication stream"),
        (b"+LARDER\r\n\x05\x00\x00\x00\x02\x00\x00\x05\x00", "not a replication stream"),
        (b"+LARDER\r\n\x02\x00\x00\x00\x03\x07", "not a replication stream"),
        (b"+LARDER\r\n\x01\x00\x00\x00\x07", "not a replication stream"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "not a replication stream"),
        (b"-ERR unknown command 'LARDER.REPLICATE'\r\n", "refused: ERR unknown command"),
    ] {
        let mut replica = replica_of(false_primary(sends), &[]);
        wait_until("the error to be known", || {
            info(&replica, "master_link_error").is_some_and(|error| error.contains(says))
        });
        assert_eq!(replica.client().command(&["PING"]), Reply::Simple("PONG".into()));
        assert!(replica.resident() < 200 << 20);
        replica.signal(Signal::TERM);
        assert!(replica.wait().0.success());
    }
}

/// Frames of a primary with one group, `default`, whose log has the id 7.
fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    [&(1 + body.len() as u32).to_le_bytes()[..], &[kind], body].concat()
}
fn hello(resumes: bool) -> Vec<u8> {
    [&b"+LARDER\r\n"[..], &frame(1, &[&7_u64.to_le_bytes()[..], &[resumes.into()], b"\x07\x00default"].concat())]
        .concat()
}
fn mark(record: u64) -> Vec<u8> {
    let records = [record.to_le_bytes(); 32].concat();
    frame(5, &[&[0; 8][..], &records].concat())
}

/// A primary resumes, finds that it cannot, and begins a full copy. Its marks say nothing then: who
/// has a half copy cannot go on from them.
#[test]
fn a_copy_that_breaks_off_is_begun_anew() {
    let (copy_begins, copy_ends) = (frame(6, b""), frame(7, b""));
    let connections =
        [vec![hello(false), copy_begins.clone(), copy_ends, mark(5)], vec![hello(true), copy_begins, mark(6)], vec![]];
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = thread::spawn(move || {
        let mut asked = Vec::new();
        for frames in connections {
            let (mut stream, _) = listener.accept().unwrap();
            let mut command = vec![0; 4096];
            let read = stream.read(&mut command).unwrap();
            asked.push(command[..read].to_vec());
            // The replica reads to the end, and then closes.
            stream.write_all(&frames.concat()).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            stream.read_to_end(&mut Vec::new()).unwrap();
        }
        asked
    });
    let _replica = replica_of(port, &[]);
    let asked = asked.join().unwrap();
    let asks_for = |command: &[u8], id: &str| command.windows(id.len()).any(|bytes| bytes == id.as_bytes());
    let (nothing, its_place) = ("\r\n0000000000000000\r\n$0\r\n", "\r\n0000000000000007\r\n$256\r\n");
    assert!(asks_for(&asked[0], nothing), "it has nothing");
    assert!(asks_for(&asked[1], its_place), "it goes on where it was");
    assert!(asks_for(&asked[2], nothing), "its copy is half");
}
