//! A second source that is made equal to the first while clients write, and takes its place.
mod moves;
mod swaps;
mod traffic;
mod writes;

use crate::{
    common::{Client, RedisServer, Reply, wait_until},
    larder::Larder,
};
use std::collections::BTreeMap;

/// The state that the metrics show.
fn state(larder: &Larder) -> String {
    let stats: serde_json::Value = serde_json::from_str(&larder.get("/v1/stats")).unwrap();
    let states = stats["groups"]["default"]["mirror_state"].as_object().unwrap();
    let mut current = states.iter().filter(|(_, is_now)| **is_now == 1);
    let state = current.next().unwrap().0.clone();
    assert!(current.next().is_none(), "{states:?}");
    state
}

fn wait_in_step(larder: &Larder) {
    wait_until("the mirror to be in step", || {
        state(larder) == "in-step" && larder.metric("larder_mirror_queued") == 0.0
    });
}

/// All keys of a Redis server, with a digest of their values, and their lifetimes.
fn contents(client: &mut Client) -> BTreeMap<Vec<u8>, (String, i64)> {
    let Reply::Array(Some(keys)) = client.command(&["KEYS", "*"]) else { panic!("no keys") };
    let mut contents = BTreeMap::new();
    for key in keys {
        let Reply::Bulk(Some(key)) = key else { panic!("no key: {key:?}") };
        let digest = client.command(&[&b"DEBUG"[..], b"DIGEST-VALUE", &key]);
        let expires = client.command(&[&b"PEXPIRETIME"[..], &key]).int();
        contents.insert(key, (format!("{digest:?}"), expires));
    }
    contents
}

/// What the second lacks of the first, or has besides; lifetimes may differ by a second.
fn differences(one: &RedisServer, other: &RedisServer) -> Vec<String> {
    let (mut one, other) = (contents(&mut one.client()), contents(&mut other.client()));
    let mut differences = Vec::new();
    for (key, (digest, expires)) in other {
        match one.remove(&key) {
            Some((same, at)) if same == digest && at.abs_diff(expires) <= 1000 => {}
            found => differences.push(format!("{key:?}: {found:?}, and there {digest} {expires}")),
        }
    }
    differences.extend(one.into_iter().map(|(key, found)| format!("{key:?}: {found:?}, and there nothing")));
    differences
}
