use super::*;
use crate::{
    redis::cluster::{key_slot::SLOTS, scan_cursor::parse_cursor},
    source_error::SourceError,
};
use larder_proto::resp::{View, parse_u64, view};
use proptest::prelude::*;

/// A table as servers before version 7 show it: name, arity, first key, last, step.
fn table() -> UpstreamCommands {
    let rows = [
        ("get", 2, 1, 1, 1),
        ("mget", -2, 1, -1, 1),
        ("mset", -3, 1, -1, 2),
        ("del", -2, 1, -1, 1),
        ("exists", -2, 1, -1, 1),
        ("ping", -1, 0, 0, 0),
        ("publish", 3, 0, 0, 0),
        ("dbsize", 1, 0, 0, 0),
        ("scan", -2, 0, 0, 0),
    ];
    let row = |(name, arity, first, last, step): (&str, i32, i32, i32, i32)| {
        format!("*6\r\n${}\r\n{name}\r\n:{arity}\r\n*0\r\n:{first}\r\n:{last}\r\n:{step}\r\n", name.len())
    };
    let text = format!("*{}\r\n{}", rows.len(), rows.map(row).concat());
    UpstreamCommands::parse(text.as_bytes()).expect("a table")
}
fn tcp(port: u16) -> RedisAddress {
    RedisAddress::Tcp { host: "h".into(), port }
}
/// Three masters; which slots they have does not matter here.
fn map() -> SlotMap {
    (1..4).fold(SlotMap::default(), |map, port| map.with(port, &tcp(port)))
}
fn plan(commands: &[Vec<&str>]) -> RoutingPlan {
    let parts = |command: &Vec<&str>| encode(&command.iter().map(|part| part.as_bytes()).collect::<Vec<_>>());
    let bytes: Vec<u8> = commands.iter().flat_map(parts).collect();
    RoutingPlan::new(&bytes.into(), &table(), &map())
}
fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// What a node says to a command: values are their keys, everything exists.
fn said(command: &[String], master: u64) -> String {
    let keys = &command[1..];
    match &*command[0] {
        "get" => bulk(&keys[0]),
        "mget" => format!("*{}\r\n{}", keys.len(), keys.iter().map(|key| bulk(key)).collect::<String>()),
        "del" | "exists" => format!(":{}\r\n", keys.len()),
        // The number of the master, so that it shows whether each was asked once.
        "dbsize" => format!(":{}\r\n", 1 << (8 * master)),
        "mset" if keys.len() % 2 == 1 => "-ERR wrong number of arguments\r\n".into(),
        "mset" if keys.chunks(2).any(|pair| pair[1] != format!("of {}", pair[0])) => "-ERR mixed up\r\n".into(),
        "scan" => format!("*2\r\n{}*0\r\n", bulk("5")),
        _ => "+OK\r\n".into(),
    }
}
/// What nodes say to a part; a transaction is `MULTI`, commands, `EXEC`.
fn answer(part: &RoutedCommands) -> RelayResult {
    let (limits, mut parser, mut at) = (Limits::new(1 << 20), Parser::default(), 0);
    let (mut commands, mut slots) = (Vec::new(), Vec::new());
    while let Ok(Parsed::Command { consumed }) = parser.parse(&part.commands[at..], &limits) {
        let args = parser.args(&part.commands[at..at + consumed]);
        let text: Vec<String> = args.from(0).map(|arg| String::from_utf8(arg.to_vec()).expect("text")).collect();
        slots.extend(routing_key(&table(), args).map(slot));
        commands.push(text);
        at += consumed;
    }
    assert_eq!(commands.len(), part.count);
    if commands.len() == 1 && matches!(&*commands[0][0], "del" | "exists" | "mget") || commands.len() > 1 {
        assert!(slots.iter().all(|slot| part.to == Destination::Slot(*slot)), "{commands:?} {:?}", part.to);
    }
    let master = match &part.to {
        Destination::Master(RedisAddress::Tcp { port, .. }) => u64::from(*port) - 1,
        _ => 0,
    };
    let in_transaction = commands[0][0] == "multi";
    let last = commands.len() - 1;
    let reply = |(at, command): (usize, &Vec<String>)| -> Bytes {
        match (in_transaction, at) {
            (true, at) if at == last => "*0\r\n".into(),
            (true, 1..) => "+QUEUED\r\n".into(),
            _ => said(command, master).into(),
        }
    };
    Ok(commands.iter().enumerate().map(reply).collect())
}
fn key() -> impl Strategy<Value = String> {
    prop_oneof!["[a-f]", "\\{[ab]\\}[a-f]", Just(String::new())]
}
fn command() -> impl Strategy<Value = Vec<String>> {
    let named = |name: &'static str, rest: Vec<String>| [vec![name.to_owned()], rest].concat();
    let keys = || prop::collection::vec(key(), 0..7);
    prop_oneof![
        key().prop_map(move |key| named("get", vec![key])),
        keys().prop_map(move |keys| named("mget", keys)),
        keys().prop_map(move |keys| named("del", keys)),
        keys().prop_map(move |keys| named("exists", keys)),
        (keys(), any::<bool>()).prop_map(move |(keys, odd)| {
            let mut rest: Vec<String> = keys.into_iter().flat_map(|key| [key.clone(), format!("of {key}")]).collect();
            rest.truncate(rest.len() - usize::from(odd && !rest.is_empty()));
            named("mset", rest)
        }),
        Just(vec!["ping".to_owned()]),
        Just(vec!["dbsize".to_owned()]),
        Just(vec!["unknown".to_owned(), "a".to_owned()]),
    ]
}

proptest! {
    /// As if one server had been asked, whatever the pieces.
    #[test]
    fn replies_come_back_in_order_and_number(units in prop::collection::vec((command(), 0..4usize), 0..9)) {
        let (mut commands, mut expected) = (Vec::new(), String::new());
        for (command, transaction) in units {
            if transaction == 0 && command[0] == "get" {
                let queued = [vec!["multi".into()], command.clone(), command, vec!["exec".into()]];
                commands.extend(queued);
                expected.push_str("+OK\r\n+QUEUED\r\n+QUEUED\r\n*0\r\n");
            } else {
                expected.push_str(&match &*command[0] {
                    "dbsize" => format!(":{}\r\n", 0x0001_0101),
                    _ => said(&command, 0),
                });
                commands.push(command);
            }
        }
        let plan = plan(&commands.iter().map(|command| command.iter().map(|part| &**part).collect()).collect::<Vec<_>>());
        prop_assert_eq!(plan.units.iter().map(|unit| unit.replies).sum::<usize>(), commands.len());
        prop_assert_eq!(plan.units.iter().map(|unit| unit.parts).sum::<usize>(), plan.parts.len());
        let buffers = Buffers::unbounded();
        let replies = plan.assemble(plan.parts.iter().map(answer).collect(), 3, &buffers).expect("room");
        prop_assert_eq!(replies.iter().len(), commands.len());
        prop_assert_eq!(String::from_utf8_lossy(replies.bytes()), expected);
        // And as many if no node answers.
        let gone = plan.parts.iter().map(|_| Err(SourceError::Lost("gone".into()))).collect();
        prop_assert_eq!(plan.assemble(gone, 3, &buffers).expect("room").iter().len(), commands.len());
    }
}

#[test]
fn a_scan_goes_through_one_master_after_the_other() {
    let scan = |cursor: u64| plan(&[vec!["scan", &cursor.to_string(), "count", "7"]]);
    let said = |own: u64| Bytes::from(format!("*2\r\n{}*0\r\n", bulk(&own.to_string())));
    let next = |index, own, masters| {
        let reply = next_cursor(&said(own), index, masters).concat();
        let Ok(View::Array(mut values)) = view(&reply) else { panic!("{reply:?}") };
        let Some(View::Bulk(cursor)) = values.next() else { panic!("{reply:?}") };
        parse_u64(cursor).expect("a cursor")
    };
    // Within the second, on to the third, to the end.
    let cursor = next(1, 5, 3);
    let part = &scan(cursor).parts[0];
    assert_eq!(
        (&part.to, &part.commands[..]),
        (&Destination::Master(tcp(2)), &encode(&[b"scan", b"5", b"count", b"7"])[..])
    );
    assert_eq!(scan(next(1, 0, 3)).parts[0].to, Destination::Master(tcp(3)));
    assert_eq!(next(2, 0, 3), 0);
    // As many masters as there can be.
    assert_eq!(cursor_of(next(SLOTS - 2, 0, SLOTS)), (SLOTS - 1, 0));
    // A master that has gone.
    let gone = scan(next(6, 5, 7));
    assert!(gone.parts.is_empty());
    assert_eq!(&gone.assemble(Vec::new(), 3, &Buffers::unbounded()).expect("room")[0], SCAN_OVER);
}
fn cursor_of(cursor: u64) -> (usize, u64) {
    let text = cursor.to_string();
    let ranges = [0..0, 0..text.len() as u32];
    parse_cursor(Args::new(text.as_bytes(), &ranges)).expect("a cursor")
}

#[test]
fn messages_of_a_channel_take_one_way() {
    let plan = plan(&[vec!["publish", "c", "1"], vec!["ping"], vec!["multi"], vec!["publish", "c", "2"], vec!["exec"]]);
    let to: Vec<&Destination> = plan.parts.iter().map(|part| &part.to).collect();
    assert_eq!(
        to,
        [&Destination::Slot(slot(b"c")), &Destination::Anyone, &Destination::Anyone],
        "a transaction's keys say where it goes"
    );
}

/// Each way of assembly copies once, and only what fits; the copy is on the account.
#[test]
fn replies_are_assembled_within_the_buffers() {
    const LIMIT: usize = 8 << 20;
    let value = |len| format!("*1\r\n{}", bulk(&"v".repeat(len)));
    let scanned = |len| format!("*2\r\n{}{}", bulk("5"), value(len));
    type Said<'s> = &'s dyn Fn(usize) -> String;
    let ways: [(&[&str], Said<'_>); 4] = [
        (&["mget", "a", "b", "c"], &value),
        (&["scan", "0"], &scanned),
        (&["get", "a"], &|len| bulk(&"v".repeat(len))),
        (&["dbsize"], &|len| format!("-ERR {}\r\n", "v".repeat(4 * len))),
    ];
    for (command, said) in ways {
        // The second command makes two replies of one.
        let plan = plan(&[command.to_vec(), vec!["ping"]]);
        for (len, fits) in [(100_000, true), (LIMIT, false)] {
            let buffers = Buffers::new(LIMIT, 1, Vec::new());
            let answer = |_| Ok([Bytes::from(said(len / plan.parts.len()))].into_iter().collect());
            match plan.assemble(plan.parts.iter().map(answer).collect(), 3, &buffers) {
                Ok(replies) => {
                    assert!(fits, "{command:?}");
                    let held = buffers.used();
                    assert!(held >= replies.bytes().len() && held < replies.bytes().len() + 200, "{command:?}: {held}");
                }
                Err(error) => {
                    let text = error.to_string();
                    assert!(!fits && text.contains("(max-buffers)") && buffers.refused() == 1, "{command:?}: {text}");
                }
            }
        }
    }
}
