//! In front of a Redis the data's identity is that Redis's: what is compared with it is asked of a
//! real redis-server. Larder's own facts carry its name.
use super::{
    common::{Client, RedisServer, Reply, wait_until},
    larder::{Larder, connect, expect, read_line, send, skip_until},
};
use std::collections::BTreeMap;

fn text(reply: Reply) -> String {
    match reply {
        Reply::Bulk(Some(text)) => String::from_utf8(text).unwrap(),
        other => panic!("not text: {other:?}"),
    }
}
fn info(client: &mut Client, sections: &[&str]) -> String {
    text(client.command(&[&["INFO"], sections].concat()))
}
#[track_caller]
fn field<'t>(info: &'t str, name: &str) -> &'t str {
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name} in {info}"))
}
/// The pairs of CONFIG GET or, without the connection's number, HELLO.
fn pairs(reply: Reply) -> BTreeMap<String, Reply> {
    let Reply::Array(Some(parts)) = reply else { panic!("no pairs: {reply:?}") };
    let pairs = parts.chunks(2).map(|pair| (text(pair[0].clone()), pair[1].clone()));
    pairs.filter(|(name, _)| name != "id").collect()
}
fn in_front(redis: &RedisServer, args: &[&str]) -> Larder {
    Larder::start(&[&["--threads", "2", "--source", &redis.url()], args].concat())
}

#[test]
fn info_is_the_redis_s_own_with_a_section_of_larder_s() {
    let redis = RedisServer::with(&["--maxmemory", "100mb", "--maxmemory-policy", "volatile-ttl"]);
    let larder = in_front(&redis, &["--max-memory", "64MiB"]);
    let (mut direct, mut through) = (redis.client(), larder.client());
    let (theirs, ours) = (info(&mut direct, &[]), info(&mut through, &[]));
    for name in
        ["redis_version", "run_id", "process_id", "tcp_port", "maxmemory", "maxmemory_policy", "role", "loading"]
    {
        assert_eq!(field(&ours, name), field(&theirs, name), "{name}");
    }
    let headings =
        |text: &str| text.lines().filter(|line| line.starts_with("# ")).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(headings(&ours), [headings(&theirs), vec!["# Larder".to_owned()]].concat());
    let (_, section) = ours.split_once("\r\n\r\n# Larder\r\n").expect("the last section");
    assert!(section.lines().all(|line| line.starts_with("larder_")), "{section}");
    assert_eq!(field(section, "larder_version"), env!("CARGO_PKG_VERSION"));
    assert_eq!(field(section, "larder_max_memory"), (64 << 20).to_string());
    assert_eq!(field(section, "larder_source_state"), "up");
    assert_eq!(field(section, "larder_connected_clients"), "1");
    // By name.
    assert_eq!(headings(&info(&mut through, &["larder"])), ["# Larder"]);
    assert_eq!(headings(&info(&mut through, &["memory"])), ["# Memory"]);
    assert_eq!(headings(&info(&mut through, &["LARDER", "cpu", "memory"])), ["# Memory", "# CPU", "# Larder"]);
    assert_eq!(headings(&info(&mut through, &["everything"])).last().unwrap(), "# Larder");
    assert_eq!(info(&mut through, &["nosuch"]), info(&mut direct, &["nosuch"]));
    // Within a transaction it is Redis's alone.
    assert_eq!(through.command(&["MULTI"]), Reply::ok());
    assert_eq!(through.command(&["INFO", "memory"]), Reply::Simple("QUEUED".into()));
    assert_eq!(through.command(&["INFO", "larder"]), Reply::Simple("QUEUED".into()));
    let Reply::Array(Some(replies)) = through.command(&["EXEC"]) else { panic!("no array") };
    assert_eq!(headings(&text(replies[0].clone())), ["# Memory"]);
    assert_eq!(headings(&text(replies[1].clone())), ["# Larder"]);
    // To RESP3 it is text of a format, and it stands in its place among other replies.
    let mut stream = connect(larder.redis);
    send(&mut stream, &["HELLO 3", "SET k v", "INFO cluster", "GET k"]);
    skip_until(&mut stream, b"+OK\r\n");
    expect(&mut stream, b"=34\r\ntxt:# Cluster\r\ncluster_enabled:0\r\n\r\n$1\r\nv\r\n");
}

#[test]
fn hello_tells_what_the_redis_is() {
    let (redis, master) = (RedisServer::start(), RedisServer::start());
    let larder = in_front(&redis, &[]);
    for version in [&["HELLO"][..], &["HELLO", "2"]] {
        assert_eq!(pairs(larder.client().command(version)), pairs(redis.command(version)));
    }
    // A replica says that it is one, to connections made from then on.
    redis.command(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    let replica = in_front(&redis, &[]);
    assert_eq!(pairs(replica.client().command(&["HELLO"]))["role"], Reply::bulk("replica"));
    assert_eq!(field(&info(&mut replica.client(), &[]), "role"), "slave");
}

#[test]
fn a_redis_that_is_down_keeps_its_identity() {
    let mut redis = RedisServer::start();
    let larder = in_front(&redis, &["--source-timeout", "200ms"]);
    let before = (info(&mut redis.client(), &["server"]), pairs(redis.command(&["HELLO"])));
    let mut client = larder.client();
    assert_eq!(pairs(client.command(&["HELLO"])), before.1);
    // Frozen: no client waits for it to say who it is.
    redis.stop();
    assert_eq!(pairs(larder.client().command(&["HELLO"])), before.1);
    let frozen = info(&mut client, &[]);
    assert_eq!(field(&frozen, "redis_version"), field(&before.0, "redis_version"));
    redis.cont();
    redis.kill();
    wait_until("it to be found down", || field(&info(&mut client, &["larder"]), "larder_source_state") == "down");
    assert_eq!(pairs(larder.client().command(&["HELLO"])), before.1);
    let down = info(&mut client, &[]);
    for name in ["redis_version", "run_id", "redis_mode"] {
        assert_eq!(field(&down, name), field(&before.0, name), "{name}");
    }
    assert_eq!((field(&down, "loading"), field(&down, "role")), ("0", "master"));
    assert_ne!(field(&down, "larder_source_last_error"), "");
    assert!(info(&mut client, &["server"]).contains("larder_source_state:down"));
    // One that was never reached.
    let unknown = in_front(&redis, &["--source-timeout", "200ms"]);
    assert_eq!(pairs(unknown.client().command(&["HELLO"]))["version"], Reply::bulk("6.0.0"));
    let unknown = info(&mut unknown.client(), &[]);
    assert_eq!((field(&unknown, "redis_version"), field(&unknown, "larder_source_state")), ("6.0.0", "down"));
    // It comes back as itself.
    redis.restart();
    let after = info(&mut redis.client(), &["server"]);
    wait_until("it to be found again", || {
        let text = info(&mut client, &[]);
        field(&text, "run_id") == field(&after, "run_id") && field(&text, "larder_source_state") == "up"
    });
}

#[test]
fn a_redis_that_does_not_show_larder_its_info_still_has_a_version() {
    let redis = RedisServer::start();
    redis.command(&["ACL", "SETUSER", "larder", "on", ">pw", "~*", "&*", "+@all", "-info"]);
    let larder =
        Larder::start(&["--threads", "1", "--source", &format!("redis://larder:pw@127.0.0.1:{}", redis.port())]);
    let ours = info(&mut larder.client(), &[]);
    let version = pairs(redis.command(&["HELLO"]))["version"].clone();
    assert_eq!(Reply::bulk(field(&ours, "redis_version")), version);
    assert_eq!(field(&ours, "larder_source_state"), "up");
    // A client that logs in as what Larder is there needs no connection of its own; as another user it
    // sees what that one may see.
    let mut client = larder.client();
    assert_eq!(client.command(&["AUTH", "larder", "pw"]), Reply::ok());
    assert_eq!(client.command(&["AUTH", "default", "any"]), Reply::ok());
    assert_ne!(field(&info(&mut client, &["server"]), "run_id"), "");
}

#[test]
fn parameters_are_the_redis_s_and_larder_s_carry_its_name() {
    let redis = RedisServer::start();
    let larder = in_front(&redis, &["--max-memory", "64MiB", "--password", "sesame", "--forward-admin"]);
    let (mut direct, mut through) = (redis.client(), larder.client());
    assert_eq!(through.command(&["AUTH", "sesame"]), Reply::ok());
    for patterns in
        [&["maxmemory"][..], &["*max-*-entries*", "maxmemory", "timeout"], &["port", "bind", "loglevel"], &["nosuch"]]
    {
        let command = [&["CONFIG", "GET"], patterns].concat();
        assert_eq!(pairs(through.command(&command)), pairs(direct.command(&command)), "{patterns:?}");
    }
    // Of Redis.
    assert_eq!(through.command(&["CONFIG", "SET", "timeout", "70", "maxmemory", "50mb"]), Reply::ok());
    let set = pairs(direct.command(&["CONFIG", "GET", "timeout", "maxmemory"]));
    assert_eq!((&set["timeout"], &set["maxmemory"]), (&Reply::bulk("70"), &Reply::bulk("52428800")));
    // Of both, but no secret.
    let all = pairs(through.command(&["CONFIG", "GET", "*"]));
    let theirs = pairs(direct.command(&["CONFIG", "GET", "*"]));
    let (ours, rest): (BTreeMap<_, _>, _) = all.into_iter().partition(|(name, _)| name.starts_with("larder-"));
    assert_eq!(rest, theirs);
    assert_eq!(ours["larder-max-memory"], Reply::bulk("64MiB"));
    assert_eq!(ours["larder-source"], Reply::bulk(format!("{}/0", redis.url())));
    assert!(!ours.contains_key("larder-password") && ours.len() > 20, "{ours:?}");
    // Of Larder.
    let some = pairs(through.command(&["CONFIG", "GET", "LARDER-MAX-*", "larder-ttl"]));
    assert!(some.keys().all(|name| name.starts_with("larder-max-") || name == "larder-ttl"), "{some:?}");
    assert_eq!((&some["larder-ttl"], &some["larder-max-value"]), (&Reply::bulk("none"), &Reply::bulk("512MiB")));
    assert_eq!(
        through.command(&["CONFIG", "SET", "larder-max-memory", "32MiB", "larder-log-level", "error"]),
        Reply::ok()
    );
    assert_eq!(
        pairs(through.command(&["CONFIG", "GET", "larder-max-memory"]))["larder-max-memory"],
        Reply::bulk("32MiB")
    );
    assert_eq!(field(&info(&mut through, &["larder"]), "larder_max_memory"), (32 << 20).to_string());
    for (command, says) in [
        (&["larder-max-memory", "1kB"][..], "must be at least 1MiB"),
        (&["larder-max-memory", "1m"], "ambiguous"),
        (&["larder-max-memory", "2MiB", "larder-max-memory", "2MiB"], "duplicate parameter"),
        (&["larder-log-level", "loud"], "must be one of"),
        (&["larder-max-memory", "2MiB", "larder-source", "none:"], "can't set immutable config"),
        (&["larder-nosuch", "1"], "Unknown option"),
        (&["larder-max-memory", "2MiB", "timeout", "1"], "use a command for each"),
        (&["nosuch", "1"], "Unknown option"),
    ] {
        let reply = through.command(&[&["CONFIG", "SET"], command].concat());
        assert!(reply.error().contains(says), "{command:?}: {reply:?}");
    }
    assert_eq!(
        pairs(through.command(&["CONFIG", "GET", "larder-max-memory"]))["larder-max-memory"],
        Reply::bulk("32MiB")
    );
    // Its type in RESP3 is a map.
    let mut stream = connect(larder.redis);
    send(&mut stream, &["HELLO 3 AUTH default sesame", "CONFIG GET *ax-connections", "CONFIG GET timeout"]);
    skip_until(&mut stream, b"*0\r\n");
    expect(&mut stream, b"%1\r\n$22\r\nlarder-max-connections\r\n");
    skip_until(&mut stream, b"%");
    expect(&mut stream, b"1\r\n$7\r\ntimeout\r\n$2\r\n70\r\n");
}

#[test]
fn the_counters_of_both_are_reset() {
    let redis = RedisServer::start();
    let larder = in_front(&redis, &[]);
    let mut client = larder.client();
    for _ in 0..3 {
        client.command(&["GET", "k"]);
        client.command(&["SET", "k", "v"]);
    }
    assert_ne!(redis.calls("set"), 0);
    assert_eq!(client.command(&["CONFIG", "RESETSTAT"]), Reply::ok());
    assert_eq!(redis.calls("set"), 0);
    let ours = info(&mut client, &["larder"]);
    assert_eq!((field(&ours, "larder_misses"), field(&ours, "larder_hits")), ("0", "0"));
}

#[test]
fn what_concerns_the_server_is_answered_by_it() {
    let redis = RedisServer::start();
    let larder = in_front(&redis, &["--forward-admin"]);
    let (mut direct, mut through) = (redis.client(), larder.client());
    for command in
        ["ROLE", "READONLY", "READWRITE", "CLUSTER INFO", "LASTSAVE", "CONFIG HELP", "COMMAND HELP", "MEMORY DOCTOR"]
    {
        let words: Vec<&str> = command.split(' ').collect();
        assert_eq!(through.command(&words), direct.command(&words), "{command}");
    }
    // So that a client that waits for the end of a save sees it.
    assert_eq!(through.command(&["DEBUG", "SLEEP", "0"]), Reply::ok());
    assert!(matches!(through.command(&["BGSAVE"]), Reply::Simple(_)));
    wait_until("the save to end", || field(&info(&mut through, &[]), "rdb_bgsave_in_progress") == "0");
    assert_ne!(field(&info(&mut through, &[]), "rdb_saves"), "0");
}

#[test]
fn a_transaction_that_was_watched_sends_no_unwatch() {
    let redis = RedisServer::start();
    let larder = in_front(&redis, &[]);
    let mut client = larder.client();
    for end in [&["EXEC"][..], &["SET", "k", "other"]] {
        assert_eq!(client.command(&["WATCH", "k"]), Reply::ok());
        assert_eq!(client.command(&["MULTI"]), Reply::ok());
        client.command(&["SET", "k", "v"]);
        if end != ["EXEC"] {
            redis.command(end);
        }
        let done = client.command(&["EXEC"]);
        assert_eq!(done == Reply::Array(None), end != ["EXEC"]);
    }
    assert_eq!(client.command(&["WATCH", "k"]), Reply::ok());
    assert_eq!(client.command(&["UNWATCH"]), Reply::ok());
    wait_until("the one that is needed", || redis.calls("unwatch") == 1);
}

#[test]
fn tracking_ends_with_any_redirect_that_there_is() {
    let redis = RedisServer::start();
    let larder = in_front(&redis, &[]);
    for port in [redis.port(), larder.redis] {
        let (mut first, mut second) = (Client::connect(port).unwrap(), Client::connect(port).unwrap());
        let id = second.command(&["CLIENT", "ID"]).int().to_string();
        assert_eq!(first.command(&["CLIENT", "TRACKING", "ON", "REDIRECT", &id]), Reply::ok());
        assert_eq!(first.command(&["CLIENT", "TRACKING", "OFF", "REDIRECT", &id]), Reply::ok());
        assert_eq!(first.command(&["CLIENT", "GETREDIR"]).int(), -1);
        assert_eq!(second.command(&["CLIENT", "TRACKING", "OFF", "REDIRECT", &id]), Reply::ok());
        let gone = second.command(&["CLIENT", "TRACKING", "OFF", "REDIRECT", "9999999"]);
        assert_eq!(gone.error(), "ERR The client ID you want redirect to does not exist");
    }
}

#[test]
fn monitor_shows_what_larder_answers_itself_too() {
    let redis = RedisServer::start();
    let larder = in_front(&redis, &[]);
    let mut client = larder.client();
    client.command(&["SET", "k", "v"]);
    client.command(&["GET", "k"]);
    let mut monitor = connect(larder.redis);
    send(&mut monitor, &["MONITOR"]);
    expect(&mut monitor, b"+OK\r\n");
    let hits = larder.metric("larder_cache_hits_total{group=\"default\"}");
    assert_eq!(client.command(&["GET", "k"]), Reply::bulk("v"));
    assert_eq!(larder.metric("larder_cache_hits_total{group=\"default\"}"), hits + 1.0, "a hit");
    skip_until(&mut monitor, b"] \"GET\" \"k\"\r\n");
    client.command(&[&b"PING"[..], b"a\"\\\n\x92"]);
    skip_until(&mut monitor, b"] \"PING\" \"a\\\"\\\\\\n\\x92\"\r\n");
    // Once only, what Redis shows.
    client.command(&["HSET", "h", "f", "v"]);
    client.command(&["ECHO", "end"]);
    skip_until(&mut monitor, b"] \"HSET\" \"h\" \"f\" \"v\"\r\n+");
    let mut line = read_line(&mut monitor);
    // Larder asks a quiet server with it.
    while line.ends_with(b"] \"PING\"") {
        line = read_line(&mut monitor);
    }
    assert!(line.ends_with(b"] \"ECHO\" \"end\""), "{}", line.escape_ascii());
}

#[track_caller]
fn says(reply: Reply, code: &str) {
    assert!(reply.error().starts_with(code), "{reply:?}");
}

#[test]
fn users_are_the_redis_s() {
    let redis = RedisServer::start();
    for user in [
        &["app", "on", ">right", "~app:*", "&*", "+@all"][..],
        &["reader", "on", "nopass", "~*", "+get", "+acl|whoami"],
    ] {
        assert_eq!(redis.command(&[&["ACL", "SETUSER"], user].concat()), Reply::ok());
    }
    let larder = in_front(&redis, &[]);
    for port in [redis.port(), larder.redis] {
        let mut client = Client::connect(port).unwrap();
        client.command(&["SET", "k", "v"]);
        client.command(&["GET", "k"]);
        says(client.command(&["AUTH", "any"]), "ERR AUTH <password> called without any password");
        says(client.command(&["AUTH", "app", "wrong"]), "WRONGPASS");
        says(client.command(&["AUTH", "nobody", "right"]), "WRONGPASS");
        assert_eq!(client.command(&["AUTH", "default", "any"]), Reply::ok());
        assert_eq!(client.command(&["ACL", "WHOAMI"]), Reply::bulk("default"));
        assert_eq!(client.command(&["AUTH", "app", "right"]), Reply::ok());
        assert_eq!(client.command(&["ACL", "WHOAMI"]), Reply::bulk("app"));
        assert!(text(client.command(&["CLIENT", "INFO"])).contains(" user=app "));
        // What it may do, Redis says, also of what Larder has a copy of.
        says(client.command(&["GET", "k"]), "NOPERM");
        assert_eq!(client.command(&["SET", "app:k", "v"]), Reply::ok());
        assert_eq!(client.command(&["GET", "app:k"]), Reply::bulk("v"));
        assert_eq!(client.command(&["MULTI"]), Reply::ok());
        says(client.command(&["FOO"]), "ERR unknown command");
        says(client.command(&["EXEC"]), "EXECABORT");
        assert!(matches!(client.command(&["SUBSCRIBE", "c"]), Reply::Array(Some(_))));
        assert!(matches!(client.command(&["UNSUBSCRIBE"]), Reply::Array(Some(_))));
        // A failed attempt changes nothing.
        says(client.command(&["AUTH", "app", "wrong"]), "WRONGPASS");
        assert_eq!(client.command(&["ACL", "WHOAMI"]), Reply::bulk("app"));
        assert_eq!(client.command(&["AUTH", "reader", "any"]), Reply::ok());
        assert_eq!(client.command(&["GET", "k"]), Reply::bulk("v"));
        says(client.command(&["SET", "k", "w"]), "NOPERM");
        says(client.command(&["SUBSCRIBE", "c"]), "NOPERM");
        // Back to the user that it was.
        assert_eq!(client.command(&["AUTH", "default", "any"]), Reply::ok());
        assert_eq!(client.command(&["ACL", "WHOAMI"]), Reply::bulk("default"));
        assert_eq!(client.command(&["SET", "k", "v"]), Reply::ok());
        // With HELLO, and killed by name.
        let mut other = Client::connect(port).unwrap();
        says(other.command(&["HELLO", "2", "AUTH", "app", "wrong", "SETNAME", "other"]), "WRONGPASS");
        assert_eq!(other.command(&["CLIENT", "GETNAME"]), Reply::nil());
        assert!(matches!(other.command(&["HELLO", "2", "AUTH", "app", "right", "SETNAME", "other"]), Reply::Array(_)));
        assert_eq!(other.command(&["CLIENT", "GETNAME"]), Reply::bulk("other"));
        assert_eq!(client.command(&["CLIENT", "KILL", "USER", "app"]).int(), 1);
        wait_until("it to be ended", || other.try_command(&["PING"]).is_err());
    }
}
