//! Several Larders in front of one cluster.
use super::{server::CassandraNode, text};
use crate::{common::Reply, larder::Larder};
use std::thread;

/// Changes that rest on what was read, of one key, by clients of two Larders.
#[test]
#[ignore = "make test-clients"]
fn no_change_is_lost_or_made_twice_by_two_larders() {
    const CLIENTS: usize = 4;
    const TIMES: usize = 25;
    let node = CassandraNode::shared();
    let url = node.url("contention");
    let larders = [(); 2].map(|()| Larder::start(&["--source", &url]));
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let larder = &larders[number % 2];
            scope.spawn(move || {
                let mut client = larder.client();
                for _ in 0..TIMES {
                    assert!(client.command(&["INCR", "hits"]).int() > 0);
                    assert!(client.command(&["APPEND", "log", "x"]).int() > 0);
                    // A transaction with WATCH, until it is not overtaken.
                    loop {
                        client.command(&["WATCH", "watched"]);
                        let before = match client.command(&["GETEX", "watched"]) {
                            Reply::Bulk(Some(value)) => String::from_utf8(value).unwrap().parse::<u64>().unwrap(),
                            _ => 0,
                        };
                        client.command(&["MULTI"]);
                        client.command(&["SET", "watched", &(before + 1).to_string()]);
                        match client.command(&["EXEC"]) {
                            Reply::Array(Some(replies)) => {
                                assert_eq!(replies, [Reply::ok()]);
                                break;
                            }
                            Reply::Array(None) => {}
                            other => panic!("{other:?}"),
                        }
                    }
                }
            });
        }
        // One of all clients creates the key.
        let creators: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let larder = &larders[number % 2];
                scope.spawn(move || larder.client().command(&["SET", "lock", &number.to_string(), "NX"]) == Reply::ok())
            })
            .collect();
        assert_eq!(
            creators.into_iter().filter_map(|creator| creator.join().ok()).filter(|created| *created).count(),
            1
        );
    });
    for larder in &larders {
        let mut client = larder.client();
        assert_eq!(text(&mut client, &["INCRBY", "hits", "0"]), (CLIENTS * TIMES).to_string());
        assert_eq!(text(&mut client, &["INCRBY", "watched", "0"]), (CLIENTS * TIMES).to_string());
        assert_eq!(text(&mut client, &["APPEND", "log", ""]), (CLIENTS * TIMES).to_string());
    }
}

/// `ttl` bounds how long a write of another Larder is not seen.
#[test]
#[ignore = "make test-clients"]
fn writes_of_another_larder_are_seen_after_the_ttl() {
    let node = CassandraNode::shared();
    let url = node.url("others");
    let [larder, other] = [(); 2].map(|()| Larder::start(&["--source", &url, "--ttl", "1s"]));
    let (mut client, mut beside) = (larder.client(), other.client());
    client.command(&["SET", "k", "1"]);
    assert_eq!(text(&mut beside, &["GET", "k"]), "1");
    client.command(&["SET", "k", "2"]);
    assert_eq!(text(&mut client, &["GET", "k"]), "2", "one's own writes at once");
    crate::common::wait_until("the end of the copy", || text(&mut beside, &["GET", "k"]) == "2");
    // What rests on the value rests on the cluster's, not on a copy.
    client.command(&["SET", "n", "1"]);
    assert_eq!(text(&mut beside, &["GET", "n"]), "1");
    client.command(&["SET", "n", "10"]);
    assert_eq!(text(&mut beside, &["INCR", "n"]), "11");
    assert_eq!(text(&mut beside, &["GET", "n"]), "11");
}
