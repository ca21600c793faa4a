//! Routing of commands to the nodes of a cluster.
//!
//! A command goes to the node of its keys, and without keys to any node. Some commands are split by
//! slot or go to all masters
//! ([`ClusterPolicies`](crate::upstream_commands::cluster_policies::ClusterPolicies)).
//! `MULTI` to `EXEC` goes as one. If the keys of one command have different slots, the server
//! itself refuses it.
use super::{
    key_slot::slot,
    merged_node_replies::merge_replies,
    scan_cursor::{next_cursor, parse_cursor, with_cursor},
    slot_map::SlotMap,
};
use crate::{
    fetch_refusals::no_room,
    raw_replies::RawReplies,
    redis::queued_request::RelayResult,
    upstream_commands::{
        UpstreamCommands,
        cluster_policies::{RequestPolicy, ResponsePolicy},
    },
};
use bytes::Bytes;
use larder_base::buffers::{BufferKind, Buffers};
use larder_config::RedisAddress;
use larder_proto::resp::{Args, Limits, Parsed, Parser, encode};
use std::{collections::HashMap, iter, sync::Arc};

/// A command or a transaction that goes to one node.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RoutedCommands {
    pub(super) commands: Bytes,
    pub(super) count: usize,
    pub(super) to: Destination,
}
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Destination {
    Slot(u16),
    Anyone,
    Master(RedisAddress),
}

/// A command or a transaction of the client, and how its reply is made.
#[derive(Debug, PartialEq)]
pub(super) struct PlannedReply {
    /// How many of the plan's parts it has.
    pub(super) parts: usize,
    /// Replies that the client expects.
    pub(super) replies: usize,
    pub(super) assembly: ReplyAssembly,
}
/// How the replies of the parts become the client's replies.
#[derive(Debug, PartialEq)]
pub(super) enum ReplyAssembly {
    /// The replies of the only part.
    Same,
    Merge(ResponsePolicy),
    /// No node is asked; this error is the reply.
    Refused(&'static [u8]),
    /// A SCAN of this master; its cursor is rewritten.
    Cursor(usize),
}

/// A transaction that is still being read.
struct Transaction {
    begin: usize,
    count: usize,
    to: Destination,
    is_crossed: bool,
}

#[derive(Debug, Default)]
pub(super) struct RoutingPlan {
    pub(super) parts: Vec<RoutedCommands>,
    pub(super) units: Vec<PlannedReply>,
}

const CROSSED: &[u8] = b"-CROSSSLOT Keys in request don't hash to the same slot\r\n";
const SCAN_OVER: &[u8] = b"-ERR the source has fewer masters than when this SCAN began: start it again\r\n";

impl RoutingPlan {
    /// Plans `commands`, which are whole RESP arrays.
    pub(super) fn new(commands: &Bytes, known: &UpstreamCommands, map: &SlotMap) -> RoutingPlan {
        let limits = Limits::new(usize::MAX / 4);
        let mut plan = RoutingPlan::default();
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
                        Destination::Anyone => {}
                        to => {
                            open.is_crossed |= open.to != Destination::Anyone && open.to != to;
                            open.to = to;
                        }
                    }
                    if args[0].eq_ignore_ascii_case(b"exec") {
                        plan.end(open, commands.slice(open.begin..at));
                        transaction = None;
                    }
                }
                None if args[0].eq_ignore_ascii_case(b"multi") => {
                    transaction = Some(Transaction { begin, count: 1, to: Destination::Anyone, is_crossed: false });
                }
                None => plan.add(encoded.clone(), args, known, map),
            }
        }
        plan
    }

    fn end(&mut self, transaction: &Transaction, commands: Bytes) {
        let Transaction { count, ref to, is_crossed, .. } = *transaction;
        if is_crossed {
            self.units.push(PlannedReply { parts: 0, replies: count, assembly: ReplyAssembly::Refused(CROSSED) });
        } else {
            self.units.push(PlannedReply { parts: 1, replies: count, assembly: ReplyAssembly::Same });
            self.parts.push(RoutedCommands { commands, count, to: to.clone() });
        }
    }

    fn add(&mut self, commands: Bytes, args: Args<'_>, known: &UpstreamCommands, map: &SlotMap) {
        let row = known.find(args);
        let policies = row.map(|row| &row.cluster);
        let request = policies.map_or(RequestPolicy::OneNode, |policies| policies.request);
        match (request, policies) {
            (RequestPolicy::MultiShard, Some(policies)) => {
                if let Some((parts, places)) = split_by_slot(known, args).filter(|(parts, _)| parts.len() > 1) {
                    self.units.push(PlannedReply {
                        parts: parts.len(),
                        replies: 1,
                        assembly: ReplyAssembly::Merge(policies.response(places)),
                    });
                    return self.parts.extend(parts);
                }
            }
            (RequestPolicy::AllShards, Some(policies)) if map.shards().len() > 1 => {
                self.units.push(PlannedReply {
                    parts: map.shards().len(),
                    replies: 1,
                    assembly: ReplyAssembly::Merge(policies.response(Vec::new())),
                });
                return self.parts.extend(map.shards().iter().map(|shard| RoutedCommands {
                    commands: commands.clone(),
                    count: 1,
                    to: Destination::Master(shard.master.clone()),
                }));
            }
            (RequestPolicy::Scan, _) => {
                if let Some((index, own)) = parse_cursor(args) {
                    let part = map.shards().get(index).map(|shard| RoutedCommands {
                        commands: with_cursor(args, own).into(),
                        count: 1,
                        to: Destination::Master(shard.master.clone()),
                    });
                    let assembly =
                        if part.is_some() { ReplyAssembly::Cursor(index) } else { ReplyAssembly::Refused(SCAN_OVER) };
                    self.units.push(PlannedReply { parts: usize::from(part.is_some()), replies: 1, assembly });
                    return self.parts.extend(part);
                }
            }
            _ => {}
        }
        let to = match (destination(known, args), row, args.get(1)) {
            // Any node would do, but all messages of a channel go to the same one, so that they stay in order.
            (Destination::Anyone, Some(row), Some(channel)) if &*row.name == "publish" => {
                Destination::Slot(slot(channel))
            }
            (to, ..) => to,
        };
        self.units.push(PlannedReply { parts: 1, replies: 1, assembly: ReplyAssembly::Same });
        self.parts.push(RoutedCommands { to, commands, count: 1 });
    }

    /// Assembles the client's replies from the results of the parts: one copy, for which there must
    /// be room in `buffers`. `masters` is the present number of masters.
    pub(super) fn assemble(&self, parts: Vec<RelayResult>, masters: usize, buffers: &Arc<Buffers>) -> RelayResult {
        let mut parts = parts.into_iter();
        let mut replies = JoinedReplies::default();
        for unit in &self.units {
            let its = parts
                .by_ref()
                .take(unit.parts)
                .map(|part| part.unwrap_or_else(|error| iter::repeat_n(error.to_reply(), unit.replies).collect()));
            match &unit.assembly {
                ReplyAssembly::Same => its.for_each(|part| {
                    part.iter().for_each(|reply| replies.add([part.bytes().slice_ref(reply)]));
                }),
                ReplyAssembly::Refused(error) => {
                    (1..unit.replies).for_each(|_| replies.add([Bytes::from_static(b"+QUEUED\r\n")]));
                    replies.add([Bytes::from_static(error)]);
                }
                ReplyAssembly::Merge(how) => {
                    replies.add(merge_replies(how, &its.map(|part| part.last()).collect::<Vec<_>>()))
                }
                ReplyAssembly::Cursor(index) => {
                    its.for_each(|part| replies.add(next_cursor(&part.last(), *index, masters)))
                }
            }
        }
        replies.join(buffers)
    }
}

/// Replies in pieces.
#[derive(Default)]
struct JoinedReplies {
    pieces: Vec<Bytes>,
    /// The end of each reply.
    ends: Vec<usize>,
    len: usize,
}
impl JoinedReplies {
    fn add(&mut self, reply: impl IntoIterator<Item = Bytes>) {
        self.pieces.extend(reply.into_iter().inspect(|piece| self.len += piece.len()));
        self.ends.push(self.len);
    }
    fn join(self, buffers: &Arc<Buffers>) -> RelayResult {
        if !buffers.fits(self.len) {
            return Err(no_room(self.len, buffers.limit()));
        }
        let bytes = buffers.count(BufferKind::Fetched, self.pieces.concat());
        Ok(RawReplies { bytes, ends: self.ends, ..RawReplies::default() })
    }
}

/// The destination of a command that is not split.
pub(super) fn destination(known: &UpstreamCommands, args: Args<'_>) -> Destination {
    routing_key(known, args).map_or(Destination::Anyone, |key| Destination::Slot(slot(key)))
}

/// The key that decides the node: the first one. Without a command table it is the first argument,
/// as for most commands.
pub(super) fn routing_key<'a>(known: &UpstreamCommands, args: Args<'a>) -> Option<&'a [u8]> {
    let Some(row) = known.find(args) else {
        return args.get(1).filter(|_| known.is_empty());
    };
    let mut first: Option<usize> = None;
    row.keys(args, |at, _| {
        first.get_or_insert(at);
    });
    args.get(first.or(row.channel)?)
}

/// Splits a command with many keys into one for each slot, with the indexes of its keys.
fn split_by_slot(known: &UpstreamCommands, args: Args<'_>) -> Option<(Vec<RoutedCommands>, Vec<Vec<usize>>)> {
    let mut keys = Vec::new();
    known.find(args)?.keys(args, |at, _| keys.push(at));
    let step = (args.len() - 1) / keys.len().max(1);
    // Only commands that have nothing but keys and a fixed number of arguments for each.
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
        RoutedCommands { commands: encode(&whole).into(), count: 1, to: Destination::Slot(*slot) }
    };
    Some((pieces.iter().map(part).collect(), pieces.into_iter().map(|(_, indexes)| indexes).collect()))
}

#[cfg(test)]
mod tests;
