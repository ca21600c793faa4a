//! When two replies count as the same: byte for byte, but for the commands whose replies no two
//! servers can share.
use super::resp::Reply;

/// How replies are compared. Each rule but the first says why it is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Byte for byte.
    Exact,
    /// Members of a set, or keys, come in the order of a hash table, whose seed each process draws
    /// again.
    Unordered,
    /// Likewise the fields of a large hash, each with its value behind it.
    UnorderedPairs,
    /// Likewise the second part of SCAN, whose first is the cursor; all fits one page here.
    Scan,
    /// Milliseconds pass between one server and the other: numbers may differ by that.
    Clock,
    /// The names and versions of servers, or bytes in the order of a hash table: only the kind of
    /// the reply is compared.
    Kind,
}

/// The rule for a command.
pub(crate) fn rule(args: &[Vec<u8>]) -> Rule {
    let upper = |index: usize| args.get(index).map(|arg| arg.to_ascii_uppercase()).unwrap_or_default();
    match (upper(0).as_slice(), upper(1).as_slice()) {
        (b"SMEMBERS" | b"SUNION" | b"SINTER" | b"SDIFF" | b"KEYS" | b"HKEYS" | b"HVALS", _) => Rule::Unordered,
        // A set, unsorted.
        (b"SORT" | b"SORT_RO", _) if args.iter().any(|arg| arg.eq_ignore_ascii_case(b"nosort")) => Rule::Unordered,
        // They are asked for all there is, in an order of chance.
        (b"SPOP" | b"SRANDMEMBER", _) => Rule::Unordered,
        (b"HGETALL", _) => Rule::UnorderedPairs,
        (b"HRANDFIELD" | b"ZRANDMEMBER", _) if args.len() > 3 => Rule::UnorderedPairs,
        (b"HRANDFIELD" | b"ZRANDMEMBER", _) => Rule::Unordered,
        (b"SCAN" | b"SSCAN" | b"HSCAN" | b"ZSCAN", _) => Rule::Scan,
        (b"TTL" | b"PTTL" | b"EXPIRETIME" | b"PEXPIRETIME" | b"HTTL", _) => Rule::Clock,
        // Idle times and times of delivery.
        (b"XINFO", b"STREAM" | b"CONSUMERS") | (b"XPENDING", _) => Rule::Clock,
        (b"HELLO" | b"DUMP", _) => Rule::Kind,
        _ => Rule::Exact,
    }
}

/// Longest time between a command's run on one server and on the other, in milliseconds.
const APART: u64 = 20_000;

impl Rule {
    /// Are these replies the same?
    pub(crate) fn same(self, a: &Reply, b: &Reply) -> bool {
        if a == b {
            return true;
        }
        if a.kind != b.kind || a.kind == b'-' {
            return false;
        }
        match self {
            Rule::Exact => false,
            Rule::Unordered => sorted(&a.children, 1) == sorted(&b.children, 1) && a.text == b.text,
            // With RESP3, pairs are arrays of their own in some replies.
            Rule::UnorderedPairs if a.kind == b'*' && a.children.first().is_some_and(|first| first.kind == b'*') => {
                sorted(&a.children, 1) == sorted(&b.children, 1)
            }
            Rule::UnorderedPairs => sorted(&a.children, 2) == sorted(&b.children, 2) && a.text == b.text,
            Rule::Scan => match (&a.children[..], &b.children[..]) {
                ([a, of_a], [b, of_b]) => a == b && sorted(&of_a.children, 1) == sorted(&of_b.children, 1),
                _ => false,
            },
            Rule::Clock => close(a, b),
            Rule::Kind => true,
        }
    }
}

fn sorted(replies: &[Reply], at_a_time: usize) -> Vec<&[Reply]> {
    let mut all: Vec<&[Reply]> = replies.chunks(at_a_time).collect();
    all.sort_unstable();
    all
}

fn close(a: &Reply, b: &Reply) -> bool {
    match (a.number(), b.number()) {
        (Some(x), Some(y)) => x == y || x >= 0 && y >= 0 && x.abs_diff(y) <= APART,
        _ => {
            a.kind == b.kind
                && a.text == b.text
                && a.children.len() == b.children.len()
                && a.children.iter().zip(&b.children).all(|(a, b)| close(a, b))
        }
    }
}
