//! The server's command table, from its reply to `COMMAND`: which commands exist, what they do and
//! where their keys are. With it, Larder forwards commands that are newer than this code with the
//! right keys.
//!
//! From version 7 on the table describes key positions in full (<https://redis.io/docs/latest/develop/reference/key-specs/>);
//! for older servers the few commands that need it are described in `key_specs`.
use super::{
    cacheable_replies::{is_cacheable, is_nondeterministic, touches_named_keys},
    cluster_policies::ClusterPolicies,
    forward_rules::ForwardRule,
    key_specs::KeySpec,
    reply_fields::{text_of, values},
};
use crate::fetch_result::CacheableReply;
use foldhash::fast::RandomState;
use larder_base::identity::{Beyond, KeyAccess};
use larder_config::Categories;
use larder_proto::resp::{Args, Malformed, View, view};
use std::collections::HashMap;

/// Longest name that is looked up, `parent|sub` included.
const MAX_NAME: usize = 128;

/// Commands that Redis treats as writes although the table of older versions does not flag them
/// (`may_replicate`).
const MAY_REPLICATE: [&str; 6] = ["eval", "evalsha", "fcall", "pfcount", "publish", "spublish"];

/// The command table. Empty if the server does not show it.
#[derive(Debug, Default)]
pub struct UpstreamCommands {
    rows: HashMap<Box<[u8]>, UpstreamCommand, RandomState>,
    /// Whether the server supports expiring hash fields.
    fields_expire: bool,
}

#[derive(Debug)]
pub struct UpstreamCommand {
    /// In lower case; a subcommand has its parent's name and `|` before its own.
    pub name: Box<str>,
    /// Number of arguments, the name included; negative: a minimum.
    arity: i64,
    /// Whether it writes its keys.
    writes: bool,
    /// Flag `write`: it writes even if it has no keys.
    writes_always: bool,
    /// Flag `readonly`.
    reads: bool,
    blocking: bool,
    /// Whether it is refused inside MULTI.
    pub no_multi: bool,
    /// Whether it may change something (scripts included), or is replicated (PUBLISH).
    pub may_write: bool,
    slow: bool,
    busy: Option<BusyFor>,
    forward_rule: ForwardRule,
    /// Redis's ACL categories.
    pub categories: Categories,
    has_subs: bool,
    specs: Vec<KeySpec>,
    /// The index of its only key, if that is the same for all arguments.
    only_key: Option<usize>,
    /// How a cluster spreads it over nodes.
    pub(crate) cluster: ClusterPolicies,
    /// Index of an argument that is no key but has a slot (a shard channel).
    pub(crate) channel: Option<usize>,
    /// Whether its whole reply may be cached if the arguments name one key.
    keeps_reply: bool,
    /// Whether the reply may depend on a hash.
    of_hashes: bool,
    of_module: bool,
}

/// For how long a command may keep the server busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BusyFor {
    /// A few times `source-timeout`: its cost grows with what is stored.
    Moment,
    /// `source-slow-timeout`: a script, or a command over several sets.
    Long,
}

/// The keys that a command touches, as far as known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownKeys {
    /// Exactly the reported keys.
    Keys,
    /// It writes unknown keys.
    Everything,
}

impl UpstreamCommands {
    /// Parses the reply (RESP2 or RESP3). Invalid rows are left out.
    pub fn parse(reply: &[u8]) -> Result<UpstreamCommands, Malformed> {
        let View::Array(rows) = view(reply)? else {
            return Err(Malformed);
        };
        let mut commands = UpstreamCommands::default();
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
        let (mut of_strings, mut of_sets) = (false, false);
        let mut categories = Categories::default();
        for category in values(row.next()) {
            let named = std::str::from_utf8(text_of(&category))
                .ok()
                .and_then(|name| Categories::named(name.strip_prefix('@')?));
            categories = categories.with(named.unwrap_or_default());
            flags.of_hashes |= matches!(text_of(&category), b"@hash" | b"@keyspace");
            slow |= matches!(text_of(&category), b"@scripting" | b"@dangerous");
            of_strings |= text_of(&category) == b"@string";
            of_sets |= matches!(text_of(&category), b"@set" | b"@sortedset" | b"@geo");
        }
        let (mut cluster, mut nondeterministic) = (ClusterPolicies::default(), false);
        for tip in values(row.next()) {
            cluster.set(text_of(&tip));
            nondeterministic |= is_nondeterministic(text_of(&tip));
        }
        let described = values(row.next());
        let channel = described.clone().find_map(KeySpec::channel);
        let mut specs: Vec<KeySpec> = described.filter_map(KeySpec::parse).collect();
        let mut has_subs = false;
        if top {
            for sub in values(row.next()) {
                has_subs = true;
                self.add(sub, false);
            }
        }
        if specs.is_empty() {
            specs = KeySpec::without_specs(&text, legacy, flags.movable);
        }
        let has_keys = !specs.is_empty();
        let rule = ForwardRule::of(&text, flags.admin);
        let several_sets = of_sets && !flags.fast && (specs.len() > 1 || specs.iter().any(KeySpec::has_several));
        let busy = match (slow || several_sets, flags.fast || of_strings) {
            (true, _) => Some(BusyFor::Long),
            (false, false) => Some(BusyFor::Moment),
            (false, true) => None,
        };
        let keeps_reply = flags.readonly
            && rule == ForwardRule::Free
            && !(flags.write || flags.blocking || flags.may_replicate || flags.random || nondeterministic)
            && is_cacheable(&text, flags.module);
        let row = UpstreamCommand {
            keeps_reply,
            of_hashes: flags.of_hashes,
            of_module: flags.module,
            cluster: cluster.complete(&text),
            channel,
            may_write: flags.write || flags.may_replicate || MAY_REPLICATE.contains(&text.as_str()),
            forward_rule: rule,
            categories,
            name: text.into(),
            arity,
            // Scripts, and reads that may change their key (PFCOUNT), have no flag `write`.
            writes: flags.write || (has_keys && (!flags.readonly || flags.may_replicate)),
            writes_always: flags.write,
            reads: flags.readonly,
            blocking: flags.blocking,
            no_multi: flags.no_multi,
            slow,
            busy,
            has_subs,
            only_key: match &specs[..] {
                [only] => only.single_key(),
                _ => None,
            },
            specs,
        };
        self.rows.insert(name.into(), row);
    }

    /// The command or subcommand that `args` names.
    pub fn find(&self, args: Args<'_>) -> Option<&UpstreamCommand> {
        self.find_named(args.get(0)?, args.get(1))
    }

    pub fn find_named(&self, first: &[u8], sub: Option<&[u8]>) -> Option<&UpstreamCommand> {
        let mut name = [0; MAX_NAME];
        name.get_mut(..first.len())?.copy_from_slice(first);
        name[..first.len()].make_ascii_lowercase();
        let row = self.rows.get(&name[..first.len()])?;
        let Some(sub) = sub.filter(|_| row.has_subs) else {
            return Some(row);
        };
        let len = first.len() + 1 + sub.len();
        let whole = name.get_mut(..len)?;
        whole[first.len()] = b'|';
        whole[first.len() + 1..].copy_from_slice(sub);
        whole.make_ascii_lowercase();
        self.rows.get(&*whole).or(Some(row))
    }

    /// How to cache the whole reply to `args`, if that is possible.
    pub(crate) fn keeps_reply(&self, args: Args<'_>) -> Option<CacheableReply> {
        let row = self.find(args).filter(|row| row.keeps_reply && row.takes(args.len()))?;
        // Modules put arguments into error lines, some after they have decoded `\n` in them. Fetches of
        // several clients share a connection.
        let may_break = |part: &[u8]| part.iter().any(|byte| matches!(byte, b'\r' | b'\n' | b'\\'));
        if (row.of_module || row.name.contains('.')) && args.from(1).any(may_break) {
            return None;
        }
        let unless_fields_expire = self.fields_expire && row.of_hashes;
        if let Some(key) = row.only_key {
            return Some(CacheableReply { key, unless_fields_expire });
        }
        let (mut first, mut count) = (None, 0);
        let known = row.keys(args, |at, _| {
            first.get_or_insert(at);
            count += 1;
        });
        let certain = count == 1 && known == KnownKeys::Keys && row.keys_are_certain(args);
        Some(CacheableReply { key: first.filter(|_| certain)?, unless_fields_expire })
    }

    /// Whether the server does not show its table.
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
    fast: bool,
    random: bool,
    module: bool,
    admin: bool,
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
            b"fast" => self.fast = true,
            // Before version 7.
            b"random" => self.random = true,
            b"module" => self.module = true,
            b"admin" => self.admin = true,
            _ => {}
        }
    }
}

impl UpstreamCommand {
    /// Whether this number of arguments is allowed.
    pub fn takes(&self, parts: usize) -> bool {
        let parts = i64::try_from(parts).unwrap_or(i64::MAX);
        if self.arity >= 0 { parts == self.arity } else { parts >= self.arity.saturating_neg() }
    }

    /// Whether it may be forwarded with these arguments.
    pub fn forward_rule(&self, args: Args<'_>) -> ForwardRule {
        self.forward_rule.with(&self.name, args)
    }

    /// Whether its subcommands are known and the one in `args` is not among them.
    pub fn lacks(&self, args: Args<'_>) -> bool {
        self.has_subs && args.len() > 1
    }

    /// Whether it may block, or unblocks others. Either way it must not queue with other commands.
    pub fn blocks(&self, args: Args<'_>) -> bool {
        if matches!(&*self.name, "script|kill" | "function|kill" | "shutdown") {
            return true;
        }
        let only_on_request = matches!(&*self.name, "xread" | "xreadgroup");
        self.blocking && (!only_on_request || args.from(1).any(|part| part.eq_ignore_ascii_case(b"block")))
    }

    /// Whether it may keep the server busy for long: scripts, functions, `LCS`, and the category
    /// `@dangerous` (`KEYS`, `SORT`).
    pub fn is_slow(&self) -> bool {
        self.slow
    }

    /// For how long it may keep the server busy. Redis flags commands `fast` whose cost does not
    /// grow with what is stored. Commands on strings cost little too, and commands that combine
    /// sets cost the most.
    pub fn busy(&self) -> Option<BusyFor> {
        self.busy
    }

    /// Whether it may touch more keys than its arguments name: scripts, functions, and commands of
    /// unknown modules that write.
    pub fn touches_others(&self) -> bool {
        SCRIPTS.contains(&&*self.name) || self.of_module && !self.reads && !touches_named_keys(&self.name)
    }

    /// Whether it publishes a message, or may.
    pub fn publishes(&self) -> bool {
        matches!(&*self.name, "publish" | "spublish") || self.touches_others()
    }

    /// Whether the specifications locate all keys.
    fn keys_are_certain(&self, args: Args<'_>) -> bool {
        self.specs.iter().all(|spec| spec.keys(args, &mut |_| ()).is_some())
    }

    /// Calls `each` with the index of each key and whether the command writes it.
    pub fn keys(&self, args: Args<'_>, mut each: impl FnMut(usize, bool)) -> KnownKeys {
        let mut known = KnownKeys::Keys;
        for spec in &self.specs {
            let writes = self.writes && spec.writes;
            if spec.keys(args, &mut |at| each(at, writes)).is_none() && self.writes_always && &*self.name != "sort" {
                known = KnownKeys::Everything;
            }
        }
        if &*self.name == "sort" {
            // No specification describes the key of STORE. BY and GET only read.
            let store = (2..args.len()).rev().find(|at| args[*at].eq_ignore_ascii_case(b"store"));
            if let Some(at) = store.filter(|at| at + 1 < args.len()) {
                each(at + 1, true);
            }
        }
        if self.specs.is_empty() && self.writes_always {
            known = KnownKeys::Everything;
        }
        known
    }

    pub fn has_subcommands(&self) -> bool {
        self.has_subs
    }

    /// For access rules: calls `each` with the index of each key and what the command does with it,
    /// and says what it may touch besides. Where the server's table leaves room for doubt, the
    /// most is said.
    pub fn accesses(&self, args: Args<'_>, mut each: impl FnMut(usize, KeyAccess)) -> Beyond {
        if SCRIPTS.contains(&&*self.name) {
            return Beyond::Everything;
        }
        if matches!(&*self.name, "sort" | "sort_ro") {
            return sort_accesses(args, each);
        }
        let mut beyond = match self.specs.is_empty() && self.of_module && (self.writes_always || self.reads) {
            // Of indexes and the like, which are over many keys.
            true => Beyond::Keys(if self.writes_always { KeyAccess::BOTH } else { KeyAccess::READ }),
            false => Beyond::Nothing,
        };
        for spec in &self.specs {
            let by_flags = if self.writes && spec.writes { KeyAccess::BOTH } else { KeyAccess::READ };
            let access = spec.access.unwrap_or(by_flags);
            let is_known = spec.possible_keys(args, &mut |at| each(at, access)).is_some();
            if !is_known || spec.is_incomplete {
                beyond = Beyond::Keys(KeyAccess::BOTH);
            }
        }
        beyond
    }
}

/// Commands that run other commands. Redis runs them with the rights of the connection that they
/// come over, which is Larder's.
const SCRIPTS: [&str; 6] = ["eval", "eval_ro", "evalsha", "evalsha_ro", "fcall", "fcall_ro"];

/// SORT reads its key and the keys that BY and GET describe, and writes that of STORE.
fn sort_accesses(args: Args<'_>, mut each: impl FnMut(usize, KeyAccess)) -> Beyond {
    let mut beyond = Beyond::Nothing;
    if args.len() > 1 {
        each(1, KeyAccess::READ);
    }
    for at in 2..args.len().saturating_sub(1) {
        let (is, next) = (|word: &str| args[at].eq_ignore_ascii_case(word.as_bytes()), &args[at + 1]);
        if is("store") {
            each(at + 1, KeyAccess::WRITE);
        }
        if is("by") && next.contains(&b'*') || is("get") && next != b"#" {
            beyond = Beyond::Keys(KeyAccess::READ);
        }
    }
    beyond
}
