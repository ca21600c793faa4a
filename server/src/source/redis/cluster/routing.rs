//! Which node each of several commands goes to.
//!
//! A command goes where its keys are; what has no key goes anywhere; some go in pieces, or to all ([`Tips`](super::tips)). `MULTI` to `EXEC` goes as
//! one. That the keys of a single command are not together, the server itself says.
use super::{
    command_tips::Spread,
    key_slot::{SLOTS, slot},
    reply_merge::{Gather, gather},
    slot_map::Map,
};
use crate::{
    config::RedisAddress,
    source::{
        RawReplies,
        redis::{UpstreamCommands, request::Answer},
    },
};
use bytes::Bytes;
use larder_proto::resp::{Args, Limits, Parsed, Parser, View, encode, parse_u64, view};
use std::{collections::HashMap, iter};

/// What goes to one node as it is: a command, or a transaction.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Part {
    pub(super) commands: Bytes,
    pub(super) count: usize,
    pub(super) to: To,
}
#[derive(Debug, Clone, PartialEq)]
pub(super) enum To {
    Slot(u16),
    Anyone,
    Master(RedisAddress),
}

/// What a client sent: a command, or a transaction.
#[derive(Debug, PartialEq)]
pub(super) struct Unit {
    /// So many of the plan's parts.
    pub(super) parts: usize,
    /// Replies that the client expects.
    pub(super) replies: usize,
    pub(super) make: Make,
}
/// How its replies are made of those of its parts.
#[derive(Debug, PartialEq)]
pub(super) enum Make {
    /// They are those of its only part.
    Same,
    Gather(Gather),
    /// There are none: no node is asked, and this is the error.
    Refused(&'static [u8]),
    /// A cursor goes on at this master, and from there to the next.
    Cursor(usize),
}

/// What was seen of one so far.
struct Transaction {
    begin: usize,
    count: usize,
    to: To,
    is_crossed: bool,
}

#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) parts: Vec<Part>,
    pub(super) units: Vec<Unit>,
}

/// Bits of a client's cursor that say which master it is at, of as many as there are slots; the others are that master's own cursor.
const CURSOR_BITS: u32 = SLOTS.ilog2();
const CROSSED: &[u8] = b"-CROSSSLOT Keys in request don't hash to the same slot\r\n";
const SCAN_OVER: &[u8] = b"-ERR the source has fewer masters than when this SCAN began: begin it anew\r\n";

impl Plan {
    /// Plans `commands`, which are whole RESP arrays.
    pub(super) fn new(commands: &Bytes, known: &UpstreamCommands, map: &Map) -> Plan {
        let limits = Limits::new(usize::MAX / 4);
        let mut plan = Plan::default();
        let mut parser = Parser::default();
        let mut transaction: Option<Transaction> = None;
        let mut at = 0;
        while let Ok(Parsed::Command { consumed }) = parser.parse(&commands[at..], &limits) {
            let encoded = commands.slice(at..at + consumed);
            let args = parser.args(&encoded);
            if args.is_empty() {
                break;
            }
            let begin = at;
            at += consumed;
            match &mut transaction {
                Some(open) => {
                    open.count += 1;
                    match destination(known, args) {
                        To::Anyone => {}
                        to => {
                            open.is_crossed |= open.to != To::Anyone && open.to != to;
                            open.to = to;
                        }
                    }
                    if args[0].eq_ignore_ascii_case(b"exec") {
                        plan.end(open, commands.slice(open.begin..at));
                        transaction = None;
                    }
                }
                None if args[0].eq_ignore_ascii_case(b"multi") => {
                    transaction = Some(Transaction { begin, count: 1, to: To::Anyone, is_crossed: false });
                }
                None => plan.add(encoded.clone(), args, known, map),
            }
        }
        plan
    }

    fn end(&mut self, transaction: &Transaction, commands: Bytes) {
        let Transaction { count, ref to, is_crossed, .. } = *transaction;
        if is_crossed {
            self.units.push(Unit { parts: 0, replies: count, make: Make::Refused(CROSSED) });
        } else {
            self.units.push(Unit { parts: 1, replies: count, make: Make::Same });
            self.parts.push(Part { commands, count, to: to.clone() });
        }
    }

    fn add(&mut self, commands: Bytes, args: Args<'_>, known: &UpstreamCommands, map: &Map) {
        let row = known.find(args);
        let tips = row.map(|row| &row.tips);
        let spread = tips.map_or(Spread::One, |tips| tips.spread);
        match (spread, tips) {
            (Spread::Keys, Some(tips)) => {
                if let Some((parts, places)) = pieces(known, args).filter(|(parts, _)| parts.len() > 1) {
                    self.units.push(Unit { parts: parts.len(), replies: 1, make: Make::Gather(tips.gather(places)) });
                    return self.parts.extend(parts);
                }
            }
            (Spread::All, Some(tips)) if map.shards().len() > 1 => {
                self.units.push(Unit {
                    parts: map.shards().len(),
                    replies: 1,
                    make: Make::Gather(tips.gather(Vec::new())),
                });
                return self.parts.extend(map.shards().iter().map(|shard| Part {
                    commands: commands.clone(),
                    count: 1,
                    to: To::Master(shard.master.clone()),
                }));
            }
            (Spread::Scan, _) => {
                if let Some((index, own)) = cursor(args) {
                    let part = map.shards().get(index).map(|shard| Part {
                        commands: with_cursor(args, own).into(),
                        count: 1,
                        to: To::Master(shard.master.clone()),
                    });
                    let make = if part.is_some() { Make::Cursor(index) } else { Make::Refused(SCAN_OVER) };
                    self.units.push(Unit { parts: usize::from(part.is_some()), replies: 1, make });
                    return self.parts.extend(part);
                }
            }
            _ => {}
        }
        let to = match (destination(known, args), row, args.get(1)) {
            // Anywhere, but what is said in one channel always at the same node, for only so it stays in order.
            (To::Anyone, Some(row), Some(channel)) if &*row.name == "publish" => To::Slot(slot(channel)),
            (to, ..) => to,
        };
        self.units.push(Unit { parts: 1, replies: 1, make: Make::Same });
        self.parts.push(Part { to, commands, count: 1 });
    }

    /// What the client is told, of what each part came to, with so many masters now.
    pub(super) fn assemble(&self, parts: Vec<Answer>, masters: usize) -> RawReplies {
        let mut parts = parts.into_iter();
        let mut replies: Vec<Bytes> = Vec::with_capacity(parts.len());
        for unit in &self.units {
            let its = parts
                .by_ref()
                .take(unit.parts)
                .map(|part| part.unwrap_or_else(|error| iter::repeat_n(error.to_reply(), unit.replies).collect()));
            match &unit.make {
                Make::Same => {
                    its.for_each(|part| replies.extend(part.iter().map(|reply| part.bytes().slice_ref(reply))))
                }
                Make::Refused(error) => {
                    replies.extend(iter::repeat_n(Bytes::from_static(b"+QUEUED\r\n"), unit.replies - 1));
                    replies.push(Bytes::from_static(error));
                }
                Make::Gather(how) => replies.push(gather(how, &its.map(|part| part.last()).collect::<Vec<_>>())),
                Make::Cursor(index) => replies.extend(its.map(|part| next_cursor(&part.last(), *index, masters))),
            }
        }
        replies.into_iter().collect()
    }
}

/// Where a command goes as a whole.
pub(super) fn destination(known: &UpstreamCommands, args: Args<'_>) -> To {
    place(known, args).map_or(To::Anyone, |key| To::Slot(slot(key)))
}

/// What says where: the first key. Where the server shows no table of commands, that is what most commands begin with.
pub(super) fn place<'a>(known: &UpstreamCommands, args: Args<'a>) -> Option<&'a [u8]> {
    let Some(row) = known.find(args) else {
        return args.get(1).filter(|_| known.is_empty());
    };
    let mut first: Option<usize> = None;
    row.keys(args, |at, _| {
        first.get_or_insert(at);
    });
    args.get(first.or(row.channel)?)
}

/// A command with many keys as one for each slot, and which of its keys each has.
fn pieces(known: &UpstreamCommands, args: Args<'_>) -> Option<(Vec<Part>, Vec<Vec<usize>>)> {
    let mut keys = Vec::new();
    known.find(args)?.keys(args, |at, _| keys.push(at));
    let step = (args.len() - 1) / keys.len().max(1);
    // Nothing but keys and what belongs to each.
    if !keys.iter().copied().eq((1..args.len()).step_by(step.max(1))) || 1 + step * keys.len() != args.len() {
        return None;
    }
    let mut pieces: Vec<(u16, Vec<usize>)> = Vec::new();
    let mut known_slots: HashMap<u16, usize> = HashMap::new();
    for (index, at) in keys.iter().enumerate() {
        let slot = slot(&args[*at]);
        let piece = *known_slots.entry(slot).or_insert(pieces.len());
        if piece == pieces.len() {
            pieces.push((slot, Vec::new()));
        }
        pieces[piece].1.push(index);
    }
    let part = |(slot, indexes): &(u16, Vec<usize>)| {
        let rest = indexes.iter().flat_map(|index| (keys[*index]..keys[*index] + step).map(|at| &args[at]));
        let whole: Vec<&[u8]> = iter::once(&args[0]).chain(rest).collect();
        Part { commands: encode(&whole).into(), count: 1, to: To::Slot(*slot) }
    };
    Some((pieces.iter().map(part).collect(), pieces.into_iter().map(|(_, indexes)| indexes).collect()))
}

/// Of `SCAN cursor …`: the master that the cursor names, and that one's own cursor.
fn cursor(args: Args<'_>) -> Option<(usize, u64)> {
    let cursor = parse_u64(args.get(1)?)?;
    Some(((cursor & ((1 << CURSOR_BITS) - 1)) as usize, cursor >> CURSOR_BITS))
}
fn with_cursor(args: Args<'_>, own: u64) -> Vec<u8> {
    let own = own.to_string();
    let parts: Vec<&[u8]> =
        args.from(0).enumerate().map(|(at, part)| if at == 1 { own.as_bytes() } else { part }).collect();
    encode(&parts)
}

/// The reply to a `SCAN` of the master `index` of `masters`, with the cursor that the client is to go on with.
pub(super) fn next_cursor(reply: &Bytes, index: usize, masters: usize) -> Bytes {
    let rewritten = || {
        let Ok(View::Array(mut values)) = view(reply) else { return None };
        let Some(View::Bulk(own)) = view(values.next_raw()?).ok() else { return None };
        let keys = values.next_raw()?;
        let next = match parse_u64(own)? {
            0 if index + 1 < masters => index as u64 + 1,
            0 => 0,
            own if own.leading_zeros() < CURSOR_BITS => return None,
            own => own << CURSOR_BITS | index as u64,
        };
        let next = next.to_string();
        Some([format!("*2\r\n${}\r\n{next}\r\n", next.len()).as_bytes(), keys].concat().into())
    };
    match reply.first() {
        Some(b'-') => reply.clone(),
        _ => rewritten().unwrap_or_else(|| Bytes::from_static(b"-ERR the source's cursor cannot be passed on\r\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::SourceError;
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
    /// Three masters; which slots they have matters to nobody here.
    fn map() -> Map {
        (1..4).fold(Map::default(), |map, port| map.with(port, &tcp(port)))
    }
    fn plan(commands: &[Vec<&str>]) -> Plan {
        let parts = |command: &Vec<&str>| encode(&command.iter().map(|part| part.as_bytes()).collect::<Vec<_>>());
        let bytes: Vec<u8> = commands.iter().flat_map(parts).collect();
        Plan::new(&bytes.into(), &table(), &map())
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
    fn answer(part: &Part) -> Answer {
        let (limits, mut parser, mut at) = (Limits::new(1 << 20), Parser::default(), 0);
        let (mut commands, mut slots) = (Vec::new(), Vec::new());
        while let Ok(Parsed::Command { consumed }) = parser.parse(&part.commands[at..], &limits) {
            let args = parser.args(&part.commands[at..at + consumed]);
            let text: Vec<String> = args.from(0).map(|arg| String::from_utf8(arg.to_vec()).expect("text")).collect();
            slots.extend(place(&table(), args).map(slot));
            commands.push(text);
            at += consumed;
        }
        assert_eq!(commands.len(), part.count);
        if commands.len() == 1 && matches!(&*commands[0][0], "del" | "exists" | "mget") || commands.len() > 1 {
            assert!(slots.iter().all(|slot| part.to == To::Slot(*slot)), "{commands:?} {:?}", part.to);
        }
        let master = match &part.to {
            To::Master(RedisAddress::Tcp { port, .. }) => u64::from(*port) - 1,
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
                let mut rest: Vec<String> =
                    keys.into_iter().flat_map(|key| [key.clone(), format!("of {key}")]).collect();
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
            let replies = plan.assemble(plan.parts.iter().map(answer).collect(), 3);
            prop_assert_eq!(replies.iter().len(), commands.len());
            prop_assert_eq!(String::from_utf8_lossy(replies.bytes()), expected);
            // And as many if nobody answers.
            let gone = plan.parts.iter().map(|_| Err(SourceError::Lost("gone".into()))).collect();
            prop_assert_eq!(plan.assemble(gone, 3).iter().len(), commands.len());
        }
    }

    #[test]
    fn a_scan_goes_through_one_master_after_the_other() {
        let scan = |cursor: u64| plan(&[vec!["scan", &cursor.to_string(), "count", "7"]]);
        let said = |own: u64| Bytes::from(format!("*2\r\n{}*0\r\n", bulk(&own.to_string())));
        let next = |index, own, masters| {
            let reply = next_cursor(&said(own), index, masters);
            let Ok(View::Array(mut values)) = view(&reply) else { panic!("{reply:?}") };
            let Some(View::Bulk(cursor)) = values.next() else { panic!("{reply:?}") };
            parse_u64(cursor).expect("a cursor")
        };
        // Within the second, on to the third, to the end.
        let cursor = next(1, 5, 3);
        let part = &scan(cursor).parts[0];
        assert_eq!(
            (&part.to, &part.commands[..]),
            (&To::Master(tcp(2)), &encode(&[b"scan", b"5", b"count", b"7"])[..])
        );
        assert_eq!(scan(next(1, 0, 3)).parts[0].to, To::Master(tcp(3)));
        assert_eq!(next(2, 0, 3), 0);
        // As many masters as there can be.
        assert_eq!(cursor_of(next(SLOTS - 2, 0, SLOTS)), (SLOTS - 1, 0));
        // A master that has gone.
        let gone = scan(next(6, 5, 7));
        assert!(gone.parts.is_empty());
        assert_eq!(&gone.assemble(Vec::new(), 3)[0], SCAN_OVER);
    }
    fn cursor_of(cursor: u64) -> (usize, u64) {
        let text = cursor.to_string();
        let ranges = [0..0, 0..text.len() as u32];
        super::cursor(Args::new(text.as_bytes(), &ranges)).expect("a cursor")
    }

    #[test]
    fn messages_of_a_channel_take_one_way() {
        let plan =
            plan(&[vec!["publish", "c", "1"], vec!["ping"], vec!["multi"], vec!["publish", "c", "2"], vec!["exec"]]);
        let to: Vec<&To> = plan.parts.iter().map(|part| &part.to).collect();
        assert_eq!(to, [&To::Slot(slot(b"c")), &To::Anyone, &To::Anyone], "a transaction's keys say where it goes");
    }
}
