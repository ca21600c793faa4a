//! Rules of users beside a real redis-server: what ACL DRYRUN says of random commands under random
//! rules.
use super::Redis;
use crate::{
    command_lookup::{COMMANDS, FoundCommand, find_for},
    command_rights::{catalog, check, check_forwarded},
};
use larder_base::identity::{Refusal, User};
use larder_proto::resp::{Args, Limits, Parsed, Parser, encode};
use larder_source::UpstreamCommands;

const RULES: [&str; 46] = [
    "+get",
    "-get",
    "+@read",
    "-@read",
    "+@write",
    "-@write",
    "+@all",
    "-@all",
    "+@string",
    "-@string",
    "+@keyspace",
    "+set",
    "+mset",
    "+copy",
    "+rename",
    "-rename",
    "+config|get",
    "-config|get",
    "+config",
    "-config",
    "+@dangerous",
    "-@dangerous",
    "+select|1",
    "+select",
    "-select",
    "+hget",
    "+hset",
    "-hset",
    "+@hash",
    "+sort",
    "+zunionstore",
    "+xread",
    "+subscribe",
    "+psubscribe",
    "+@pubsub",
    "~a*",
    "%R~b*",
    "%W~c*",
    "~d",
    "~[de]*",
    "resetkeys",
    "&a*",
    "&b",
    "resetchannels",
    "~*",
    "&*",
];

/// Commands with every kind of key position, within their arity.
const COMMANDS_SENT: [&str; 62] = [
    "GET a1",
    "GET b1",
    "GET c1",
    "GET d",
    "MGET a1 b1",
    "MGET a1 c1",
    "MGET b1 d",
    "SET a1 v",
    "SET b1 v",
    "SET c1 v",
    "SET c1 v GET",
    "SET a1 v GET",
    "SET d v EX 10",
    "MSET a1 1 c1 2",
    "MSET a1 1 b1 2",
    "COPY b1 c1",
    "COPY c1 b1",
    "COPY a1 d",
    "RENAME a1 c1",
    "RENAME b1 c1",
    "DEL c1",
    "DEL b1",
    "UNLINK c1 d",
    "EXISTS b1 c1",
    "EXISTS x",
    "TYPE c1",
    "STRLEN b1",
    "TTL b1",
    "TTL c1",
    "EXPIRE b1 10",
    "EXPIRE c1 10",
    "APPEND c1 x",
    "INCR c1",
    "INCR a1",
    "GETDEL a1",
    "GETEX b1",
    "SETNX c1 v",
    "OBJECT ENCODING c1",
    "OBJECT HELP",
    "MEMORY USAGE c1",
    "CONFIG GET maxmemory",
    "CONFIG SET maxmemory 0",
    "SELECT 1",
    "SELECT 0",
    "KEYS *",
    "FLUSHALL",
    "PING",
    "AUTH x",
    "HGET b1 f",
    "HSET c1 f v",
    "HSET b1 f v",
    "ZUNIONSTORE c1 2 a1 b1",
    "ZUNIONSTORE b1 1 a1",
    "XREAD STREAMS a1 b1 0 0",
    "XREAD STREAMS c1 0",
    "SUBSCRIBE a1",
    "SUBSCRIBE a1 z",
    "PSUBSCRIBE a*",
    "PSUBSCRIBE a1*",
    "PUBLISH b m",
    "SPUBLISH z m",
    "WATCH b1 x",
];

fn said(text: &str) -> Option<Refusal> {
    if text.contains("permissions to run the") {
        Some(Refusal::Command)
    } else if text.contains("permissions to access the") && text.contains("' key") {
        Some(Refusal::Key(None))
    } else if text.contains("permissions to access the") {
        Some(Refusal::Channel(0))
    } else {
        assert_eq!(text, "+OK\r\n");
        None
    }
}

/// The refusal without its position.
fn kind(checked: Result<(), Refusal>) -> Option<Refusal> {
    checked.err().map(|refusal| match refusal {
        Refusal::Command => Refusal::Command,
        Refusal::Key(_) => Refusal::Key(None),
        Refusal::Channel(_) => Refusal::Channel(0),
    })
}

fn parsed<T>(line: &str, look: impl FnOnce(Args<'_>) -> T) -> T {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let bytes = encode(&words);
    let mut parser = Parser::default();
    let parsed = parser.parse(&bytes, &Limits::new(1 << 20));
    assert!(matches!(parsed, Ok(Parsed::Command { .. })), "{line}");
    look(parser.args(&bytes))
}

#[test]
fn random_rules_allow_what_redis_allows() {
    let redis = Redis::start();
    let mut direct = redis.connect();
    let table = direct.call(&[b"COMMAND".to_vec()]);
    let known = UpstreamCommands::parse(&table).expect("its table");
    let catalog = catalog();
    let mut random = fastrand::Rng::with_seed(19);
    let (mut compared, mut allowed) = (0, 0);
    for round in 0..400 {
        let pick = |random: &mut fastrand::Rng| {
            (0..random.usize(0..7)).map(|_| RULES[random.usize(..RULES.len())]).collect::<Vec<_>>()
        };
        let mut rules: Vec<String> = pick(&mut random).into_iter().map(str::to_owned).collect();
        if random.bool() {
            rules.push(format!("({})", pick(&mut random).join(" ")));
        }
        let ours = User::new("u", &catalog).changed(&rules, &catalog);
        let mut command: Vec<Vec<u8>> = ["ACL", "SETUSER", "u", "reset"].map(|word| word.as_bytes().to_vec()).into();
        command.extend(rules.iter().map(|rule| rule.as_bytes().to_vec()));
        let theirs = String::from_utf8_lossy(&direct.call(&command)).into_owned();
        let Ok(user) = ours else {
            assert!(theirs.starts_with("-ERR"), "{rules:?}: {theirs}");
            continue;
        };
        assert_eq!(theirs, "+OK\r\n", "{rules:?}");
        for line in COMMANDS_SENT {
            let expected = said(&direct.say(&format!("ACL DRYRUN u {line}")));
            let by_name = parsed(line, |args| kind(check_forwarded(user.permissions(), known.find(args), args)));
            let ours = parsed(line, |args| match find_for(args) {
                FoundCommand::Command(command) => kind(check(user.permissions(), command, args)),
                _ => by_name,
            });
            assert_eq!(ours, expected, "round {round}: {line} with {rules:?}");
            // What is forwarded has no channels: those commands are in our table.
            // Every user may AUTH; the table of Redis says of SET what it may do at most.
            let is_special = line.starts_with("AUTH") || line.starts_with("SET ");
            if !is_special
                && expected != Some(Refusal::Channel(0))
                && !line.contains("PUBLISH")
                && !line.contains("SUBSCRIBE")
            {
                assert_eq!(by_name, expected, "round {round}, by name: {line} with {rules:?}");
            }
            compared += 1;
            allowed += usize::from(expected.is_none());
        }
    }
    assert!(compared > 10_000 && allowed > compared / 20 && allowed < compared, "{allowed} of {compared}");
}

#[test]
fn what_reaches_beyond_its_keys_needs_more_rights() {
    let redis = Redis::start();
    let mut direct = redis.connect();
    let table = direct.call(&[b"COMMAND".to_vec()]);
    let known = UpstreamCommands::parse(&table).expect("its table");
    let catalog = catalog();
    let refused = |rules: &[&str], line: &str| {
        let user = User::new("u", &catalog).changed(rules, &catalog).expect("rules");
        parsed(line, |args| kind(check_forwarded(user.permissions(), known.find(args), args)))
    };
    let (key, command) = (Some(Refusal::Key(None)), Some(Refusal::Command));
    for (line, with_some_keys, with_all_keys) in [
        ("SORT a1", None, None),
        ("SORT a1 BY nosort GET #", None, None),
        ("SORT a1 BY w*", key, None),
        ("SORT a1 GET x", key, None),
        ("SORT a1 LIMIT 0 1 STORE a2", None, None),
        ("SORT a1 STORE b", key, None),
        ("SORT a1 STORE b STORE a2", key, None),
        ("SORT a1 STORE b GET store", key, None),
        ("SORT_RO a1 BY w*", key, None),
        ("GEORADIUS a1 0 0 1 m STORE b STORE a2", key, None),
        ("GEORADIUS a1 0 0 1 m STORE a2 STORE b", key, None),
        ("GEORADIUS a1 0 0 1 m STORE a2 STOREDIST a3", None, None),
        ("XREADGROUP GROUP STREAMS c STREAMS b >", key, None),
        ("ZUNIONSTORE a1 1 b", key, None),
        ("MIGRATE host 1 a1 0 1", key, None),
        ("EVAL x 1 a1", command, command),
        ("EVALSHA x 0", command, command),
        ("FCALL_RO f 1 a1", command, command),
        ("NO.SUCH.COMMAND a1", key, None),
    ] {
        // Everything but one command: scripts could call that one.
        assert_eq!(refused(&["+@all", "-flushall", "~a*", "&*"], line), with_some_keys, "{line}");
        assert_eq!(refused(&["+@all", "-flushall", "~*", "&*"], line), with_all_keys, "{line}");
        assert_eq!(refused(&["+@all", "~*", "&*"], line), None, "{line}");
    }
}

#[test]
fn what_commands_do_with_keys_is_as_in_redis() {
    let redis = Redis::start();
    let mut direct = redis.connect();
    let table = direct.call(&[b"COMMAND".to_vec()]);
    let known = UpstreamCommands::parse(&table).expect("its table");
    let catalog = catalog();
    let mut compared = 0;
    for rules in [&["+@all", "%R~*"][..], &["+@all", "%W~*"], &["+@all", "~k1"], &["+@all"]] {
        let user = User::new("u", &catalog).changed(rules, &catalog).expect("rules");
        for command in COMMANDS.iter().filter(|command| !command.is_parent && command.keys.first > 0) {
            let mut line = command.name.replace('|', " ");
            for at in 1..=6 {
                line.push_str(&format!(" k{at}"));
            }
            let Some(theirs) = parsed(&line, |args| {
                known.find(args).map(|row| kind(check_forwarded(user.permissions(), Some(row), args)))
            }) else {
                continue;
            };
            // The table of Redis says of SET what it may do at most.
            if command.name == "set" {
                continue;
            }
            let ours = parsed(&line, |args| kind(check(user.permissions(), command, args)));
            assert_eq!(ours, theirs, "{line} with {rules:?}");
            compared += 1;
        }
    }
    assert!(compared > 150, "{compared}");
}
