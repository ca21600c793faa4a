//! How fills of a group are stored: lifetimes, absences, coherence, replies. A key prefix may have
//! lifetimes of its own.
use super::{copy_metadata::CopyMetadata, inspection::Inspection, mode_rules::ModeRules, prefix_table::PrefixTable};
use arc_swap::{ArcSwap, Guard};
use larder_base::telemetry::{KeyCounts, Tracer};
use larder_config::{Coherence, FreshnessSettings, RefreshAhead, TierMode};
use larder_engine::{Expiry, Millis};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

/// How old copies of a key may be, and when they are renewed. Times are in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyPolicy {
    /// Longest life of a fill; the source's own expiry only shortens it.
    pub ttl: Option<u64>,
    /// How long an absence is remembered; `None`: never.
    pub negative_ttl: Option<u64>,
    /// How long after its lifetime a copy is served while a fetch renews it.
    pub stale_while_revalidate: u64,
    /// How long after its lifetime a copy is served if the source fails.
    pub stale_if_error: u64,
    /// Deadline of a fetch; `None`: that of the source.
    pub source_timeout: Option<u64>,
    /// How long a read waits for a fetch if there is a copy that `stale_if_error` allows; `None`:
    /// as long as the fetch takes.
    pub soft_timeout: Option<u64>,
    /// When a read renews a copy before the end of its lifetime; `None`: never.
    pub refresh_ahead: Option<RefreshAhead>,
    /// Bound on the time after its lifetime for which a copy is served, whatever else allows it.
    pub max_stale: Option<u64>,
}
impl From<&FreshnessSettings> for KeyPolicy {
    fn from(settings: &FreshnessSettings) -> KeyPolicy {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        KeyPolicy {
            ttl: settings.ttl.map(millis),
            negative_ttl: settings.negative_ttl.map(millis),
            stale_while_revalidate: millis(settings.stale_while_revalidate),
            stale_if_error: millis(settings.stale_if_error),
            source_timeout: Some(millis(settings.source_timeout)),
            soft_timeout: settings.soft_timeout.map(millis),
            refresh_ahead: settings.refresh_ahead,
            max_stale: settings.max_stale.map(millis),
        }
    }
}

impl KeyPolicy {
    /// This policy without anything that serves copies past their lifetime or renews them before.
    pub fn never_stale(self) -> KeyPolicy {
        let KeyPolicy { ttl, negative_ttl, source_timeout, .. } = self;
        KeyPolicy { ttl, negative_ttl, source_timeout, ..KeyPolicy::default() }
    }
}

/// The policies of a group's keys, shared by all cores. They change at run time, all at once.
#[derive(Debug, Default)]
pub struct Freshness {
    /// So that a key's policy takes no search where no prefix has one.
    has_prefixes: AtomicBool,
    table: ArcSwap<FreshnessTable>,
}

/// The policies of a group's keys.
#[derive(Debug, Clone, Default)]
pub struct FreshnessTable {
    /// That of all keys without a prefix of their own. The group's cache has the same `ttl` as its
    /// default lifetime, so that jitter applies to fills.
    pub own: KeyPolicy,
    pub prefixes: PrefixTable<KeyPolicy>,
}
impl FreshnessTable {
    fn of(&self, key: &[u8]) -> &KeyPolicy {
        self.prefixes.get(key).unwrap_or(&self.own)
    }
    /// All of them.
    pub(super) fn policies(&self) -> impl Iterator<Item = &KeyPolicy> {
        std::iter::once(&self.own).chain(self.prefixes.iter().map(|(_, policy)| policy))
    }
}

impl Freshness {
    /// These policies.
    pub fn new(table: FreshnessTable) -> Freshness {
        let freshness = Freshness::default();
        freshness.replace(table);
        freshness
    }
    /// Replaces all policies. What is held already keeps the end of its lifetime.
    pub fn replace(&self, table: FreshnessTable) {
        let has_prefixes = !table.prefixes.is_empty();
        self.table.store(Arc::new(table));
        self.has_prefixes.store(has_prefixes, Relaxed);
    }
    /// Whether some copies have a lifetime of their own.
    pub fn has_ttl(&self) -> bool {
        self.table.load().policies().any(|policy| policy.ttl.is_some())
    }
    /// Whether a key prefix has a policy of its own.
    #[inline]
    pub fn has_prefixes(&self) -> bool {
        self.has_prefixes.load(Relaxed)
    }
}

/// How fills of a group are stored.
#[derive(Debug, Clone, Default)]
pub struct FillPolicy {
    /// How old copies of its keys may be.
    pub freshness: Arc<Freshness>,
    /// Which keys the memory tier keeps and serves; shared by all cores.
    pub modes: Arc<ModeRules>,
    /// The sampling of hits that are compared with the source.
    pub inspection: Option<Arc<Inspection>>,
    /// The coherence mode; unused without a source.
    pub coherence: Coherence,
    /// Largest cached reply, bytes, command included; 0: replies are not cached.
    pub max_reply: usize,
    /// Copies that are out of date for the loss of the source stay until they are swept: a snapshot
    /// at the end of the process has them, to be verified.
    pub is_saved: bool,
    /// This core's counts of the reads of the keys.
    pub key_counts: Arc<KeyCounts>,
    /// Where the spans of fetches go.
    pub tracer: Arc<Tracer>,
}
impl From<KeyPolicy> for FillPolicy {
    fn from(own: KeyPolicy) -> FillPolicy {
        FillPolicy::from(FreshnessTable { own, ..FreshnessTable::default() })
    }
}
impl From<FreshnessTable> for FillPolicy {
    fn from(table: FreshnessTable) -> FillPolicy {
        FillPolicy { freshness: Arc::new(Freshness::new(table)), ..FillPolicy::default() }
    }
}
impl FillPolicy {
    pub fn of(&self, key: &[u8]) -> KeyPolicy {
        *self.freshness.table.load().of(key)
    }
    /// Whether a read needs more than a lookup: mode rules are set, or hits are sampled.
    #[inline]
    pub fn has_rules(&self) -> bool {
        self.modes.are_set() | self.inspection.is_some()
    }
    /// The deadline of a fetch of a key, from a source whose own is `general`.
    pub fn source_timeout(&self, key: &[u8], general: Duration) -> Duration {
        self.of(key).source_timeout.map_or(general, Duration::from_millis)
    }
    /// What the memory tier does with a key.
    pub fn mode(&self, key: &[u8]) -> TierMode {
        self.modes.of(key)
    }
    /// Whether the memory tier answers reads of a key.
    #[inline]
    pub fn serves(&self, key: &[u8]) -> bool {
        self.modes.of(key) == TierMode::Cache
    }
    /// Whether the memory tier keeps nothing of a key.
    #[inline]
    pub fn denies(&self, key: &[u8]) -> bool {
        self.modes.of(key) == TierMode::Deny
    }
    /// The policies of all keys.
    pub(super) fn table(&self) -> Guard<Arc<FreshnessTable>> {
        self.freshness.table.load()
    }
    /// Whether some copies are served while the source is unavailable, although they are not fresh.
    pub fn serves_stale(&self) -> bool {
        self.table().policies().any(|policy| policy.stale_if_error > 0)
    }
    /// The longest time past its freshness for which any copy may be served, ms.
    pub fn longest_stale(&self) -> u64 {
        let longest = |policy: &KeyPolicy| {
            policy.stale_while_revalidate.max(policy.stale_if_error).min(policy.max_stale.unwrap_or(u64::MAX))
        };
        self.table().policies().map(longest).max().unwrap_or(0)
    }
    /// The longest lifetime of any key, ms; `None`: some have none.
    pub fn longest_ttl(&self) -> Option<u64> {
        self.table().policies().map(|policy| policy.ttl).try_fold(0, |longest, ttl| Some(longest.max(ttl?)))
    }
    /// Whether copies may still be served when the source has been lost for so many ms.
    pub fn outlives_source(&self, lost_for: u64) -> bool {
        let may_serve = |policy: &KeyPolicy| {
            let window = policy.stale_if_error.min(policy.max_stale.unwrap_or(u64::MAX));
            window > 0 && (lost_for < window || policy.ttl.is_some())
        };
        match self.coherence {
            Coherence::Ttl => true,
            Coherence::Coherent => self.table().policies().any(may_serve),
            Coherence::Off => false,
        }
    }
    /// The expiry of an entry that is stored without one.
    pub fn lifetime(&self, key: &[u8]) -> Expiry {
        let table = self.table();
        match (table.prefixes.get(key), table.own.ttl) {
            // The cache knows the group's lifetime.
            (None, Some(_)) => Expiry::Default,
            (Some(policy), _) => policy.ttl.map_or(Expiry::Never, Expiry::FreshFor),
            (None, None) => Expiry::Never,
        }
    }
    /// The end of a copy: its own expiry at the source (`own`), or the end of the key's lifetime
    /// from now if that is earlier.
    pub fn cap(&self, key: &[u8], own: Option<Millis>, now: Millis) -> Expiry {
        match (own, self.of(key).ttl) {
            (Some(at), None) => Expiry::At(at),
            (Some(at), Some(ttl)) if at < now.saturating_add(ttl) => Expiry::At(at),
            (_, Some(ttl)) => Expiry::FreshFor(ttl),
            (None, None) => Expiry::Never,
        }
    }
    /// When the source drops an entry of which a copy that ends at `end` may still be served then.
    /// `own` is the entry's expiry at the source.
    pub(super) fn gone_at(&self, end: Expiry, own: Option<Millis>, now: Millis) -> Option<Millis> {
        let Expiry::FreshFor(ttl) = end else { return None };
        own.filter(|at| *at < now.saturating_add(ttl).saturating_add(self.longest_stale()))
    }
    /// The metadata of a copy that a write leaves, which ends at `end`. `own` is the expiry that was
    /// written.
    pub fn metadata_of_write(&self, end: Expiry, own: Option<Millis>, now: Millis) -> Vec<u8> {
        let of = |gone_at| CopyMetadata { gone_at: Some(gone_at), ..CopyMetadata::default() }.encode();
        self.gone_at(end, own, now).map_or_else(Vec::new, of)
    }
    /// Until when an absence counts as fresh; `None`: it is not remembered.
    pub fn absence(&self, key: &[u8], now: Millis) -> Option<Expiry> {
        let ttl = self.of(key).negative_ttl.filter(|ttl| *ttl > 0)?;
        Some(Expiry::FreshUntil(now.saturating_add(ttl)))
    }
    /// Whether replies are cached at all.
    pub fn keeps_replies(&self) -> bool {
        self.max_reply > 0 && self.coherence != Coherence::Off
    }
}
