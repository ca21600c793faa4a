//! Answers that are our own, or that a real server cannot be asked for.
use super::support::{Client, Server, words};
use larder_base::telemetry::CommandClass;
use larder_proto::resp::{Args, View, view};
use larder_source::ForwardRule;
use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}
/// The text of a bulk or verbatim reply.
fn text(reply: &[u8]) -> String {
    match view(reply) {
        Ok(View::Bulk(text)) => String::from_utf8(text.to_vec()).expect("text"),
        other => panic!("not text: {other:?}"),
    }
}
fn strings(reply: &[u8]) -> Vec<String> {
    match view(reply) {
        Ok(View::Array(values) | View::Set(values)) => values
            .map(|value| match value {
                View::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
                other => format!("{other:?}"),
            })
            .collect(),
        other => panic!("not an array: {other:?}"),
    }
}

#[test]
fn hello_in_both_protocols() {
    let server = Server::new(&[]);
    let mut client = server.client();
    let fields = |proto| {
        format!(
            "{}{}{}{}{}:{proto}\r\n{}:1\r\n{}{}{}{}{}*0\r\n",
            bulk("server"),
            bulk("redis"),
            bulk("version"),
            bulk("7.4.0"),
            bulk("proto"),
            bulk("id"),
            bulk("mode"),
            bulk("standalone"),
            bulk("role"),
            bulk("master"),
            bulk("modules"),
        )
    };
    assert_eq!(client.say("HELLO"), format!("*14\r\n{}", fields(2)));
    assert_eq!(client.say("HELLO 3"), format!("%7\r\n{}", fields(3)));
    assert_eq!(client.say("GET missing"), "_\r\n");
    assert_eq!(client.say("HELLO"), format!("%7\r\n{}", fields(3)), "stays");
    assert_eq!(client.say("HELLO 2 SETNAME me"), format!("*14\r\n{}", fields(2)));
    assert_eq!(client.say("CLIENT GETNAME"), bulk("me"));
    assert_eq!(client.say("GET missing"), "$-1\r\n");
    assert_eq!(client.say("HELLO 4"), "-NOPROTO unsupported protocol version\r\n");
    assert_eq!(client.say("HELLO 3 SETNAME"), "-ERR Syntax error in HELLO option 'SETNAME'\r\n");
    assert_eq!(client.say("HELLO 3 AUTH default"), "-ERR Syntax error in HELLO option 'AUTH'\r\n");
    // The protocol of a transaction's replies is that of the moment.
    client.say("MULTI");
    for line in ["GET missing", "HELLO 3", "GET missing"] {
        assert_eq!(client.say(line), "+QUEUED\r\n");
    }
    assert_eq!(client.say("EXEC"), format!("*3\r\n$-1\r\n%7\r\n{}_\r\n", fields(3)));
}

#[test]
fn a_password_comes_first() {
    let server = Server::new(&["--password", "secret"]);
    let mut client = server.client();
    for line in ["GET k", "PING", "CLIENT ID", "MULTI", "EXEC", "DISCARD"] {
        let refused = client.say(line);
        match line {
            "EXEC" => {
                assert_eq!(refused, "-EXECABORT Transaction discarded because of: NOAUTH Authentication required.\r\n")
            }
            _ => assert_eq!(refused, "-NOAUTH Authentication required.\r\n", "{line}"),
        }
    }
    assert!(client.say("NOSUCH").starts_with("-ERR unknown command"));
    assert!(client.say("GET").starts_with("-ERR wrong number"));
    assert!(client.say("HELLO 3").starts_with("-NOAUTH HELLO must be called"));
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    for line in ["AUTH wrong", "AUTH default wrong", "AUTH other secret", "HELLO 3 AUTH default wrong", "AUTH secre"] {
        assert_eq!(client.say(line), wrong, "{line}");
    }
    assert_eq!(client.say("PING"), "-NOAUTH Authentication required.\r\n");
    // A burst is answered in order, and what follows AUTH knows.
    let burst = b"PING\r\nAUTH secret\r\nPING\r\n";
    assert_eq!(client.raw(burst), b"-NOAUTH Authentication required.\r\n+OK\r\n+PONG\r\n");
    assert_eq!(client.say("RESET"), "+RESET\r\n");
    assert_eq!(client.say("PING"), "-NOAUTH Authentication required.\r\n");
    assert!(client.say("HELLO 3 AUTH default secret SETNAME x").starts_with("%7"));
    assert_eq!(client.say("PING"), "+PONG\r\n");
    let mut other = server.client();
    let many = format!("*11\r\n{}", "$1\r\na\r\n".repeat(11));
    assert_eq!(other.raw(many.as_bytes()), b"-ERR Protocol error: unauthenticated multibulk length\r\n");
    assert!(other.closed);
}

/// Every command of Redis that Larder does not have: what a Redis as source would be sent, and what
/// it never gets without `forward-admin`.
#[test]
fn commands_of_other_types_say_which_source_has_them() {
    let server = Server::new(&[]);
    let mut client = server.client();
    let catalog = crate::catalog();
    let others: Vec<_> = catalog.counted().filter(|(_, class)| *class == CommandClass::Forwarded).collect();
    assert!(others.iter().any(|(name, _)| *name == "hset"));
    let modules = ["FT.SEARCH", "bf.add"];
    for name in others.into_iter().map(|(name, _)| name).chain(modules) {
        let reply = client.say(&format!("{name} key field"));
        let range = 0..name.len() as u32;
        let args = Args::new(name.as_bytes(), std::slice::from_ref(&range));
        let is_free = ForwardRule::by_name(args) == ForwardRule::Free;
        let expected = match is_free {
            true => format!(
                "-ERR unknown command '{name}': Larder without a source has strings and JSON; \
                 start it with --source redis://… to forward this\r\n"
            ),
            false => format!("-ERR unknown command '{name}', with args beginning with: 'key' 'field' \r\n"),
        };
        assert_eq!(reply, expected);
    }
    assert_eq!(client.say("NOSUCH a"), "-ERR unknown command 'NOSUCH', with args beginning with: 'a' \r\n");
    client.say("MULTI");
    assert!(client.say("hset h f v").contains("--source redis://"));
    assert!(client.say("EXEC").starts_with("-EXECABORT"));
}

#[test]
fn clients_list_and_end_one_another() {
    let server = Server::new(&[]);
    let (mut one, mut two) = (server.client(), server.client());
    one.say("CLIENT SETNAME first");
    assert_eq!(one.say("CLIENT SETINFO LIB-NAME redis-py"), "+OK\r\n");
    assert_eq!(one.say("CLIENT SETINFO lib-ver 8.0"), "+OK\r\n");
    assert_eq!(one.say("CLIENT SETINFO x y"), "-ERR Unrecognized option 'x'\r\n");
    assert_eq!(
        String::from_utf8_lossy(&one.call(&[b"CLIENT".into(), b"SETINFO".into(), b"LIB-NAME".into(), b"a b".into()])),
        "-ERR LIB-NAME cannot contain spaces, newlines or special characters.\r\n"
    );
    two.say("HELLO 3");
    two.say("MULTI");
    two.say("GET a");
    let list = text(&one.call(&words("CLIENT LIST")));
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!(lines.len(), 2);
    for field in [
        "id=1 addr=127.0.0.1:1 laddr=127.0.0.1:2 ",
        " name=first ",
        " flags=N db=0 ",
        " multi=-1 ",
        " cmd=client|list user=default ",
        " resp=2 lib-name=redis-py lib-ver=8.0",
    ] {
        assert!(lines[0].contains(field), "{field:?} in {}", lines[0]);
    }
    for field in ["id=2 ", " name= ", " flags=x ", " multi=1 ", " resp=3 lib-name= lib-ver="] {
        assert!(lines[1].contains(field), "{field:?} in {}", lines[1]);
    }
    two.say("DISCARD");
    let raw = two.say("CLIENT INFO");
    assert!(raw.starts_with('=') && raw.contains("\r\ntxt:id=2 "), "{raw}");
    assert_eq!(text(&one.call(&words("CLIENT LIST ID 2 99"))).lines().count(), 1);
    assert_eq!(text(&one.call(&words("CLIENT LIST TYPE pubsub"))), "");
    assert_eq!(one.say("CLIENT KILL ID 99"), ":0\r\n");
    assert_eq!(one.say("CLIENT KILL 1.2.3.4:5"), "-ERR No such client\r\n");
    assert_eq!(one.say("CLIENT KILL USER nobody SKIPME no"), "-ERR No such user 'nobody'\r\n");
    assert_eq!(one.say("CLIENT KILL ID 1"), ":0\r\n", "not itself");
    assert_eq!(one.say("CLIENT KILL ID 2 MAXAGE 1000"), ":0\r\n");
    assert_eq!(one.say("CLIENT KILL ID 2 ADDR 127.0.0.1:1 USER default"), ":1\r\n");
    assert!(!one.closed);
    assert_eq!(one.say("CLIENT KILL ID 1 SKIPME no"), ":1\r\n");
    assert!(one.closed);
}

#[test]
fn handshakes_of_clients() {
    let server = Server::new(&["--slowlog-log-slower-than", "1h"]);
    // As `anchors/features.md` 5.1 lists them: nothing may be refused.
    for line in [
        "CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type internal-ip",
        "CLIENT SETINFO LIB-NAME go-redis(,go1.22)",
        "SELECT 0",
        "READONLY",
        "CLIENT NO-EVICT on",
        "CLIENT NO-TOUCH off",
        "CLIENT CAPA redirect",
        "FUNCTION FLUSH",
        "CLIENT SETNAME x",
        "CLIENT REPLY ON",
        "READWRITE",
        "UNWATCH",
        "MEMORY PURGE",
        "SLOWLOG RESET",
    ] {
        assert_eq!(server.client().say(line), "+OK\r\n", "{line}");
    }
    let mut client = server.client();
    assert!(text(&client.call(&words("INFO"))).contains("\r\nloading:0\r\n"));
    assert_eq!(client.say("CLIENT GETREDIR"), ":-1\r\n");
    assert_eq!(client.say("CLUSTER NODES"), "-ERR This instance has cluster support disabled\r\n");
    assert!(client.say("MONITOR").starts_with("-ERR MONITOR needs a Redis source"));
    assert_eq!(client.say("CLIENT TRACKING ON"), "+OK\r\n");
    assert_eq!(client.say("CLIENT TRACKING OFF"), "+OK\r\n");
    assert_eq!(client.say("ROLE"), "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n");
    assert_eq!(client.say("LATENCY LATEST"), "*0\r\n");
    assert_eq!(client.say("SLOWLOG GET 10"), "*0\r\n");
    assert_eq!(client.say("WAIT 0 100"), ":0\r\n");
}

#[test]
fn commands_describe_themselves() {
    let server = Server::new(&[]);
    let mut client = server.client();
    let count: usize = crate::COMMANDS.iter().filter(|c| !c.name.contains('|')).count();
    assert_eq!(client.say("COMMAND COUNT"), format!(":{count}\r\n"));
    let all = client.call(&words("COMMAND"));
    let Ok(View::Array(all)) = view(&all) else { panic!("an array") };
    assert_eq!(all.len(), count);
    assert_eq!(
        client.say("COMMAND INFO mget nosuch"),
        format!(
            "*2\r\n*10\r\n{}:-2\r\n*2\r\n+readonly\r\n+fast\r\n:1\r\n:-1\r\n:1\r\n*0\r\n*0\r\n*0\r\n*0\r\n$-1\r\n",
            bulk("mget")
        )
    );
    assert!(client.say("COMMAND INFO client|list").contains("client|list"));
    let docs = client.say("COMMAND DOCS get object");
    assert!(docs.starts_with("*4\r\n$3\r\nget\r\n*6\r\n$7\r\nsummary\r\n"), "{docs}");
    assert!(docs.contains("$11\r\nsubcommands\r\n*10\r\n$15\r\nobject|encoding\r\n"), "{docs}");
    client.say("HELLO 3");
    assert!(client.say("COMMAND DOCS get").starts_with("%1\r\n$3\r\nget\r\n%3\r\n"));
    assert_eq!(strings(&client.call(&words("COMMAND LIST FILTERBY PATTERN mset*"))), ["mset", "msetex", "msetnx"]);
    assert_eq!(strings(&client.call(&words("COMMAND LIST FILTERBY MODULE x"))).len(), 0);
    assert_eq!(strings(&client.call(&words("COMMAND GETKEYS mset a 1 b 2"))), ["a", "b"]);
    assert!(client.say("COMMAND INFO msetex").contains("+movablekeys\r\n:0\r\n:0\r\n:0\r\n"));
    let help = client.say("CLIENT HELP");
    assert!(help.contains("+CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:\r\n"));
    assert!(help.contains("+SETNAME <name>\r\n") && help.contains("+GETNAME\r\n"), "{help}");
    let help = client.say("HOTKEYS HELP");
    assert!(help.contains("+START METRICS <count> [CPU] [NET] [COUNT <k>]") && help.contains("+GET\r\n"), "{help}");
}

#[test]
fn config_speaks_redis() {
    let server = Server::new(&[]);
    let mut client = server.client();
    assert_eq!(
        client.say("CONFIG GET save appendonly"),
        "*4\r\n$10\r\nappendonly\r\n$2\r\nno\r\n$4\r\nsave\r\n$0\r\n\r\n"
    );
    client.say("HELLO 3");
    assert_eq!(client.say("CONFIG GET nosuch"), "%0\r\n");
    assert_eq!(client.say("CONFIG GET DATABASES"), "%1\r\n$9\r\ndatabases\r\n$1\r\n1\r\n");
    assert!(client.say("CONFIG GET max*").starts_with("%3\r\n$10\r\nmaxclients\r\n"));
    assert_eq!(client.say("CONFIG SET maxmemory 128mb"), "+OK\r\n");
    assert_eq!(client.say("CONFIG GET maxmemory"), "%1\r\n$9\r\nmaxmemory\r\n$9\r\n134217728\r\n");
    for (line, why) in [
        ("CONFIG SET nosuch 1", "Unknown option or number of arguments for CONFIG SET - 'nosuch'"),
        (
            "CONFIG SET maxmemory 0",
            "CONFIG SET failed (possibly related to argument 'maxmemory') - argument must be at least 1mb",
        ),
        (
            "CONFIG SET maxmemory x",
            "CONFIG SET failed (possibly related to argument 'maxmemory') - argument must be a memory value",
        ),
        (
            "CONFIG SET maxmemory 1mb maxmemory 1mb",
            "CONFIG SET failed (possibly related to argument 'maxmemory') - duplicate parameter",
        ),
        (
            "CONFIG SET maxmemory-policy noeviction",
            "CONFIG SET failed (possibly related to argument 'maxmemory-policy') - can't set immutable config",
        ),
        (
            "CONFIG SET maxmemory 2mb databases 2",
            "CONFIG SET failed (possibly related to argument 'databases') - can't set immutable config",
        ),
        ("CONFIG SET maxmemory 1mb save", "syntax error"),
        ("CONFIG REWRITE", "The server is running without a config file"),
    ] {
        assert_eq!(client.say(line), format!("-ERR {why}\r\n"), "{line}");
    }
    assert!(client.say("CONFIG GET maxmemory").contains("134217728"), "all or nothing");
    assert_eq!(client.say("CONFIG SET databases 1"), "+OK\r\n", "as it is");
    assert_eq!(client.say("CONFIG SET loglevel debug"), "+OK\r\n");
    assert_eq!(client.say("CONFIG GET loglevel"), "%1\r\n$8\r\nloglevel\r\n$5\r\ndebug\r\n");
    assert!(client.say("CONFIG SET loglevel loud").contains("must be one of the following"));
}

#[test]
fn info_counts() {
    let server = Server::new(&[]);
    let mut client = server.client();
    for line in ["SET a 1", "SET b 1 EX 100", "GET a", "GET a", "GET missing", "NOSUCH"] {
        client.say(line);
    }
    let info = text(&client.call(&words("INFO everything")));
    let has = |info: &str, line: &str| info.lines().any(|l| l == line);
    for line in [
        "keyspace_hits:2",
        "keyspace_misses:1",
        "db0:keys=2,expires=1,avg_ttl=0",
        "role:master",
        "redis_mode:standalone",
        "errorstat_ERR:count=1",
        "maxmemory_policy:allkeys-lfu",
        "total_error_replies:1",
        "total_commands_processed:6",
    ] {
        assert!(has(&info, line), "{line} in {info}");
    }
    let get = info.lines().find(|line| line.starts_with("cmdstat_get:calls=3,usec=")).expect("it was called");
    assert!(get.ends_with(",rejected_calls=0,failed_calls=0") && get.contains(",usec_per_call="), "{get}");
    let one = text(&client.call(&words("INFO keyspace")));
    assert_eq!(one, "# Keyspace\r\ndb0:keys=2,expires=1,avg_ttl=0\r\n");
    assert!(!text(&client.call(&words("INFO"))).contains("cmdstat"));
    assert_eq!(text(&client.call(&words("INFO nosuch"))), "");
    client.say("CONFIG RESETSTAT");
    assert!(has(&text(&client.call(&words("INFO stats"))), "keyspace_hits:0"));
    // Within a transaction it sees what came before it, and nothing hangs.
    client.say("MULTI");
    client.say("SET c 1");
    client.say("INFO keyspace");
    client.say("CONFIG SET maxmemory 64mb");
    client.say("SET d 1");
    let replies = client.say("EXEC");
    assert!(replies.starts_with("*4\r\n+OK\r\n$"), "{replies}");
    assert!(replies.contains("keys=3,") && replies.ends_with("+OK\r\n+OK\r\n"), "{replies}");
}

#[test]
fn limits_of_keys_and_values() {
    let server = Server::new(&["--max-value", "1000", "--max-key", "10"]);
    let mut client = server.client();
    let mut call = |args: &[&[u8]]| {
        let args: Vec<Vec<u8>> = args.iter().map(|a| a.to_vec()).collect();
        String::from_utf8_lossy(&client.call(&args)).into_owned()
    };
    let key = "-ERR a key has at most 10 bytes (max-key)\r\n";
    let long = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n";
    let (value, over) = (vec![b'x'; 1000], vec![b'x'; 1001]);
    for args in [
        &[&b"GET"[..], b"01234567890"][..],
        &[b"SET", b"01234567890", b"v"],
        &[b"MGET", b"a", b"01234567890"],
        &[b"DEL", b"a", b"01234567890"],
        &[b"WATCH", b"01234567890"],
    ] {
        assert_eq!(call(args), key, "{args:?}");
    }
    assert_eq!(call(&[b"SET", b"0123456789", &value]), "+OK\r\n");
    for args in [
        &[&b"SET"[..], b"k", &over][..],
        &[b"SETEX", b"k", b"10", &over],
        &[b"MSET", b"k", b"v", b"l", &over],
        &[b"APPEND", b"0123456789", b"y"],
        &[b"SETRANGE", b"k", b"1000", b"y"],
        &[b"SETRANGE", b"k", b"9223372036854775807", b"y"],
        &[b"GETSET", b"k", &over],
        &[b"SETNX", b"k", &over],
    ] {
        assert_eq!(call(args), long, "{:?}", args[0].escape_ascii().to_string());
    }
    let bits = "-ERR bit offset is not an integer or out of range: a value has at most 1000 bytes (max-value)\r\n";
    for args in [
        &[&b"SETBIT"[..], b"k", b"8000", b"1"][..],
        &[b"SETBIT", b"k", b"4294967295", b"1"],
        &[b"BITFIELD", b"k", b"SET", b"u8", b"#1000", b"1"],
        &[b"BITFIELD", b"k", b"SET", b"u8", b"0", b"1", b"INCRBY", b"i64", b"4294967295", b"1"],
    ] {
        assert_eq!(call(args), bits, "{:?}", args[0].escape_ascii().to_string());
    }
    assert_eq!(call(&[b"EXISTS", b"k", b"l"]), ":0\r\n", "nothing was stored by halves");
    assert_eq!(call(&[b"BITFIELD", b"other", b"SET", b"u8", b"#999", b"1"]), "*1\r\n:0\r\n");
    assert_eq!(call(&[b"BITFIELD", b"k", b"GET", b"u8", b"4294967295"]), "*1\r\n:0\r\n", "reading needs no room");
    assert_eq!(call(&[b"SETRANGE", b"k", b"999", b"y"]), ":1000\r\n");
    call(&[b"MULTI"]);
    assert_eq!(call(&[b"GET", b"01234567890"]), key);
    assert_eq!(call(&[b"EXEC"]), "-EXECABORT Transaction discarded because of previous errors.\r\n");
}

/// Each error names the limit, and the setting if there is one.
#[test]
fn limits_of_names() {
    let server = Server::new(&["--max-key", "10"]);
    let mut client = server.client();
    let (long, host, value) = ("x".repeat(1025), "h".repeat(254), "v".repeat(65_537));
    let name = "ERR a name has at most 1024 bytes";
    let topic = "ERR a channel or pattern has at most 10 bytes (max-key)";
    for (words, expected) in [
        (&["CLIENT", "SETNAME", &long][..], name),
        (&["CLIENT", "SETINFO", "LIB-NAME", &long], name),
        (&["CLIENT", "SETINFO", "LIB-VER", &long], name),
        (&["HELLO", "2", "SETNAME", &long], name),
        (&["ACL", "SETUSER", &long], name),
        (&["SUBSCRIBE", "01234567890"], topic),
        (&["PSUBSCRIBE", "01234567890"], topic),
        (&["SSUBSCRIBE", "01234567890"], topic),
        (&["PUBLISH", "01234567890", "m"], "ERR a channel has at most 10 bytes (max-key)"),
        (&["SPUBLISH", "01234567890", "m"], "ERR a channel has at most 10 bytes (max-key)"),
        (
            &["CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "01234567890"],
            "ERR a prefix has at most 10 bytes (max-key)",
        ),
        (&["REPLICAOF", &host, "1"], "ERR the name of a host has at most 253 bytes"),
        (
            &["CONFIG", "SET", "save", &value],
            "ERR CONFIG SET failed (possibly related to argument 'save') - argument must have at most 65536 bytes",
        ),
    ] {
        let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        assert_eq!(String::from_utf8_lossy(&client.call(&words)), format!("-{expected}\r\n"));
    }
}

#[test]
fn lifetimes_that_no_entry_can_have_are_refused() {
    let server = Server::new(&[]);
    let mut client = server.client();
    client.say("SET k old");
    for command in [
        "SET k v EX 1000000000000000",
        "SET k v PX 1000000000000000",
        "SET k v EXAT 140737488356",
        "SET k v PXAT 140737488355328",
        "SET k v PXAT 9223372036854775807",
        "SETEX k 140737488355 v",
        "PSETEX k 140737488355327 v",
        "GETEX k PXAT 140737488355328",
        "EXPIRE k 140737488355",
        "EXPIREAT k 140737488356",
        "PEXPIRE k 140737488355327",
        "PEXPIREAT k 140737488355328",
        "PEXPIREAT missing 9223372036854775807",
    ] {
        let name = command.split(' ').next().unwrap_or_default().to_lowercase();
        let expected = format!(
            "-ERR invalid expire time in '{name}' command: the latest is 140737488355327 ms, in the year 6429\r\n"
        );
        assert_eq!(client.say(command), expected, "{command}");
        assert_eq!(client.say("GET k"), "$3\r\nold\r\n", "{command}");
        assert_eq!(client.say("PEXPIRETIME k"), ":-1\r\n", "{command}");
    }
    for command in ["SET k v PXAT 140737488355327", "GETEX k PXAT 140737488355327", "PEXPIREAT k 140737488355327"] {
        client.say("PERSIST k");
        client.say(command);
        assert_eq!(client.say("PEXPIRETIME k"), ":140737488355327\r\n", "{command}");
    }
}

#[test]
fn an_entry_that_can_never_fit() {
    let server = Server::new(&[]);
    let mut client = server.client();
    client.say("SET k old");
    let reply = client.call(&[b"SET".into(), b"k".into(), vec![b'x'; 65 << 20]]);
    let reply = String::from_utf8_lossy(&reply).into_owned();
    assert!(reply.starts_with("-OOM the entry needs ") && reply.contains("max-memory (67108864)"), "{reply}");
    assert_eq!(client.say("GET k"), "$3\r\nold\r\n");
    // The old value, which was already on its way out, is taken back.
    let reply = client.call(&[b"GETSET".into(), b"k".into(), vec![b'x'; 65 << 20]]);
    assert!(reply.starts_with(b"-OOM"), "{}", reply.escape_ascii());
}

#[test]
fn large_values_come_back_whole() {
    let server = Server::new(&[]);
    let mut client = server.client();
    for len in [0, 1, 16 * 1024 - 1, 16 * 1024, 1 << 20, 5 << 20] {
        let value: Vec<u8> = (0..len).map(|i| (i % 251) as u8).collect();
        client.call(&[b"SET".into(), b"k".into(), value.clone()]);
        for command in ["GET k", "GETEX k", "MGET k", "GETRANGE k 0 -1"] {
            let reply = client.call(&words(command));
            let got = match view(&reply).expect("a reply") {
                View::Bulk(got) => got.to_vec(),
                View::Array(mut values) => match values.next() {
                    Some(View::Bulk(got)) => got.to_vec(),
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            };
            assert!(got == value, "{command} of {len} bytes");
        }
        client.say("RENAME k l");
        client.say("COPY l k");
        assert_eq!(client.say("STRLEN k"), format!(":{len}\r\n"));
    }
}

#[test]
fn time_passes() {
    let server = Server::new(&[]);
    let mut client = server.client();
    let at = |client: &mut Client<'_>, now, line: &str| {
        client.now = Some(now);
        client.say(line)
    };
    let start = 1_000_000_000_000;
    at(&mut client, start, "SET k v PX 1000");
    assert_eq!(at(&mut client, start + 999, "GET k"), "$1\r\nv\r\n");
    assert_eq!(at(&mut client, start + 499, "TTL k"), ":1\r\n");
    assert_eq!(at(&mut client, start + 501, "TTL k"), ":0\r\n");
    assert_eq!(at(&mut client, start + 999, "PTTL k"), ":1\r\n");
    assert_eq!(at(&mut client, start + 1000, "GET k"), "$-1\r\n");
    assert_eq!(at(&mut client, start + 1000, "TTL k"), ":-2\r\n");
    assert_eq!(at(&mut client, start + 1000, "SET k v NX"), "+OK\r\n");
    // A watched key that expires is a watched key that changed.
    at(&mut client, start, "SET w v PX 1000");
    at(&mut client, start, "WATCH w");
    at(&mut client, start, "MULTI");
    assert_eq!(at(&mut client, start + 2000, "EXEC"), "*-1\r\n");
    assert_eq!(at(&mut client, start + 2000, "OBJECT IDLETIME k"), ":1\r\n");
}

#[test]
fn walks_see_every_key() {
    let server = Server::new(&[]);
    let mut client = server.client();
    let expected: BTreeSet<String> = (0..2000).map(|i| format!("key:{i}")).collect();
    for key in &expected {
        client.say(&format!("SET {key} v"));
    }
    for (options, expected) in [
        ("COUNT 7", expected.clone()),
        ("COUNT 1000 TYPE string", expected.clone()),
        ("MATCH key:1?", (10..20).map(|i| format!("key:{i}")).collect()),
        ("TYPE hash", BTreeSet::new()),
    ] {
        let mut found = BTreeSet::new();
        let mut cursor = "0".to_owned();
        loop {
            let reply = client.call(&words(&format!("SCAN {cursor} {options}")));
            let Ok(View::Array(mut page)) = view(&reply) else { panic!("an array") };
            let Some(View::Bulk(next)) = page.next() else { panic!("a cursor") };
            let Some(View::Array(keys)) = page.next() else { panic!("keys") };
            for key in keys {
                let View::Bulk(key) = key else { panic!("a key") };
                found.insert(String::from_utf8_lossy(key).into_owned());
            }
            cursor = String::from_utf8_lossy(next).into_owned();
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(found, expected, "{options}");
    }
    let all: BTreeSet<String> = strings(&client.call(&words("KEYS *"))).into_iter().collect();
    assert_eq!(all, expected);
    let random: BTreeSet<String> = (0..200).map(|_| text(&client.call(&words("RANDOMKEY")))).collect();
    assert!(random.is_subset(&expected) && random.len() > 50, "{}", random.len());
    assert_eq!(client.say("DBSIZE"), ":2000\r\n");
    client.say("FLUSHALL");
    assert_eq!(client.say("RANDOMKEY"), "$-1\r\n");
    assert_eq!(client.say("DBSIZE"), ":0\r\n");
    assert_eq!(client.say("KEYS *"), "*0\r\n");
}

#[test]
fn memory_and_frequency_of_a_key() {
    let server = Server::new(&[]);
    let mut client = server.client();
    client.say("SET k 0123456789");
    let usage: u64 = client.say("MEMORY USAGE k")[1..].trim_end().parse().expect("a number");
    assert!((20..80).contains(&usage), "{usage}");
    let before = client.say("OBJECT FREQ k");
    client.say("GET k");
    client.say("GET k");
    assert_ne!(client.say("OBJECT FREQ k"), before);
    assert_eq!(client.say("OBJECT REFCOUNT k"), ":1\r\n");
}

#[test]
fn a_transaction_is_bounded() {
    let server = Server::new(&["--max-value", "1000"]);
    let mut client = server.client();
    client.say("MULTI");
    let value = vec![b'x'; 1000];
    let set = [b"SET".to_vec(), b"k".to_vec(), value];
    let refused = loop {
        let reply = client.call(&set);
        if reply != b"+QUEUED\r\n" {
            break String::from_utf8_lossy(&reply).into_owned();
        }
    };
    assert_eq!(refused, "-ERR a transaction has at most 67109864 bytes (follows from max-value)\r\n");
    assert!(client.say("EXEC").starts_with("-EXECABORT"));
}

/// Two threads, each with a worker of its own, on one tier: one writes until the other, which
/// looks, is done.
fn at_once(write: &(dyn Fn(&mut Client<'_>, u32) + Sync), look: &(dyn Fn(&mut Client<'_>) + Sync)) {
    /// However looking ends, writing does too.
    struct Ends<'a>(&'a AtomicBool);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    let server = Server::new(&[]);
    let cache = &server.worker.groups.default().cache;
    let done = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let _ends = Ends(&done);
        threads.spawn(|| {
            let server = Server::beside(cache);
            let mut client = server.client();
            for round in 0.. {
                write(&mut client, round);
                if done.load(Relaxed) {
                    break;
                }
            }
        });
        let server = Server::beside(cache);
        let mut client = server.client();
        (0..5_000).for_each(|_| look(&mut client));
    });
}
/// All the same, or all missing.
fn alike(reply: &[u8]) {
    let values = strings(reply);
    assert!(values.windows(2).all(|pair| pair[0] == pair[1]), "{values:?}");
}

#[test]
fn several_keys_are_written_and_read_as_one() {
    at_once(
        &|client, round| {
            client.say(&format!("MSET a {round} b {round} c {round}"));
        },
        &|client| alike(&client.call(&words("MGET a b c"))),
    );
    // Renaming has no moment without the value, and none with two.
    at_once(
        &|client, round| {
            client.say(if round % 2 == 0 { "SETNX x v" } else { "RENAME x y" });
            client.say("RENAME y x");
        },
        &|client| {
            let found = client.say("EXISTS x y");
            assert_ne!(found, ":2\r\n");
        },
    );
}

#[test]
fn a_transaction_is_seen_whole() {
    at_once(
        &|client, _| {
            client.raw(b"MULTI\r\nINCR a\r\nINCR b\r\nINCR c\r\nEXEC\r\n");
        },
        &|client| {
            let replies = client.raw(b"MULTI\r\nGET a\r\nGET b\r\nGET c\r\nEXEC\r\n");
            let exec = replies.iter().position(|&b| b == b'*').expect("EXEC's reply");
            alike(&replies[exec..]);
        },
    );
    at_once(
        &|client, _| {
            client.raw(b"MULTI\r\nFLUSHALL\r\nMSET a 1 b 1 c 1\r\nEXEC\r\n");
        },
        &|client| alike(&client.call(&words("MGET a b c"))),
    );
}

#[test]
fn watched_keys_make_increments_that_are_not_lost() {
    let server = Server::new(&[]);
    let cache = &server.worker.groups.default().cache;
    std::thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                let server = Server::beside(cache);
                let mut client = server.client();
                for _ in 0..2000 {
                    loop {
                        client.say("WATCH n");
                        let old = match view(&client.call(&words("GET n"))) {
                            Ok(View::Bulk(old)) => String::from_utf8_lossy(old).parse().expect("a number"),
                            _ => 0,
                        };
                        client.say("MULTI");
                        client.say(&format!("SET n {}", old + 1));
                        if client.say("EXEC") != "*-1\r\n" {
                            break;
                        }
                    }
                }
            });
        }
    });
    assert_eq!(server.client().say("GET n"), "$4\r\n4000\r\n");
}

#[test]
fn hotkeys_has_a_map_in_an_array() {
    let server = Server::new(&[]);
    let mut client = server.client();
    client.say("HELLO 3");
    assert_eq!(client.say("HOTKEYS GET"), "_\r\n");
    assert_eq!(client.say("HOTKEYS START METRICS 2 CPU NET SAMPLE 1"), "+OK\r\n");
    client.say("SET k 12345");
    client.say("GET k");
    let reply = client.say("HOTKEYS GET");
    let start = format!("*1\r\n%12\r\n{}:1\r\n{}:1\r\n", bulk("tracking-active"), bulk("sample-ratio"));
    assert!(reply.starts_with(&start), "{reply}");
    let end = format!("{}*2\r\n{}:12\r\n", bulk("by-net-bytes"), bulk("k"));
    assert!(reply.ends_with(&end), "{reply}");
}
