//! Nodes without a source are one store: commands and writes of any node, on keys of any other.
use super::{
    common::{Port, RedisServer, Reply, wait_until},
    fleet::{Fleet, over_each_transport, read, send},
    larder::{Larder, connect},
};
use larder_proto::resp::{Scanner, encode};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

over_each_transport!(
    commands_of_all_nodes_on_all_keys_are_answered_as_by_one_redis,
    increments_of_all_nodes_are_all_counted_and_no_copy_stays_behind,
    recent_commands_run_at_the_owner_as_at_one_node,
    keys_of_several_owners_are_split_or_refused,
    a_transaction_runs_at_the_owner_of_its_keys,
    documents_and_tags_are_the_owners,
    writes_over_http_have_lifetimes_tags_and_conditions_at_every_node,
    what_a_dead_owner_has_is_an_error_and_comes_from_nowhere_else,
);

/// A generator of numbers, the same in each run (SplitMix64).
struct Numbers(u64);
impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }
    fn of<'a>(&mut self, list: &'a [String]) -> &'a [u8] {
        list[self.below(list.len())].as_bytes()
    }
}

/// A client that gives replies as they are on the wire.
struct RawClient {
    stream: TcpStream,
    unread: Vec<u8>,
}
impl RawClient {
    fn new(stream: TcpStream, resp3: bool) -> RawClient {
        let mut client = RawClient { stream, unread: Vec::new() };
        if resp3 {
            client.command(&["HELLO", "3"]);
        }
        client
    }
    fn command<A: AsRef<[u8]>>(&mut self, command: &[A]) -> Vec<u8> {
        let command: Vec<&[u8]> = command.iter().map(AsRef::as_ref).collect();
        self.stream.write_all(&encode(&command)).unwrap();
        loop {
            if let Some(len) = Scanner::new(usize::MAX).scan(&self.unread).unwrap() {
                return self.unread.drain(..len).collect();
            }
            let mut part = [0; 4096];
            let len = self.stream.read(&mut part).unwrap();
            assert!(len > 0, "the connection was closed");
            self.unread.extend_from_slice(&part[..len]);
        }
    }
}

/// A command on keys of the list, whose reply does not depend on the moment.
fn command(numbers: &mut Numbers, keys: &[String]) -> Vec<Vec<u8>> {
    let key = numbers.of(keys).to_vec();
    let other = numbers.of(keys).to_vec();
    let value: &[u8] = [&b"7"[..], b"text", b"a\r\nb\0\xff", b"", b"-12", b"3.25", b"{\"a\":[1,2]}"][numbers.below(7)];
    let parts: &[&[u8]] = match numbers.below(46) {
        0..=3 => &[b"GET", &key],
        4..=6 => &[b"SET", &key, value],
        7 => &[b"SET", &key, value, b"NX", b"GET"],
        8 => &[b"SET", &key, value, b"XX", b"KEEPTTL"],
        9 => &[b"SET", &key, value, b"PXAT", b"33000000000000"],
        10 => &[b"SET", &key, value, b"EX", b"0"],
        11 => &[b"SETEX", &key, b"0", value],
        12 => &[b"SETNX", &key, value],
        13 => &[b"GETSET", &key, value],
        14 => &[b"GETDEL", &key],
        15 => &[b"GETEX", &key, b"EXAT", b"33000000000"],
        16 => &[b"APPEND", &key, value],
        17 => &[b"STRLEN", &key],
        18 => &[b"INCR", &key],
        19 => &[b"DECRBY", &key, b"5"],
        20 => &[b"INCRBYFLOAT", &key, b"0.5"],
        21 => &[b"EXISTS", &key, &other, &key],
        22 => &[b"TOUCH", &key, &other],
        23 => &[b"DEL", &key, &other],
        24 => &[b"UNLINK", &key],
        25 => &[b"EXPIREAT", &key, b"33000000001", b"NX"],
        26 => &[b"PEXPIRETIME", &key],
        27 => &[b"PERSIST", &key],
        28 => &[b"EXPIRETIME", &key],
        29 => &[b"TYPE", &key],
        30 => &[b"GETRANGE", &key, b"1", b"-2"],
        31 => &[b"SETRANGE", &key, b"3", value],
        32..=34 => &[b"MGET", &key, &other, b"never"],
        35 => &[b"MSET", &key, value, &other, b"other"],
        36 => &[b"MSET", &key, value, &other],
        37 => &[b"INCR", &key, b"too many"],
        38 => &[b"TTL", b"never"],
        39 => &[b"SETBIT", &key, b"9", b"1"],
        40 => &[b"GETBIT", &key, b"3"],
        41 => &[b"BITCOUNT", &key, b"0", b"-2"],
        42 => &[b"BITFIELD", &key, b"INCRBY", b"u8", b"#1", b"3"],
        43 => &[b"BITFIELD_RO", &key, b"GET", b"u4", b"2"],
        44 => &[b"BITPOS", &key, b"1"],
        _ => &[b"PEXPIRE", &key, b"-1"],
    };
    parts.iter().map(|part| part.to_vec()).collect()
}

fn commands_of_all_nodes_on_all_keys_are_answered_as_by_one_redis(transport: &str) {
    let redis = RedisServer::start();
    let fleet = Fleet::over(transport, 3, &["--hot-copy-ttl", "10s:1", "--peer-secret", "of these nodes"]);
    let keys: Vec<String> = (0..3).flat_map(|owner| fleet.keys_of(owner).take(3).collect::<Vec<_>>()).collect();
    for resp3 in [false, true] {
        let mut ours: Vec<RawClient> = fleet.nodes.iter().map(|node| RawClient::new(node.stream(), resp3)).collect();
        let mut theirs = RawClient::new(connect(redis.port()), resp3);
        let mut numbers = Numbers(if resp3 { 3 } else { 2 });
        for step in 0..4000 {
            let command = command(&mut numbers, &keys);
            let node = numbers.below(3);
            let shown: Vec<_> = command.iter().map(|part| String::from_utf8_lossy(part)).collect();
            let (expected, answer) = (theirs.command(&command), ours[node].command(&command));
            let text = |reply: &[u8]| String::from_utf8_lossy(reply).into_owned();
            assert_eq!(text(&answer), text(&expected), "step {step}, at node {node}: {shown:?}");
            assert_eq!(answer, expected);
        }
    }
}

/// Commands that redis-server 7.0 lacks, and commands on several keys of one owner.
const RECENT: &[&str] = &[
    "SET A 5",
    "SET B text",
    "PFADD B x",
    "INCREX A BYINT 3 UBOUND 7",
    "INCREX A BYINT 3 UBOUND 7 SATURATE EXAT 33000000000",
    "EXPIRETIME A",
    "INCREX A NX",
    "INCREX A BYFLOAT 0.25 PERSIST",
    "INCREX B XX",
    "DIGEST A",
    "SET A w IFEQ v",
    "SET A w IFNE v GET",
    "DELEX A IFEQ v",
    "DELEX A IFEQ w",
    "DELIFEQ B nothing",
    "DELIFEQ B text",
    "DEL C",
    "MSETEX 3 A 1 B 2 C 3 NX EXAT 33000000000",
    "MSETEX 2 A 4 B 5 NX",
    "MSETEX 2 A 4 B 5 XX KEEPTTL",
    "EXPIRETIME B",
    "SETBIT A 7 1",
    "BITOP OR C A B",
    "BITCOUNT C",
    "BITFIELD A SET u8 8 200 INCRBY u8 8 10",
    "COPY A B",
    "COPY A B REPLACE",
    "RENAME B C",
    "RENAMENX C A",
    "RENAMENX C B",
    "DUMP B",
    "OBJECT ENCODING A",
    "DEL A B C",
    "PFADD A x y z",
    "PFADD A x",
    "PFCOUNT A",
    "PFADD B q",
    "PFCOUNT A B",
    "PFMERGE C A B",
    "PFCOUNT C",
    "UNLINK A B C",
];

fn recent_commands_run_at_the_owner_as_at_one_node(transport: &str) {
    let fleet = Fleet::over(transport, 3, &["--hot-copy-ttl", "10s:1"]);
    let alone = Larder::start(&[]);
    let mut theirs = alone.client();
    let mut ours: Vec<_> = fleet.nodes.iter().map(Larder::client).collect();
    for owner in 0..3 {
        let keys: Vec<String> = fleet.keys_of(owner).take(3).collect();
        let named = |line: &str| -> Vec<String> {
            let word = |word: &str| ["A", "B", "C"].iter().position(|name| *name == word).map(|at| keys[at].clone());
            line.split(' ').map(|part| word(part).unwrap_or_else(|| part.to_owned())).collect()
        };
        for asked in 0..3 {
            for line in RECENT {
                let command = named(line);
                assert_eq!(ours[asked].command(&command), theirs.command(&command), "{line} of {owner} at {asked}");
                // No node keeps a copy of what was there before.
                for key in &keys {
                    let seen: Vec<_> = ours.iter_mut().map(|node| node.command(&["GET", key])).collect();
                    assert!(seen.iter().all(|value| *value == seen[0]), "{line} of {owner} at {asked}: {seen:?}");
                    // PFCOUNT at one node keeps its count in the value.
                    assert!(line.starts_with("PF") || seen[0] == theirs.command(&["GET", key]), "{line}: {seen:?}");
                }
            }
        }
    }
    let (mine, other) = (fleet.key_of(0), fleet.key_of(1));
    for line in ["PFCOUNT A B", "PFMERGE A B", "MSETEX 2 A 1 B 2", "BITOP OR A A B", "COPY A B", "RENAME A B"] {
        let command = line.split(' ').map(|word| match word {
            "A" => &*mine,
            "B" => &*other,
            word => word,
        });
        let refused = ours[2].command(&command.collect::<Vec<_>>());
        assert!(refused.error().starts_with("CROSSSLOT"), "{line}: {refused:?}");
        assert_eq!(ours[2].command(&["EXISTS", &mine, &other]).int(), 0, "{line}");
    }
}

fn increments_of_all_nodes_are_all_counted_and_no_copy_stays_behind(transport: &str) {
    let fleet = Fleet::over(transport, 3, &["--hot-copy-ttl", "10s:1"]);
    let key = fleet.key_of(1);
    thread::scope(|scope| {
        for client in 0..6 {
            let (node, key) = (&fleet.nodes[client % 3], &key);
            scope.spawn(move || {
                let mut client = node.client();
                let mut last = 0;
                for _ in 0..100 {
                    let now = client.command(&["INCR", key]).int();
                    assert!(now > last, "{now} after {last}");
                    let Reply::Bulk(Some(seen)) = client.command(&["GET", key]) else { panic!("no value") };
                    let seen: i64 = String::from_utf8(seen).unwrap().parse().unwrap();
                    assert!(seen >= now, "{seen} is read after {now} was written");
                    last = now;
                }
            });
        }
    });
    assert!(fleet.nodes.iter().all(|node| read(node, &key).as_deref() == Some("600")));
}

fn keys_of_several_owners_are_split_or_refused(transport: &str) {
    let fleet = Fleet::over(transport, 3, &[]);
    let [a, b, c] = [0, 1, 2].map(|owner| fleet.key_of(owner));
    let second = fleet.keys_of(1).nth(1).unwrap();
    let mut client = fleet.nodes[0].client();
    assert_eq!(client.command(&["MSET", &a, "1", &b, "2", &c, "3", &second, "4"]), Reply::ok());
    assert_eq!(client.command(&["EXISTS", &a, &b, &c, &second, &a, "none"]).int(), 5);
    for command in [["RENAME", &b, &c], ["COPY", &a, &b], ["RENAMENX", &c, &a]] {
        assert!(client.command(&command).error().starts_with("CROSSSLOT "), "{command:?}");
    }
    assert!(client.command(&["MSETNX", &a, "1", &b, "2"]).error().starts_with("CROSSSLOT "));
    assert_eq!(client.command(&["RENAME", &second, &b]), Reply::ok(), "both belong to one node");
    assert!(fleet.nodes.iter().all(|node| read(node, &b).as_deref() == Some("4")));
    assert_eq!(client.command(&["SETEX", &b, "100", "4"]), Reply::ok());
    assert!((60..=100).contains(&client.command(&["TTL", &b]).int()));
    assert_eq!(client.command(&["UNLINK", &a, &b, "none"]).int(), 2);
    assert!(fleet.nodes.iter().all(|node| read(node, &b).is_none() && read(node, &c).as_deref() == Some("3")));
    for command in [&["SCAN", "0"][..], &["KEYS", "*"], &["DBSIZE"]] {
        assert!(client.command(command).error().contains("each node has the keys that it owns"), "{command:?}");
    }
    assert_eq!(client.command(&["FLUSHALL"]), Reply::ok());
    assert!(fleet.nodes.iter().all(|node| read(node, &c).is_none()));
}

fn a_transaction_runs_at_the_owner_of_its_keys(transport: &str) {
    let fleet = Fleet::over(transport, 3, &["--hot-copy-ttl", "10s:1"]);
    for node in 0..3 {
        let mut client = fleet.nodes[node].client();
        for owner in 0..3 {
            let keys: Vec<String> = fleet.keys_of(owner).take(2).collect();
            assert_eq!(client.command(&["MULTI"]), Reply::ok());
            for command in [
                &["SET", &keys[0], "5"][..],
                &["INCR", &keys[0]],
                &["RENAME", &keys[0], &keys[1]],
                &["GET", &keys[1]],
                &["INCR", &keys[1], "x"],
            ] {
                drop(client.command(command));
            }
            // The last one has one argument too many, so nothing runs.
            assert!(client.command(&["EXEC"]).error().starts_with("EXECABORT "));
            assert_eq!(client.command(&["EXISTS", &keys[0], &keys[1]]).int(), 0);
            assert_eq!(client.command(&["MULTI"]), Reply::ok());
            for command in [
                &["SET", &keys[0], "5"][..],
                &["INCR", &keys[0]],
                &["RENAME", &keys[0], &keys[1]],
                &["GET", &keys[1]],
                &["JSON.GET", &keys[1]],
            ] {
                assert_eq!(client.command(command), Reply::Simple("QUEUED".into()));
            }
            let Reply::Array(Some(replies)) = client.command(&["EXEC"]) else { panic!("no replies") };
            assert_eq!(replies[..4], [Reply::ok(), Reply::Int(6), Reply::ok(), Reply::bulk("6")]);
            assert!(replies[4].error().starts_with("WRONGTYPE "), "{replies:?}");
            assert!(fleet.nodes.iter().all(|node| read(node, &keys[1]).as_deref() == Some("6")));
            assert_eq!(client.command(&["DEL", &keys[1]]).int(), 1);
        }
        let [a, b] = [0, 1].map(|owner| fleet.key_of(owner));
        client.command(&["MULTI"]);
        client.command(&["SET", &a, "1"]);
        client.command(&["SET", &b, "1"]);
        assert!(client.command(&["EXEC"]).error().starts_with("CROSSSLOT "));
        assert_eq!(client.command(&["EXISTS", &a, &b]).int(), 0);
        assert!(client.command(&["WATCH", &a]).error().starts_with("ERR WATCH "));
    }
}

fn documents_and_tags_are_the_owners(transport: &str) {
    let fleet = Fleet::over(transport, 3, &["--hot-copy-ttl", "10s:1"]);
    for owner in 0..3 {
        let key = fleet.key_of(owner);
        for (number, node) in fleet.nodes.iter().enumerate() {
            let mut client = node.client();
            assert_eq!(client.command(&["JSON.SET", &key, "$", "{\"a\":[1]}"]), Reply::ok());
            let next = &fleet.nodes[(number + 1) % 3];
            assert_eq!(
                next.client().command(&["JSON.ARRAPPEND", &key, "$.a", "2"]),
                Reply::Array(Some(vec![Reply::Int(2)]))
            );
            for reader in &fleet.nodes {
                assert_eq!(reader.client().command(&["JSON.GET", &key, "$.a"]), Reply::bulk("[[1,2]]"));
                assert!(reader.client().command(&["GET", &key]).error().starts_with("WRONGTYPE "));
                assert_eq!(read(reader, &key).as_deref(), Some("{\"a\":[1,2]}"));
            }
            assert_eq!(client.command(&["SET", &key, "tagged", "TAG", "t"]), Reply::ok());
            assert_eq!(next.client().command(&["LARDER.TAG", &key, "u"]).int(), 1);
            assert_eq!(http(next, "DELETE", "/v1/tags/u", "", "").0, 204);
            assert!(fleet.nodes.iter().all(|node| read(node, &key).is_none()), "{key}");
        }
    }
}

fn http(node: &Larder, method: &str, path: &str, fields: &str, body: &str) -> (u16, String, String) {
    let len = body.len();
    let (status, head, body) = node.http(&format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{fields}content-length: {len}\r\n\r\n{body}"
    ));
    (status, head, String::from_utf8(body).unwrap())
}

fn etag(head: &str) -> &str {
    let line = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap_or_else(|| panic!("no tag: {head}"));
    line.trim()
}

fn writes_over_http_have_lifetimes_tags_and_conditions_at_every_node(transport: &str) {
    let fleet = Fleet::over(transport, 3, &["--hot-copy-ttl", "10s:1"]);
    for owner in 0..3 {
        let path = format!("/v1/kv/{}", fleet.key_of(owner));
        for number in 0..3 {
            let at = |step: usize| &fleet.nodes[(number + step) % 3];
            let absent = "if-none-match: *\r\n";
            assert_eq!(http(at(0), "PUT", &format!("{path}?ttl=60s&tag=t"), absent, "one").0, 201);
            assert_eq!(http(at(1), "PUT", &path, absent, "two").0, 412);
            let (status, head, body) = http(at(2), "GET", &path, "", "");
            assert_eq!((status, &*body), (200, "one"));
            let life = at(1).client().command(&["PTTL", path.strip_prefix("/v1/kv/").unwrap()]).int();
            assert!((40_000..=60_000).contains(&life), "{life}");
            let first = etag(&head).to_owned();
            let (status, head, _) = http(at(1), "PUT", &path, &format!("if-match: {first}\r\n"), "three");
            assert_eq!(status, 204);
            let second = etag(&head).to_owned();
            assert_eq!(http(at(2), "PUT", &path, &format!("if-match: {first}\r\n"), "four").0, 412);
            assert_eq!(http(at(0), "DELETE", &path, &format!("if-match: {first}\r\n"), "").0, 412);
            for node in &fleet.nodes {
                let (_, head, body) = http(node, "GET", &path, "", "");
                assert_eq!((etag(&head), &*body), (&*second, "three"));
            }
            assert_eq!(http(at(2), "DELETE", &path, &format!("if-match: {second}\r\n"), "").0, 204);
            assert_eq!(http(at(1), "DELETE", &path, "", "").0, 404);
            assert_eq!(http(at(0), "PUT", &format!("{path}?type=json"), "", "{\"a\": 1}").0, 201);
            let patch = "content-type: application/merge-patch+json\r\n";
            assert_eq!(http(at(1), "PATCH", &path, patch, "{\"b\":2}").0, 204);
            assert_eq!(http(at(2), "GET", &format!("{path}?pointer=/b"), "", "").2, "2");
            assert_eq!(http(at(2), "PUT", &format!("{path}?tag=t"), "", "tagged").0, 204);
            assert_eq!(http(at(0), "DELETE", "/v1/tags/t", "", "").0, 204);
            assert_eq!(http(at(1), "GET", &path, "", "").0, 404);
            assert_eq!(http(at(1), "PUT", &format!("{path}?ttl=nonsense"), "", "x").0, 400);
        }
    }
}

fn what_a_dead_owner_has_is_an_error_and_comes_from_nowhere_else(transport: &str) {
    let mut fleet = Fleet::over(transport, 3, &[]);
    let [here, gone] = [0, 2].map(|owner| fleet.key_of(owner));
    let mut client = fleet.nodes[0].client();
    assert_eq!(client.command(&["MSET", &here, "1", &gone, "1"]), Reply::ok());
    drop(fleet.nodes.pop());
    for command in [&["INCR", &gone][..], &["EXISTS", &here, &gone], &["SET", &gone, "1"]] {
        let reply = client.command(command);
        assert!(reply.error().starts_with("ERR source unavailable: peer "), "{command:?}: {reply:?}");
    }
    assert_eq!(http(&fleet.nodes[0], "PUT", &format!("/v1/kv/{gone}"), "", "x").0, 503);
    assert_eq!(client.command(&["INCR", &here]).int(), 2);
}

/// A node that answers the first command, and loses the connection after each later one. How many
/// it has had.
fn unreliable_owner() -> (u16, Arc<AtomicUsize>) {
    // An `OwnerAnswer`: status 200, and the reply `:1`.
    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n\xc8\x0c\xc8\x01\xda\x0c\x04:1\r\n";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, had) = (listener.local_addr().unwrap().port(), Arc::<AtomicUsize>::default());
    let count = had.clone();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let count = count.clone();
            thread::spawn(move || {
                let mut stream = BufReader::new(stream);
                loop {
                    let (mut line, mut len, mut first) = (String::new(), 0, String::new());
                    while stream.read_line(&mut line).is_ok_and(|read| read > 2) {
                        if let Some(value) = line.to_lowercase().strip_prefix("content-length: ") {
                            len = value.trim().parse().unwrap();
                        }
                        first = if first.is_empty() { line.clone() } else { first };
                        line.clear();
                    }
                    if first.is_empty() || stream.read_exact(&mut vec![0; len]).is_err() {
                        return;
                    }
                    let answer = match first.contains("/_at-owner/") {
                        true if count.fetch_add(1, Relaxed) == 0 => ANSWER,
                        true => return,
                        false => b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
                    };
                    stream.get_mut().write_all(answer).unwrap();
                }
            });
        }
    });
    (port, had)
}

#[test]
fn a_command_whose_answer_is_lost_may_have_run_and_is_not_sent_again() {
    let (owner, had) = unreliable_owner();
    let this = Port::free();
    let peers = format!("127.0.0.1:{owner},127.0.0.1:{}", this.number);
    let node = Larder::with_http_on(this.number, &["--peers", &peers, "--threads", "1"]);
    let is_owned =
        |key: &String| node.get(&format!("/v1/peers?key={key}")).contains(&format!("\"owner\":\"127.0.0.1:{owner}\""));
    let key = (0..).map(|number| format!("{number:x}-key")).find(is_owned).unwrap();
    let mut client = node.client();
    assert_eq!(client.command(&["INCR", &key]).int(), 1);
    // On the connection that is open now, then, once the node may be asked again, on a new one.
    for asked in 2..4 {
        wait_until("the owner to be asked", || {
            let reply = client.command(&["INCR", &key]);
            assert!(reply.error().starts_with("ERR source unavailable: "), "{reply:?}");
            had.load(Relaxed) >= asked
        });
        assert_eq!(had.load(Relaxed), asked, "it is sent once");
    }
}

/// Orders a fault at a node, or ends all (`DELETE`).
fn faults(node: &Larder, method: &str, body: &str) {
    let head = format!("{method} /v1/faults HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
    let (status, ..) = node.admin(&format!("{head}content-length: {}\r\n\r\n{body}", body.len()));
    assert!(matches!(status, 200 | 201), "{status}");
}
/// The node's requests reach no other node.
const CUT: &str = r#"{"at":"peers","kind":"cut","duration":"10m"}"#;

/// What node 1 has not heard from node 0.
fn untold(fleet: &Fleet) -> f64 {
    fleet.nodes[0].metric(&format!("larder_peer_untold_changes{{peer=\"127.0.0.1:{}\"}}", fleet.ports[1].number))
}

#[test]
fn removals_that_a_node_does_not_hear_leave_it_its_own_values() {
    let fleet = Fleet::start(2, &["--allow-faults", "--threads", "1"]);
    let other = fleet.key_of(1);
    let (mut here, mut there) = (fleet.nodes[0].client(), fleet.nodes[1].client());
    assert_eq!(there.command(&["SET", &other, "kept"]), Reply::ok());
    faults(&fleet.nodes[0], "POST", CUT);
    // Until there are too many to remember.
    let (mut before, mut number) = (0.0, 0);
    while untold(&fleet) >= before {
        before = untold(&fleet);
        let pairs = (number..number + 1000).flat_map(|number| [format!("many-{number}"), "v".to_owned()]);
        let command: Vec<String> = std::iter::once("MSET".to_owned()).chain(pairs).collect();
        assert!(here.command(&command).error().starts_with("ERR source unavailable: "), "of keys of the other node");
        number += 1000;
        assert!(number < 100_000, "{before} are untold");
    }
    faults(&fleet.nodes[0], "DELETE", "");
    wait_until("the node to hear of the rest", || untold(&fleet) == 0.0);
    assert_eq!(there.command(&["GET", &other]), Reply::bulk("kept"));
}

#[test]
fn a_clear_that_a_node_does_not_hear_is_an_error_and_does_not_come_late() {
    let fleet = Fleet::start(2, &["--allow-faults", "--threads", "1"]);
    let (own, other) = (fleet.key_of(0), fleet.key_of(1));
    let (mut here, mut there) = (fleet.nodes[0].client(), fleet.nodes[1].client());
    assert_eq!(here.command(&["MSET", &own, "1", &other, "1"]), Reply::ok());
    faults(&fleet.nodes[0], "POST", CUT);
    let replies = [&["FLUSHALL"][..], &["LARDER.CLEARTAG", "t"]].map(|command| here.command(command));
    let key = format!("/v1/keys?key={other}");
    let statuses = ["/v1/groups/default", "/v1/keys?prefix=0", "/v1/tags/t", &key]
        .map(|path| send(&fleet.nodes[0], "DELETE", path, ""));
    assert_eq!(here.command(&["GET", &own]), Reply::nil(), "this node is cleared");
    faults(&fleet.nodes[0], "DELETE", "");
    assert_eq!(there.command(&["SET", &other, "later"]), Reply::ok());
    wait_until("all to be told", || untold(&fleet) == 0.0);
    assert_eq!(there.command(&["GET", &other]), Reply::bulk("later"));
    assert!(replies.iter().all(|reply| reply.error().starts_with("ERR source unavailable: ")), "{replies:?}");
    assert_eq!(statuses, [503; 4]);
    wait_until("the node to be reached again", || here.command(&["FLUSHALL"]) == Reply::ok());
    assert_eq!(there.command(&["GET", &other]), Reply::nil());
}
