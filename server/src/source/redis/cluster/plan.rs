//! Which node each of several commands goes to.
//!
//! A command goes where its keys are; what has no key goes anywhere; some go in pieces, or to all ([`Tips`](super::tips)). `MULTI` to `EXEC` goes as
//! one. That the keys of a single command are not together, the server itself says.
use super::{gather::Gather, map::Map, slots::slot, tips::Spread};
use crate::{
    config::RedisAddress,
    proto::resp::{Args, Limits, Parsed, Parser, View, encode, parse_u64, view, write_command},
    source::redis::Commands,
};
use bytes::Bytes;

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
    /// None: a transaction whose keys are of several slots, as no node would run.
    Crossed,
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

/// Bits of a client's cursor that say which master it is at; the others are that master's own cursor.
const CURSOR_BITS: u32 = 10;

impl Plan {
    /// Plans `commands`, which are whole RESP arrays.
    pub(super) fn new(commands: &Bytes, known: &Commands, map: &Map) -> Plan {
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
            self.units.push(Unit { parts: 0, replies: count, make: Make::Crossed });
        } else {
            self.units.push(Unit { parts: 1, replies: count, make: Make::Same });
            self.parts.push(Part { commands, count, to: to.clone() });
        }
    }

    fn add(&mut self, commands: Bytes, args: Args<'_>, known: &Commands, map: &Map) {
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
                if let Some((index, part)) = scan(args, map) {
                    self.units.push(Unit { parts: 1, replies: 1, make: Make::Cursor(index) });
                    return self.parts.push(part);
                }
            }
            _ => {}
        }
        self.units.push(Unit { parts: 1, replies: 1, make: Make::Same });
        self.parts.push(Part { to: destination(known, args), commands, count: 1 });
    }
}

/// Where a command goes as a whole: to its first key. Before the table of commands is known only commands of our own are sent, whose key comes first.
pub(super) fn destination(known: &Commands, args: Args<'_>) -> To {
    let of = |key: Option<&[u8]>| key.map_or(To::Anyone, |key| To::Slot(slot(key)));
    let Some(row) = known.find(args) else {
        return if known.is_empty() { of(args.get(1)) } else { To::Anyone };
    };
    let mut first: Option<usize> = None;
    row.keys(args, |at, _| {
        first.get_or_insert(at);
    });
    of(first.or(row.channel).and_then(|at| args.get(at)))
}

/// A command with many keys as one for each slot, and which of its keys each has.
fn pieces(known: &Commands, args: Args<'_>) -> Option<(Vec<Part>, Vec<Vec<usize>>)> {
    let mut keys = Vec::new();
    known.find(args)?.keys(args, |at, _| keys.push(at));
    let first = *keys.first()?;
    let step = keys.get(1).map_or(args.len() - first, |second| second - first);
    // Nothing but keys and what belongs to each.
    if first + step * keys.len() != args.len() {
        return None;
    }
    let mut pieces: Vec<(u16, Vec<usize>)> = Vec::new();
    for (index, at) in keys.iter().enumerate() {
        let slot = slot(&args[*at]);
        match pieces.iter_mut().find(|(other, _)| *other == slot) {
            Some((_, indexes)) => indexes.push(index),
            None => pieces.push((slot, vec![index])),
        }
    }
    let part = |(slot, indexes): &(u16, Vec<usize>)| {
        let head = (0..first).map(|at| &args[at]);
        let rest = indexes.iter().flat_map(|index| (keys[*index]..keys[*index] + step).map(|at| &args[at]));
        let whole: Vec<&[u8]> = head.chain(rest).collect();
        Part { commands: encode(&whole).into(), count: 1, to: To::Slot(*slot) }
    };
    Some((pieces.iter().map(part).collect(), pieces.iter().map(|(_, indexes)| indexes.clone()).collect()))
}

/// `SCAN cursor …` for the master that the cursor names, and which one that is.
fn scan(args: Args<'_>, map: &Map) -> Option<(usize, Part)> {
    let cursor = parse_u64(args.get(1)?)?;
    let index = (cursor & ((1 << CURSOR_BITS) - 1)) as usize;
    let shard = map.shards().get(index)?;
    let own = (cursor >> CURSOR_BITS).to_string();
    let mut commands = Vec::new();
    let parts: Vec<&[u8]> =
        args.from(0).enumerate().map(|(at, part)| if at == 1 { own.as_bytes() } else { part }).collect();
    write_command(&mut commands, parts.into_iter());
    Some((index, Part { commands: commands.into(), count: 1, to: To::Master(shard.master.clone()) }))
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
