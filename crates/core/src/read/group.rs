//! A group as one core sees it (tier, source, policy), and reads that may miss.
use super::{inspector::ServedCopy, key_events::KeyEvents, pending_writes::PendingWrites};
use bytes::Bytes;
use larder_config::{Coherence, TierMode};
use larder_engine::{Cache, Entry, Expiry, Key, Lead, Lookup, Millis, Outcome, Wait};
use larder_ring::peer::PeerGroup;
use larder_source::{Fetch, FillPolicy, PinnedTable, Source, SourceError, SourceKind, TableLookup};
use larder_store::clock;
use smallvec::SmallVec;
use std::{rc::Rc, sync::Arc, time::Duration};

/// Keys that are prefetched together: about as many cache misses as a core can have in progress.
pub const KEYS_AHEAD: usize = 16;
/// A longer argument is seldom a key, and to hash it takes longer than to wait for memory.
const LONGEST_AHEAD: usize = 256;

/// One core's handle on a group.
#[derive(Clone)]
pub struct Group {
    /// Its place in the configuration.
    pub number: usize,
    pub name: Arc<str>,
    /// The memory tier (shared by all cores).
    pub cache: Arc<Cache>,
    /// This core's connection to the source.
    pub source: Rc<dyn Source>,
    /// How fills are stored.
    pub policy: Arc<FillPolicy>,
    /// Writes in flight to the source (shared by all cores, one per group).
    pub writes: Arc<PendingWrites>,
    /// The nodes that own its keys; `None`: this one owns all.
    pub peers: Option<Rc<PeerGroup>>,
    /// Its keyspace notifications (shared by all cores); `None`: it has none.
    pub events: Option<Arc<KeyEvents>>,
}

/// The state of a read after the lookup.
#[derive(Debug)]
pub enum StartedRead<R> {
    /// Answered from the memory tier.
    Hit(R),
    /// The key is absent (there is no source, or the absence is remembered). For a whole reply: not
    /// worth caching yet.
    Absent,
    /// In flight: await it with [`Group::end`].
    Wait(Wait),
}

impl Group {
    pub fn is_default(&self) -> bool {
        self.number == 0
    }

    /// Starts a read. A miss is pushed to `batch`; the caller passes it to `source.fetch` after it
    /// has started all its reads.
    #[inline]
    pub fn begin<R>(
        &self,
        key: Key<'_>,
        now: Millis,
        batch: &mut Vec<Fetch>,
        read: impl FnOnce(Entry<'_>) -> R,
    ) -> StartedRead<R> {
        match self.policy.key_counts.is_due() {
            true => self.begin_noted(key, now, batch, read),
            false => self.begin_read(key, now, batch, read),
        }
    }

    /// As [`begin`](Group::begin), for a read that is noted for the hot keys.
    #[cold]
    #[inline(never)]
    fn begin_noted<R>(
        &self,
        key: Key<'_>,
        now: Millis,
        batch: &mut Vec<Fetch>,
        read: impl FnOnce(Entry<'_>) -> R,
    ) -> StartedRead<R> {
        let mut found = None;
        let begun = self.begin_read(key, now, batch, |entry| {
            found = Some(entry.value.as_bytes().len());
            read(entry)
        });
        self.policy.key_counts.note_read(key.bytes(), found, now);
        begun
    }

    fn begin_read<R>(
        &self,
        key: Key<'_>,
        now: Millis,
        batch: &mut Vec<Fetch>,
        read: impl FnOnce(Entry<'_>) -> R,
    ) -> StartedRead<R> {
        let read = match self.source.kind() {
            SourceKind::Redis(_) | SourceKind::Store(_) | SourceKind::Values(_) => read,
            SourceKind::Memory => {
                return match self.cache.tier().get(key, now, read) {
                    Some(answer) => StartedRead::Hit(answer),
                    None => StartedRead::Absent,
                };
            }
            SourceKind::Table(table) => match table.look(key.bytes(), read) {
                TableLookup::Found(answer) => return StartedRead::Hit(answer),
                TableLookup::Absent => return StartedRead::Absent,
                TableLookup::Unknown(read) => read,
            },
        };
        if self.policy.has_rules() {
            return self.begin_by_rules(key, now, batch, read);
        }
        self.start_read(self.cache.lookup(key, now, read), batch)
    }

    /// As [`begin`](Group::begin), for another node, which says that its ring has the epoch `ring`.
    /// It is not asked of a third one: a key that belongs elsewhere is answered by the tier, or
    /// by the source. Only a node that reads a key for its zone asks the key's owner.
    pub fn begin_for_peer<R>(
        &self,
        key: Key<'_>,
        ring: Option<&[u8]>,
        now: Millis,
        batch: &mut Vec<Fetch>,
        read: impl FnOnce(Entry<'_>) -> R,
    ) -> StartedRead<R> {
        let reads = |peers: &Rc<PeerGroup>| peers.owns(key.bytes()) || peers.reads_for_zone(key.bytes(), ring);
        if self.peers.as_ref().is_none_or(reads) {
            return self.begin(key, now, batch, read);
        }
        if let Some(answer) = self.held_for_peer(key, now, read) {
            return StartedRead::Hit(answer);
        }
        let (wait, lead) = self.cache.fetch_direct(key, now);
        batch.extend(lead.map(|lead| Fetch::new(lead, self.policy.clone())));
        StartedRead::Wait(wait)
    }

    /// What the tier has for another node. Nothing is fetched for it.
    pub fn held_for_peer<R>(&self, key: Key<'_>, now: Millis, read: impl FnOnce(Entry<'_>) -> R) -> Option<R> {
        if self.policy.serves(key.bytes()) { self.cache.tier().get(key, now, read) } else { None }
    }

    /// As [`begin`](Group::begin), where mode rules are set or hits are sampled.
    #[inline(never)]
    fn begin_by_rules<R>(
        &self,
        key: Key<'_>,
        now: Millis,
        batch: &mut Vec<Fetch>,
        read: impl FnOnce(Entry<'_>) -> R,
    ) -> StartedRead<R> {
        let modes = &self.policy.modes;
        match modes.of(key.bytes()) {
            TierMode::Cache => {
                let sampling = self.policy.inspection.as_ref().filter(|inspection| inspection.samples(now));
                let Some(inspection) = sampling else {
                    return self.start_read(self.cache.lookup(key, now, read), batch);
                };
                let mut served = None;
                let found = self.cache.lookup(key, now, |entry| {
                    // A copy that is out of date is known to be.
                    served = entry.stale_since().is_none().then(|| ServedCopy {
                        version: entry.version(),
                        age: Duration::from_millis(now.saturating_sub(entry.stored())),
                    });
                    read(entry)
                });
                match served {
                    Some(served) => self.inspect(inspection, key, served),
                    None => inspection.dropped(),
                }
                self.start_read(found, batch)
            }
            TierMode::Observe => {
                let hit = self.cache.tier().get(key, now, |entry| entry.value.as_bytes().len());
                modes.note_observed(hit);
                self.ask_source(key, b"", hit.is_none(), now, batch)
            }
            TierMode::Deny => {
                modes.note_denied();
                self.ask_source(key, b"", false, now, batch)
            }
        }
    }

    /// Starts a read that the source answers, whatever the tier has. `keeps`: its answer becomes
    /// the tier's copy. What the tier could have served is not replaced, or its lifetime would
    /// begin again with each read.
    pub(super) fn ask_source<R>(
        &self,
        key: Key<'_>,
        name: &[u8],
        keeps: bool,
        now: Millis,
        batch: &mut Vec<Fetch>,
    ) -> StartedRead<R> {
        let (wait, lead) = self.cache.fetch(key, name, now);
        if let Some(lead) = lead {
            let policy = self.policy.clone();
            batch.push(if keeps { Fetch::new(lead, policy) } else { Fetch::past_the_tier(lead, policy) });
        }
        StartedRead::Wait(wait)
    }

    /// Turns a lookup in the memory tier into a read. The fetch of a new flight is pushed to
    /// `batch`.
    #[inline]
    pub(super) fn start_read<R>(&self, found: Lookup<R>, batch: &mut Vec<Fetch>) -> StartedRead<R> {
        match found {
            Lookup::Hit(answer) => StartedRead::Hit(answer),
            Lookup::Absent => StartedRead::Absent,
            Lookup::Wait(wait) => StartedRead::Wait(wait),
            Lookup::Renew(answer, lead) => {
                batch.push(Fetch::in_batch(batch, lead, self.policy.clone()));
                answer.map_or(StartedRead::Absent, StartedRead::Hit)
            }
            Lookup::Lead(lead) => {
                let wait = lead.wait();
                if lead.has_fallback() {
                    self.answer_in_time(&lead);
                }
                batch.push(Fetch::in_batch(batch, lead, self.policy.clone()));
                StartedRead::Wait(wait)
            }
        }
    }

    /// There is a copy that may be served if the fetch takes longer than the soft timeout. The
    /// fetch goes on and fills.
    #[cold]
    fn answer_in_time(&self, lead: &Lead) {
        let Some(soft_timeout) = self.policy.of(lead.key()).soft_timeout else { return };
        let early = lead.early_answer();
        tokio::task::spawn_local(async move {
            tokio::time::sleep(Duration::from_millis(soft_timeout)).await;
            early.give(clock::now());
        });
    }

    /// Has the processor fetch what reads of these keys will look at. Pays from two keys on.
    pub fn prefetch<'k>(&self, keys: impl Iterator<Item = Key<'k>> + Clone) {
        match self.source.kind() {
            SourceKind::Table(table) => keys.for_each(|key| table.prefetch(key.bytes())),
            _ => self.cache.prefetch(keys),
        }
    }

    /// Prefetches for the commands to come, [`KEYS_AHEAD`] of them at most: `keys` has the key of each,
    /// if it has one. Returns their number; 0 if there are not two keys.
    #[inline]
    pub fn prefetch_ahead<'k>(&self, keys: impl Iterator<Item = Option<&'k [u8]>>) -> usize {
        let mut commands = 0;
        // Filled in place: to move the keys takes longer than to find them.
        let mut row: SmallVec<[Key<'_>; KEYS_AHEAD]> = SmallVec::new();
        let is_likely = |argument: &&[u8]| argument.len() <= LONGEST_AHEAD;
        let arguments = keys.take(KEYS_AHEAD).inspect(|_| commands += 1).flatten().filter(is_likely);
        row.extend(arguments.map(|argument| self.cache.key(argument)));
        if row.len() < 2 {
            return 0;
        }
        self.prefetch(row.iter().copied());
        commands
    }

    /// The expiry of an entry that a client stores without one.
    #[inline]
    pub fn lifetime(&self, key: &[u8]) -> Expiry {
        // Without prefixes the cache knows it. Where a source keeps the entry, the tier's copy gets it.
        match !self.policy.freshness.has_prefixes() || !self.is_store() {
            true => Expiry::Default,
            false => self.policy.lifetime(key),
        }
    }

    /// Hold the result while related reads are started: they then use one table, even if a reload
    /// replaces it meanwhile. `None` for other sources.
    pub fn one_table(&self) -> Option<PinnedTable<'_>> {
        match self.source.kind() {
            SourceKind::Table(table) => Some(table.one_table()),
            _ => None,
        }
    }

    /// What the memory tier holds of a key, for the log: a copy of its own, or one of another
    /// node's key.
    pub fn tier_name(&self, key: &[u8]) -> &'static str {
        let is_own = self.peers.as_ref().is_none_or(|peers| peers.owns_now(key));
        if is_own { "hit" } else { "hot copy" }
    }

    /// Awaits a started read.
    ///
    /// # Errors
    /// The source's error, or `Unavailable("fetch abandoned")` if the fetch was dropped.
    pub async fn end(wait: Wait) -> Result<Option<Bytes>, SourceError> {
        Group::ended(wait.await)
    }

    /// The result of a flight's outcome, for callers that poll the flight themselves.
    ///
    /// # Errors
    /// As [`Group::end`].
    pub fn ended(outcome: Outcome) -> Result<Option<Bytes>, SourceError> {
        match outcome {
            Outcome::Value(value) => Ok(Some(value)),
            Outcome::Absent => Ok(None),
            Outcome::Failed(text) => Err(SourceError::of_outcome(text)),
            Outcome::Abandoned => Err(SourceError::Unavailable("fetch abandoned".into())),
        }
    }

    /// A client read the key at the source directly. A copy in the tier may be older, and the
    /// client must not read an older value now: the copy is dropped, and fetches in flight are
    /// fenced. In mode `ttl` only lifetimes bound the age of copies.
    pub fn seen(&self, key: Key<'_>) {
        if self.policy.coherence != Coherence::Ttl {
            self.cache.invalidate(key);
        }
    }

    /// Reads one key to the end: [`begin`](Group::begin), fetch, [`end`](Group::end).
    ///
    /// # Errors
    /// As [`Group::end`].
    pub async fn read(&self, key: &[u8], now: Millis) -> Result<Option<Bytes>, SourceError> {
        let mut batch = Vec::new();
        let begun = self.begin(self.cache.key(key), now, &mut batch, |entry| entry.value.to_bytes());
        if !batch.is_empty() {
            self.source.fetch(&mut batch);
        }
        match begun {
            StartedRead::Hit(value) => Ok(Some(value)),
            StartedRead::Absent => Ok(None),
            StartedRead::Wait(wait) => Group::end(wait).await,
        }
    }
}
