//! `flush_all` with a delay and on replicas.
use super::{
    common::{Reply, wait_until},
    larder::Larder,
    wire::{Wire, start},
};

const READ_ONLY: &str = "SERVER_ERROR this node is a read-only replica; write to its primary\r\n";

/// Whichever worker its connection is on.
#[test]
fn the_last_flush_all_of_all_clients_counts() {
    let larder = start(&["--threads=4"]);
    for last in ["flush_all\r\n", "flush_all 1000\r\n"] {
        let mut clients: Vec<_> = (0..16).map(|_| Wire::larder(&larder)).collect();
        for client in &mut clients {
            assert_eq!(client.ask("flush_all 1\r\n"), "OK\r\n");
        }
        let mut wire = Wire::larder(&larder);
        assert_eq!(wire.ask(last), "OK\r\n");
        // The moment of the flushes is over when this one is gone.
        assert_eq!(wire.ask("set kept 0 0 1\r\nv\r\nset mark 0 2 1\r\nv\r\n"), "STORED\r\nSTORED\r\n");
        wait_until("the mark to expire", || wire.ask("get mark\r\n") == "END\r\n");
        assert_eq!(wire.ask("get kept\r\n"), "VALUE kept 0 1\r\nv\r\nEND\r\n", "{last:?}");
    }
}

#[test]
fn a_replica_refuses_flush_all() {
    let primary = Larder::start(&[]);
    assert_eq!(primary.client().command(&["SET", "k", "v"]), Reply::ok());
    let replica = start(&["--threads=1"]);
    let mut wire = Wire::larder(&replica);
    // Put off while the node takes writes.
    assert_eq!(wire.ask("flush_all 1\r\n"), "OK\r\n");
    let port = primary.redis.to_string();
    assert_eq!(replica.client().command(&["REPLICAOF", "127.0.0.1", &port]), Reply::ok());
    wait_until("the copy", || wire.ask("get k\r\n").starts_with("VALUE k "));
    assert_eq!(wire.ask("set k 0 0 1\r\nw\r\n"), READ_ONLY);
    assert_eq!(wire.ask("set k 0 0 1 noreply\r\nw\r\n"), "");
    primary.client().command(&["SET", "mark", "v", "PX", "2000"]);
    wait_until("the mark", || wire.ask("get mark\r\n").starts_with("VALUE mark "));
    wait_until("the mark to expire", || wire.ask("get mark\r\n") == "END\r\n");
    assert_eq!(wire.ask("get k\r\n"), "VALUE k 0 1\r\nv\r\nEND\r\n");
    for said in ["flush_all\r\n", "flush_all 1\r\n", "flush_all 0\r\n"] {
        assert_eq!(wire.ask(said), READ_ONLY, "{said:?}");
    }
    assert_eq!(wire.ask("flush_all noreply\r\nflush_all 1 noreply\r\nget k\r\n"), "VALUE k 0 1\r\nv\r\nEND\r\n");
}
