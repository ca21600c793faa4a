//! `mode`: what the rules keep from the tier, on every path that a read can take.
use super::{
    before,
    common::{RedisServer, Reply},
    group_metric,
    larder::{Larder, connect, encode, read_line, send, skip_until},
    set,
};
use std::io::Write as _;

/// The copies live longer than the tests; Redis's changes do not reach them.
const OLD_COPIES: [&str; 4] = ["--coherence", "ttl", "--ttl", "1h"];

fn http(larder: &Larder, method: &str, target: &str, more: &str, body: &str) -> (u16, String) {
    let length = body.len();
    let (status, _, answer) = larder.http(&format!(
        "{method} {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{more}content-length: {length}\r\n\r\n{body}"
    ));
    (status, String::from_utf8(answer).unwrap())
}
fn rules(larder: &Larder, method: &str, body: &str) -> (u16, String) {
    let length = body.len();
    let (status, _, answer) = larder.admin(&format!(
        "{method} /v1/groups/default/mode-rules HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    ));
    (status, String::from_utf8(answer).unwrap())
}

/// Reads `user:k`, and the field `f` of `user:h`, by every path; each value with the path's name.
fn read_all(larder: &Larder) -> Vec<(&'static str, String)> {
    let mut seen = Vec::new();
    let mut client = larder.client();
    let text = |reply: Reply| match reply {
        Reply::Bulk(Some(value)) => String::from_utf8(value).unwrap(),
        other => panic!("{other:?}"),
    };
    seen.push(("GET", text(client.command(&["GET", "user:k"]))));
    // A row of plain GETs.
    let mut stream = larder.stream();
    stream.write_all(&[encode(&[b"GET", b"user:k"]), encode(&[b"GET", b"user:k"])].concat()).unwrap();
    for _ in 0..2 {
        read_line(&mut stream);
        seen.push(("row", String::from_utf8(read_line(&mut stream)).unwrap()));
    }
    match client.command(&["MGET", "user:k", "none"]) {
        Reply::Array(Some(values)) => seen.push(("MGET", text(values[0].clone()))),
        other => panic!("{other:?}"),
    }
    // The first time the command is passed on, the second time its reply is fetched to be kept.
    for _ in 0..3 {
        seen.push(("HGET", text(client.command(&["HGET", "user:h", "f"]))));
    }
    // The fast path, on a connection that stays open.
    let mut stream = connect(larder.http);
    send(&mut stream, &["GET /v1/kv/user:k HTTP/1.1", "host: x", ""]);
    skip_until(&mut stream, b"\r\n\r\n");
    let mut value = [0; 3];
    std::io::Read::read_exact(&mut stream, &mut value).unwrap();
    seen.push(("fast path", String::from_utf8(value.to_vec()).unwrap()));
    // The general path: a precondition.
    seen.push(("general path", http(larder, "GET", "/v1/kv/user:k", "if-none-match: \"x\"\r\n", "").1));
    let mget: serde_json::Value =
        serde_json::from_str(&http(larder, "POST", "/v1/mget", "", "{\"keys\":[\"user:k\"]}").1).unwrap();
    seen.push(("mget", mget.to_string().split('"').find(|part| part.len() == 3).unwrap_or_default().to_owned()));
    let lookup: serde_json::Value = serde_json::from_str(&http(larder, "GET", "/lookup?key=user:k", "", "").1).unwrap();
    seen.push(("/lookup", lookup["value"].as_str().unwrap().to_owned()));
    seen.push(("/", http(larder, "GET", "/?key=user:k", "", "").1));
    seen.push(("/v0/entity", http(larder, "GET", "/v0/entity?id=user:k", "", "").1));
    seen
}
#[track_caller]
fn all_are(seen: Vec<(&'static str, String)>, value: &str) {
    let others: Vec<_> = seen.iter().filter(|(_, is)| is != value).collect();
    assert!(others.is_empty(), "not {value}: {others:?}");
}
fn change(redis: &RedisServer, value: &str) {
    set(redis, "user:k", value);
    redis.command(&["HSET", "user:h", "f", value]);
}

#[test]
fn observe_serves_nothing_and_counts_as_if_it_did() {
    let redis = RedisServer::start();
    change(&redis, "old");
    let larder = before(&redis, &[&OLD_COPIES[..], &["--mode", "observe"]].concat());
    all_are(read_all(&larder), "old");
    change(&redis, "new");
    let (hits, fetches) = (group_metric(&larder, "observed_hits_total"), group_metric(&larder, "source_fetches_total"));
    let kept = group_metric(&larder, "cache_hits_total");
    all_are(read_all(&larder), "new");
    // One path reads a key that is nowhere.
    let reads = read_all(&larder).len() as f64;
    let hits = group_metric(&larder, "observed_hits_total") - hits;
    assert_eq!(hits, 2.0 * reads, "every read of a key that is kept");
    assert_eq!(group_metric(&larder, "cache_hits_total") - kept, hits, "as if they were served");
    // Reads that are under way together share a fetch.
    assert!(group_metric(&larder, "source_fetches_total") - fetches >= hits, "each read asks the source");
    assert!(group_metric(&larder, "observed_misses_total") > 0.0);
    assert!(group_metric(&larder, "observed_hit_bytes_total") >= 3.0 * hits);
    // What was observed is what would have been served: the copies are still the old ones.
    let mut client = larder.client();
    assert_eq!(client.command(&["CONFIG", "SET", "larder-mode-rules", ""]), Reply::ok());
    all_are(read_all(&larder), "old");
    assert_eq!(group_metric(&larder, "mode_rules"), 0.0);
}

#[test]
fn what_a_rule_denies_is_neither_kept_nor_served() {
    let redis = RedisServer::start();
    change(&redis, "old");
    let larder = before(&redis, &OLD_COPIES);
    all_are(read_all(&larder), "old");
    change(&redis, "new");
    all_are(read_all(&larder), "old");
    let (status, body) = rules(&larder, "PUT", "{\"rules\":[{\"prefix\":\"user:\",\"mode\":\"deny\"}]}");
    assert_eq!(
        (status, body.as_str()),
        (
            200,
            "{\"lost_at_restart\":true,\"rules\":[{\"mode\":\"deny\",\"prefix\":\"user:\"}],\"text\":\"user:=deny\"}"
        )
    );
    // Not what was kept before either.
    all_are(read_all(&larder), "new");
    change(&redis, "3rd");
    all_are(read_all(&larder), "3rd");
    assert!(group_metric(&larder, "denied_reads_total") > 10.0);
    // Nor what is written through Larder.
    let mut client = larder.client();
    assert_eq!(client.command(&["SET", "user:k", "4th"]), Reply::ok());
    change(&redis, "5th");
    all_are(read_all(&larder), "5th");
    // Others are.
    set(&redis, "other", "1");
    assert_eq!(client.command(&["GET", "other"]), Reply::bulk("1"));
    set(&redis, "other", "2");
    assert_eq!(client.command(&["GET", "other"]), Reply::bulk("1"));
    let (status, body) = rules(&larder, "DELETE", "");
    assert_eq!((status, body.as_str()), (200, "{\"lost_at_restart\":false,\"rules\":[],\"text\":\"\"}"));
    all_are(read_all(&larder), "5th");
    change(&redis, "6th");
    all_are(read_all(&larder), "5th");
}

#[test]
fn an_observed_read_does_not_fall_back_on_the_tier() {
    let mut redis = RedisServer::start();
    set(&redis, "k", "1");
    let larder = before(&redis, &["--mode", "observe", "--stale-if-error", "1h", "--source-timeout", "10s"]);
    let mut client = larder.client();
    for _ in 0..2 {
        assert_eq!(client.command(&["GET", "k"]), Reply::bulk("1"));
    }
    redis.kill();
    let error = client.command(&["GET", "k"]);
    assert!(error.error().contains("unavailable"), "{error:?}");
}

#[test]
fn rules_of_the_file_and_of_the_running_server() {
    let redis = RedisServer::start();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("larder.toml");
    std::fs::write(&file, "[prefixes.\"tmp:\"]\nmode = \"deny\"\n[prefixes.\"tmp:x y\"]\nmode = \"observe\"\n")
        .unwrap();
    let larder = before(&redis, &["--config", file.to_str().unwrap()]);
    let mut client = larder.client();
    let get = |client: &mut super::common::Client| match client.command(&["CONFIG", "GET", "larder-mode-rules"]) {
        Reply::Array(Some(pair)) => pair[1].clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(get(&mut client), Reply::bulk("tmp:=deny tmp:x%20y=observe"));
    let info = |client: &mut super::common::Client| match client.command(&["INFO", "larder"]) {
        Reply::Bulk(Some(text)) => String::from_utf8(text).unwrap(),
        other => panic!("{other:?}"),
    };
    assert!(
        info(&mut client)
            .contains("larder_mode_rules:tmp:=deny tmp:x%20y=observe\r\nlarder_mode_rules_lost_at_restart:0")
    );
    for (value, says) in [("a=denny", "is not a mode: one of cache, observe, deny"), ("a", "write PREFIX=MODE")] {
        let reply = client.command(&["CONFIG", "SET", "larder-mode-rules", value]);
        assert!(reply.error().contains(says), "{reply:?}");
    }
    assert_eq!(get(&mut client), Reply::bulk("tmp:=deny tmp:x%20y=observe"), "all or nothing");
    assert_eq!(client.command(&["CONFIG", "SET", "larder-mode-rules", "*=observe user:=cache"]), Reply::ok());
    assert_eq!(get(&mut client), Reply::bulk("*=observe user:=cache"));
    assert!(info(&mut client).contains("larder_mode_rules_lost_at_restart:1"));
    let (status, body) = rules(&larder, "PUT", "{\"rules\":[{\"prefix\":\"a\",\"mod\":\"deny\"}]}");
    assert!(status == 400 && body.contains("unknown field `mod`"), "{body}");
    assert_eq!(rules(&larder, "PUT", "a=observe").0, 200);
    assert_eq!(get(&mut client), Reply::bulk("a=observe"));
    assert_eq!(http(&larder, "GET", "/v1/groups/default/mode-rules", "", "").0, 404, "on the admin listener alone");
    let alone = Larder::start(&[]);
    let (status, body) = rules(&alone, "PUT", "a=observe");
    assert!(status == 409 && body.contains("its reads have no other answer"), "{body}");
    let refused = alone.client().command(&["CONFIG", "SET", "larder-mode-rules", "a=observe"]);
    assert!(refused.error().contains("its reads have no other answer"), "{refused:?}");
}
