//! Reads of keys that other nodes own: who is asked, and what becomes of the answers.
use super::{
    member::Member,
    membership::Membership,
    peer_answers::answers,
    peer_group::PeerGroup,
    transport::{AskedFor, NodeRequest, PeerAnswer, PeerError, To},
};
use bytes::Bytes;
use larder_config::PeerSettings;
use larder_source::{Fetch, FetchAnswer, FreshUntil, RequestTrace, SourceError};
use larder_store::clock;
use std::{
    iter,
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};
use tokio::time::Instant;

/// Nodes that are asked for a key one after the other: the owner, and the next on the ring, which
/// fills it for all meanwhile.
const ASKED: usize = 2;
/// The life of what a substitute fetched, at least, ms: it answers for all nodes.
const SHORTEST: u64 = 1_000;

/// The outcome of a request to the owner of a key.
#[expect(clippy::large_enum_variant, reason = "a box would be an allocation for each fetch")]
enum Asked {
    Answered(PeerAnswer),
    Failed(SourceError),
    /// This node is next on the ring: it fills for all.
    ThisNode,
    /// Neither the owner nor its substitute can be reached, and there is a source.
    Nobody,
}

impl PeerGroup {
    /// Ends a fetch with the answer of the node that is asked first, of the key's owner, or of who
    /// takes its place.
    pub(super) async fn fetch(self: Rc<Self>, membership: Arc<Membership>, first: Arc<Member>, fetch: Fetch) {
        match self.ask(&membership, &first, fetch.key(), fetch.trace().map(|trace| &**trace)).await {
            Asked::Answered(answer) => self.finish(fetch, answer),
            Asked::Failed(error) => fetch.finish(Err(error), clock::now()),
            Asked::ThisNode => self.source.fetch(&mut vec![self.as_substitute(fetch)]),
            Asked::Nobody => self.fetch_here(&membership, fetch),
        }
    }

    /// Ends fetches of keys that one node is asked for first, a Larder; they travel together.
    /// `held_only`: a key that it would have to fetch is asked for alone, so that the others do
    /// not wait for it.
    pub(super) async fn fetch_many(
        self: Rc<Self>,
        membership: Arc<Membership>,
        owner: Arc<Member>,
        fetches: Vec<Fetch>,
        held_only: bool,
    ) {
        let begun = Instant::now();
        let (epoch, patience) = self.terms(&membership, &owner, fetches.first().map_or(b"", |fetch| fetch.key()));
        let deadline = begun + patience;
        let keys = fetches.iter().map(|fetch| Bytes::copy_from_slice(fetch.key())).collect();
        owner.counts.reads.fetch_add(fetches.len() as u64, Relaxed);
        let to = To { member: &owner, group: &self.name, deadline, asked_for: AskedFor::NOBODY };
        let asked = self.client.nodes.call(to, NodeRequest::GetMany { keys, held_only, epoch }).await;
        self.counts.took(begun.elapsed());
        let answers = match asked.and_then(|reply| answers(&owner, fetches.len(), reply.answers)) {
            Ok(answers) => {
                answers.iter().flatten().for_each(|answer| self.counts.answered(answer));
                self.note_reached(&owner);
                answers
            }
            Err(error) => {
                owner.counts.failed_reads.fetch_add(fetches.len() as u64, Relaxed);
                self.counts.errors.add(fetches.len() as u64);
                self.note_failed(&owner, &error);
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
                None => {
                    let fetching = self.clone().fetch(membership.clone(), owner.clone(), fetch);
                    drop(tokio::task::spawn_local(fetching));
                }
            }
        }
    }

    /// What a node is told of the ring, and how long it has time to answer: a zone's reader asks
    /// the owner meanwhile.
    fn terms(&self, membership: &Membership, member: &Arc<Member>, key: &[u8]) -> (u64, Duration) {
        let once = self.client.patience(member);
        match self.reader(membership, key).is_some_and(|reader| Arc::ptr_eq(reader, member)) {
            true => (membership.readers_epoch(), 2 * once),
            false => (membership.epoch(), once),
        }
    }

    async fn ask(
        &self,
        membership: &Membership,
        first: &Arc<Member>,
        key: &[u8],
        trace: Option<&RequestTrace>,
    ) -> Asked {
        let node = self.client.peers.this_name();
        // Without a source only the owner knows whether there is a value.
        let others = membership.owners(key).filter(|member| !self.is_store() && !Arc::ptr_eq(member, first));
        let most = ASKED + usize::from(!Arc::ptr_eq(first, membership.owner(key)));
        // Nodes that lack the group are as if they were not on the ring. One read finds out about few of
        // them, as each may take its time.
        let (mut tried, mut lack, mut reason) = (0, 0, None);
        for member in iter::once(first).chain(others) {
            if tried == most || lack == ASKED {
                break;
            }
            if member.is_self {
                return Asked::ThisNode;
            }
            if !member.may_ask_for(&self.name, clock::now()) {
                continue;
            }
            if !member.may_ask(clock::now()) {
                tried += 1;
                continue;
            }
            member.counts.reads.fetch_add(1, Relaxed);
            let begun = Instant::now();
            let (epoch, patience) = self.terms(membership, member, key);
            let asked_for = AskedFor { node, trace };
            let to = To { member, group: &self.name, deadline: begun + patience, asked_for };
            match self.client.get(to, key, epoch).await {
                Ok(answer) => {
                    if let Some(trace) = trace {
                        trace.is_answered_by(|| format!("peer {}", member.name).into());
                    }
                    self.counts.took(begun.elapsed());
                    self.counts.answered(&answer);
                    self.note_reached(member);
                    return Asked::Answered(answer);
                }
                Err(error) => {
                    member.counts.failed_reads.fetch_add(1, Relaxed);
                    self.counts.took(begun.elapsed());
                    self.counts.errors.add(1);
                    self.note_failed(member, &error);
                    match error {
                        PeerError::Refused(reason) => return Asked::Failed(SourceError::refused_by_peer(&reason)),
                        PeerError::NoGroup(_) | PeerError::Closed(_) => lack += 1,
                        PeerError::NotReached(_) | PeerError::NoAnswer(_) | PeerError::NoRoom(_) => tried += 1,
                    }
                    reason = Some(error.reason().clone());
                }
            }
        }
        if self.is_store() {
            let reason = reason.unwrap_or_else(|| format!("the key's owner, peer {}, is out", first.name).into());
            return Asked::Failed(SourceError::Unavailable(reason));
        }
        Asked::Nobody
    }

    /// A node answered for this group.
    pub(super) fn note_reached(&self, member: &Member) {
        member.reached();
        member.reached_for(&self.name);
    }

    /// A node gave no answer for this group.
    pub(super) fn note_failed(&self, member: &Member, error: &PeerError) {
        match error {
            PeerError::NotReached(reason) | PeerError::NoAnswer(reason) => member.not_reached(reason, clock::now()),
            PeerError::NoGroup(reason) | PeerError::Closed(reason) => {
                member.out_for(&self.name, reason, clock::now());
            }
            PeerError::NoRoom(_) | PeerError::Refused(_) => {}
        }
    }

    /// A fetch from the source for a key of another node. The copy is for the time until the owner
    /// is back.
    pub(super) fn as_substitute(&self, mut fetch: Fetch) -> Fetch {
        fetch.live_at_most(self.hot_copy_ttl().max(SHORTEST));
        fetch
    }

    /// The owner and its substitute are out: this node asks the source itself, a few keys at a
    /// time.
    fn fetch_here(&self, membership: &Membership, fetch: Fetch) {
        let limit = PeerSettings::FALLBACK_LIMIT;
        let fallbacks = &self.client.fallbacks;
        if fallbacks.get() >= limit {
            let name = &membership.owner(fetch.key()).name;
            let reason = format!("the owner {name} is out, and {limit} such fetches are under way at the source");
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
        // All of a zone read at its reader.
        let is_reader = || self.reader(&self.membership(), fetch.key()).is_some_and(|reader| reader.is_self);
        let is_hot =
            longest > 0 && (is_reader() || self.hot_keys.borrow_mut().is_hot(self.cache.key(fetch.key()).hash(), now));
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
}
