//! `cluster = "emulated"`: replies are compared with those of a redis-server that is the only node of
//! a cluster.
use super::{
    common::{Client, RedisServer, Reply, wait_until},
    larder::Larder,
};
use larder_proto::resp::{Limits, Parser, encode};
use larder_redis::COMMANDS;

const CROSS_SLOT: &str = "CROSSSLOT Keys in request don't hash to the same slot";

fn only_node() -> RedisServer {
    let redis = RedisServer::with(&["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"]);
    assert_eq!(redis.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]), Reply::ok());
    wait_until(
        "the cluster serves",
        || matches!(redis.command(&["CLUSTER", "INFO"]), Reply::Bulk(Some(text)) if text.starts_with(b"cluster_state:ok")),
    );
    redis
}

fn emulated(args: &[&str]) -> Larder {
    Larder::start(&[&["--threads", "2", "--cluster", "emulated"], args].concat())
}

fn lines(reply: Reply) -> Vec<String> {
    let Reply::Bulk(Some(text)) = reply else { panic!("no text: {reply:?}") };
    String::from_utf8(text).expect("text").lines().map(str::to_owned).collect()
}

/// The reply with addresses and names of nodes replaced, which differ.
fn shape(reply: Reply) -> Reply {
    match reply {
        Reply::Array(Some(parts)) => Reply::Array(Some(parts.into_iter().map(shape).collect())),
        Reply::Bulk(Some(text)) if text.len() == 40 && text.iter().all(u8::is_ascii_hexdigit) => Reply::bulk("ID"),
        Reply::Int(port) if port > 16383 => Reply::Int(-1),
        other => other,
    }
}

#[test]
fn replies_are_those_of_the_only_node_of_a_cluster() {
    let (redis, larder) = (only_node(), emulated(&[]));
    let (mut direct, mut emulated) = (redis.client(), larder.client());
    for command in [
        "CLUSTER MYID",
        "CLUSTER SLOTS",
        "CLUSTER LINKS",
        "CLUSTER KEYSLOT {foo}bar",
        "CLUSTER KEYSLOT",
        "CLUSTER COUNTKEYSINSLOT 12182",
        "SET {foo}1 a",
        "SET {foo}2 b",
        "SET bar c",
        "CLUSTER COUNTKEYSINSLOT 12182",
        "CLUSTER COUNTKEYSINSLOT 16384",
        "CLUSTER COUNTKEYSINSLOT word",
        "CLUSTER GETKEYSINSLOT 12182 0",
        "CLUSTER GETKEYSINSLOT 5061 10",
        "CLUSTER NOSUCH",
        "READONLY",
        "READWRITE",
        "ASKING",
        "SELECT 0",
        "SELECT 1",
        "MGET {foo}1 {foo}2",
        "MGET {foo}1 bar",
        "DEL {foo}1 bar",
        "GET {foo}1",
        "MULTI",
        "SET {foo}1 d",
        "MSET {foo}1 e bar e",
        "EXEC",
        "MULTI",
        "SET {foo}1 d",
        "GET bar",
        "EXEC",
        "GET {foo}1",
        "MULTI",
        "SET {foo}1 d",
        "GET {foo}2",
        "EXEC",
        "WATCH {foo}1 bar",
        "PING",
    ] {
        let parts: Vec<&str> = command.split(' ').collect();
        assert_eq!(shape(emulated.command(&parts)), shape(direct.command(&parts)), "{command}");
    }
    let keys = |client: &mut Client| match client.command(&["CLUSTER", "GETKEYSINSLOT", "12182", "1"]) {
        Reply::Array(Some(keys)) => keys.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!((keys(&mut emulated), keys(&mut direct)), (1, 1));
    // 40 digits, an address, a port, and a state.
    let [node] = &lines(emulated.command(&["CLUSTER", "NODES"]))[..] else { panic!("one node") };
    let parts: Vec<&str> = node.split(' ').collect();
    assert_eq!((parts[0].len(), parts[1]), (40, &format!("127.0.0.1:{}@0", larder.redis)[..]));
    assert_eq!(parts[2..], ["myself,master", "-", "0", "0", "1", "connected", "0-16383"]);
    // Clients connect to the address that SLOTS and SHARDS give them.
    for command in ["SLOTS", "SHARDS"] {
        let reply = format!("{:?}", emulated.command(&["CLUSTER", command]));
        assert!(reply.contains(&format!("Int({})", larder.redis)), "{command}: {reply}");
    }
    let info = lines(emulated.command(&["INFO"]));
    for line in ["redis_mode:cluster", "cluster_enabled:1"] {
        assert!(info.iter().any(|known| known == line), "{line}");
    }
    for line in lines(emulated.command(&["CLUSTER", "INFO"])) {
        assert!(lines(direct.command(&["CLUSTER", "INFO"])).contains(&line) || line.contains("epoch"), "{line}");
    }
    // Both are maps to RESP3.
    let Reply::Array(Some(shards)) = emulated.command(&["CLUSTER", "SHARDS"]) else { panic!("shards") };
    let Reply::Array(Some(shard)) = &shards[0] else { panic!("a shard") };
    let all_slots = Reply::Array(Some(vec![Reply::Int(0), Reply::Int(16383)]));
    assert_eq!(shard[..2], [Reply::bulk("slots"), all_slots]);
}

/// A command that is added with several keys is in it, too.
#[test]
fn every_command_with_keys_of_several_slots_is_refused() {
    let larder = emulated(&[]);
    let mut client = larder.client();
    let mut several_keys = 0;
    for command in COMMANDS.iter().filter(|command| command.keys.first > 0) {
        let least = usize::from(command.arity.unsigned_abs());
        for parts in [least, least.max(8)].into_iter().filter(|parts| command.takes(*parts)) {
            // The number of keys, where a command has one.
            let counted = usize::from(command.keys.first) - 1;
            let rest = (1..parts).map(|at| if at == counted { "2".to_owned() } else { format!("key{at}") });
            let words: Vec<String> = std::iter::once(command.name.to_owned()).chain(rest).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let encoded = encode(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>());
            let mut parser = Parser::default();
            parser.parse(&encoded, &Limits::new(1 << 20)).expect("a command");
            let several = command.keys.of(parser.args(&encoded)).len() > 1;
            let reply = client.command(&words);
            assert_eq!(reply == Reply::Error(CROSS_SLOT.into()), several, "{words:?}: {reply:?}");
            several_keys += usize::from(several);
        }
    }
    assert!(several_keys > 10, "{several_keys}");
}

#[test]
fn a_redis_behind_it_is_asked_for_the_keys_of_its_own_commands() {
    let redis = RedisServer::start();
    let larder = emulated(&["--source", &redis.url()]);
    let mut client = larder.client();
    for (command, refused) in [
        ("SADD {a}1 x", false),
        ("SADD {a}2 x", false),
        ("SINTER {a}1 {a}2", false),
        ("SINTER {a}1 b", true),
        ("SINTER {a}1 b", true),
        ("ZUNIONSTORE {a}3 2 {a}1 b", true),
        ("EVAL return(1) 2 a b", true),
        ("EVAL return(1) 1 a b", false),
        ("MGET {a}4 b", true),
        ("CLUSTER SLOTS", false),
    ] {
        let parts: Vec<&str> = command.split(' ').collect();
        let reply = client.command(&parts);
        assert_eq!(reply == Reply::Error(CROSS_SLOT.into()), refused, "{command}: {reply:?}");
    }
    let Reply::Bulk(Some(info)) = client.command(&["INFO", "cluster"]) else { panic!("no text") };
    assert!(String::from_utf8_lossy(&info).contains("cluster_enabled:1"));
}
