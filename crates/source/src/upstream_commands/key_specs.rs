//! Key specifications: where a command's keys are (<https://redis.io/docs/latest/develop/reference/key-specs/>).
use super::reply_fields::{named, number, text_of, values};
use larder_base::identity::KeyAccess;
use larder_proto::resp::{Args, View, parse_i64};

/// Where some of a command's keys are: where they begin, and how to find the rest.
#[derive(Debug)]
pub(super) struct KeySpec {
    begin: Begin,
    find: Find,
    /// Whether the command changes these keys (if it writes at all).
    pub(super) writes: bool,
    /// What the command does with these keys, as far as access rules go; `None`: the server does
    /// not say.
    pub(super) access: Option<KeyAccess>,
    /// There are more keys than it describes.
    pub(super) is_incomplete: bool,
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

impl KeySpec {
    /// The index of an argument that the specification marks as no key (a channel).
    pub(super) fn channel(spec: View<'_>) -> Option<usize> {
        let spec = Some(spec);
        let is_key = !values(named(spec, b"flags")).any(|flag| text_of(&flag) == b"not_key");
        let at = number(named(named(spec, b"begin_search"), b"spec"), b"index");
        usize::try_from(at).ok().filter(|at| !is_key && *at > 0)
    }
    pub(super) fn parse(spec: View<'_>) -> Option<KeySpec> {
        let spec = Some(spec);
        let (mut reads, mut is_key, mut is_incomplete) = (false, true, false);
        let mut access = KeyAccess::NONE;
        for flag in values(named(spec, b"flags")) {
            match text_of(&flag) {
                b"RO" => reads = true,
                b"not_key" => is_key = false,
                b"incomplete" => is_incomplete = true,
                b"access" => access = access.with(KeyAccess::READ),
                b"insert" | b"update" | b"delete" => access = access.with(KeyAccess::WRITE),
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
        Some(KeySpec { begin, find, writes: !reads, access: Some(access), is_incomplete })
    }

    /// Whether it may describe several keys.
    pub(super) fn has_several(&self) -> bool {
        match self.find {
            Find::Range { last, .. } => last != 0,
            Find::Number { .. } | Find::Unknown => true,
        }
    }

    /// The specifications for servers before version 7, from the three legacy numbers, and from
    /// this list for commands that need more.
    pub(super) fn without_specs(name: &str, (first, last, step): (i64, i64, i64), movable: bool) -> Vec<KeySpec> {
        let spec = |begin, find, writes| KeySpec { begin, find, writes, access: None, is_incomplete: false };
        let numbered = |at| spec(Begin::Index(at), Find::Number { at: 0, first: 1, step: 1 }, false);
        // From this argument on: before it the word may be a name.
        let behind = |word: &[u8], from, last, limit, writes| {
            spec(Begin::Keyword { word: word.into(), from }, Find::Range { last, step: 1, limit }, writes)
        };
        // Relative to the first key, as in newer specs.
        let last = if last < 0 { last } else { last - first };
        let plain = || spec(Begin::Index(first), Find::Range { last, step, limit: 0 }, true);
        match name {
            "eval" | "evalsha" => vec![KeySpec { writes: true, ..numbered(2) }],
            "eval_ro" | "evalsha_ro" => vec![numbered(2)],
            "zunionstore" | "zinterstore" | "zdiffstore" => {
                vec![spec(Begin::Index(1), Find::Range { last: 0, step: 1, limit: 0 }, true), numbered(2)]
            }
            "zunion" | "zinter" | "zdiff" | "zintercard" | "sintercard" => vec![numbered(1)],
            "xread" => vec![behind(b"STREAMS", 1, -1, 2, false)],
            "xreadgroup" => vec![behind(b"STREAMS", 4, -1, 2, false)],
            "georadius" => vec![plain(), behind(b"STORE", 6, 0, 0, true), behind(b"STOREDIST", 6, 0, 0, true)],
            "georadiusbymember" => vec![plain(), behind(b"STORE", 5, 0, 0, true), behind(b"STOREDIST", 5, 0, 0, true)],
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

    /// The index of its key, if that is the same for all arguments.
    pub(super) fn single_key(&self) -> Option<usize> {
        match (&self.begin, &self.find) {
            (Begin::Index(at @ 1..), Find::Range { last: 0, .. }) => usize::try_from(*at).ok(),
            _ => None,
        }
    }

    /// Calls `each` with the index of each argument that may be a key of this specification; `None`
    /// if the positions are unknown. Of an option that is given twice, both keys: versions of
    /// Redis differ in which one counts.
    pub(super) fn possible_keys(&self, args: Args<'_>, each: &mut impl FnMut(usize)) -> Option<()> {
        match (&self.begin, &self.find) {
            (Begin::Keyword { word, from: from @ 0.. }, Find::Range { last: 0, .. }) => {
                let from = usize::try_from(*from).ok()?.max(1);
                (from..args.len().saturating_sub(1))
                    .filter(|at| args[*at].eq_ignore_ascii_case(word))
                    .for_each(|at| each(at + 1));
                Some(())
            }
            _ => self.keys(args, each),
        }
    }

    /// Calls `each` with the index of each key; `None` if the positions are unknown.
    pub(super) fn keys(&self, args: Args<'_>, each: &mut impl FnMut(usize)) -> Option<()> {
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
                // The server will refuse an invalid count.
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
