//! One core's view of a group whose keys have owners: reads that go to them, and changes that all nodes hear of.
use super::{
    asked_for::AskedFor,
    hot_keys::HotKeys,
    member::Member,
    membership::{Membership, Peers},
    peer_counts::PeerCounts,
    ring_disagreement::parse_epoch,
    transport::{ClearScope, PeerAnswer, PeerChange, PeerError, Transport},
    untold::Untold,
    wait_for_all::wait_for_all,
};
use crate::source::{Fetch, FetchAnswer, FillPolicy, FreshUntil, RequestTrace, Source, SourceError};
use bytes::Bytes;
use larder_engine::{Cache, Millis};
use larder_store::clock;
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};
use tokio::time::Instant;

/// Nodes that are asked for a key one after the other: the owner, and the next on the ring, which fills it for all meanwhile.
const ASKED: usize = 2;
/// The life of what a substitute fetched, at least, ms: it answers for all nodes.
const SHORTEST: u64 = 1_000;
/// How long copies of a group without lifetimes are thought to be about, ms.
const LONG: u64 = 3_600_000;

/// What one core asks of the other nodes, for all groups.
pub struct PeerClient {
    pub(super) peers: Arc<Peers>,
    transport: Rc<dyn Transport>,
    untold: Rc<Untold>,
    timeout: Duration,
    /// Fetches under way here for keys whose owner cannot be reached.
    fallbacks: Rc<Cell<usize>>,
}

impl PeerClient {
    pub(super) fn new(peers: Arc<Peers>, transport: Rc<dyn Transport>, timeout: Duration) -> PeerClient {
        let untold = Untold::new(transport.clone(), timeout);
        PeerClient { peers, transport, untold, timeout, fallbacks: Rc::default() }
    }
    /// How long a node has time to answer: a little longer than its source has, so that the owner itself says that its source is too slow. One that is
    /// out is only tried.
    fn patience(&self, member: &Member) -> Duration {
        let connect = self.peers.settings.connect_timeout;
        if member.is_out() { connect } else { self.timeout + connect }
    }
    /// The nodes.
    pub fn peers(&self) -> &Arc<Peers> {
        &self.peers
    }
    pub(super) fn transport(&self) -> &Rc<dyn Transport> {
        &self.transport
    }
}

/// What came of asking the owner of a key.
enum Asked {
    Answered(PeerAnswer),
    Failed(SourceError),
    /// This node is next on the ring: it fills for all.
    ThisNode,
    /// Neither the owner nor its substitute can be reached.
    Nobody,
}

/// One core's view of a group whose keys have owners.
pub struct PeerGroup {
    client: Rc<PeerClient>,
    name: Arc<str>,
    cache: Arc<Cache>,
    policy: Arc<FillPolicy>,
    source: Rc<dyn Source>,
    hot_keys: RefCell<HotKeys>,
    counts: Arc<PeerCounts>,
}

impl PeerGroup {
    pub(super) fn new(
        client: Rc<PeerClient>,
        name: Arc<str>,
        cache: Arc<Cache>,
        policy: Arc<FillPolicy>,
        source: Rc<dyn Source>,
    ) -> PeerGroup {
        let hot_keys = RefCell::new(HotKeys::new(client.peers.settings.hot_copy_after));
        let counts = client.peers.new_counts(&name);
        PeerGroup { client, name, cache, policy, source, hot_keys, counts }
    }

    /// What this core counts of the group.
    pub(super) fn counts(&self) -> &PeerCounts {
        &self.counts
    }
    /// Another node asks for a key; `ring` is what it says of its ring.
    pub fn asked(&self, ring: Option<&[u8]>) {
        self.counts.requests.add(1);
        let peers = &self.client.peers;
        if let Some(theirs) = ring.and_then(parse_epoch)
            && peers.disagreement.note(theirs, peers.now().epoch(), clock::now)
        {
            self.counts.other_rings.add(1);
        }
    }
    /// Another node asks to remove so many keys.
    pub fn asked_to_remove(&self, keys: usize) {
        self.counts.removal_requests.add(1);
        self.counts.removed_keys.add(keys as u64);
    }

    /// The source that the owner fills from.
    pub(super) fn source(&self) -> &Rc<dyn Source> {
        &self.source
    }
    pub(super) fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }
    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }
    pub(super) fn policy(&self) -> &Arc<FillPolicy> {
        &self.policy
    }
    pub(super) fn membership(&self) -> Arc<Membership> {
        self.client.peers.now().clone()
    }
    /// Whether the key belongs to this node, for somebody who asks from another.
    pub fn owns(&self, key: &[u8]) -> bool {
        self.client.peers.settled().owner(key).is_self
    }
    /// Whether a value that another node sends is stored here for as long as it says.
    pub fn keeps(&self, key: &[u8]) -> bool {
        self.is_store() || self.owns(key)
    }
    /// The nodes' memory tiers are the store: there is nothing behind them.
    pub fn is_store(&self) -> bool {
        !self.source.reads_through()
    }
    /// Whether the key belongs to this node, for a client of this node.
    pub fn owns_now(&self, key: &[u8]) -> bool {
        self.client.peers.now().owner(key).is_self
    }
    /// This core's way to the other nodes.
    pub fn client(&self) -> &Rc<PeerClient> {
        &self.client
    }

    /// Ends a fetch with the answer of the key's owner, or of who takes its place.
    pub(super) async fn fetch(self: Rc<Self>, membership: Arc<Membership>, fetch: Fetch) {
        match self.ask(&membership, fetch.key(), fetch.trace().map(|trace| &**trace)).await {
            Asked::Answered(answer) => self.finish(fetch, answer),
            Asked::Failed(error) => fetch.finish(Err(error), clock::now()),
            Asked::ThisNode => self.source.fetch(&mut vec![self.as_substitute(fetch)]),
            Asked::Nobody => self.fetch_here(&membership, fetch),
        }
    }

    /// Ends fetches of keys of one owner, which travel together if it is a Larder.
    pub(super) async fn fetch_many(
        self: Rc<Self>,
        membership: Arc<Membership>,
        owner: Arc<Member>,
        fetches: Vec<Fetch>,
    ) {
        let begun = Instant::now();
        let deadline = begun + self.client.patience(&owner);
        let keys = fetches.iter().map(|fetch| Bytes::copy_from_slice(fetch.key())).collect();
        owner.counts.reads.fetch_add(fetches.len() as u64, Relaxed);
        let asked = self.client.transport.get_many(&owner, &self.name, keys, membership.epoch(), deadline).await;
        self.counts.took(begun.elapsed());
        let answers = match asked {
            Ok(answers) => {
                answers.iter().flatten().for_each(|answer| self.counts.answered(answer));
                owner.reached();
                answers
            }
            Err(error) => {
                owner.counts.failed_reads.fetch_add(fetches.len() as u64, Relaxed);
                self.counts.errors.add(fetches.len() as u64);
                owner.not_reached(error.reason(), clock::now());
                vec![None; fetches.len()]
            }
        };
        for (fetch, answer) in fetches.into_iter().zip(answers) {
            match answer {
                Some(answer) => {
                    if let Some(trace) = fetch.trace() {
                        trace.is_answered_by(|| format!("peer {}", owner.name).into());
                    }
                    self.finish(fetch, answer);
                }
                None => drop(tokio::task::spawn_local(self.clone().fetch(membership.clone(), fetch))),
            }
        }
    }

    async fn ask(&self, membership: &Membership, key: &[u8], trace: Option<&RequestTrace>) -> Asked {
        let node = self.client.peers.this_name();
        for member in membership.owners(key).take(ASKED) {
            if member.is_self {
                return Asked::ThisNode;
            }
            if !member.may_ask(clock::now()) {
                continue;
            }
            member.counts.reads.fetch_add(1, Relaxed);
            let begun = Instant::now();
            let deadline = begun + self.client.patience(member);
            match self
                .client
                .transport
                .get(member, &self.name, key, membership.epoch(), AskedFor { node, trace }, deadline)
                .await
            {
                Ok(answer) => {
                    if let Some(trace) = trace {
                        trace.is_answered_by(|| format!("peer {}", member.name).into());
                    }
                    self.counts.took(begun.elapsed());
                    self.counts.answered(&answer);
                    member.reached();
                    return Asked::Answered(answer);
                }
                Err(error) => {
                    member.counts.failed_reads.fetch_add(1, Relaxed);
                    self.counts.took(begun.elapsed());
                    self.counts.errors.add(1);
                    match error {
                        PeerError::NotReached(reason) | PeerError::NoAnswer(reason) => {
                            member.not_reached(&reason, clock::now());
                        }
                        PeerError::Refused(reason) => {
                            return Asked::Failed(SourceError::refused_by_peer(&reason));
                        }
                    }
                }
            }
        }
        Asked::Nobody
    }

    /// A fetch from the source for a key of another node. The copy is for the time until the owner is back.
    pub(super) fn as_substitute(&self, mut fetch: Fetch) -> Fetch {
        fetch.live_at_most(self.hot_copy_ttl().max(SHORTEST));
        fetch
    }

    /// In ms.
    fn hot_copy_ttl(&self) -> u64 {
        u64::try_from(self.client.peers.settings.hot_copy_ttl.as_millis()).unwrap_or(LONG)
    }

    /// The owner and its substitute are out: this node asks the source itself, a few keys at a time.
    fn fetch_here(&self, membership: &Membership, fetch: Fetch) {
        let limit = self.client.peers.settings.fallback_limit;
        let fallbacks = &self.client.fallbacks;
        if fallbacks.get() >= limit {
            let name = &membership.owner(fetch.key()).name;
            let reason = format!(
                "the owner {name} is out, and {limit} such fetches are under way at the source (peer-fallback-limit)"
            );
            return fetch.finish(Err(SourceError::Unavailable(reason.into())), clock::now());
        }
        fallbacks.update(|count| count + 1);
        self.counts.fallbacks.add(1);
        let (fallbacks, wait) = (fallbacks.clone(), fetch.wait());
        self.source.fetch(&mut vec![self.as_substitute(fetch)]);
        tokio::task::spawn_local(async move {
            wait.await;
            fallbacks.update(|count| count - 1);
        });
    }

    fn finish(&self, mut fetch: Fetch, answer: PeerAnswer) {
        let now = clock::now();
        let longest = self.hot_copy_ttl();
        let is_hot = longest > 0 && self.hot_keys.borrow_mut().is_hot(self.cache.key(fetch.key()).hash(), now);
        let bounded = |fresh| match fresh {
            FreshUntil::At(at) => FreshUntil::At(at.min(now + longest)),
            FreshUntil::Policy => FreshUntil::At(now + longest),
            FreshUntil::NotKept => FreshUntil::NotKept,
        };
        let answer = answer.into_fetched(bounded);
        if !is_hot && answer.is_ok() {
            fetch.not_kept();
        }
        let hot_key = (is_hot && matches!(answer, Ok(FetchAnswer::Copy { .. }))).then(|| fetch.key().to_vec());
        fetch.finish_copy(answer, now);
        if let Some(key) = hot_key {
            self.counts.look_for_copy(&self.cache, &key, longest, now);
        }
    }

    /// Stores a value at the key's owner, which is another node.
    ///
    /// # Errors
    /// `Unavailable` if the owner cannot be reached, `Lost` if it does not answer.
    pub(super) async fn set_at_owner(
        &self,
        key: &[u8],
        value: &[u8],
        expiry: Option<Millis>,
    ) -> Result<(), SourceError> {
        let membership = self.membership();
        let owner = membership.owner(key);
        if owner.is_self {
            return Err(SourceError::Unavailable("the key has just come to belong to this node: try again".into()));
        }
        let (key, value) = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
        let change = PeerChange::Set { key, value, expiry };
        self.client.untold.forget(owner, &self.name, &change);
        self.tell(owner, &change).await.map_err(|error| match error {
            PeerError::NotReached(reason) => SourceError::Unavailable(reason),
            PeerError::NoAnswer(reason) => SourceError::Lost(reason),
            PeerError::Refused(reason) => SourceError::Refused(format!("ERR {reason}").into()),
        })
    }

    async fn tell(&self, member: &Arc<Member>, change: &PeerChange) -> Result<(), PeerError> {
        member.counts.changes.fetch_add(1, Relaxed);
        let deadline = Instant::now() + self.client.patience(member);
        let told = if member.may_ask(clock::now()) {
            self.client.transport.tell(member, &self.name, change, deadline).await
        } else {
            Err(PeerError::NotReached(format!("peer {} is out", member.name).into()))
        };
        match &told {
            Ok(()) => member.reached(),
            Err(error) => {
                member.counts.failed_changes.fetch_add(1, Relaxed);
                if !matches!(error, PeerError::Refused(_)) && !member.is_out() {
                    member.not_reached(error.reason(), clock::now());
                }
            }
        }
        told
    }

    /// Tells a node, now or as soon as it can be reached.
    async fn tell_surely(&self, member: &Arc<Member>, change: PeerChange) {
        self.client.untold.forget(member, &self.name, &change);
        match self.tell(member, &change).await {
            Ok(()) => {}
            Err(PeerError::Refused(reason)) => {
                tracing::debug!(%reason, "a peer does not take a change");
            }
            Err(PeerError::NotReached(_) | PeerError::NoAnswer(_)) => {
                let until = clock::now() + self.longest_life();
                self.client.untold.add(member, &self.name, change, until);
            }
        }
    }

    /// How long a copy may be about, ms.
    fn longest_life(&self) -> u64 {
        self.policy.longest_ttl().unwrap_or(LONG).max(self.hot_copy_ttl()).saturating_add(self.policy.longest_stale())
    }

    /// A key has a new value at its owner: the other nodes forget their copies.
    pub(super) async fn changed_at_owner(self: &Rc<Self>, key: &[u8]) {
        let membership = self.membership();
        let owner = membership.owner(key).clone();
        self.tell_others(&membership, &PeerChange::Remove(Bytes::copy_from_slice(key)), Some(&owner)).await;
    }

    /// Copies of a key are out of date: tells the owner, then the other nodes. This node has to forget its own copy once the owner knows, which is
    /// what `forget` is for. A node that cannot be reached is told later.
    pub async fn removed(self: &Rc<Self>, key: &[u8], forget: impl FnOnce()) {
        let membership = self.membership();
        let owner = membership.owner(key).clone();
        let change = PeerChange::Remove(Bytes::copy_from_slice(key));
        if !owner.is_self {
            self.tell_surely(&owner, change.clone()).await;
        }
        forget();
        self.tell_others(&membership, &change, Some(&owner)).await;
    }

    /// Clears copies at all nodes but this one. Call it, clear here, and call it again: a node that was cleared early may meanwhile have asked one that
    /// was cleared late.
    pub async fn clear_others(self: &Rc<Self>, scope: ClearScope, soft: bool) {
        let membership = self.membership();
        self.tell_others(&membership, &PeerChange::Clear { scope, soft }, None).await;
    }

    /// Tells all nodes at once, and waits for all.
    async fn tell_others(self: &Rc<Self>, membership: &Membership, change: &PeerChange, but: Option<&Arc<Member>>) {
        let others = membership.others().filter(|member| but.is_none_or(|but| !Arc::ptr_eq(but, member)));
        let tasks = others.map(|member| {
            let (me, member, change) = (self.clone(), member.clone(), change.clone());
            tokio::task::spawn_local(async move { me.tell_surely(&member, change).await })
        });
        wait_for_all(tasks.collect()).await;
    }
}
