//! The groups of the configuration: what all cores share of each, and how a core opens its own.
use super::{
    group::Group,
    key_events::{EventChannels, KeyEvents, TierRole},
    pending_writes::PendingWrites,
};
use larder_base::{buffers::Buffers, lifecycle::RunError, special::Switch, telemetry::Telemetry};
use larder_config::{Coherence, GroupSettings, Settings, SourceClass, SourceUrl, TierMode};
use larder_engine::{Cache, ListenerKind};
use larder_ring::peer::{self, PeerClient};
use larder_source::{
    BreakerPolicy, FillPolicy, Freshness, FreshnessTable, Inspection, InspectionCounts, KeyPolicy, Mirror, ModeRule,
    ModeRules, PrefixTable, ServerLoads, SourceLimits, SourcePair, SourceSetup, invalidation_scope, mode_rules_text,
};
use larder_store::clock;
use larder_units::show_size;
use std::{rc::Rc, slice, sync::Arc, time::Duration};

const MIB: usize = 1 << 20;

/// All groups, in the order of the configuration. There is at least `default`.
pub struct Groups<G>(Vec<G>);

/// A group in a list of [`Groups`].
pub trait NamedGroup {
    fn name(&self) -> &str;
}

impl<G: NamedGroup> Groups<G> {
    /// Database 0 of the Redis protocol, and what HTTP routes without a group use.
    #[inline]
    pub fn default(&self) -> &G {
        &self.0[0]
    }

    /// For what is made after the group, and tests that give it another tier or source.
    pub fn default_mut(&mut self) -> &mut G {
        &mut self.0[0]
    }

    pub fn named(&self, name: &[u8]) -> Option<&G> {
        self.0.iter().find(|group| group.name().as_bytes() == name)
    }

    /// The group with this number, which comes from a group or from the settings.
    #[inline]
    pub fn at(&self, number: usize) -> &G {
        &self.0[number]
    }

    pub fn iter(&self) -> slice::Iter<'_, G> {
        self.0.iter()
    }
}

impl<G> FromIterator<G> for Groups<G> {
    fn from_iter<I: IntoIterator<Item = G>>(groups: I) -> Groups<G> {
        Groups(groups.into_iter().collect())
    }
}

impl NamedGroup for ProcessGroup {
    fn name(&self) -> &str {
        &self.settings.name
    }
}

impl NamedGroup for Rc<Group> {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Groups<ProcessGroup> {
    /// What all cores share of a core's group.
    pub fn of(&self, group: &Group) -> &ProcessGroup {
        self.at(group.number)
    }

    pub(crate) fn caches(&self) -> Vec<Arc<Cache>> {
        self.iter().map(|group| group.cache.clone()).collect()
    }
}

/// What all cores share of a group.
pub struct ProcessGroup {
    /// Its place in the configuration; 0 is `default`.
    pub number: usize,
    /// As at start.
    pub settings: GroupSettings,
    pub cache: Arc<Cache>,
    /// What cores share of its source and of the source's mirror.
    sources: SourcePair,
    pub freshness: Arc<Freshness>,
    pub modes: Arc<ModeRules>,
    /// What became of the sampled hits.
    pub inspection: Arc<InspectionCounts>,
    /// The pending writes to the source.
    pub writes: Arc<PendingWrites>,
    /// Its keyspace notifications, if it is the group of the Redis protocol and only Larder changes its
    /// entries.
    pub events: Option<Arc<KeyEvents>>,
}

/// Long enough for ten fetches of a quiet group, short enough to notice a source that begins to fail.
const BREAKER_WINDOW: Duration = Duration::from_secs(10);

/// The memory tier of a group. It is built before the buffers, which count what tiers lend, and the
/// source after them.
pub(crate) struct Tier {
    pub(crate) cache: Arc<Cache>,
    freshness: Arc<Freshness>,
}

impl Tier {
    pub(crate) fn new(group: &GroupSettings) -> Tier {
        let freshness = Arc::new(Freshness::new(freshness_table(group)));
        // The reads of a table do not go to the tier.
        let reads_tier = group.source.class() != SourceClass::Table;
        let cache = Cache::new(larder_engine::Config {
            max_memory: group.max_memory,
            max_keys: group.max_keys,
            eviction: group.eviction,
            shards: None,
            default_ttl: group.freshness.ttl.map(millis),
            ttl_jitter: group.ttl_jitter,
            stale_rules: Some(Arc::new(policy(group, &freshness, &Arc::default()))),
            // All keys at first: the engine halves the share when there are many keys or reads.
            what_if: reads_tier.then_some(0),
            seed: None,
        });
        Tier { cache, freshness }
    }
}

impl ProcessGroup {
    /// Nothing connects yet. Sources of one server share `servers`.
    pub(crate) fn new(
        number: usize,
        tier: Tier,
        settings: &Settings,
        buffers: &Arc<Buffers>,
        servers: &ServerLoads,
    ) -> Result<ProcessGroup, RunError> {
        let group = settings.groups[number].clone();
        let limits = SourceLimits {
            timeout: group.freshness.source_timeout,
            slow_timeout: settings.source_slow_timeout.max(group.freshness.source_timeout),
            max_in_flight: settings.source_max_in_flight,
            adaptive: settings.source_adaptive,
            breaker: settings.source_breaker.map(|share| BreakerPolicy { share, window: BREAKER_WINDOW }),
            connections: settings.connections_to(&group.source),
            max_value: settings.max_value,
            max_backlog: settings.max_backlog,
            store: group.store,
        };
        let failed = |reason| RunError::Source { group: group.name.clone(), reason };
        let source = SourceSetup::sharing(&group.source, limits, buffers, servers).map_err(failed)?;
        let sources = match &group.mirror {
            Some(url) => {
                let mirror = SourceSetup::new(url, limits, buffers).map_err(failed)?;
                SourcePair::mirrored(source, mirror, group.may_swap())
            }
            None => SourcePair::alone(source),
        };
        let writes = PendingWrites::of_mirrored(sources.changes().cloned());
        Ok(ProcessGroup {
            number,
            cache: tier.cache,
            sources,
            freshness: tier.freshness,
            modes: Arc::new(ModeRules::of_settings(&group)),
            inspection: Arc::default(),
            writes: Arc::new(writes),
            events: None,
            settings: group,
        })
    }

    /// Gives the group keyspace notifications, which go to `channels`, if only Larder changes the
    /// entries of its source or of the mirror. Writers test the switch `is_on`.
    pub(crate) fn publish_events(&mut self, channels: Arc<dyn EventChannels>, is_on: Switch) {
        let of_mirror = self.settings.mirror.as_ref().and_then(|mirror| self.event_tier(mirror));
        let tier = self.event_tier(&self.settings.source);
        if tier.or(of_mirror).is_none() {
            return;
        }
        let events = Arc::new(KeyEvents::new(channels, is_on, tier));
        self.cache.set_listener(ListenerKind::Events, events.clone());
        self.events = Some(events);
    }

    /// The source or its lifetimes have changed: events are those of the present source.
    pub(crate) fn follow_events(&self) {
        if let Some(events) = &self.events {
            events.set_tier(self.event_tier(self.source_url()), &self.cache);
        }
    }

    /// What the memory tier has of the entries of this source; `None`: other programs change them too.
    fn event_tier(&self, source: &SourceUrl) -> Option<TierRole> {
        match source.class() {
            SourceClass::Memory => Some(TierRole::Store),
            SourceClass::Store if self.freshness.has_ttl() => Some(TierRole::ShorterCopies),
            SourceClass::Store => Some(TierRole::Copies),
            SourceClass::Table | SourceClass::SharedStore | SourceClass::Redis | SourceClass::Values => None,
        }
    }

    /// The shared part of its source, and the source's health.
    pub fn source(&self) -> &SourceSetup {
        self.sources.source()
    }

    /// The same of the source's mirror, and what the changes for it share; `None`: there is none.
    pub fn mirror(&self) -> Option<(&SourceSetup, &Arc<Mirror>)> {
        self.sources.mirror()
    }

    /// Its source and the mirror, for the task that copies.
    pub fn sources(&self) -> &SourcePair {
        &self.sources
    }

    /// The URL of the source. It may have traded places with its mirror since the start.
    pub fn source_url(&self) -> &SourceUrl {
        match &self.settings.mirror {
            Some(mirror) if self.sources.is_swapped() => mirror,
            _ => &self.settings.source,
        }
    }

    /// The URL of the mirror, if there still is one.
    pub fn mirror_url(&self) -> Option<&SourceUrl> {
        self.mirror()?;
        if self.sources.is_swapped() { Some(&self.settings.source) } else { self.settings.mirror.as_ref() }
    }

    /// One core's handle on the group, on that core's runtime. Its source begins to connect.
    pub(crate) fn open(&self, telemetry: &Telemetry, saves: bool, client: Option<&Rc<PeerClient>>) -> Group {
        let (settings, cache) = (&self.settings, self.cache.clone());
        let sample = |share| Arc::new(Inspection::new(share, cache.scratch(), self.inspection.clone()));
        // A core has a policy of its own, so that cores do not share its reference count.
        let policy = Arc::new(FillPolicy {
            inspection: settings.inspect.map(sample),
            is_saved: saves && settings.is_verified(),
            key_counts: telemetry.hot_keys.join(self.number),
            tracer: telemetry.tracer.clone(),
            ..policy(settings, &self.freshness, &self.modes)
        });
        let announces = settings.source.class() == SourceClass::Table;
        let watch = (announces || policy.coherence == Coherence::Coherent)
            .then(|| invalidation_scope(&cache, &policy, &settings.tracking_prefixes));
        let name: Arc<str> = settings.name.as_str().into();
        let source = self.sources.open(watch, policy.keeps_replies());
        let (peers, source) = match client.filter(|_| settings.is_shared) {
            Some(client) => {
                let (group, source) = peer::share(client, &name, &cache, &policy, source);
                (Some(group), source)
            }
            None => (None, source),
        };
        let (writes, events) = (self.writes.clone(), self.events.clone());
        Group { number: self.number, name, cache, source, policy, writes, peers, events }
    }

    /// Replaces the mode rules on all cores at once; `None`: by those of the configuration. What a
    /// rule denies is forgotten.
    ///
    /// # Errors
    /// The group has no tier before a source, so its reads could not be answered otherwise.
    pub fn change_modes(&self, rules: Option<Vec<ModeRule>>) -> Result<(), String> {
        let (group, source) = (&self.settings.name, self.source_url());
        if source.has_one_answer() {
            return Err(format!("the source of group {group} is `{source}`: its reads have no other answer"));
        }
        match rules {
            Some(rules) => self.modes.replace(rules),
            None => self.modes.reset(),
        }
        self.forget_denied();
        let until = if self.modes.are_changed() { " until the next start" } else { "" };
        let now = mode_rules_text(&self.modes.table());
        tracing::warn!(group, rules = now, "mode rules changed{until}");
        Ok(())
    }

    /// Drops the copies of the keys that the mode rules deny.
    fn forget_denied(&self) {
        let table = self.modes.table();
        for (prefix, _) in table.iter().filter(|(_, mode)| **mode == TierMode::Deny) {
            self.cache.mark_prefix(prefix, true, clock::now());
        }
    }

    /// Applies new settings of the group, as far as they need no restart. The bound on memory is
    /// the process's to change.
    pub(crate) fn reload(&self, settings: &GroupSettings) {
        self.freshness.replace(freshness_table(settings));
        self.follow_events();
        self.cache.set_default_ttl(settings.freshness.ttl.map(millis));
        self.cache.stale_rules_changed();
        if self.modes.configure(settings) {
            self.forget_denied();
        }
    }

    /// Why the bound on the group's memory cannot be `bytes` now.
    pub fn bound_problem(&self, bytes: usize) -> Option<String> {
        let (least, most) = self.cache.memory_limits().into_inner();
        let (least, most) = (least.next_multiple_of(MIB), most / MIB * MIB);
        let limit = match bytes {
            bytes if bytes < least => format!("at least {}", show_size(least as u64)),
            bytes if bytes > most => format!("at most {}", show_size(most as u64)),
            _ => return None,
        };
        let shown = show_size(bytes as u64);
        Some(format!("max-memory of {shown} needs a restart: with the shards that run now it must be {limit}"))
    }
}

fn policy(group: &GroupSettings, freshness: &Arc<Freshness>, modes: &Arc<ModeRules>) -> FillPolicy {
    let coherence = match group.source.class() {
        // Without a source nothing outside can change.
        SourceClass::Memory => Coherence::Ttl,
        // The memory map is as fast as the memory tier, so nothing is stored twice.
        SourceClass::Table => Coherence::Off,
        // Every change goes through Larder, so a written value is as fresh a copy as a read one.
        SourceClass::Store => Coherence::Ttl,
        SourceClass::Redis | SourceClass::Values if group.source.announces_changes() => group.coherence,
        // Announces no change: a lifetime alone bounds the age of a copy.
        SourceClass::Redis | SourceClass::SharedStore | SourceClass::Values => Coherence::Ttl,
    };
    FillPolicy {
        freshness: freshness.clone(),
        modes: modes.clone(),
        inspection: None,
        key_counts: Arc::default(),
        tracer: Arc::default(),
        coherence,
        max_reply: group.cache_replies.unwrap_or(0),
        is_saved: false,
    }
}

/// The policies of a group's keys.
fn freshness_table(group: &GroupSettings) -> FreshnessTable {
    let is_remote = matches!(group.source.class(), SourceClass::Redis | SourceClass::SharedStore | SourceClass::Values);
    let of_keys = |freshness| match is_remote {
        true => KeyPolicy::from(freshness),
        // What is on this machine does not outlive its lifetime.
        false => KeyPolicy::from(freshness).never_stale(),
    };
    let prefixes = group.prefixes.iter().map(|of| (of.prefix.as_bytes(), of_keys(&of.freshness)));
    FreshnessTable { own: of_keys(&group.freshness), prefixes: PrefixTable::new(prefixes) }
}

/// A setting's duration in the engine's unit.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
