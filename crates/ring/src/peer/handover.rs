//! What a node takes over when it comes, and hands over when it goes, so that its keys are not
//! fetched again.
//!
//! ```text
//! a node comes                                        a node goes
//! ── _hottest of each other node: my keys that it ──  ── _member is=leaving to each other node, which asks
//!    has been asked for                                  for _hottest: keys that it inherits from me
//! ── reads them there, into its memory                ── reads them here, into its memory, and answers
//! ── _member is=serving to all                        ── _member is=left to all
//! ```
//!
//! Who takes a key over reads it in a flight of its own. A removal that is heard meanwhile fences
//! that flight like every other, so what was removed does not come back. Nothing is taken over in
//! mode `coherent`: Redis announces changes to the node that has read the key.
use super::{
    hottest_keys::hottest_keys,
    member::Member,
    peer_group::PeerGroup,
    standing::Standing,
    transport::{AskedFor, MemberMove, NodeRequest, PeerError, To},
    wait_for_all::wait_for_all,
};
use bytes::Bytes;
use larder_config::{Coherence, PeerHash};
use larder_source::{Fetch, FetchAnswer, SourceError};
use larder_store::clock;
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;

/// Keys that are read at a time from one node.
const AT_A_TIME: usize = 32;
/// How long a node may take until it answers for its keys.
const LONGEST_JOIN: Duration = Duration::from_secs(5);
/// How long a node copies the keys of one that leaves; that one has a shorter deadline if its
/// `grace` is short.
const LONGEST_TAKE_OVER: Duration = Duration::from_secs(5);
/// How long a node may look for what another is to have.
const LONGEST_LOOK: Duration = Duration::from_secs(2);
/// How long it takes at most to say who comes or goes.
const ANNOUNCEMENT: Duration = Duration::from_secs(1);

impl PeerGroup {
    /// Whether copies move between nodes.
    fn hands_over(&self) -> bool {
        let is_on = self.client().peers.settings.handover > 0;
        is_on && !self.is_store() && self.policy.coherence == Coherence::Ttl
    }

    /// The hottest keys that another node is to have from this one, at most for so many bytes of
    /// entries.
    pub async fn hottest_for(&self, other: &str, max_bytes: usize) -> Vec<Bytes> {
        if !self.hands_over() {
            return Vec::new();
        }
        let peers = &self.client().peers;
        let max_bytes = max_bytes.min(peers.settings.handover);
        let moves = peers.moves_to(other);
        hottest_keys(&self.cache, max_bytes, Instant::now() + LONGEST_LOOK, |key| moves.contains(key)).await
    }

    /// Another node says that it comes or goes. When it leaves, this resolves once its keys of this
    /// group are here.
    /// `hash`: how it hashes keys; empty: it does not say. Gives how this node does.
    pub async fn announced(self: &Rc<Self>, name: &[u8], what: MemberMove, hash: &str) -> &'static str {
        let peers = self.client().peers();
        // One that this node does not know yet will be asked once it is found.
        let Some(member) = peers.member(name).filter(|member| !member.is_self) else { return peers.hash_name() };
        if !hash.is_empty() {
            peers.note_hash(&member, hash);
        }
        match what {
            MemberMove::Serving => member.reached(),
            MemberMove::Leaving => {
                self.take_over(&member, Instant::now() + LONGEST_TAKE_OVER).await;
            }
            MemberMove::Left => member.left(clock::now()),
        }
        peers.hash_name()
    }

    /// Copies the hottest keys that this node is to have from another. Their number.
    async fn take_over(self: &Rc<Self>, member: &Arc<Member>, deadline: Instant) -> usize {
        let peers = &self.client().peers;
        let (this, max_bytes) = (peers.this_name(), peers.settings.handover);
        if !self.hands_over() {
            return 0;
        }
        let to = To { member, group: &self.name, deadline, asked_for: AskedFor::NOBODY };
        let keys = match self.client().nodes.call(to, NodeRequest::Hottest { of: this.to_owned(), max_bytes }).await {
            Ok(reply) => reply.keys,
            Err(error) => {
                tracing::debug!(reason = %error.reason(), "nothing is taken over from a peer");
                return 0;
            }
        };
        let (keys, taken) = (Rc::new(RefCell::new(keys.into_iter())), Rc::new(Cell::new(0)));
        let tasks = (0..AT_A_TIME).map(|_| {
            let (me, member, keys, taken) = (self.clone(), member.clone(), keys.clone(), taken.clone());
            tokio::task::spawn_local(async move {
                while Instant::now() < deadline {
                    let Some(key) = keys.borrow_mut().next() else { return };
                    match me.take_key(&member, &key, deadline).await {
                        Ok(is_taken) => taken.update(|count| count + usize::from(is_taken)),
                        // It is gone.
                        Err(_) => return,
                    }
                }
            })
        });
        wait_for_all(tasks.collect()).await;
        taken.get()
    }

    /// Copies one key. False if there is nothing to copy.
    async fn take_key(&self, member: &Member, key: &Bytes, deadline: Instant) -> Result<bool, PeerError> {
        let at = self.cache.key(key);
        // What this node has fetched as the owner is newer. What it has of other nodes' keys may be a copy
        // with a short life.
        if self.owns(key) && self.cache.tier().peek(at, clock::now(), |_| ()).is_some() {
            return Ok(false);
        }
        // Another node is reading it.
        let (_, Some(lead)) = self.cache.fetch(at, b"", clock::now()) else { return Ok(false) };
        let fetch = Fetch::new(lead, self.policy.clone());
        let epoch = self.client().peers.now().epoch();
        let to = To { member, group: &self.name, deadline, asked_for: AskedFor::NOBODY };
        let answer = match self.client().get(to, key, epoch).await {
            Ok(answer) => answer.into_fetched(|fresh| fresh),
            Err(error) => {
                fetch.finish(Err(SourceError::Unavailable(error.reason().clone())), clock::now());
                return Err(error);
            }
        };
        let is_taken = matches!(answer, Ok(FetchAnswer::Copy { .. }));
        fetch.finish_copy(answer, clock::now());
        Ok(is_taken)
    }
}

/// Takes over what the other nodes have held for this one, then answers for its keys.
pub async fn join(groups: &[Rc<PeerGroup>]) {
    let Some(first) = groups.first() else { return };
    let peers = &first.client().peers;
    let (begun, deadline) = (Instant::now(), Instant::now() + LONGEST_JOIN);
    let others: Vec<Arc<Member>> = peers.now().others().cloned().collect();
    let taken = Rc::new(Cell::new(0));
    let tasks = groups.iter().flat_map(|group| others.iter().map(move |member| (group.clone(), member.clone())));
    let tasks = tasks.map(|(group, member)| {
        let taken = taken.clone();
        tokio::task::spawn_local(async move {
            let more = group.take_over(&member, deadline).await;
            taken.update(|count| count + more);
        })
    });
    wait_for_all(tasks.collect()).await;
    peers.advance(Standing::Serving);
    announce(first, MemberMove::Serving, Instant::now() + ANNOUNCEMENT).await;
    if taken.get() > 0 {
        tracing::info!(keys = taken.get(), after = ?begun.elapsed(), "keys taken over from peers");
    }
}

/// Has the other nodes take over the keys of this one, and answers for them no longer.
pub async fn leave(groups: &[Rc<PeerGroup>], longest: Duration) {
    let Some(first) = groups.first() else { return };
    let (begun, deadline) = (Instant::now(), Instant::now() + longest);
    for group in groups.iter().filter(|group| group.hands_over()) {
        announce(group, MemberMove::Leaving, deadline).await;
    }
    first.client().peers.advance(Standing::Left);
    announce(first, MemberMove::Left, Instant::now() + ANNOUNCEMENT).await;
    tracing::info!(after = ?begun.elapsed(), "keys handed over to peers");
}

/// Tells all nodes that can be reached, and waits for all.
async fn announce(group: &Rc<PeerGroup>, what: MemberMove, deadline: Instant) {
    let others: Vec<Arc<Member>> = group.client().peers.now().others().cloned().collect();
    let tasks = others.into_iter().filter(|member| what == MemberMove::Serving || !member.is_out()).map(|member| {
        let group = group.clone();
        tokio::task::spawn_local(async move {
            let (client, peers) = (group.client(), group.client().peers());
            let (of, hash) = (peers.this_name().to_owned(), peers.hash_name().to_owned());
            let to = To { member: &member, group: &group.name, deadline, asked_for: AskedFor::NOBODY };
            match client.nodes.call(to, NodeRequest::Announce { of, what, hash }).await.map(|reply| reply.hash) {
                // Another program may have answered.
                Ok(theirs) if PeerHash::NAMES.contains(&&*theirs) => peers.note_hash(&member, &theirs),
                Ok(_) => {}
                Err(error) => tracing::debug!(reason = %error.reason(), "a peer does not hear who comes or goes"),
            }
        })
    });
    wait_for_all(tasks.collect()).await;
}
