//! `auth = "passthrough"`: users of the Redis behind Larder log in with their own credentials, and
//! read copies only where that Redis's ACL lets them.
use super::{
    common::{Client, RedisServer, Reply, wait_until},
    larder::{Larder, connect},
};
use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

/// A Redis with users, and a value for each of them.
fn redis(users: &[&str]) -> RedisServer {
    let redis = RedisServer::start();
    let mut direct = redis.client();
    let default = "default reset on >root allkeys allchannels +@all";
    for user in users.iter().copied().chain(["larder on >l allkeys allchannels +@all", default]) {
        let rules: Vec<&str> = ["ACL", "SETUSER"].into_iter().chain(user.split(' ')).collect();
        assert_eq!(direct.command(&rules), Reply::ok(), "{user}");
    }
    for key in ["app:1", "other:1", "shared:1"] {
        assert_eq!(direct.command(&["SET", key, key]), Reply::ok());
    }
    assert_eq!(direct.command(&["HSET", "app:h", "f", "v"]), Reply::Int(1));
    assert_eq!(direct.command(&["HSET", "other:h", "f", "v"]), Reply::Int(1));
    redis
}
fn larder(redis: &RedisServer, more: &[&str]) -> Larder {
    let url = format!("redis://larder:l@127.0.0.1:{}", redis.port());
    Larder::start(&[&["--source", &url, "--auth", "passthrough", "--threads", "2"], more].concat())
}
fn log_in(mut client: Client, user: &str, password: &str) -> Client {
    assert_eq!(client.command(&["AUTH", user, password]), Reply::ok(), "{user}");
    client
}
/// One client of Larder, one of Redis, of the same user.
fn both(larder: &Larder, redis: &RedisServer, user: &str, password: &str) -> (Client, Client) {
    (log_in(larder.client(), user, password), log_in(redis.client(), user, password))
}
/// Larder refuses in its own words what Redis does not get to see.
fn same(ours: Reply, theirs: Reply, command: &[&str]) {
    match (&ours, &theirs) {
        (Reply::Error(ours), Reply::Error(theirs)) if ours.starts_with("NOPERM ") && theirs.starts_with("NOPERM ") => {}
        _ => assert_eq!(ours, theirs, "{command:?}"),
    }
}
/// The GETs that Redis has run.
fn gets(redis: &RedisServer) -> u64 {
    let mut direct = log_in(redis.client(), "default", "root");
    let Reply::Bulk(Some(info)) = direct.command(&["INFO", "commandstats"]) else { panic!("no text") };
    let info = String::from_utf8(info).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("cmdstat_get:calls="));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

const APP: &str = "app on >a resetchannels &news.* ~app:* %R~shared:* -@all +@read +@connection +set +hset +multi +exec +subscribe +unsubscribe +acl|whoami";
const OTHER: &str = "other on >o allkeys allchannels +@all";

#[test]
fn copies_are_for_those_whom_redis_lets_read_them() {
    let redis = redis(&[APP, OTHER]);
    let larder = larder(&redis, &[]);
    let mut nobody = larder.client();
    let mut nobody_direct = redis.client();
    for command in
        [&["GET", "app:1"][..], &["AUTH", "app", "wrong"], &["AUTH", "wrong"], &["HELLO", "3"], &["ACL", "WHOAMI"]]
    {
        let (ours, theirs) = (nobody.command(command), nobody_direct.command(command));
        assert!(matches!(&ours, Reply::Error(_)), "{command:?}: {ours:?}");
        // Newer servers write `HELLO <proto> AUTH` in their advice.
        let theirs = theirs.error().replace("HELLO <proto> AUTH", "HELLO AUTH");
        assert_eq!(ours.error(), theirs, "{command:?}");
    }
    // The other user fills the tier with what `app` may and may not read.
    let mut other = log_in(larder.client(), "other", "o");
    for key in ["app:1", "other:1", "shared:1"] {
        (0..2).for_each(|_| assert_eq!(other.command(&["GET", key]), Reply::bulk(key)));
    }
    (0..3).for_each(|_| assert_eq!(other.command(&["HGET", "other:h", "f"]), Reply::bulk("v")));
    let before = gets(&redis);
    let (mut app, mut direct) = both(&larder, &redis, "app", "a");
    for key in ["app:1", "shared:1"] {
        assert_eq!(app.command(&["GET", key]), Reply::bulk(key));
    }
    assert_eq!(gets(&redis), before, "hits of a restricted user ask Redis nothing");
    for command in [
        &["GET", "other:1"][..],
        &["MGET", "app:1", "other:1"],
        &["EXISTS", "other:1"],
        &["STRLEN", "other:1"],
        &["GETRANGE", "other:1", "0", "1"],
        &["HGET", "other:h", "f"],
        &["HGET", "app:h", "f"],
        &["HGETALL", "other:h"],
        &["TTL", "other:1"],
        &["TYPE", "other:1"],
        &["SET", "shared:1", "x"],
        &["SET", "app:2", "x"],
        &["DEL", "app:1"],
        &["GETDEL", "app:1"],
        &["FLUSHALL"],
        &["CONFIG", "GET", "maxmemory"],
        &["KEYS", "*"],
        &["PUBLISH", "news.1", "x"],
        &["ACL", "WHOAMI"],
        &["ACL", "LIST"],
        &["NOSUCH", "other:1"],
    ] {
        assert_eq!(app.command(command), direct.command(command), "{command:?}");
    }
    assert_eq!(app.command(&["GET", "app:2"]), Reply::bulk("x"), "its own write");
    // The tier holds it, and Redis says who may not have it, in its own log.
    let mut root = log_in(redis.client(), "default", "root");
    let log = format!("{:?}", root.command(&["ACL", "LOG"]));
    assert!(log.contains(&format!("{:?}", Reply::bulk("getdel"))), "{log}");
}

#[test]
fn changes_of_the_acl_hold_for_copies() {
    let redis = redis(&[APP, OTHER]);
    let larder = larder(&redis, &["--forward-admin"]);
    let mut app = log_in(larder.client(), "app", "a");
    let denied = |reply: Reply| matches!(reply, Reply::Error(text) if text.starts_with("NOPERM "));
    (0..2).for_each(|_| assert_eq!(app.command(&["GET", "app:1"]), Reply::bulk("app:1")));
    let mut root = log_in(redis.client(), "default", "root");
    // At Redis itself: within the age of a copy (`auth`).
    assert_eq!(root.command(&["ACL", "SETUSER", "app", "resetkeys", "~none:*"]), Reply::ok());
    wait_until("the key to be refused", || denied(app.command(&["GET", "app:1"])));
    assert_eq!(root.command(&["ACL", "SETUSER", "app", "~app:*", "-get"]), Reply::ok());
    wait_until("the other key to be allowed", || app.command(&["STRLEN", "app:1"]) == Reply::Int(5));
    assert!(denied(app.command(&["GET", "app:1"])));
    // By way of Larder: at once.
    let mut admin = log_in(larder.client(), "other", "o");
    assert_eq!(admin.command(&["ACL", "SETUSER", "app", "+get"]), Reply::ok());
    assert_eq!(app.command(&["GET", "app:1"]), Reply::bulk("app:1"));
    for _ in 0..3 {
        wait_until("hits to be allowed again", || {
            let before = gets(&redis);
            app.command(&["GET", "app:1"]) == Reply::bulk("app:1") && gets(&redis) == before
        });
        assert_eq!(admin.command(&["ACL", "SETUSER", "app", "-get"]), Reply::ok());
        assert!(denied(app.command(&["GET", "app:1"])));
        assert_eq!(admin.command(&["ACL", "SETUSER", "app", "+get"]), Reply::ok());
        assert_eq!(app.command(&["GET", "app:1"]), Reply::bulk("app:1"));
    }
    // The connections of a user that is gone end, and its password is none.
    assert_eq!(admin.command(&["ACL", "DELUSER", "app"]), Reply::Int(1));
    wait_until("the client to be gone", || app.try_command(&["PING"]).is_err());
    assert!(
        matches!(larder.client().command(&["AUTH", "app", "a"]), Reply::Error(text) if text.starts_with("WRONGPASS "))
    );
}

#[test]
fn a_user_that_is_deleted_through_larder_is_gone_at_once() {
    let redis = redis(&[APP, OTHER]);
    let larder = larder(&redis, &["--forward-admin", "--auth=passthrough:1h"]);
    let mut app = log_in(larder.client(), "app", "a");
    (0..2).for_each(|_| assert_eq!(app.command(&["GET", "app:1"]), Reply::bulk("app:1")));
    let mut admin = log_in(larder.client(), "other", "o");
    assert_eq!(admin.command(&["ACL", "DELUSER", "app"]), Reply::Int(1));
    assert_ne!(app.try_command(&["GET", "app:1"]).ok(), Some(Reply::bulk("app:1")), "a copy for a deleted user");
    assert!(
        matches!(larder.client().command(&["AUTH", "app", "a"]), Reply::Error(text) if text.starts_with("WRONGPASS "))
    );
}

#[test]
fn without_a_cache_of_rules_redis_decides_about_each_read() {
    let redis = redis(&[APP]);
    let larder = larder(&redis, &["--auth=passthrough:0s"]);
    let mut app = log_in(larder.client(), "app", "a");
    let mut root = log_in(redis.client(), "default", "root");
    for _ in 0..20 {
        assert_eq!(app.command(&["GET", "app:1"]), Reply::bulk("app:1"));
        assert_eq!(root.command(&["ACL", "SETUSER", "app", "resetkeys"]), Reply::ok());
        assert!(matches!(app.command(&["GET", "app:1"]), Reply::Error(text) if text.starts_with("NOPERM ")));
        assert_eq!(root.command(&["ACL", "SETUSER", "app", "~app:*"]), Reply::ok());
    }
}

/// Larder's own user may not ask for rules: then every command goes to Redis as its user.
#[test]
fn a_redis_that_tells_nothing_is_asked_each_time() {
    let redis = redis(&[APP]);
    let mut root = log_in(redis.client(), "default", "root");
    assert_eq!(root.command(&["ACL", "SETUSER", "larder", "-acl"]), Reply::ok());
    let larder = larder(&redis, &[]);
    let (mut app, mut direct) = both(&larder, &redis, "app", "a");
    for command in
        [&["GET", "app:1"][..], &["GET", "other:1"], &["MGET", "app:1", "shared:1"], &["DEL", "app:1"], &["PING"]]
    {
        (0..3).for_each(|_| assert_eq!(app.command(command), direct.command(command), "{command:?}"));
    }
}

/// Commands that Larder runs itself are not Redis's to refuse: without rules, those for
/// administrators are refused here.
#[test]
fn commands_of_larder_need_rules_that_are_known() {
    let redis = redis(&[APP, OTHER]);
    let mut root = log_in(redis.client(), "default", "root");
    assert_eq!(root.command(&["ACL", "SETUSER", "larder", "-acl"]), Reply::ok());
    let commands: [&[&str]; 8] = [
        &["CONFIG", "GET", "*"],
        &["CLIENT", "LIST"],
        &["CLIENT", "KILL", "ID", "1"],
        &["CLIENT", "PAUSE", "1"],
        &["MONITOR"],
        &["LARDER.EXPLAIN", "app:1"],
        &["LARDER.TAG", "app:1", "t"],
        &["LARDER.CLEARTAG", "t"],
    ];
    for cache in ["200ms", "0s"] {
        let larder = larder(&redis, &[&format!("--auth=passthrough:{cache}")]);
        for (user, password) in [("app", "a"), ("other", "o")] {
            let mut client = log_in(larder.client(), user, password);
            for command in commands {
                let reply = client.command(command);
                let says = format!("NOPERM User {user} cannot run '");
                let is_refused =
                    matches!(&reply, Reply::Error(text) if text.starts_with(&says) || text.starts_with("NOPERM User"));
                assert!(is_refused, "{command:?}: {reply:?}");
            }
            // In a transaction Redis runs its own commands of these names, as the user.
            for command in commands.iter().filter(|command| user == "app" || command[0].starts_with("LARDER")) {
                assert_eq!(client.command(&["MULTI"]), Reply::ok());
                client.command(command);
                assert!(matches!(client.command(&["EXEC"]), Reply::Error(_)), "{command:?}");
            }
            let explain = client.command(&["LARDER.EXPLAIN", "app:1"]);
            assert!(explain.error().contains("+acl|getuser"), "{explain:?}");
            for command in [&["PING"][..], &["CLIENT", "ID"], &["CLIENT", "SETNAME", "n"], &["GET", "app:1"]] {
                assert!(!matches!(client.command(command), Reply::Error(_)), "{command:?}");
            }
        }
    }
    // Rules that are known decide, however old they are.
    assert_eq!(root.command(&["ACL", "SETUSER", "larder", "+@all"]), Reply::ok());
    let larder = larder(&redis, &["--auth=passthrough:0s"]);
    let mut other = log_in(larder.client(), "other", "o");
    assert!(matches!(other.command(&["CLIENT", "LIST"]), Reply::Bulk(Some(_))));
    let mut app = log_in(larder.client(), "app", "a");
    let monitor = app.command(&["MONITOR"]);
    assert!(monitor.error().contains("no permissions to run the 'monitor' command"), "{monitor:?}");
}

#[test]
fn who_does_not_log_in_is_default() {
    let redis = redis(&[APP]);
    let mut admin = log_in(redis.client(), "larder", "l");
    let mut changed = |rules: &str| {
        let rules: Vec<&str> = ["ACL", "SETUSER", "default"].into_iter().chain(rules.split(' ')).collect();
        assert_eq!(admin.command(&rules), Reply::ok());
    };
    changed("reset on nopass ~shared:* -@all +get +auth +hello +reset +ping");
    let larder = larder(&redis, &[]);
    let (mut ours, mut theirs) = (larder.client(), redis.client());
    for command in [
        &["GET", "shared:1"][..],
        &["GET", "app:1"],
        &["SET", "shared:1", "x"],
        &["AUTH", "app", "a"],
        &["GET", "app:1"],
        &["ACL", "WHOAMI"],
        &["RESET"],
        &["GET", "app:1"],
        &["GET", "shared:1"],
        &["AUTH", "app", "no"],
        &["GET", "shared:1"],
    ] {
        assert_eq!(ours.command(command), theirs.command(command), "{command:?}");
    }
    changed(">secret");
    wait_until(
        "a password to be wanted",
        || matches!(larder.client().command(&["GET", "shared:1"]), Reply::Error(text) if text.starts_with("NOAUTH ")),
    );
}

#[test]
fn transactions_subscriptions_and_other_databases_are_the_users_own() {
    let redis = redis(&[APP, OTHER]);
    let larder = larder(&redis, &[]);
    let (mut app, mut direct) = both(&larder, &redis, "app", "a");
    for command in [
        &["MULTI"][..],
        &["SET", "app:3", "1"],
        &["GET", "app:3"],
        &["EXEC"],
        &["MULTI"],
        &["GET", "other:1"],
        &["EXEC"],
        &["SUBSCRIBE", "secret"],
        &["SELECT", "1"],
        &["GET", "app:1"],
        &["GET", "other:1"],
        &["SELECT", "0"],
        &["GET", "app:1"],
        &["GET", "other:1"],
        &["SUBSCRIBE", "news.1"],
    ] {
        same(app.command(command), direct.command(command), command);
    }
    let mut other = log_in(larder.client(), "other", "o");
    assert_eq!(other.command(&["PUBLISH", "news.1", "hello"]), Reply::Int(2));
    assert_eq!(app.read().unwrap(), direct.read().unwrap());
}

/// `Authorization: Basic` with the users of Redis: on one connection, so that the fast path knows
/// the user, and each on its own.
#[test]
fn users_of_redis_log_in_over_http() {
    let redis = redis(&[APP, OTHER]);
    for cache in ["200ms", "0s"] {
        let larder = larder(&redis, &[&format!("--auth=passthrough:{cache}")]);
        let ask = |method: &str, key: &str, credentials: &str, body: &str| {
            let length = body.len();
            let (status, ..) = larder.http(&format!(
                "{method} /v1/kv/{key} HTTP/1.1\r\nhost: x\r\n{credentials}connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
            ));
            status
        };
        let [app, other, wrong, bearer] = ["Basic YXBwOmE=", "Basic b3RoZXI6bw==", "Basic YXBwOndyb25n", "Bearer a"]
            .map(|value| format!("authorization: {value}\r\n"));
        for (method, key, credentials, status) in [
            ("GET", "app:1", "", 401),
            ("GET", "app:1", &*wrong, 401),
            ("GET", "app:1", &*bearer, 401),
            ("GET", "other:1", &*other, 200),
            ("GET", "app:1", &*app, 200),
            ("GET", "other:1", &*app, 403),
            ("PUT", "app:9", &*app, 204),
            ("PUT", "shared:1", &*app, 403),
            ("DELETE", "app:9", &*app, 403),
            ("DELETE", "app:9", &*other, 204),
        ] {
            let got = ask(method, key, credentials, "v");
            // Whether a key was there is not the question here.
            assert!(got == status || (status, got) == (204, 201), "{cache}: {method} {key} {credentials:?}: {got}");
        }
        let (status, ..) = larder.http("GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        assert_eq!(status, 200);
        let mut stream = connect(larder.http);
        let mut get = |key: &str, credentials: &str| {
            stream.write_all(format!("GET /v1/kv/{key} HTTP/1.1\r\nhost: x\r\n{credentials}\r\n").as_bytes()).unwrap();
            let head = String::from_utf8(read_head(&mut stream)).unwrap();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            let mut body = vec![0; length.parse().unwrap()];
            stream.read_exact(&mut body).unwrap();
            head.split(' ').nth(1).unwrap().parse::<u16>().unwrap()
        };
        for _ in 0..3 {
            for (key, credentials, status) in [
                ("app:1", &app, 200),
                ("app:1", &app, 200),
                ("other:1", &app, 403),
                ("other:1", &other, 200),
                ("app:1", &wrong, 401),
            ] {
                assert_eq!(get(key, credentials), status, "{cache}: {key} {credentials}");
            }
        }
        let mut root = log_in(redis.client(), "default", "root");
        assert_eq!(root.command(&["ACL", "SETUSER", "app", "resetkeys"]), Reply::ok());
        wait_until("the key to be refused", || get("app:1", &app) == 403);
        assert_eq!(root.command(&["ACL", "SETUSER", "app", "~app:*", "%R~shared:*"]), Reply::ok());
        wait_until("the key to be allowed", || get("app:1", &app) == 200);
    }
}

fn read_head(stream: &mut TcpStream) -> Vec<u8> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    head.to_ascii_lowercase()
}

/// Every user and password of its own connection in turn, on one connection of a client.
#[test]
fn a_connection_changes_its_user() {
    let redis = redis(&[APP, OTHER]);
    let larder = larder(&redis, &[]);
    let (mut ours, mut theirs) = (larder.client(), redis.client());
    for _ in 0..3 {
        for command in [
            &["AUTH", "other", "o"][..],
            &["GET", "other:1"],
            &["WATCH", "other:1"],
            &["AUTH", "app", "a"],
            &["GET", "other:1"],
            &["GET", "app:1"],
            &["UNWATCH"],
            &["GET", "other:1"],
            &["AUTH", "root"],
            &["GET", "other:1"],
            &["ACL", "WHOAMI"],
            &["HELLO", "2", "AUTH", "app", "a"],
            &["AUTH", "other", "wrong"],
            &["GET", "other:1"],
            &["ACL", "WHOAMI"],
        ] {
            let (ours, theirs) = (ours.command(command), theirs.command(command));
            match command[0] {
                "HELLO" => assert!(matches!(ours, Reply::Array(_))),
                _ => same(ours, theirs, command),
            }
        }
    }
}

/// Logins, RESET and reads in any order answer like Redis, and the connection stays open. A reload of
/// Larder's own users between them changes nothing.
#[test]
fn a_connection_that_is_reset_logs_in_again() {
    let redis = redis(&[APP, OTHER]);
    let larder = larder(&redis, &["--forward-admin"]);
    let mut random = fastrand::Rng::with_seed(40);
    let commands = [
        &["AUTH", "app", "a"][..],
        &["AUTH", "other", "o"],
        &["RESET"],
        &["RESET"],
        &["GET", "app:1"],
        &["GET", "other:1"],
        &["WATCH", "app:1"],
        &["ACL", "WHOAMI"],
    ];
    for round in 0..20 {
        let (mut ours, mut theirs) = (larder.client(), redis.client());
        let begin = [commands[0], commands[2], commands[0], commands[4], commands[2]].into_iter();
        let more = (0..20).map(|_| *random.choice(&commands).unwrap());
        for command in begin.chain(more) {
            let answer = ours.try_command(command).unwrap_or_else(|error| panic!("{round}, {command:?}: {error}"));
            same(answer, theirs.command(command), command);
            if command == ["RESET"] && round % 2 == 1 {
                larder.signal(rustix::process::Signal::HUP);
            }
        }
    }
}

/// A flood of wrong passwords does not reach Redis.
#[test]
fn failed_logins_are_throttled_before_redis_sees_them() {
    let redis = redis(&[APP]);
    let larder = larder(&redis, &[]);
    let connections = || {
        let Reply::Bulk(Some(info)) = log_in(redis.client(), "default", "root").command(&["INFO", "stats"]) else {
            panic!("no text")
        };
        let info = String::from_utf8(info).unwrap();
        let line = info.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
        line.unwrap().parse::<u64>().unwrap()
    };
    let mut client = larder.client();
    wait_until(
        "the address to have to wait",
        || matches!(client.command(&["AUTH", "app", "wrong"]), Reply::Error(text) if text.contains("too many failed logins")),
    );
    let before = connections();
    (0..50).for_each(|_| assert!(matches!(client.command(&["AUTH", "app", "wrong"]), Reply::Error(_))));
    assert!(connections() < before + 10, "wrong passwords are passed on");
}

/// Random rules and random commands: a client of Larder gets what a client of Redis gets, from
/// memory or not.
#[test]
fn random_rules_give_the_answers_of_redis() {
    let redis = redis(&[OTHER]);
    let larder = larder(&redis, &["--forward-admin", "--cache-replies", "64KiB"]);
    let mut admin = log_in(larder.client(), "other", "o");
    let mut random = fastrand::Rng::with_seed(9);
    let keys = ["app:1", "other:1", "shared:1", "app:h", "other:h", "app:none", "x"];
    let rules = [
        "~app:*",
        "~*:1",
        "%R~other:*",
        "%W~shared:*",
        "~app:h",
        "allkeys",
        "resetkeys",
        "+get",
        "-get",
        "+@read",
        "-@read",
        "+@hash",
        "-@hash",
        "+@all",
        "-@all",
        "+mget",
        "+@string",
        "-@dangerous",
        "+@write",
        "-set",
        "(~other:* +get)",
        "(%R~shared:* +@read)",
        "clearselectors",
        "+@connection",
        "+acl|whoami",
        "-acl",
        "+strlen",
        "+@fast",
        "-@slow",
        "+hget",
    ];
    let (mut refused, mut answered) = (0, 0);
    for round in 0..40 {
        let mut set: Vec<String> = ["ACL", "SETUSER", "app", "reset", "on", ">a", "+auth"].map(String::from).into();
        set.extend((0..random.usize(1..7)).map(|_| (*random.choice(&rules).unwrap()).to_owned()));
        assert_eq!(admin.command(&set), Reply::ok(), "{set:?}");
        let (mut ours, mut theirs) = both(&larder, &redis, "app", "a");
        for _ in 0..25 {
            let mut key = || *random.choice(&keys).unwrap();
            let commands: [Vec<&str>; 12] = [
                vec!["GET", key()],
                vec!["GET", key()],
                vec!["MGET", key(), key()],
                vec!["STRLEN", key()],
                vec!["EXISTS", key(), key()],
                vec!["HGET", key(), "f"],
                vec!["HGETALL", key()],
                vec!["GETRANGE", key(), "0", "-1"],
                vec!["TYPE", key()],
                vec!["HLEN", key()],
                vec!["SMEMBERS", key()],
                vec!["SUBSTR", key(), "0", "1"],
            ];
            let command = random.choice(&commands).unwrap();
            // The second time a copy may answer.
            for _ in 0..3 {
                let (ours, theirs) = (ours.command(command), theirs.command(command));
                match &ours {
                    Reply::Error(text) if text.starts_with("NOPERM ") => refused += 1,
                    _ => answered += 1,
                }
                assert_eq!(ours, theirs, "{round}: {command:?} after {set:?}");
            }
        }
    }
    assert!(refused > 200 && answered > 200, "{refused} {answered}");
}
