//! What-if from outside: the curves over HTTP, over `larder advise`, and switched off.
use crate::{
    cli::run,
    common::{Client, RedisServer, Reply},
    larder::Larder,
};
use serde_json::Value;

fn curves(larder: &Larder, query: &str) -> Value {
    serde_json::from_str(&larder.get(&format!("/v1/what-if{query}"))).unwrap()
}

/// So many rounds over so many keys.
fn read(client: &mut Client, rounds: usize, keys: usize) {
    for _ in 0..rounds {
        for key in 0..keys {
            client.command(&["GET", &format!("page:{key}")]);
        }
    }
}

#[test]
fn other_sizes_are_simulated_while_clients_read() {
    let larder = Larder::start(&["--source", "demo:", "--max-keys", "100", "--threads", "2"]);
    let url = format!("http://127.0.0.1:{}", larder.admin);
    let nothing = run(&["advise", &url], &[], b"");
    assert!(nothing.text().contains("0 reads") && nothing.text().contains("no advice"), "{}", nothing.text());
    read(&mut larder.client(), 4, 150);
    let document = curves(&larder, "?hit-ratio=0.7");
    let group = &document["groups"][0];
    assert_eq!(
        (&group["group"], &group["reads"], &group["sampled_keys"]),
        (&"default".into(), &600.into(), &150.into())
    );
    assert_eq!((&group["max_keys"], &group["sampled_share"]), (&100.into(), &1.0.into()));
    let metric = |name: &str| larder.metric(&format!("larder_what_if_{name}{{group=\"default\"}}"));
    assert_eq!((metric("sampled_keys"), metric("sampled_ratio")), (150.0, 1.0));
    assert_eq!(metric("bytes"), group["bytes"].as_f64().unwrap());
    let (hits, misses) = (
        larder.metric("larder_cache_hits_total{group=\"default\"}"),
        larder.metric("larder_cache_misses_total{group=\"default\"}"),
    );
    let own = (hits / (hits + misses) * 1e4).round() / 1e4;
    assert_eq!(group["hit_ratio"], own);
    let sizes = group["sizes"].as_array().unwrap();
    let column = |name: &str| sizes.iter().map(|size| size[name].as_f64().unwrap()).collect::<Vec<f64>>();
    assert_eq!(column("factor"), [0.5, 1.0, 1.5, 2.0, 4.0, 8.0]);
    assert_eq!(column("max_keys"), [50.0, 100.0, 150.0, 200.0, 400.0, 800.0]);
    let (policy, lru) = (column("hit_ratio"), column("lru_hit_ratio"));
    assert_eq!(policy[1], own, "its own size");
    // A loop of 150 keys: all but the first round hits where they fit, and LRU has none where not. A
    // read is not simulated while another thread looks at the simulation.
    assert!(policy[2..].iter().chain(&lru[2..]).all(|ratio| (0.74..=0.76).contains(ratio)), "{policy:?} {lru:?}");
    assert_eq!(lru[..2], [0.0; 2]);
    assert!(policy[0] < policy[1] && policy[1] < 0.75, "{policy:?}");
    let factor = group["wanted"]["factor"].as_f64().unwrap();
    assert!(factor > 1.0 && factor < 1.5, "{group}");
    assert_eq!(group["wanted"]["max_keys"], (100.0 * factor).ceil());
    // 95 % without a wish: the first round is a quarter.
    assert_eq!(curves(&larder, "")["groups"][0]["wanted"]["factor"], Value::Null);

    let advice = run(&["advise", &url, "--hit-ratio", "70%"], &[], b"");
    assert_eq!(advice.code, 0, "{}", advice.error);
    assert!(advice.text().contains("70.0 % need about 1."), "{}", advice.text());
    let never = run(&["advise"], &[("LARDER_URL", &url)], b"");
    let most = format!("At 8 times the size the hit ratio is {:.1} %: 95.0 % is out of reach.\n", 100.0 * policy[5]);
    assert!(never.text().ends_with(&most), "{}", never.text());
    let json = run(&["advise", "--url", &url, "--hit-ratio", "0.7", "--json"], &[], b"");
    let json: Value = serde_json::from_str(json.text()).unwrap();
    assert_eq!(json["groups"][0]["sizes"], group["sizes"]);
    assert_eq!(run(&["advise", &url, "--hit-ratio", "95"], &[], b"").code, 2);
    for query in ["?hit-ratio=95", "?ratio=0.5"] {
        let request = format!("GET /v1/what-if{query} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        assert_eq!(larder.http(&request).0, 400, "{query}");
    }
}

#[test]
fn what_ends_in_the_tier_ends_at_other_sizes() {
    let source = RedisServer::start();
    for key in ["changed", "deleted", "kept"] {
        source.command(&["SET", key, "v"]);
    }
    source.command(&["SET", "short", "v", "PX", "300"]);
    let larder = Larder::start(&["--source", &source.url(), "--max-keys", "100"]);
    let mut client = larder.client();
    let mut reads = |key: &str| (0..2).for_each(|_| drop(client.command(&["GET", key])));
    ["changed", "deleted", "kept", "short"].into_iter().for_each(&mut reads);
    source.command(&["SET", "changed", "w"]);
    crate::common::wait_until("the change to arrive", || {
        larder.client().command(&["LARDER.EXPLAIN", "changed"]) != Reply::nil()
            && larder.metric("larder_cache_entries{group=\"default\"}") <= 2.0
    });
    assert_eq!(larder.client().command(&["DEL", "deleted"]), Reply::Int(1));
    ["changed", "deleted", "kept", "short"].into_iter().for_each(&mut reads);
    // Two reads of each at first, of which one misses. Then: one of `changed` misses, both of the keys
    // that are gone miss unless their absence is remembered, none of `kept`.
    let group = curves(&larder, "")["groups"][0].clone();
    let own = group["hit_ratio"].as_f64().unwrap();
    for size in group["sizes"].as_array().unwrap() {
        assert_eq!(size["hit_ratio"].as_f64(), Some(own), "{group}");
        assert_eq!(size["lru_hit_ratio"].as_f64(), Some(own), "{group}");
    }
    assert_eq!(larder.client().command(&["FLUSHALL"]), Reply::ok());
    reads("kept");
    let after = curves(&larder, "")["groups"][0].clone();
    assert_eq!(after["sizes"][5]["hit_ratio"], after["hit_ratio"], "a flush empties all sizes: {after}");
}

/// Four rounds over 150 keys in a tier of 100: LRU has no hit, Larder's own policy has some.
#[test]
fn the_eviction_policy_can_be_chosen_and_its_name_is_true() {
    for (args, name, redis_name, has_hits) in [
        (&[][..], "s3fifo", "allkeys-lfu", true),
        (&["--eviction", "lru"], "lru", "allkeys-lru", false),
        (&["--eviction", "sieve"], "sieve", "allkeys-lru", false),
    ] {
        let larder = Larder::start(&[&["--source", "demo:", "--max-keys", "100"], args].concat());
        let mut client = larder.client();
        read(&mut client, 4, 150);
        let group = curves(&larder, "")["groups"][0].clone();
        assert_eq!(group["hit_ratio"].as_f64().unwrap() > 0.0, has_hits, "{name}: {group}");
        assert_eq!(group["sizes"][0]["hit_ratio"].as_f64().unwrap() > 0.0, has_hits, "{name}: {group}");
        // A read that comes while another thread looks at the curves is not simulated.
        let ratio = group["sizes"][2]["hit_ratio"].as_f64().unwrap();
        assert!((0.74..=0.76).contains(&ratio), "{name}: {group}");
        let policy = "maxmemory-policy";
        let shown = client.command(&["CONFIG", "GET", policy]);
        assert_eq!(shown, Reply::Array(Some(vec![Reply::bulk(policy), Reply::bulk(redis_name)])));
        // Tools that set what is set already go on; the policy of a running tier does not change.
        assert_eq!(client.command(&["CONFIG", "SET", policy, redis_name]), Reply::ok());
        let refused = client.command(&["CONFIG", "SET", policy, "noeviction"]);
        assert!(refused.error().ends_with("can't set immutable config"), "{refused:?}");
        for (section, line) in
            [("memory", format!("maxmemory_policy:{redis_name}")), ("larder", format!("larder_eviction:{name}"))]
        {
            let Reply::Bulk(Some(info)) = client.command(&["INFO", section]) else { panic!("INFO is text") };
            let info = String::from_utf8(info).unwrap();
            assert!(info.lines().any(|is| is == line), "{line} in {info}");
        }
    }
}
