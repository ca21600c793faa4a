//! LARDER.TAG, LARDER.CLEARTAG and SET … TAG.
use super::{support::Server, upstream::with_redis};
use crate::tests::memory_store::MemoryStore;
use std::rc::Rc;

#[test]
fn what_carries_a_tag_is_cleared_together() {
    let server = Server::new(&[]);
    let mut client = server.client();
    for line in ["SET a 1 TAG x EX 100 TAG y", "SET b 2 NX TAG x", "SET c 3", "SET e 5 TAG z"] {
        assert_eq!(client.say(line), "+OK\r\n", "{line}");
    }
    assert_eq!(client.say("LARDER.TAG c x w"), ":1\r\n");
    assert_eq!(client.say("LARDER.TAG c x"), ":1\r\n", "it has it");
    assert_eq!(client.say("LARDER.TAG d x"), ":0\r\n");
    assert_eq!(client.say("LARDER.CLEARTAG nobody"), ":0\r\n");
    // What changes a value, a lifetime or a name keeps the tags.
    for line in ["INCR a", "APPEND b 2", "EXPIRE c 100", "RENAME b d", "COPY c f"] {
        assert!(!client.say(line).starts_with('-'), "{line}");
    }
    assert_eq!(client.say("MGET a d c f e"), "*5\r\n$1\r\n2\r\n$2\r\n22\r\n$1\r\n3\r\n$1\r\n3\r\n$1\r\n5\r\n");
    assert_eq!(client.say("LARDER.CLEARTAG x"), ":4\r\n");
    assert_eq!(client.say("DBSIZE"), ":1\r\n");
    assert_eq!(client.say("KEYS *"), "*1\r\n$1\r\ne\r\n");
    assert_eq!(client.say("RANDOMKEY"), "$1\r\ne\r\n");
    assert_eq!(client.say("EXISTS a c d e f"), ":1\r\n");
    assert_eq!(client.say("SCAN 0 COUNT 1000"), "*2\r\n$1\r\n0\r\n*1\r\n$1\r\ne\r\n");
    // What overwrites a value has tags of its own, or none.
    assert_eq!(client.say("SET e 6 GET TAG v"), "$1\r\n5\r\n");
    assert_eq!(client.say("LARDER.CLEARTAG z"), ":0\r\n");
    assert_eq!(client.say("GETSET e 7"), "$1\r\n6\r\n");
    assert_eq!(client.say("LARDER.CLEARTAG v SOFT"), ":0\r\n");
    assert_eq!(client.say("GET e"), "$1\r\n7\r\n");
}

#[test]
fn tags_within_a_transaction() {
    let server = Server::new(&[]);
    let mut client = server.client();
    for line in ["MULTI", "SET a 1 TAG x", "LARDER.TAG a y", "LARDER.CLEARTAG y", "GET a", "SET a 2"] {
        client.say(line);
    }
    assert_eq!(client.say("EXEC"), "*5\r\n+OK\r\n:1\r\n:1\r\n$-1\r\n+OK\r\n");
    // A watched key that is cleared has changed.
    client.say("SET a 1 TAG x");
    client.say("WATCH a");
    server.client().say("LARDER.CLEARTAG x");
    client.say("MULTI");
    client.say("SET b 1");
    assert_eq!(client.say("EXEC"), "*-1\r\n");
}

#[test]
fn what_cannot_be_is_said() {
    let server = Server::new(&[]);
    let mut client = server.client();
    client.say("SET k 1 TAG t");
    let many: String = (0..128).map(|n| format!(" {n}")).collect();
    for (line, error) in [
        ("SET k v TAG".to_owned(), "ERR syntax error"),
        (format!("SET k v TAG {}", "x".repeat(1025)), "ERR a tag has 1 to 1024 bytes"),
        (format!("LARDER.TAG k{many}"), "ERR an entry has at most 128 tags"),
        (format!("LARDER.TAG k{many} 129"), "ERR an entry has at most 128 tags"),
        ("LARDER.TAG k ".to_owned(), "ERR a tag has 1 to 1024 bytes"),
        ("LARDER.TAG k".to_owned(), "ERR wrong number of arguments for 'larder.tag' command"),
        ("LARDER.CLEARTAG t HARD".to_owned(), "ERR syntax error"),
        ("LARDER.CLEARTAG t SOFT SOFT".to_owned(), "ERR syntax error"),
        ("GETEX k TAG t".to_owned(), "ERR syntax error"),
    ] {
        assert_eq!(client.say(&line), format!("-{error}\r\n"), "{line}");
    }
    assert_eq!(client.say("GET k"), "$1\r\n1\r\n");
}

#[test]
fn in_front_of_a_source_tags_are_those_of_the_copy() {
    with_redis(|redis, server| async move {
        let mut direct = redis.connect();
        direct.say("MSET a 1 b 2");
        let mut client = server.client();
        assert_eq!(client.ask("LARDER.TAG a x").await, ":0\r\n", "it is not in memory yet");
        assert_eq!(client.ask("MGET a b").await, "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
        assert_eq!(client.ask("LARDER.TAG a x").await, ":1\r\n");
        assert_eq!(client.ask("LARDER.CLEARTAG x").await, ":1\r\n");
        let cache = &server.worker.groups.default().cache;
        assert_eq!(cache.tier().len(), 1);
        assert_eq!(client.ask("GET a").await, "$1\r\n1\r\n", "Redis has it");
        let refused = "-ERR SET takes no TAG here: the source keeps the value, without tags. LARDER.TAG tags the copy in memory\r\n";
        assert_eq!(client.ask("SET a 3 TAG x").await, refused);
        assert_eq!(direct.say("GET a"), "$1\r\n1\r\n", "nothing was sent");
        assert_eq!(client.ask("SET a 3 IFEQ 1 TAG x").await, refused);
        // Redis 7.0 does not know the condition. The word behind it is a value.
        assert_eq!(client.ask("SET a 3 IFEQ TAG").await, "-ERR syntax error\r\n");
        client.ask("MULTI").await;
        assert_eq!(client.ask("SET a 3 TAG x").await, refused);
        client.ask("DISCARD").await;
        assert_eq!(client.ask("SET a 3 EX 100").await, "+OK\r\n");
        // In a transaction they are those of the copy once Redis has done its part.
        client.ask("GET b").await;
        for line in ["MULTI", "SET a 4", "LARDER.TAG a x", "LARDER.TAG b x", "LARDER.CLEARTAG x"] {
            client.ask(line).await;
        }
        assert_eq!(client.ask("EXEC").await, "*4\r\n+OK\r\n:0\r\n:1\r\n:1\r\n");
        // Another database has no copies.
        client.ask("GET b").await;
        client.ask("SELECT 1").await;
        assert_eq!(client.ask("LARDER.TAG b x").await, ":0\r\n");
    });
}

#[test]
fn a_transaction_refuses_tags_of_copies_that_it_has_not_made_yet() {
    super::support::runtime().block_on(async {
        let server = Server::with_source(&[], Rc::new(MemoryStore::default()));
        let mut client = server.client();
        client.ask("SET a 1").await;
        client.ask("GET a").await;
        client.ask("MULTI").await;
        assert_eq!(client.ask("SET a 2").await, "+QUEUED\r\n");
        assert!(
            client
                .ask("LARDER.TAG a x")
                .await
                .starts_with("-ERR LARDER.TAG is not available in a transaction on a disk store")
        );
        assert!(client.ask("EXEC").await.starts_with("-EXECABORT"));
        assert_eq!(client.ask("GET a").await, "$1\r\n1\r\n", "nothing was done");
        for line in ["MULTI", "SET a 2", "LARDER.CLEARTAG x"] {
            client.ask(line).await;
        }
        assert_eq!(client.ask("EXEC").await, "*2\r\n+OK\r\n:0\r\n");
        assert_eq!(client.ask("LARDER.TAG a x").await, ":1\r\n");
    });
}

#[test]
fn a_local_store_keeps_no_tags() {
    super::support::runtime().block_on(async {
        let server = Server::with_source(&[], Rc::new(MemoryStore::default()));
        let mut client = server.client();
        assert!(client.ask("SET a 1 TAG x").await.starts_with("-ERR SET takes no TAG here"));
        assert_eq!(client.ask("SET a 1").await, "+OK\r\n");
    });
}
