//! Whole replies that are kept, in front of a real Redis: which, for how long, and what ends them.
use super::{
    support::{Client, Redis, Server},
    upstream::setup,
};
use larder_config::Coherence;
use larder_core::read::Group;
use larder_source::{FillPolicy, KeyPolicy, invalidation_scope};
use larder_store::clock;
use std::{future::Future, rc::Rc, sync::Arc, time::Duration};

fn coherent() -> FillPolicy {
    FillPolicy {
        coherence: Coherence::Coherent,
        max_reply: 10_000,
        ..FillPolicy::from(KeyPolicy { negative_ttl: Some(60_000), ..KeyPolicy::default() })
    }
}

/// Runs a test with two workers on one tier in front of a Redis.
fn with_workers<F: Future<Output = ()>>(
    policy: FillPolicy,
    prefixes: &'static [&'static str],
    test: impl FnOnce(Redis, [Server; 2]) -> F,
) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default()).expect("a runtime");
    let policy = Arc::new(policy);
    runtime.block_on(async {
        let redis = Redis::start();
        let setup = setup(&redis);
        let first = Server::new(&[]);
        let second = Server::beside(&first.worker.groups.default().cache);
        let mut workers = [first, second];
        for server in &mut workers {
            let group = server.worker.groups.default();
            let watch =
                (policy.coherence == Coherence::Coherent).then(|| invalidation_scope(&group.cache, &policy, prefixes));
            let source = setup.open(watch, policy.keeps_replies());
            // Once it has answered, it has shaken hands.
            let group = Rc::new(Group { source, policy: policy.clone(), ..(**group).clone() });
            group.read(b"ready", clock::now()).await.expect("it answers");
            group.source.as_redis().expect("it is a Redis").commands().await.expect("it shows them");
            *server.worker.groups.default_mut() = group;
        }
        tokio::time::timeout(Duration::from_secs(60), test(redis, workers)).await.expect("it hangs");
    });
}

fn hits(client: &Client<'_>) -> u64 {
    client.server.worker.groups.default().cache.stats().derived_hits
}
/// Is the reply to this command kept, if it is asked for again and again?
async fn keeps(client: &mut Client<'_>, line: &str) -> bool {
    client.ask(line).await;
    let first = client.ask(line).await;
    let before = hits(client);
    let second = client.ask(line).await;
    let kept = hits(client) > before;
    assert!(!kept || first == second, "{line}: {first} then {second}");
    kept
}
/// Asks until the reply is this one: announcements take their time.
async fn until(client: &mut Client<'_>, line: &str, reply: &str) {
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    loop {
        let got = client.ask(line).await;
        if got == reply {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "{line}: still {got}");
        tokio::task::yield_now().await;
    }
}

const DATA: &[&str] = &[
    "SET s value",
    "HSET h a 1 b 2",
    "RPUSH l x y z",
    "SADD set only",
    "ZADD z 1 a 2.5 b",
    "XADD st 1-1 f v",
    "SETBIT bits 7 1",
    "PFADD hll a b",
    "GEOADD g 13.361389 38.115556 Palermo 15.087269 37.502669 Catania",
];

#[test]
fn replies_of_all_types_are_kept_as_redis_gives_them_in_both_protocols() {
    with_workers(coherent(), &[], |redis, workers| async move {
        let mut direct = redis.connect();
        DATA.iter().for_each(|line| drop(direct.say(line)));
        let mut clients: Vec<_> = workers.iter().map(Server::client).collect();
        for hello in ["HELLO 2", "HELLO 3", "HELLO 2"] {
            direct.say(hello);
            for client in &mut clients {
                client.ask(hello).await;
            }
            for line in [
                "HGET h a",
                "HGET h none",
                "HGETALL h",
                "HMGET h a c",
                "HLEN h",
                "HKEYS h",
                "HVALS h",
                "HEXISTS h a",
                "HSTRLEN h b",
                "LRANGE l 0 -1",
                "LINDEX l 1",
                "LINDEX l 9",
                "LLEN l",
                "LPOS l y",
                "SMEMBERS set",
                "SISMEMBER set only",
                "SMISMEMBER set only not",
                "SCARD set",
                "ZRANGE z 0 -1 WITHSCORES",
                "ZSCORE z b",
                "ZMSCORE z a q",
                "ZRANK z b",
                "ZCARD z",
                "ZCOUNT z 1 2",
                "ZRANGEBYSCORE z 1 +inf",
                "ZREVRANGE z 0 0",
                "ZLEXCOUNT z - +",
                "XRANGE st - +",
                "XLEN st",
                "XREVRANGE st + -",
                "GETBIT bits 7",
                "BITCOUNT bits",
                "BITPOS bits 1",
                "BITFIELD_RO bits GET u8 0",
                "GEOPOS g Palermo nobody",
                "GEODIST g Palermo Catania km",
                "GEOHASH g Palermo",
                "GEOSEARCH g FROMMEMBER Palermo BYRADIUS 200 km ASC WITHDIST",
                "GEORADIUS_RO g 15 37 200 km",
                "STRLEN s",
                "GETRANGE s 1 3",
                "TYPE h",
                "EXISTS l",
                "HGETALL missing",
                "HGET missing f",
                "LRANGE missing 0 -1",
                "SMEMBERS missing",
                "TYPE missing",
                "ZUNION 1 z",
            ] {
                let truth = direct.say(line);
                for client in &mut clients {
                    assert_eq!(client.ask(line).await, truth, "{hello} {line}");
                    assert_eq!(client.ask(line).await, truth, "{hello} {line}, again");
                    let before = hits(client);
                    assert_eq!(client.ask(line).await, truth, "{hello} {line}, kept");
                    assert_eq!(hits(client), before + 1, "{hello} {line} is kept");
                }
            }
        }
        // What one worker has fetched, the other has: by name in any case.
        let before = hits(&clients[0]);
        clients[1].ask("hGeTaLl h").await;
        assert_eq!(hits(&clients[0]), before + 1);
    });
}

#[test]
fn what_depends_on_time_chance_or_state_is_not_kept() {
    with_workers(coherent(), &[], |redis, [server, _other]| async move {
        let mut direct = redis.connect();
        DATA.iter().for_each(|line| drop(direct.say(line)));
        direct.say("XGROUP CREATE st group 0");
        direct.say("SCRIPT LOAD return(1)");
        let mut client = server.client();
        for line in [
            "TTL h",
            "PTTL h",
            "EXPIRETIME h",
            "PEXPIRETIME h",
            "RANDOMKEY",
            "SRANDMEMBER set",
            "SRANDMEMBER set 2",
            "HRANDFIELD h",
            "ZRANDMEMBER z 2 WITHSCORES",
            "OBJECT ENCODING h",
            "OBJECT IDLETIME h",
            "OBJECT FREQ h",
            "MEMORY USAGE h",
            "DUMP h",
            "TOUCH h",
            "SSCAN set 0",
            "HSCAN h 0",
            "ZSCAN z 0",
            "SCAN 0",
            "KEYS h",
            "XPENDING st group",
            "XINFO STREAM st",
            "XINFO GROUPS st",
            "PFCOUNT hll",
            "SORT_RO l ALPHA",
            "SORT l ALPHA",
            "SORT_RO l BY nosort GET w_*",
            "EVAL return(1) 1 h",
            "EVAL_RO return(redis.call('TIME')) 1 h",
            "XREAD COUNT 1 STREAMS st 0",
            "XREAD BLOCK 1 STREAMS st 0",
            "DBSIZE",
            "TIME",
            // Several keys, none, or wrong arguments.
            "EXISTS h l",
            "SINTER set set",
            "ZUNION 2 z z",
            "LCS s s",
            "MGET s s",
            "HGET h",
            "HGET h a b",
            "NOSUCH h",
            // Errors, and what writes.
            "HGET s a",
            "LRANGE l a b",
            "GETEX s",
            "HINCRBY h n 1",
            "LPOP nothing",
        ] {
            assert!(!keeps(&mut client, line).await, "{line}");
        }
        assert!(client.ask("HGET s a").await.starts_with("-WRONGTYPE Operation"));
        assert_eq!(client.ask("LRANGE l a b").await, "-ERR value is not an integer or out of range\r\n");
        let before = hits(&client);
        for line in
            ["MULTI", "HGET h a", "EXEC", "MULTI", "HGET h a", "EXEC", "WATCH h", "HGET h a", "HGET h a", "UNWATCH"]
        {
            client.ask(line).await;
        }
        assert_eq!(hits(&client), before, "in a transaction Redis is asked");
    });
}

#[test]
fn any_change_of_the_key_ends_all_replies_about_it_and_no_others() {
    with_workers(coherent(), &[], |redis, [server, other]| async move {
        let mut direct = redis.connect();
        direct.say("HSET h a 1 b 2");
        direct.say("HSET calm a 1");
        let (mut client, mut third) = (server.client(), other.client());
        client.ask("HELLO 3").await;
        for (round, change) in
            ["HSET h a 5", "EXPIRE h 1000", "DEL h", "HSET h a 9", "RENAME h gone", "FLUSHALL"].iter().enumerate()
        {
            for client in [&mut client, &mut third] {
                for line in ["HGET h a", "HGETALL h", "HLEN h", "HGET calm a"] {
                    client.ask(line).await;
                    assert!(keeps(client, line).await, "{line} in round {round}");
                }
            }
            direct.say(change);
            let told = direct.say("HGET h a").replace("$-1", "_");
            until(&mut client, "HGET h a", &told).await;
            until(&mut third, "HGET h a", &told.replace('_', "$-1")).await;
            let len = direct.say("HLEN h");
            for client in [&mut client, &mut third] {
                until(client, "HLEN h", &len).await;
            }
            if *change != "FLUSHALL" {
                let before = hits(&client);
                client.ask("HGET calm a").await;
                assert_eq!(hits(&client), before + 1, "round {round}: another key's replies stay");
            }
        }
        // Own writes, of any kind, are seen at once, by every client.
        for (write, read, reply) in [
            ("HSET h a 1", "HGET h a", "$1\r\n1\r\n"),
            ("HINCRBY h a 4", "HGET h a", "$1\r\n5\r\n"),
            ("EVAL return(redis.call('HSET',KEYS[1],'a',7)) 1 h", "HGET h a", "$1\r\n7\r\n"),
            ("SET h string", "STRLEN h", ":6\r\n"),
            ("DEL h", "EXISTS h", ":0\r\n"),
            ("SETBIT h 0 1", "BITCOUNT h", ":1\r\n"),
            ("FLUSHALL", "BITCOUNT h", ":0\r\n"),
        ] {
            third.ask(read).await;
            client.ask(write).await;
            assert_eq!(third.ask(read).await, reply, "{write}");
            assert_eq!(third.ask(read).await, reply, "{write}, kept");
        }
    });
}

#[test]
fn values_and_replies_of_one_key_do_not_get_in_each_other_s_way() {
    with_workers(coherent(), &[], |redis, [server, _other]| async move {
        redis.connect().say("SET s abc");
        let mut client = server.client();
        for _ in 0..3 {
            assert_eq!(client.ask("BITCOUNT s").await, ":10\r\n");
            assert_eq!(client.ask("GET s").await, "$3\r\nabc\r\n");
            assert_eq!(client.ask("TYPE s").await, "+string\r\n");
            assert_eq!(client.ask("STRLEN s").await, ":3\r\n");
        }
        redis.connect().say("HSET h f v");
        assert!(keeps(&mut client, "HGET h f").await);
        assert!(client.ask("GET h").await.starts_with("-WRONGTYPE"), "no reply is taken for a value");
        let cache = &server.worker.groups.default().cache;
        let mut seen = 0;
        cache.tier().scan(0, 1000, clock::now(), |_| seen += 1);
        assert!(seen <= 1, "replies are no entries");
    });
}

#[test]
fn replies_live_as_long_as_their_key_and_the_group_s_lifetimes() {
    with_workers(coherent(), &[], |redis, [server, _other]| async move {
        let mut direct = redis.connect();
        direct.say("HSET h f v");
        direct.say("PEXPIRE h 300000");
        let mut client = server.client();
        assert!(keeps(&mut client, "HGET h f").await);
        let before = hits(&client);
        client.now = Some(clock::now() + 299_000);
        client.ask("HGET h f").await;
        assert_eq!(hits(&client), before + 1);
        client.now = Some(clock::now() + 300_001);
        client.ask("HGET h f").await;
        assert_eq!(hits(&client), before + 1, "over with its key");
    });
    // An absence that is not remembered is not remembered in a reply either.
    with_workers(FillPolicy { freshness: Arc::default(), ..coherent() }, &[], |_redis, [server, _other]| async move {
        assert!(!keeps(&mut server.client(), "HGETALL missing").await);
    });
    // Mode ttl: however Redis changes, for as long as it says.
    let own = KeyPolicy { ttl: Some(60_000), ..coherent().of(b"") };
    let ttl = FillPolicy { coherence: Coherence::Ttl, max_reply: 10_000, ..own.into() };
    with_workers(ttl, &[], |redis, [server, _other]| async move {
        let mut direct = redis.connect();
        direct.say("HSET h f v");
        let mut client = server.client();
        for hello in ["HELLO 2", "HELLO 3"] {
            client.ask(hello).await;
            assert!(keeps(&mut client, "HGETALL h").await, "{hello}");
        }
        direct.say("HSET h f changed");
        assert!(client.ask("HGETALL h").await.ends_with("$1\r\nv\r\n"), "the copy");
        client.ask("HSET h f own").await;
        assert!(client.ask("HGETALL h").await.ends_with("$3\r\nown\r\n"));
    });
}

#[test]
fn what_is_too_large_or_not_wanted_is_not_kept() {
    let small = FillPolicy { max_reply: 200, ..coherent() };
    with_workers(small, &[], |redis, [server, _other]| async move {
        let mut direct = redis.connect();
        direct.call(&[b"HSET".to_vec(), b"h".to_vec(), b"large".to_vec(), vec![b'x'; 500]]);
        direct.say("HSET h small v");
        let mut client = server.client();
        assert!(!keeps(&mut client, "HGET h large").await);
        assert!(keeps(&mut client, "HGET h small").await, "beside it");
        let many = format!("HMGET h {}", vec!["field"; 50].join(" "));
        assert!(!keeps(&mut client, &many).await, "long arguments count, too");
        assert_eq!(client.ask("HGET h large").await.len(), 500 + 8);
    });
    for policy in [FillPolicy { max_reply: 0, ..coherent() }, FillPolicy { coherence: Coherence::Off, ..coherent() }] {
        with_workers(policy, &[], |redis, [server, _other]| async move {
            redis.connect().say("HSET h f v");
            assert!(!keeps(&mut server.client(), "HGET h f").await);
        });
    }
    with_workers(coherent(), &["h:"], |redis, [server, _other]| async move {
        let (mut direct, mut client) = (redis.connect(), server.client());
        for key in ["h:1", "x"] {
            direct.say(&format!("HSET {key} f v"));
            let line = format!("HGET {key} f");
            match key {
                // Each connection is told of the HSET, which may come late.
                "h:1" => while !keeps(&mut client, &line).await {},
                _ => assert!(!keeps(&mut client, &line).await, "only what is announced"),
            }
        }
        direct.say("HSET h:1 f new");
        until(&mut client, "HGET h:1 f", "$3\r\nnew\r\n").await;
    });
}

#[test]
fn concurrent_reads_of_a_reply_share_a_fetch() {
    with_workers(coherent(), &[], |redis, [server, other]| async move {
        let mut direct = redis.connect();
        direct.say("HSET h f v");
        direct.say("CONFIG RESETSTAT");
        let mut clients: Vec<_> = [&server, &other, &server, &other].into_iter().map(Server::client).collect();
        let [a, b, c, d] = clients.as_mut_slice() else { panic!("four") };
        a.ask("HGETALL h").await;
        tokio::join!(a.ask("HGETALL h"), b.ask("HGETALL h"), c.ask("HGETALL h"), d.ask("HGETALL h"));
        let stats = direct.say("INFO commandstats");
        assert!(stats.contains("cmdstat_hgetall:calls=2,"), "{stats}");
    });
}

#[test]
fn what_is_read_once_costs_redis_one_command() {
    with_workers(coherent(), &[], |redis, [server, other]| async move {
        let mut direct = redis.connect();
        for key in 0..300 {
            direct.say(&format!("HSET h{key} f {key}"));
        }
        direct.say("CONFIG RESETSTAT");
        let (mut client, mut second) = (server.client(), other.client());
        for key in 0..300 {
            assert_eq!(client.ask(&format!("HSTRLEN h{key} f")).await, direct.say(&format!("HSTRLEN h{key} f")));
        }
        let stats = direct.say("INFO commandstats");
        assert!(stats.contains("cmdstat_hstrlen:calls=600,") && !stats.contains("cmdstat_pttl"), "{stats}");
        // A second time, whichever worker is asked, they are fetched to be kept; other replies about their
        // keys at once.
        for key in 0..300 {
            second.ask(&format!("HSTRLEN h{key} f")).await;
            client.ask(&format!("HGETALL h{key}")).await;
        }
        let before = hits(&client);
        for key in 0..300 {
            client.ask(&format!("HSTRLEN h{key} f")).await;
            client.ask(&format!("HGETALL h{key}")).await;
        }
        assert_eq!(hits(&client) - before, 600);
        // After a change they are fetched again at once.
        direct.say("HSET h7 f changed");
        until(&mut client, "HSTRLEN h7 f", ":7\r\n").await;
        let before = hits(&client);
        client.ask("HSTRLEN h7 f").await;
        assert_eq!(hits(&client) - before, 1);
    });
}

#[test]
fn a_hash_of_many_fields_is_kept_field_by_field_within_the_bound() {
    with_workers(coherent(), &[], |redis, [server, other]| async move {
        let mut direct = redis.connect();
        let fields = 2000;
        for field in 0..fields {
            direct.say(&format!("HSET big f{field} value-of-{field}"));
        }
        let cache = server.worker.groups.default().cache.clone();
        let (mut client, mut second) = (server.client(), other.client());
        client.ask("HGET big f0").await;
        for round in 0..2 {
            for field in 0..fields {
                let asker = if field % 2 == round { &mut client } else { &mut second };
                asker.ask(&format!("HGET big f{field}")).await;
            }
        }
        assert_eq!(hits(&client), fields as u64, "the second round found all that the other worker had fetched");
        // What they occupy is bounded and evicted like everything else.
        let before = cache.stats();
        assert!(before.live_bytes > 2000 * 20, "{before:?}");
        cache.set_max_memory(before.used_bytes as usize - 60_000);
        while cache.shrink(clock::now()).is_some() {}
        let after = cache.stats();
        assert!(after.used_bytes <= after.max_bytes && after.evictions > 0, "{after:?}");
    });
}

/// From Redis 7.4 on; nothing to be tested with an older one.
#[test]
fn where_fields_of_hashes_expire_no_reply_about_hashes_is_kept() {
    with_workers(coherent(), &[], |redis, [server, _other]| async move {
        let (mut direct, mut client) = (redis.connect(), server.client());
        direct.say("HSET h f v g w");
        direct.say("RPUSH l x");
        for hello in ["HELLO 2", "HELLO 3"] {
            client.ask(hello).await;
            assert!(keeps(&mut client, "HGETALL h").await);
            assert!(keeps(&mut client, "EXISTS h").await);
        }
        if direct.say("HPEXPIRE h 100 FIELDS 1 f").starts_with("-ERR unknown command") {
            return;
        }
        until(&mut client, "HGET h f", "_\r\n").await;
        assert_eq!(client.ask("HGETALL h").await, "%1\r\n$1\r\ng\r\n$1\r\nw\r\n");
        direct.say("HPEXPIRE h 100000 FIELDS 1 g");
        while keeps(&mut client, "HGETALL h").await {}
        for line in ["HGET h g", "HLEN h", "TYPE h", "EXISTS h"] {
            assert!(!keeps(&mut client, line).await, "{line}");
        }
        assert!(keeps(&mut client, "LRANGE l 0 -1").await, "of other types they are");
        direct.say("HPERSIST h FIELDS 1 g");
        while !keeps(&mut client, "HGETALL h").await {}
    });
}
