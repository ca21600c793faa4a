//! The server's own table of commands, from its reply to `COMMAND`: which commands there are, what they do and where their keys are.
//! So commands that did not exist when this was written are forwarded with the right keys.
//!
//! From version 7 on the table describes key positions in full (<https://redis.io/docs/latest/develop/reference/key-specs/>);
//! for older servers the few commands that need it are described here.
use super::{
    cluster::tips::Tips,
    replies::{is_fickle, may_be_kept},
};
use crate::{
    proto::resp::{Args, Malformed, Values, View, parse_i64, view},
    source::Keepable,
};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Longest name that is looked up, `parent|sub` included.
const MAX_NAME: usize = 128;

/// What Redis counts with the commands that write, without its table saying so (as older versions did: `may_replicate`).
const MAY_REPLICATE: [&str; 6] = ["eval", "evalsha", "fcall", "pfcount", "publish", "spublish"];

/// The table. Empty if the server would not tell.
#[derive(Debug, Default)]
pub struct Commands {
    rows: HashMap<Box<[u8]>, Upstream, RandomState>,
    /// The server lets single fields of hashes expire.
    fields_expire: bool,
}

/// A command of the server.
#[derive(Debug)]
pub struct Upstream {
    /// In lower case; a subcommand has its parent's name and `|` before its own.
    pub name: Box<str>,
    /// Number of parts, the name included; negative: at least as many.
    arity: i64,
    /// It writes the keys that it has.
    writes: bool,
    /// Flag `write`: it writes even if it has no keys.
    writes_always: bool,
    blocking: bool,
    /// It is refused within MULTI.
    pub no_multi: bool,
    /// It changes something, or may (a script), or is something that replicas are told of (PUBLISH).
    pub may_write: bool,
    slow: bool,
    has_subs: bool,
    specs: Vec<Spec>,
    /// How it is spread over the nodes of a cluster.
    pub(super) tips: Tips,
    /// Which of its parts is no key but has a slot as if it were (a shard channel).
    pub(super) channel: Option<usize>,
    /// Its whole reply may be kept, if the arguments name one key.
    keeps_reply: bool,
    /// The reply may tell of a hash.
    of_hashes: bool,
}

/// What a command touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// The keys that were named, and nothing else.
    Keys,
    /// It writes, and there is no telling what.
    Everything,
}

/// Where some of a command's keys are: begin there, go on so.
#[derive(Debug)]
struct Spec {
    begin: Begin,
    find: Find,
    /// The command changes these keys (if it writes at all).
    writes: bool,
}
#[derive(Debug)]
enum Begin {
    Index(i64),
    Keyword { word: Box<[u8]>, from: i64 },
    Unknown,
}
#[derive(Debug)]
enum Find {
    Range { last: i64, step: i64, limit: i64 },
    Number { at: i64, first: i64, step: i64 },
    Unknown,
}

impl Commands {
    /// Reads the reply (RESP2 or RESP3). Rows that make no sense are left out.
    pub(super) fn parse(reply: &[u8]) -> Result<Commands, Malformed> {
        let View::Array(rows) = view(reply)? else {
            return Err(Malformed);
        };
        let mut commands = Commands::default();
        rows.for_each(|row| commands.add(row, true));
        commands.fields_expire = commands.rows.contains_key(&b"hpttl"[..]);
        Ok(commands)
    }

    fn add(&mut self, row: View<'_>, top: bool) {
        let View::Array(mut row) = row else { return };
        let (Some(View::Bulk(name) | View::Simple(name)), Some(View::Integer(arity))) = (row.next(), row.next()) else {
            return;
        };
        let name = name.to_ascii_lowercase();
        let Ok(text) = String::from_utf8(name.clone()) else { return };
        if name.len() > MAX_NAME {
            return;
        }
        let mut flags = Flags::default();
        values(row.next()).for_each(|flag| flags.set(text_of(&flag)));
        let mut number = || match row.next() {
            Some(View::Integer(number)) => number,
            _ => 0,
        };
        let legacy = (number(), number(), number());
        let mut slow = text == "lcs";
        for category in values(row.next()) {
            flags.of_hashes |= matches!(text_of(&category), b"@hash" | b"@keyspace");
            slow |= matches!(text_of(&category), b"@scripting" | b"@dangerous");
        }
        let (mut tips, mut fickle) = (Tips::default(), false);
        for tip in values(row.next()) {
            tips.set(text_of(&tip));
            fickle |= is_fickle(text_of(&tip));
        }
        let described = values(row.next());
        let channel = described.clone().find_map(Spec::channel);
        let mut specs: Vec<Spec> = described.filter_map(Spec::parse).collect();
        let mut has_subs = false;
        if top {
            for sub in values(row.next()) {
                has_subs = true;
                self.add(sub, false);
            }
        }
        if specs.is_empty() {
            specs = Spec::without_specs(&text, legacy, flags.movable);
        }
        let has_keys = !specs.is_empty();
        let keeps_reply = flags.readonly
            && !(flags.write || flags.blocking || flags.may_replicate || flags.random || fickle)
            && may_be_kept(&text, flags.module);
        let row = Upstream {
            keeps_reply,
            of_hashes: flags.of_hashes,
            tips: tips.complete(&text),
            channel,
            may_write: flags.write || flags.may_replicate || MAY_REPLICATE.contains(&text.as_str()),
            name: text.into(),
            arity,
            // Scripts, and reads that may change what they read (PFCOUNT), have no flag `write`.
            writes: flags.write || (has_keys && (!flags.readonly || flags.may_replicate)),
            writes_always: flags.write,
            blocking: flags.blocking,
            no_multi: flags.no_multi,
            slow,
            has_subs,
            specs,
        };
        self.rows.insert(name.into(), row);
    }

    /// The command or subcommand that `args` names.
    pub fn find(&self, args: Args<'_>) -> Option<&Upstream> {
        let mut name = [0; MAX_NAME];
        let first = args.get(0)?;
        name.get_mut(..first.len())?.copy_from_slice(first);
        name[..first.len()].make_ascii_lowercase();
        let row = self.rows.get(&name[..first.len()])?;
        let Some(sub) = args.get(1).filter(|_| row.has_subs) else {
            return Some(row);
        };
        let len = first.len() + 1 + sub.len();
        let whole = name.get_mut(..len)?;
        whole[first.len()] = b'|';
        whole[first.len() + 1..].copy_from_slice(sub);
        whole.make_ascii_lowercase();
        self.rows.get(&*whole).or(Some(row))
    }

    /// If the whole reply to `args` may be kept.
    pub(super) fn keeps_reply(&self, args: Args<'_>) -> Option<Keepable> {
        let row = self.find(args).filter(|row| row.keeps_reply && row.takes(args.len()))?;
        let (mut first, mut count) = (None, 0);
        let known = row.keys(args, |at, _| {
            first.get_or_insert(at);
            count += 1;
        });
        let certain = count == 1 && known == Known::Keys && row.keys_are_certain(args);
        let unless_fields_expire = self.fields_expire && row.of_hashes;
        Some(Keepable { key: first.filter(|_| certain)?, unless_fields_expire })
    }

    /// Would the server not tell?
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

#[derive(Default)]
struct Flags {
    write: bool,
    readonly: bool,
    may_replicate: bool,
    blocking: bool,
    no_multi: bool,
    movable: bool,
    random: bool,
    module: bool,
    of_hashes: bool,
}
impl Flags {
    fn set(&mut self, flag: &[u8]) {
        match flag {
            b"write" => self.write = true,
            b"readonly" => self.readonly = true,
            b"may_replicate" => self.may_replicate = true,
            b"blocking" => self.blocking = true,
            b"no_multi" => self.no_multi = true,
            b"movablekeys" => self.movable = true,
            // Before version 7.
            b"random" => self.random = true,
            b"module" => self.module = true,
            _ => {}
        }
    }
}

/// The values of an aggregate (none, if it is not one).
fn values(of: Option<View<'_>>) -> Values<'_> {
    match of {
        Some(View::Array(values) | View::Set(values) | View::Map(values)) => values,
        _ => Values::default(),
    }
}
fn text_of<'a>(of: &View<'a>) -> &'a [u8] {
    match of {
        View::Bulk(text) | View::Simple(text) => text,
        _ => b"",
    }
}
/// The value behind a name in a map, which RESP2 shows as an array.
fn named<'a>(of: Option<View<'a>>, name: &[u8]) -> Option<View<'a>> {
    let mut pairs = values(of);
    while let (Some(key), Some(value)) = (pairs.next(), pairs.next()) {
        if text_of(&key) == name {
            return Some(value);
        }
    }
    None
}
fn number(of: Option<View<'_>>, name: &[u8]) -> i64 {
    match named(of, name) {
        Some(View::Integer(number)) => number,
        _ => 0,
    }
}

impl Spec {
    /// The position of what a command names that is no key.
    fn channel(spec: View<'_>) -> Option<usize> {
        let spec = Some(spec);
        let is_key = !values(named(spec, b"flags")).any(|flag| text_of(&flag) == b"not_key");
        let at = number(named(named(spec, b"begin_search"), b"spec"), b"index");
        usize::try_from(at).ok().filter(|at| !is_key && *at > 0)
    }
    fn parse(spec: View<'_>) -> Option<Spec> {
        let spec = Some(spec);
        let (mut reads, mut is_key) = (false, true);
        for flag in values(named(spec, b"flags")) {
            match text_of(&flag) {
                b"RO" => reads = true,
                b"not_key" => is_key = false,
                _ => {}
            }
        }
        if !is_key {
            return None;
        }
        let kind = |of| named(of, b"type").map_or(&b""[..], |kind| text_of(&kind));
        let begin = named(spec, b"begin_search");
        let at = named(begin, b"spec");
        let begin = match kind(begin) {
            b"index" => Begin::Index(number(at, b"index")),
            b"keyword" => Begin::Keyword {
                word: named(at, b"keyword").map_or(&b""[..], |word| text_of(&word)).into(),
                from: number(at, b"startfrom"),
            },
            _ => Begin::Unknown,
        };
        let find = named(spec, b"find_keys");
        let how = named(find, b"spec");
        let find = match kind(find) {
            b"range" => Find::Range {
                last: number(how, b"lastkey"),
                step: number(how, b"keystep"),
                limit: number(how, b"limit"),
            },
            b"keynum" => Find::Number {
                at: number(how, b"keynumidx"),
                first: number(how, b"firstkey"),
                step: number(how, b"keystep"),
            },
            _ => Find::Unknown,
        };
        Some(Spec { begin, find, writes: !reads })
    }

    /// For servers before version 7: three numbers, and what is known of the commands for which these do not do.
    fn without_specs(name: &str, (first, last, step): (i64, i64, i64), movable: bool) -> Vec<Spec> {
        let spec = |begin, find, writes| Spec { begin, find, writes };
        let numbered = |at| spec(Begin::Index(at), Find::Number { at: 0, first: 1, step: 1 }, false);
        let behind = |word: &[u8], last, limit, writes| {
            spec(Begin::Keyword { word: word.into(), from: 1 }, Find::Range { last, step: 1, limit }, writes)
        };
        // From the first key on, as the newer specs count.
        let last = if last < 0 { last } else { last - first };
        let plain = || spec(Begin::Index(first), Find::Range { last, step, limit: 0 }, true);
        match name {
            "eval" | "evalsha" => vec![Spec { writes: true, ..numbered(2) }],
            "eval_ro" | "evalsha_ro" => vec![numbered(2)],
            "zunionstore" | "zinterstore" | "zdiffstore" => {
                vec![spec(Begin::Index(1), Find::Range { last: 0, step: 1, limit: 0 }, true), numbered(2)]
            }
            "zunion" | "zinter" | "zdiff" | "zintercard" | "sintercard" => vec![numbered(1)],
            "xread" | "xreadgroup" => vec![behind(b"STREAMS", -1, 2, false)],
            "georadius" | "georadiusbymember" => {
                vec![plain(), behind(b"STORE", 0, 0, true), behind(b"STOREDIST", 0, 0, true)]
            }
            "sort" => vec![plain()],
            _ => {
                let mut specs = Vec::new();
                if first > 0 {
                    specs.push(plain());
                }
                if movable {
                    specs.push(spec(Begin::Unknown, Find::Unknown, true));
                }
                specs
            }
        }
    }

    /// Gives each key's position to `each`; `None` if there is no telling.
    fn keys(&self, args: Args<'_>, each: &mut impl FnMut(usize)) -> Option<()> {
        let parts = i64::try_from(args.len()).ok()?;
        let is = |at: i64, word: &[u8]| {
            usize::try_from(at).ok().and_then(|at| args.get(at)).is_some_and(|part| part.eq_ignore_ascii_case(word))
        };
        let begin = match &self.begin {
            Begin::Index(index) => *index,
            Begin::Keyword { word, from } => {
                let found = match *from {
                    from @ 0.. => (from.max(1)..parts - 1).find(|at| is(*at, word)),
                    from => (2..=parts.saturating_add(from)).rev().find(|at| is(*at, word)),
                };
                match found {
                    Some(at) => at + 1,
                    None => return Some(()),
                }
            }
            Begin::Unknown => return None,
        };
        let (first, last, step) = match self.find {
            Find::Range { last, step, .. } if last >= 0 => (begin, begin.saturating_add(last), step),
            Find::Range { last, step, limit: 0 | 1 } => (begin, parts.saturating_add(last), step),
            Find::Range { last, step, limit } => {
                (begin, begin.saturating_add((parts - begin) / limit.max(1)).saturating_add(last), step)
            }
            Find::Number { at, first, step } => {
                let count = usize::try_from(begin.checked_add(at)?).ok().and_then(|at| args.get(at));
                // Whatever it is, the server will refuse it.
                let count = count.and_then(parse_i64).filter(|count| (0..=parts).contains(count)).unwrap_or(0);
                let first = begin.saturating_add(first);
                (first, first.saturating_add((count - 1).saturating_mul(step.max(1))), step)
            }
            Find::Unknown => return None,
        };
        let mut at = first.max(1);
        while at <= last && at < parts {
            each(at as usize);
            at = at.saturating_add(step.max(1));
        }
        Some(())
    }
}

impl Upstream {
    /// Does it take `parts` parts?
    pub fn takes(&self, parts: usize) -> bool {
        let parts = i64::try_from(parts).unwrap_or(i64::MAX);
        if self.arity >= 0 { parts == self.arity } else { parts >= self.arity.saturating_neg() }
    }

    /// Is it a command whose subcommands are known, without the one that `args` names?
    pub fn lacks(&self, args: Args<'_>) -> bool {
        self.has_subs && args.len() > 1
    }

    /// May it wait for something to happen, or is it what others wait for: must it not queue with them?
    pub fn blocks(&self, args: Args<'_>) -> bool {
        if matches!(&*self.name, "script|kill" | "function|kill" | "shutdown") {
            return true;
        }
        let only_on_request = matches!(&*self.name, "xread" | "xreadgroup");
        self.blocking && (!only_on_request || args.from(1).any(|part| part.eq_ignore_ascii_case(b"block")))
    }

    /// May it keep the server busy for long: scripts and functions, `KEYS`, `SORT`, `LCS`, and what Redis calls dangerous?
    pub fn is_slow(&self) -> bool {
        self.slow
    }

    /// Do the specifications say where all keys are?
    fn keys_are_certain(&self, args: Args<'_>) -> bool {
        self.specs.iter().all(|spec| spec.keys(args, &mut |_| ()).is_some())
    }

    /// Gives the position of each key to `each`, and whether the command writes it.
    pub fn keys(&self, args: Args<'_>, mut each: impl FnMut(usize, bool)) -> Known {
        let mut known = Known::Keys;
        for spec in &self.specs {
            let writes = self.writes && spec.writes;
            if spec.keys(args, &mut |at| each(at, writes)).is_none() && self.writes_always && &*self.name != "sort" {
                known = Known::Everything;
            }
        }
        if &*self.name == "sort" {
            // The one that no specification describes; BY and GET only read.
            let store = (2..args.len()).rev().find(|at| args[*at].eq_ignore_ascii_case(b"store"));
            if let Some(at) = store.filter(|at| at + 1 < args.len()) {
                each(at + 1, true);
            }
        }
        if self.specs.is_empty() && self.writes_always {
            known = Known::Everything;
        }
        known
    }
}
