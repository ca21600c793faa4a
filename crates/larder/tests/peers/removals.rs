//! Writes and removals that all nodes hear of.
use super::{
    common::{RedisServer, Reply},
    fleet::{Fleet, over_each_transport, read, send},
};

over_each_transport!(
    nodes_without_a_source_are_one_store,
    a_removal_is_heard_by_all_nodes,
    a_tag_is_cleared_at_all_nodes_over_both_protocols,
);

fn nodes_without_a_source_are_one_store(transport: &str) {
    let fleet = Fleet::over(transport, 3, &[]);
    for owner in 0..3 {
        let key = fleet.key_of(owner);
        let path = format!("/v1/kv/{key}");
        let all_have = |value: Option<&str>| fleet.nodes.iter().all(|node| read(node, &key).as_deref() == value);
        for writer in 0..3 {
            assert!(matches!(send(&fleet.nodes[writer], "PUT", &path, "one"), 201 | 204));
            // So often that the others have copies.
            assert!((0..4).all(|_| all_have(Some("one"))), "{key} by {writer}");
            assert_eq!(send(&fleet.nodes[(writer + 1) % 3], "PUT", &path, "two"), 204);
            assert!(all_have(Some("two")), "{key} by {writer}");
            assert_eq!(send(&fleet.nodes[(writer + 2) % 3], "DELETE", &path, ""), 204);
            assert!(all_have(None), "{key} by {writer}");
        }
    }
}

fn a_removal_is_heard_by_all_nodes(transport: &str) {
    let fleet = Fleet::over(transport, 3, &["--source", "demo:"]);
    let keys: Vec<String> = (0..3).map(|owner| fleet.key_of(owner)).collect();
    let values = |key: &str| -> Vec<String> { fleet.nodes.iter().map(|node| read(node, key).unwrap()).collect() };
    // So often that all nodes have copies.
    let before = |key: &str| {
        (0..3).for_each(|_| drop(values(key)));
        values(key)
    };
    let changed = |key: &str, before: &[String]| {
        let after = values(key);
        assert!(after.iter().all(|value| *value == after[0] && *value != before[0]), "{key}: {before:?} {after:?}");
    };
    for key in &keys {
        for node in &fleet.nodes {
            let before = before(key);
            // The source takes no writes. What is asked for is the copies' end.
            assert_eq!(send(node, "DELETE", &format!("/v1/kv/{key}"), ""), 405);
            assert_eq!(values(key), before);
            assert_eq!(send(node, "DELETE", &format!("/v1/keys?key={key}"), ""), 204);
            changed(key, &before);
        }
    }
    for path in ["/v1/groups/default", "/v1/keys?prefix=0"] {
        let old: Vec<_> = keys.iter().map(|key| before(key)).collect();
        assert_eq!(send(&fleet.nodes[0], "DELETE", path, ""), 204);
        for (key, before) in keys.iter().zip(&old).filter(|(key, _)| path.contains("groups") || key.starts_with('0')) {
            changed(key, before);
        }
    }
}

fn a_tag_is_cleared_at_all_nodes_over_both_protocols(transport: &str) {
    let fleet = Fleet::over(transport, 3, &["--source", "demo:"]);
    let key = fleet.key_of(1);
    let values = || -> Vec<String> { fleet.nodes.iter().map(|node| read(node, &key).unwrap()).collect() };
    let say = |node: usize, words: &[&str]| {
        let mut client = fleet.nodes[node].client();
        client.send(words).unwrap();
        client.read().unwrap()
    };
    for soft in [false, true] {
        for over_http in [false, true] {
            // So often that all nodes have copies.
            (0..3).for_each(|_| drop(values()));
            let before = values();
            for node in 0..3 {
                assert!(matches!(say(node, &["LARDER.TAG", &key, "t"]), Reply::Int(1)), "node {node} holds it");
            }
            match (over_http, soft) {
                (true, false) => assert_eq!(send(&fleet.nodes[0], "DELETE", "/v1/tags/t", ""), 204),
                (true, true) => assert_eq!(send(&fleet.nodes[0], "DELETE", "/v1/tags/t?soft", ""), 204),
                (false, false) => assert!(matches!(say(0, &["LARDER.CLEARTAG", "t"]), Reply::Int(1))),
                (false, true) => assert!(matches!(say(0, &["LARDER.CLEARTAG", "t", "SOFT"]), Reply::Int(1))),
            }
            let after = values();
            assert!(after.iter().all(|value| *value == after[0] && *value != before[0]), "{before:?} {after:?}");
        }
    }
}

/// A clear reaches all nodes after it has begun: it is no part of one step.
#[test]
fn a_transaction_has_no_clear_of_a_tag_at_all_nodes() {
    let not_here = "ERR LARDER.CLEARTAG is not available in a transaction where nodes share keys (peers): it clears at all of them";
    let redis = RedisServer::start();
    for (source, ttl) in [("none:".to_owned(), "0s"), (redis.url(), "10s")] {
        let source = [&["--source", source.as_str()][..], if ttl == "0s" { &[] } else { &["--ttl", "10s"] }].concat();
        let fleet = Fleet::start(2, &source);
        let key = fleet.key_of(1);
        let mut client = fleet.nodes[0].client();
        assert_eq!(client.command(&["MULTI"]), Reply::ok());
        assert_eq!(client.command(&["SET", &key, "1"]), Reply::Simple("QUEUED".to_owned()));
        assert_eq!(client.command(&["LARDER.CLEARTAG", "t"]), Reply::Error(not_here.into()));
        assert!(matches!(client.command(&["EXEC"]), Reply::Error(text) if text.starts_with("EXECABORT")));
        assert_eq!(client.command(&["GET", &key]), Reply::nil(), "nothing was done");
        // A tag goes to the key's owner, where nodes are one store; else it is of this node's copy, of
        // which there is none.
        client.command(&["MULTI"]);
        client.command(&["SET", &key, "1"]);
        client.command(&["LARDER.TAG", &key, "t"]);
        let tagged = Reply::Int(i64::from(source.len() == 2));
        assert_eq!(client.command(&["EXEC"]), Reply::Array(Some(vec![Reply::ok(), tagged])));
        assert_eq!(client.command(&["GET", &key]), Reply::bulk("1"));
        client.command(&["LARDER.CLEARTAG", "t"]);
        let left = if source.len() == 2 { Reply::nil() } else { Reply::bulk("1") };
        assert_eq!(client.command(&["GET", &key]), left);
    }
}
