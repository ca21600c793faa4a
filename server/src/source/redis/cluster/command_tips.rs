//! How a command is spread over the nodes of a cluster: what the server's table of commands says
//! (<https://redis.io/docs/latest/develop/reference/command-tips/>), and for servers before version 7, which say nothing, what is known.
use super::reply_merge::Gather;

/// Where a command goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::source::redis) enum Spread {
    /// Where its keys are; without keys, anywhere.
    #[default]
    One,
    /// In pieces, each to where its keys are.
    Keys,
    /// To every master.
    All,
    /// `SCAN`: one master after the other.
    Scan,
}

/// A command's tips.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::source::redis) struct Tips {
    pub(in crate::source::redis) spread: Spread,
    gather: Option<Gather>,
}

impl Tips {
    /// Takes in one tip of the table.
    pub(in crate::source::redis) fn set(&mut self, tip: &[u8]) {
        match tip {
            b"request_policy:all_nodes" | b"request_policy:all_shards" => self.spread = Spread::All,
            b"request_policy:multi_shard" => self.spread = Spread::Keys,
            b"response_policy:one_succeeded" => self.gather = Some(Gather::AnyGood),
            b"response_policy:all_succeeded" => self.gather = Some(Gather::AllGood),
            b"response_policy:agg_logical_and" => self.gather = Some(Gather::And),
            b"response_policy:agg_logical_or" => self.gather = Some(Gather::Or),
            b"response_policy:agg_min" => self.gather = Some(Gather::Min),
            b"response_policy:agg_max" => self.gather = Some(Gather::Max),
            b"response_policy:agg_sum" => self.gather = Some(Gather::Sum),
            b"response_policy:special" => self.gather = Some(Gather::First),
            _ => {}
        }
    }

    /// Adds what the table left open for the command of this name.
    pub(in crate::source::redis) fn complete(self, name: &str) -> Tips {
        let tips = |spread, gather| Tips { spread, gather: Some(gather) };
        match (name, self.spread) {
            ("scan", _) => tips(Spread::Scan, Gather::First),
            // Of these the table says that all nodes answer, and not how to make one answer of that: one node's will do.
            ("randomkey" | "info", _) => Tips::default(),
            ("del" | "unlink" | "exists" | "touch", Spread::One) => tips(Spread::Keys, Gather::Sum),
            ("mset", Spread::One) => tips(Spread::Keys, Gather::AllGood),
            ("mget", Spread::One) => Tips { spread: Spread::Keys, gather: None },
            ("dbsize", Spread::One) => tips(Spread::All, Gather::Sum),
            ("keys", Spread::One) => tips(Spread::All, Gather::Concat),
            ("flushall" | "flushdb" | "script|flush" | "script|load" | "script", Spread::One) => {
                tips(Spread::All, Gather::AllGood)
            }
            _ => self,
        }
    }

    /// How one reply is made of several. Without a word about it, arrays are joined: in the order of the keys, if there are any.
    pub(in crate::source::redis) fn gather(&self, places: Vec<Vec<usize>>) -> Gather {
        match (&self.gather, self.spread) {
            (Some(how), _) => how.clone(),
            (None, Spread::Keys) => Gather::Places(places),
            (None, _) => Gather::Concat,
        }
    }
}
