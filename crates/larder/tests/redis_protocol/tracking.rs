//! CLIENT TRACKING at three doors: Redis itself, which shows that what is expected is what Redis
//! says; Larder in front of it; Larder alone, on two cores.
use super::{
    common::{Client, RedisServer, Reply, wait_until},
    larder::{Larder, connect, expect},
};
use std::{
    io::{Read, Write},
    net::TcpStream,
};

/// A connection that sends lines and knows exactly what must come.
struct Talk(TcpStream);
impl Talk {
    fn new(port: u16) -> Talk {
        Talk(connect(port))
    }
    fn resp3(port: u16) -> Talk {
        let mut talk = Talk::new(port);
        // What HELLO says differs.
        talk.send(&["HELLO 3", "PING hello-is-over"]);
        let mut read = Vec::new();
        while !read.ends_with(b"$13\r\nhello-is-over\r\n") {
            let mut byte = [0];
            talk.0.read_exact(&mut byte).unwrap();
            read.extend(byte);
        }
        talk
    }
    fn send(&mut self, lines: &[&str]) {
        self.0.write_all((lines.join("\r\n") + "\r\n").as_bytes()).unwrap();
    }
    /// Sends lines and expects all that comes back, blanks for line ends.
    #[track_caller]
    fn say(&mut self, lines: &[&str], reply: &str) {
        self.send(lines);
        self.hears(reply);
    }
    #[track_caller]
    fn hears(&mut self, reply: &str) {
        expect(&mut self.0, (reply.replace(' ', "\r\n") + "\r\n").as_bytes());
    }
    fn id(&mut self) -> String {
        self.send(&["CLIENT ID"]);
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte).unwrap();
            line.extend(byte);
        }
        String::from_utf8(line).unwrap().trim_matches([':', '\r', '\n']).to_owned()
    }
}

fn at_all_doors(script: impl Fn(u16)) {
    let redis = RedisServer::start();
    script(redis.port());
    redis.command(&["FLUSHALL"]);
    let before = Larder::start(&["--source", &redis.url(), "--threads", "2"]);
    // Each worker's own connection tracks as well, and is counted at Redis.
    let own = "larder_source_tracking_connections{group=\"default\"}";
    wait_until("both workers to track", || before.metric(own) == 2.0);
    script(before.redis);
    let alone = Larder::start(&["--threads", "2"]);
    script(alone.redis);
}

#[test]
fn broadcasts_name_only_keys_of_the_rules() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users.acl");
    let reader = "user reader on >r ~a:* &* +@all\nuser default on nopass ~* &* +@all\n";
    std::fs::write(&users, reader).unwrap();
    let users = format!("--users-file={}", users.display());
    let redis = RedisServer::start();
    let before = Larder::start(&[&users, "--source", &redis.url(), "--threads", "2"]);
    let alone = Larder::start(&[&users, "--threads", "2"]);
    for larder in [before, alone] {
        let mut reader = Talk::resp3(larder.redis);
        reader.say(&["AUTH reader r", "CLIENT TRACKING ON BCAST"], "+OK +OK");
        // One that is told by another's redirect may know other keys than the one that tracks.
        let mut all = Talk::resp3(larder.redis);
        let id = all.id();
        let mut redirected = Talk::resp3(larder.redis);
        redirected.say(&["AUTH reader r", &format!("CLIENT TRACKING ON BCAST REDIRECT {id}")], "+OK +OK");
        let mut writer = Talk::new(larder.redis);
        writer.say(&["SET b:1 x"], "+OK");
        all.hears(&changed("b:1"));
        writer.say(&["SET a:1 x"], "+OK");
        reader.hears(&changed("a:1"));
        all.hears(&changed("a:1"));
        writer.say(&["SET b:2 x", "DEL b:1"], "+OK :1");
        // New rules hold at once.
        writer.say(&["ACL SETUSER reader resetkeys ~c:*"], "+OK");
        writer.say(&["SET a:1 y", "SET c:1 x"], "+OK +OK");
        reader.hears(&changed("c:1"));
        writer.say(&["FLUSHALL"], "+OK");
        reader.hears(">2 $10 invalidate _");
    }
}

/// `>2 invalidate [key]`
fn changed(key: &str) -> String {
    format!(">2 $10 invalidate *1 ${} {key}", key.len())
}
/// The same to a subscriber of RESP2.
fn message(key: &str) -> String {
    format!("*3 $7 message $20 __redis__:invalidate *1 ${} {key}", key.len())
}

#[test]
fn what_was_read_is_told_once_when_it_changes() {
    at_all_doors(|port| {
        let (mut reader, mut writer) = (Talk::resp3(port), Talk::new(port));
        reader.say(&["CLIENT TRACKING ON", "GET a", "MGET b c", "GET d"], "+OK _ *2 _ _ _");
        for (command, reply, key) in [("SET a 1", "+OK", "a"), ("INCR b", ":1", "b"), ("APPEND c x", ":1", "c")] {
            writer.say(&[command, command], &format!("{reply} {}", reply.replace(":1", ":2")));
            reader.hears(&changed(key));
        }
        // Read again, it is told again; nothing came for the second of each.
        reader.say(&["GET a", "EXISTS b", "STRLEN c"], "$1 1 :1 :2");
        writer.say(&["EXPIRE a 100", "GETDEL b", "RENAME c e"], ":1 $1 2 +OK");
        for key in ["a", "b", "c"] {
            reader.hears(&changed(key));
        }
        writer.say(&["MSET x 1 y 2", "DEL nothing"], "+OK :0");
        reader.say(&["GET x", "GET nothing", "PING"], "$1 1 _ +PONG");
        writer.say(&["DEL nothing", "PEXPIRE x 1"], ":0 :1");
        // Told of EXPIRE, and not once more when it has expired.
        reader.hears(&changed("x"));
        reader.say(&["CLIENT TRACKING OFF", "GET y"], "+OK $1 2");
        writer.say(&["SET y 3"], "+OK");
        reader.say(&["PING"], "+PONG");
    });
}

#[test]
fn expiry_is_told() {
    at_all_doors(|port| {
        let mut reader = Talk::resp3(port);
        // Its own change is not told; and in one transaction the key cannot expire before it is read.
        reader.say(
            &["CLIENT TRACKING ON NOLOOP", "MULTI", "SET k v PX 200", "EXISTS k", "EXEC"],
            "+OK +OK +QUEUED +QUEUED *2 +OK :1",
        );
        reader.hears(&changed("k"));
        reader.say(&["GET k"], "_");
    });
}

#[test]
fn a_flush_is_told_to_everyone() {
    at_all_doors(|port| {
        let (mut reader, mut writer) = (Talk::resp3(port), Talk::new(port));
        reader.say(&["CLIENT TRACKING ON", "GET k"], "+OK _");
        writer.say(&["FLUSHALL"], "+OK");
        reader.hears(">2 $10 invalidate _");
        writer.say(&["FLUSHDB"], "+OK");
        reader.hears(">2 $10 invalidate _");
        writer.say(&["SET k 1"], "+OK");
        reader.say(&["PING"], "+PONG");
    });
}

#[test]
fn what_the_client_does_itself_is_told_behind_the_reply() {
    // Redis 7.0 sends it before the reply, later ones behind it: so only Larder alone is asked.
    let larder = Larder::start(&["--threads", "2"]);
    let mut client = Talk::resp3(larder.redis);
    let (a, b) = (changed("a"), changed("b"));
    client.say(&["CLIENT TRACKING ON", "GET a", "SET a 1", "PING"], &format!("+OK _ +OK {a} +PONG"));
    client.say(
        &["MULTI", "GET a", "GET b", "INCR a", "SET b 1", "EXEC"],
        &format!("+OK +QUEUED +QUEUED +QUEUED +QUEUED *4 $1 1 _ :2 +OK {a} {b}"),
    );
    client.say(&["CLIENT TRACKING ON NOLOOP", "GET a", "SET a 1", "GET a", "PING"], "+OK $1 2 +OK $1 1 +PONG");
    client.say(&["MULTI", "GET b", "SET b 2", "EXEC", "PING"], "+OK +QUEUED +QUEUED *2 $1 1 +OK +PONG");
    let mut other = Talk::new(larder.redis);
    other.say(&["SET a 5"], "+OK");
    client.hears(&a);
    client.say(&["GET a", "FLUSHALL", "PING"], "$1 5 +OK >2 $10 invalidate _ +PONG");
    client.say(&["CLIENT REPLY OFF", "GET a", "CLIENT REPLY ON"], "+OK");
    other.say(&["SET a 6"], "+OK");
    client.hears(&a);
}

#[test]
fn only_what_was_chosen_is_tracked() {
    at_all_doors(|port| {
        let (mut reader, mut writer) = (Talk::resp3(port), Talk::new(port));
        reader.say(&["CLIENT TRACKING ON OPTIN", "GET a", "CLIENT CACHING YES", "GET b", "GET c"], "+OK _ +OK _ _");
        writer.say(&["MSET a 1 b 1 c 1"], "+OK");
        reader.hears(&changed("b"));
        // For a whole transaction, as rueidis does.
        reader.say(
            &["CLIENT CACHING YES", "MULTI", "PTTL a", "GET a", "EXEC", "GET b"],
            "+OK +OK +QUEUED +QUEUED *2 :-1 $1 1 $1 1",
        );
        writer.say(&["MSET a 2 b 2"], "+OK");
        reader.hears(&changed("a"));
        reader.say(
            &["CLIENT TRACKING OFF", "CLIENT TRACKING ON OPTOUT", "GET a", "CLIENT CACHING NO", "GET b"],
            "+OK +OK $1 2 +OK $1 2",
        );
        writer.say(&["MSET b 3 a 3"], "+OK");
        reader.hears(&changed("a"));
        reader.say(&["PING"], "+PONG");
    });
}

#[test]
fn every_change_under_prefixes() {
    at_all_doors(|port| {
        let (mut reader, mut writer) = (Talk::resp3(port), Talk::new(port));
        reader.say(&["CLIENT TRACKING ON BCAST PREFIX a: PREFIX b:"], "+OK");
        writer.say(&["MSET a:2 x a:1 x c:1 x"], "+OK");
        reader.hears(">2 $10 invalidate *2 $3 a:1 $3 a:2");
        writer.say(&["DEL a:2 c:1"], ":2");
        reader.hears(&changed("a:2"));
        reader.say(&["GET c:1", "PING"], "_ +PONG");
        reader.say(&["CLIENT TRACKING ON BCAST PREFIX c:"], "+OK");
        writer.say(&["SET c:1 1"], "+OK");
        reader.hears(&changed("c:1"));
        writer.say(&["FLUSHALL"], "+OK");
        reader.hears(">2 $10 invalidate _");
    });
}

#[test]
fn invalidations_go_to_another_connection() {
    at_all_doors(|port| {
        let (mut reader, mut writer) = (Talk::new(port), Talk::new(port));
        let (mut target, mut target3) = (Talk::new(port), Talk::resp3(port));
        let (id, id3) = (target.id(), target3.id());
        reader.say(
            &[&format!("CLIENT TRACKING ON REDIRECT {id}"), "CLIENT GETREDIR", "GET k"],
            &format!("+OK :{id} $-1"),
        );
        // In RESP2 only a subscriber is told.
        writer.say(&["SET k 1"], "+OK");
        reader.say(&["GET k"], "$1 1");
        target.say(&["PING", "SUBSCRIBE __redis__:invalidate"], "+PONG *3 $9 subscribe $20 __redis__:invalidate :1");
        writer.say(&["SET k 2"], "+OK");
        target.hears(&message("k"));
        reader.say(&["GET k"], "$1 2");
        writer.say(&["FLUSHALL"], "+OK");
        target.hears("*3 $7 message $20 __redis__:invalidate $-1");
        reader.say(&["CLIENT TRACKINGINFO"], &format!("*6 $5 flags *1 $2 on $8 redirect :{id} $8 prefixes *0"));
        // To a client of RESP3, subscribed or not.
        reader.say(&[&format!("CLIENT TRACKING ON NOLOOP REDIRECT {id3}"), "GET k"], "+OK $-1");
        writer.say(&["SET k 3"], "+OK");
        target3.hears(&changed("k"));
        target.say(&["PING"], "*2 $4 pong $0 ");
        reader.say(&["CLIENT TRACKING OFF", "CLIENT GETREDIR"], "+OK :-1");
    });
}

#[test]
fn a_redirection_that_is_broken_is_told() {
    at_all_doors(|port| {
        let (mut reader, mut writer, mut target) = (Talk::resp3(port), Talk::new(port), Talk::resp3(port));
        let id = target.id();
        reader.say(&["CLIENT SETNAME r", &format!("CLIENT TRACKING ON REDIRECT {id}"), "GET k"], "+OK +OK _");
        target.say(&["QUIT"], "+OK");
        drop(target);
        // It is gone when CLIENT LIST says so.
        let mut admin = Client::connect(port).unwrap();
        wait_until("the target to be gone", || match admin.command(&["CLIENT", "LIST", "ID", &id]) {
            Reply::Bulk(Some(list)) => !list.starts_with(format!("id={id} ").as_bytes()),
            _ => true,
        });
        writer.say(&["SET k 1"], "+OK");
        reader.hears(&format!(">2 $21 tracking-redir-broken :{id}"));
        reader.say(
            &["CLIENT TRACKINGINFO"],
            &format!("%3 $5 flags ~2 $2 on $15 broken_redirect $8 redirect :{id} $8 prefixes *0"),
        );
        shows(port, "r", &format!("tR 0 0 0 {id}"));
    });
}

#[test]
fn mistakes_are_told_in_redis_s_words() {
    at_all_doors(|port| {
        let mut client = Client::connect(port).unwrap();
        let mut errs = |line: &str, wanted: &str| {
            let reply = client.command(&line.split(' ').collect::<Vec<_>>());
            match reply {
                Reply::Error(text) => assert_eq!(text, wanted, "{line}"),
                other => assert_eq!(wanted, "OK", "{line}: {other:?}"),
            }
        };
        errs(
            "CLIENT CACHING YES",
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
        );
        errs("CLIENT TRACKING maybe", "ERR syntax error");
        errs("CLIENT TRACKING ON REDIRECT", "ERR syntax error");
        errs("CLIENT TRACKING ON REDIRECT x", "ERR value is not an integer or out of range");
        errs("CLIENT TRACKING ON REDIRECT 123456789", "ERR The client ID you want redirect to does not exist");
        errs("CLIENT TRACKING ON PREFIX a", "ERR PREFIX option requires BCAST mode to be enabled");
        errs("CLIENT TRACKING ON BCAST OPTIN", "ERR OPTIN and OPTOUT are not compatible with BCAST");
        errs("CLIENT TRACKING ON OPTIN OPTOUT", "ERR You can't specify both OPTIN mode and OPTOUT mode");
        errs(
            "CLIENT TRACKING ON BCAST PREFIX fo PREFIX foo",
            "ERR Prefix 'fo' overlaps with another provided prefix 'foo'. Prefixes for a single client must not overlap.",
        );
        errs("CLIENT TRACKING ON OPTIN", "OK");
        errs("CLIENT CACHING NO", "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.");
        errs("CLIENT CACHING maybe", "ERR syntax error");
        errs(
            "CLIENT TRACKING ON OPTOUT",
            "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.",
        );
        errs(
            "CLIENT TRACKING ON BCAST",
            "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.",
        );
        errs("CLIENT TRACKING OFF", "OK");
        errs("CLIENT TRACKING ON BCAST PREFIX foo", "OK");
        errs(
            "CLIENT TRACKING ON BCAST PREFIX foobar",
            "ERR Prefix 'foobar' overlaps with an existing prefix 'foo'. Prefixes for a single client must not overlap.",
        );
    });
}

#[test]
fn every_way_to_change_a_key_is_told() {
    let larder = Larder::start(&["--threads", "2", "--max-memory", "2MiB"]);
    let http = |method: &str, path: &str, body: &str| {
        let len = body.len();
        larder
            .http(&format!(
                "{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len}\r\nconnection: close\r\n\r\n{body}"
            ))
            .0
    };
    let mut reader = Talk::resp3(larder.redis);
    reader.say(&["CLIENT TRACKING ON", "GET k"], "+OK _");
    assert_eq!(http("PUT", "/v1/kv/k", "v"), 201);
    reader.hears(&changed("k"));
    reader.say(&["GET k"], "$1 v");
    assert_eq!(http("DELETE", "/v1/kv/k", ""), 204);
    reader.hears(&changed("k"));
    reader.say(&["SET k v", "GET k"], "+OK $1 v");
    assert_eq!(http("DELETE", "/v1/groups/default", ""), 204);
    reader.hears(">2 $10 invalidate _");
    // Evicted for room, as what was looked for but never read.
    reader.say(&["SET k v", "EXISTS k"], "+OK :1");
    let mut writer = larder.client();
    let value = "x".repeat(10_000);
    // How many it takes depends on the hash's seed: mostly less than 500; one try of thirty needed
    // 3,000.
    for i in 0..10_000 {
        writer.command(&["SET", &format!("other{i}"), &value]);
    }
    reader.hears(&changed("k"));
    reader.say(&["GET k"], "_");
}

/// `flags sub psub ssub redir` of the client of this name.
#[track_caller]
fn shows(port: u16, name: &str, expected: &str) {
    let Reply::Bulk(Some(list)) = Client::connect(port).unwrap().command(&["CLIENT", "LIST"]) else { panic!("a list") };
    let list = String::from_utf8(list).unwrap();
    let line = list.lines().find(|line| line.contains(&format!(" name={name} "))).expect("it is listed");
    let fields = line.split(' ').filter_map(|field| field.split_once('='));
    let shown = fields.filter(|(field, _)| matches!(*field, "flags" | "sub" | "psub" | "ssub" | "redir"));
    assert_eq!(shown.map(|(_, value)| value).collect::<Vec<_>>().join(" "), expected);
}

#[test]
fn others_see_who_tracks_and_who_subscribes() {
    at_all_doors(|port| {
        let (mut one, mut target, mut other) = (Talk::resp3(port), Talk::resp3(port), Talk::new(port));
        let id = target.id();
        one.say(&["CLIENT SETNAME one", "CLIENT TRACKING ON"], "+OK +OK");
        shows(port, "one", "t 0 0 0 0");
        one.say(&["CLIENT TRACKING OFF", "CLIENT TRACKING ON BCAST PREFIX a"], "+OK +OK");
        shows(port, "one", "tB 0 0 0 0");
        one.say(&["CLIENT TRACKING OFF"], "+OK");
        shows(port, "one", "N 0 0 0 -1");
        one.say(&[&format!("CLIENT TRACKING ON REDIRECT {id}"), "MULTI"], "+OK +OK");
        shows(port, "one", &format!("xt 0 0 0 {id}"));
        one.say(&["RESET", "CLIENT SETNAME one"], "+RESET +OK");
        shows(port, "one", "N 0 0 0 -1");

        other.say(&["CLIENT SETNAME other", "SUBSCRIBE a b"], "+OK *3 $9 subscribe $1 a :1 *3 $9 subscribe $1 b :2");
        shows(port, "other", "P 2 0 0 -1");
        other.say(
            &["PSUBSCRIBE p* q*", "SSUBSCRIBE s"],
            "*3 $10 psubscribe $2 p* :3 *3 $10 psubscribe $2 q* :4 *3 $10 ssubscribe $1 s :1",
        );
        shows(port, "other", "P 2 2 1 -1");
        let mut admin = Client::connect(port).unwrap();
        let mut listed = |kind: &str| match admin.command(&["CLIENT", "LIST", "TYPE", kind]) {
            Reply::Bulk(Some(list)) => String::from_utf8(list).unwrap().contains(" name=other "),
            other => panic!("{other:?}"),
        };
        assert_eq!([listed("pubsub"), listed("normal"), listed("replica")], [true, false, false]);
        other.say(
            &["UNSUBSCRIBE a", "PUNSUBSCRIBE", "SUNSUBSCRIBE"],
            "*3 $11 unsubscribe $1 a :3 *3 $12 punsubscribe $2 p* :2 *3 $12 punsubscribe $2 q* :1 *3 $12 sunsubscribe $1 s :0",
        );
        shows(port, "other", "P 1 0 0 -1");
        other.say(&["UNSUBSCRIBE"], "*3 $11 unsubscribe $1 b :0");
        shows(port, "other", "N 0 0 0 -1");
        assert_eq!([listed("pubsub"), listed("normal")], [false, true]);
    });
}

#[test]
fn trackers_and_subscriptions_are_counted() {
    at_all_doors(|port| {
        let mut admin = Client::connect(port).unwrap();
        let mut count = |name: &str| number(&mut admin, name);
        // Larder's own, at Redis itself.
        let before = count("tracking_clients");
        let mut talks: Vec<Talk> = (0..3).map(|_| Talk::resp3(port)).collect();
        for talk in &mut talks {
            talk.say(&["CLIENT TRACKING ON BCAST"], "+OK");
        }
        assert_eq!(count("tracking_clients"), before + 3);
        talks[0].say(&["CLIENT TRACKING OFF"], "+OK");
        talks.pop();
        wait_until("one to be left", || count("tracking_clients") == before + 1);
    });
    let redis = RedisServer::start();
    for args in [vec!["--threads", "2"], vec!["--source", &redis.url()]] {
        let larder = Larder::start(&args);
        let (mut talk, mut writer) = (Talk::resp3(larder.redis), Talk::new(larder.redis));
        talk.say(&["CLIENT TRACKING ON", "GET k", "SUBSCRIBE c"], "+OK _ >3 $9 subscribe $1 c :1");
        writer.say(&["SET k 1", "PUBLISH c m", "DEL k"], "+OK :1 :1");
        talk.hears(">2 $10 invalidate *1 $1 k");
        talk.hears(">3 $7 message $1 c $1 m");
        let sent = ["clients", "invalidations_total"].map(|name| larder.metric(&format!("larder_tracking_{name}")));
        assert_eq!((sent, larder.metric("larder_pubsub_messages_total")), ([1.0, 1.0], 1.0), "{args:?}");
    }
    let larder = Larder::start(&["--threads", "2"]);
    let mut admin = larder.client();
    let mut counts = || {
        ["pubsub_channels", "pubsub_patterns", "pubsubshard_channels", "pubsub_clients"]
            .map(|name| number(&mut admin, name))
    };
    let mut talk = Talk::new(larder.redis);
    talk.send(&["SUBSCRIBE a b c", "PSUBSCRIBE p* q*", "SSUBSCRIBE s", "PING over"]);
    talk.hears("*3 $9 subscribe $1 a :1 *3 $9 subscribe $1 b :2 *3 $9 subscribe $1 c :3");
    talk.hears("*3 $10 psubscribe $2 p* :4 *3 $10 psubscribe $2 q* :5 *3 $10 ssubscribe $1 s :1 *2 $4 pong $4 over");
    assert_eq!(counts(), [3, 2, 1, 1]);
    let subscribed = ["channel", "pattern", "shard"].map(|kind| format!("larder_pubsub_subscribed{{kind=\"{kind}\"}}"));
    assert_eq!(subscribed.map(|name| larder.metric(&name)), [3.0, 2.0, 1.0]);
    drop(talk);
    wait_until("they are gone", || counts() == [0; 4]);
}

/// A number of INFO.
#[track_caller]
fn number(admin: &mut Client, name: &str) -> u64 {
    let Reply::Bulk(Some(info)) = admin.command(&["INFO"]) else { panic!("INFO is text") };
    let info = String::from_utf8(info).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name} in {info}")).parse::<u64>().unwrap()
}

#[test]
fn the_table_is_bounded_and_counted() {
    let larder = Larder::start(&["--threads", "2", "--tracking-table-max-keys", "10"]);
    let (mut first, mut second, mut admin) = (Talk::resp3(larder.redis), Talk::resp3(larder.redis), larder.client());
    let mut count = |name: &str| number(&mut admin, name);
    assert_eq!(count("tracking_clients"), 0);
    first.say(&["CLIENT TRACKING ON", "MGET 0 1 2 3 4 5 6 7 8 9"], "+OK *10 _ _ _ _ _ _ _ _ _ _");
    second.say(&["CLIENT TRACKING ON", "GET 1"], "+OK _");
    assert_eq!((count("tracking_clients"), count("tracking_total_keys"), count("tracking_total_items")), (2, 10, 11));
    // One more: one goes, and its clients are told.
    first.send(&["GET another"]);
    first.hears("_");
    first.hears(">2 $10 invalidate *1");
    assert_eq!(count("tracking_total_keys"), 10);
    let mut third = Talk::resp3(larder.redis);
    third.say(&["CLIENT TRACKING ON BCAST PREFIX a PREFIX b"], "+OK");
    assert_eq!(count("tracking_total_prefixes"), 2);
    drop((first, second, third));
    wait_until("the clients to be forgotten", || {
        let left = ["tracking_clients", "tracking_total_keys", "tracking_total_items", "tracking_total_prefixes"];
        left.map(&mut count) == [0; 4]
    });
}
