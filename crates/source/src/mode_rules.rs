//! Mode rules: which keys the memory tier keeps and serves (`mode`), by key prefix. They change at
//! run time, all at once.
use super::prefix_table::PrefixTable;
use arc_swap::ArcSwap;
use larder_base::telemetry::ModeSnapshot;
use larder_config::{GroupSettings, TierMode};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, percent_encode};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

/// Most rules of a group.
const MAX_RULES: usize = 1024;
/// The prefix of every key, in the text of a rule.
const EVERY_KEY: &str = "*";
/// What a prefix is encoded without, in the text of a rule.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'=').add(b'%').add(b'*');

/// The mode of the keys that begin with a prefix.
pub type ModeRule = (Box<[u8]>, TierMode);
/// Modes by prefix; a rule of the empty prefix holds for every key without a longer one.
pub type ModeTable = PrefixTable<TierMode>;

/// The mode rules of a group, shared by all cores.
#[derive(Debug, Default)]
pub struct ModeRules {
    /// Whether any key has a mode other than `cache`: the one thing that a read looks at where no
    /// rule is set.
    are_set: AtomicBool,
    table: ArcSwap<ModeTable>,
    /// As in the configuration.
    configured: ArcSwap<ModeTable>,
    changed: AtomicBool,
    counts: [AtomicU64; 4],
}

impl ModeRules {
    pub fn of_settings(group: &GroupSettings) -> ModeRules {
        ModeRules::new(rules_of(group))
    }

    fn new<P: Into<Box<[u8]>>>(rules: impl IntoIterator<Item = (P, TierMode)>) -> ModeRules {
        let configured = Arc::new(without_repetitions(rules));
        let rules = ModeRules { configured: ArcSwap::new(configured.clone()), ..ModeRules::default() };
        rules.put(configured);
        rules
    }

    /// Whether any key has a mode other than `cache`.
    #[inline]
    pub fn are_set(&self) -> bool {
        self.are_set.load(Relaxed)
    }
    #[inline]
    pub fn of(&self, key: &[u8]) -> TierMode {
        if self.are_set() { self.look_up(key) } else { TierMode::Cache }
    }
    #[inline(never)]
    fn look_up(&self, key: &[u8]) -> TierMode {
        self.table.load().get(key).copied().unwrap_or_default()
    }

    /// Replaces all rules. Of equal prefixes the last counts.
    pub fn replace(&self, rules: Vec<ModeRule>) {
        self.put(Arc::new(without_repetitions(rules)));
        self.changed.store(true, Relaxed);
    }
    /// Back to the rules of the configuration.
    pub fn reset(&self) {
        self.put(self.configured.load_full());
        self.changed.store(false, Relaxed);
    }
    /// The configuration has changed to these settings. If its rules have, they hold from now on;
    /// otherwise nothing changes, and the answer is false.
    pub fn configure(&self, group: &GroupSettings) -> bool {
        let configured = without_repetitions(rules_of(group));
        let differs = mode_rules_text(&configured) != mode_rules_text(&self.configured.load());
        if differs {
            self.configured.store(Arc::new(configured));
            self.reset();
        }
        differs
    }
    fn put(&self, table: Arc<ModeTable>) {
        let any = !table.is_empty();
        // A read that sees the flag sees rules; which of the two comes first does not matter.
        self.table.store(table);
        self.are_set.store(any, Relaxed);
    }
    /// The rules that hold now.
    pub fn table(&self) -> Arc<ModeTable> {
        self.table.load_full()
    }
    /// Whether they were changed since the start. Such changes are lost at the next one.
    pub fn are_changed(&self) -> bool {
        self.changed.load(Relaxed)
    }

    /// Counts a read in mode `observe`; `hit`: the length of the value that the tier has.
    pub fn note_observed(&self, hit: Option<usize>) {
        let [hits, bytes, misses, _] = &self.counts;
        match hit {
            Some(len) => {
                hits.fetch_add(1, Relaxed);
                bytes.fetch_add(len as u64, Relaxed);
            }
            None => {
                misses.fetch_add(1, Relaxed);
            }
        }
    }
    /// Counts a read in mode `deny`.
    pub fn note_denied(&self) {
        self.counts[3].fetch_add(1, Relaxed);
    }
    /// What was counted since the start.
    pub fn snapshot(&self) -> ModeSnapshot {
        let [observed_hits, observed_hit_bytes, observed_misses, denied_reads] =
            [0, 1, 2, 3].map(|at| self.counts[at].load(Relaxed));
        let rules = self.table().iter().count() as u64;
        ModeSnapshot { rules, observed_hits, observed_hit_bytes, observed_misses, denied_reads }
    }
}

/// The rules that the settings of a group say.
fn rules_of(group: &GroupSettings) -> impl Iterator<Item = (&[u8], TierMode)> {
    let of_prefixes = group.prefixes.iter().map(|of| (of.prefix.as_bytes(), of.mode));
    [(&b""[..], group.mode)].into_iter().chain(of_prefixes)
}

/// Leaves out rules that say what the next shorter one says.
fn without_repetitions<P: Into<Box<[u8]>>>(rules: impl IntoIterator<Item = (P, TierMode)>) -> ModeTable {
    let all = PrefixTable::new(rules);
    let shorter = |prefix: &[u8]| (0..prefix.len()).rev().find_map(|len| all.exact(&prefix[..len]));
    let says_more = |(prefix, mode): &(&[u8], &TierMode)| shorter(prefix).copied().unwrap_or_default() != **mode;
    PrefixTable::new(all.iter().filter(says_more).map(|(prefix, mode)| (prefix, *mode)))
}

/// The rules as text: `user:=deny tmp:=observe`; `*` is the prefix of every key. Blanks, `=`, `%`,
/// `*` and what is not ASCII are percent-encoded.
pub fn mode_rules_text(table: &ModeTable) -> String {
    let rule = |(prefix, mode): (&[u8], &TierMode)| match prefix {
        b"" => format!("{EVERY_KEY}={}", mode.name()),
        prefix => format!("{}={}", percent_encode(prefix, ENCODED), mode.name()),
    };
    table.iter().map(rule).collect::<Vec<_>>().join(" ")
}

/// Reads such text.
///
/// # Errors
/// What is wrong with which rule.
pub fn parse_mode_rules(text: &str) -> Result<Vec<ModeRule>, String> {
    let rule = |rule: &str| {
        let (prefix, mode) =
            rule.rsplit_once('=').ok_or_else(|| format!("`{rule}` is not a rule: write PREFIX=MODE"))?;
        let mode = parse_mode(mode)?;
        match prefix {
            "" => Err(format!("`{rule}` has no prefix: write *={} for every key", mode.name())),
            EVERY_KEY => Ok((Box::default(), mode)),
            prefix => Ok((percent_decode_str(prefix).collect::<Vec<u8>>().into(), mode)),
        }
    };
    let rules: Vec<_> = text.split_ascii_whitespace().map(rule).collect::<Result<_, _>>()?;
    check_count(rules.len())?;
    Ok(rules)
}

/// The mode of that name.
///
/// # Errors
/// The names that there are.
pub fn parse_mode(name: &str) -> Result<TierMode, String> {
    TierMode::from_name(name).ok_or_else(|| format!("`{name}` is not a mode: one of {}", TierMode::NAMES.join(", ")))
}

/// Refuses more rules than a group may have.
///
/// # Errors
/// The limit.
pub fn check_count(rules: usize) -> Result<(), String> {
    if rules > MAX_RULES { Err(format!("{rules} rules are too many: a group has at most {MAX_RULES}")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use TierMode::{Cache, Deny, Observe};
    use proptest::prelude::*;

    fn text(rules: &ModeRules) -> String {
        mode_rules_text(&rules.table())
    }

    #[test]
    fn the_longest_rule_counts_until_it_is_changed() {
        let rules = ModeRules::new([("", Cache), ("user:", Deny), ("user:vip:", Cache), ("user:x", Deny)].map(bytes));
        assert_eq!(text(&rules), "user:=deny user:vip:=cache", "without what a shorter rule says");
        let modes = ["user:1", "user:vip:1", "user:x", "other"].map(|key| rules.of(key.as_bytes()));
        assert_eq!(modes, [Deny, Cache, Deny, Cache]);
        assert!(rules.are_set() && !rules.are_changed());
        rules.replace(parse_mode_rules("*=observe").expect("rules"));
        assert_eq!((rules.of(b"user:1"), rules.of(b""), rules.are_changed()), (Observe, Observe, true));
        rules.replace(Vec::new());
        assert_eq!((rules.of(b"user:1"), rules.are_set()), (Cache, false));
        rules.reset();
        assert_eq!((text(&rules).as_str(), rules.are_changed()), ("user:=deny user:vip:=cache", false));
    }
    fn bytes((prefix, mode): (&str, TierMode)) -> (&[u8], TierMode) {
        (prefix.as_bytes(), mode)
    }

    #[test]
    fn bad_rules_are_refused() {
        for (text, expected) in [
            ("user:", "`user:` is not a rule: write PREFIX=MODE"),
            ("a=deny =deny", "`=deny` has no prefix: write *=deny for every key"),
            ("a=denied", "`denied` is not a mode: one of cache, observe, deny"),
        ] {
            assert_eq!(parse_mode_rules(text).unwrap_err(), expected);
        }
        let many = (0..=MAX_RULES).map(|n| format!("{n}=deny ")).collect::<String>();
        assert_eq!(parse_mode_rules(&many).unwrap_err(), "1025 rules are too many: a group has at most 1024");
    }

    proptest! {
        #[test]
        fn any_prefix_reads_back(prefixes in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..6), 0..8)) {
            let table = PrefixTable::new(prefixes.iter().map(|prefix| (prefix.as_slice(), Deny)));
            let again = PrefixTable::new(parse_mode_rules(&mode_rules_text(&table)).expect("rules"));
            prop_assert!(table.iter().eq(again.iter()));
        }
    }
}
