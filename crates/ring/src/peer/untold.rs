//! What nodes have not been told yet: told again until they have been, or until no copy is left
//! that it is about.
use super::{
    member::Member,
    membership::{Membership, Peers},
    peer_client::NodeCalls,
    transport::{AskedFor, ClearScope, NodeRequest, PeerChange, PeerError, To},
};
use bytes::Bytes;
use indexmap::IndexMap;
use larder_engine::Millis;
use larder_source::jittered;
use larder_store::clock;
use std::{
    cell::RefCell,
    collections::HashMap,
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};
use tokio::time::{Instant, sleep};

/// Keys of one node and group; beyond, the node is told to forget the whole group, which takes
/// constant room. In a store that would remove values, so the hot copies are left to end instead.
const MOST: usize = 10_000;
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(200);

/// A change that a node has not heard of.
pub(super) struct UntoldChange {
    pub(super) change: PeerChange,
    /// No copy that it is about is left then.
    pub(super) until: Millis,
    /// The nodes that share the group are one store.
    pub(super) of_store: bool,
}

/// Changes by group and by what they are about: the last one counts.
type Changes = IndexMap<(Arc<str>, Vec<u8>), UntoldChange>;

/// One core's changes that nodes have not heard of.
pub(super) struct Untold {
    peers: Arc<Peers>,
    nodes: Rc<NodeCalls>,
    timeout: Duration,
    by_member: RefCell<HashMap<Box<str>, Changes>>,
}

/// What a change is about: changes that are about the same replace each other.
fn subject(change: &PeerChange) -> Vec<u8> {
    let (kind, name): (u8, &[u8]) = match change {
        PeerChange::Set { key, .. } | PeerChange::Remove(key) => (b'k', key),
        PeerChange::Clear { scope: ClearScope::Prefix(prefix), .. } => (b'p', prefix),
        PeerChange::Clear { scope: ClearScope::Tag(tag), .. } => (b't', tag),
    };
    [&[kind], name].concat()
}

/// Whether a change removes values of a store, of which the node has the only ones.
pub(super) fn is_stored_at(membership: &Membership, member: &Member, change: &PeerChange) -> bool {
    match change {
        PeerChange::Set { key, .. } | PeerChange::Remove(key) => membership.owner(key).name == member.name,
        PeerChange::Clear { .. } => true,
    }
}

/// Brings the node's count up to date with that of this core.
fn count(member: &Member, before: usize, after: usize) {
    member.counts.untold.fetch_add((after as u64).wrapping_sub(before as u64), Relaxed);
}

impl Untold {
    pub(super) fn new(peers: Arc<Peers>, nodes: Rc<NodeCalls>, timeout: Duration) -> Rc<Untold> {
        Rc::new(Untold { peers, nodes, timeout, by_member: RefCell::default() })
    }

    /// A later change of the same is being told now: an older one must not follow it.
    pub(super) fn forget(&self, member: &Member, group: &Arc<str>, change: &PeerChange) {
        if let Some(changes) = self.by_member.borrow_mut().get_mut(&member.name) {
            let before = changes.len();
            changes.shift_remove(&(group.clone(), subject(change)));
            count(member, before, changes.len());
        }
    }

    /// Tells the node again and again, until no copy is left.
    pub(super) fn add(self: &Rc<Self>, member: &Arc<Member>, group: &Arc<str>, untold: UntoldChange) {
        let (until, of_store) = (untold.until, untold.of_store);
        let mut all = self.by_member.borrow_mut();
        let is_first = !all.contains_key(&member.name);
        let changes = all.entry(member.name.clone()).or_default();
        let before = changes.len();
        changes.insert((group.clone(), subject(&untold.change)), untold);
        if changes.len() > MOST {
            let until = changes.values().map(|untold| untold.until).max().unwrap_or(until);
            changes.retain(|(of, _), _| of != group);
            if !of_store {
                let change = PeerChange::Clear { scope: ClearScope::Prefix(Bytes::new()), soft: false };
                changes.insert((group.clone(), subject(&change)), UntoldChange { change, until, of_store });
            }
        }
        count(member, before, changes.len());
        if is_first {
            let (me, member) = (Rc::downgrade(self), member.clone());
            tokio::task::spawn_local(async move {
                loop {
                    sleep(jittered(PAUSE)).await;
                    let Some(me) = me.upgrade() else { return };
                    if me.tell_all(&member).await {
                        return;
                    }
                }
            });
        }
    }

    /// True if nothing is left to be told.
    async fn tell_all(&self, member: &Arc<Member>) -> bool {
        loop {
            let now = clock::now();
            let next = {
                let mut all = self.by_member.borrow_mut();
                let Some(changes) = all.get_mut(&member.name) else { return true };
                let before = changes.len();
                // The key may belong to the node by now.
                let membership = self.peers.now();
                let is_about_copies =
                    |untold: &UntoldChange| !untold.of_store || !is_stored_at(&membership, member, &untold.change);
                changes.retain(|_, untold| untold.until > now && is_about_copies(untold));
                count(member, before, changes.len());
                if changes.is_empty() {
                    all.remove(&member.name);
                    return true;
                }
                // A group that the node does not serve must not hold up the others.
                match changes.iter().find(|((group, _), _)| member.may_ask_for(group, now)) {
                    Some((about, untold)) => (about.clone(), untold.change.clone()),
                    None => return false,
                }
            };
            let ((group, subject), change) = next;
            let deadline = Instant::now() + self.timeout;
            let to = To { member, group: &group, deadline, asked_for: AskedFor::NOBODY };
            match self.nodes.call(to, NodeRequest::Tell(change.clone())).await {
                Err(PeerError::NotReached(_) | PeerError::NoAnswer(_) | PeerError::NoRoom(_)) => return false,
                Err(PeerError::Closed(reason)) => member.out_for(&group, &reason, clock::now()),
                // What it refuses now it will refuse again.
                Ok(_) | Err(PeerError::Refused(_) | PeerError::NoGroup(_)) => {
                    member.reached();
                    member.reached_for(&group);
                    let mut all = self.by_member.borrow_mut();
                    if let Some(changes) = all.get_mut(&member.name)
                        && changes.get(&(group.clone(), subject.clone())).is_some_and(|untold| untold.change == change)
                    {
                        changes.shift_remove(&(group, subject));
                        member.counts.untold.fetch_sub(1, Relaxed);
                    }
                }
            }
        }
    }
}
