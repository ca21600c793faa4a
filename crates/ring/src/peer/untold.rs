//! What nodes have not been told yet: told again until they have been, or until no copy is left
//! that it is about.
use super::{
    member::Member,
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
/// constant room.
const MOST: usize = 10_000;
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(200);

/// Changes by group and by what they are about: the last one counts.
type Changes = IndexMap<(Arc<str>, Vec<u8>), (PeerChange, Millis)>;

/// One core's changes that nodes have not heard of.
pub(super) struct Untold {
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

/// Brings the node's count up to date with that of this core.
fn count(member: &Member, before: usize, after: usize) {
    member.counts.untold.fetch_add((after as u64).wrapping_sub(before as u64), Relaxed);
}

impl Untold {
    pub(super) fn new(nodes: Rc<NodeCalls>, timeout: Duration) -> Rc<Untold> {
        Rc::new(Untold { nodes, timeout, by_member: RefCell::default() })
    }

    /// A later change of the same is being told now: an older one must not follow it.
    pub(super) fn forget(&self, member: &Member, group: &Arc<str>, change: &PeerChange) {
        if let Some(changes) = self.by_member.borrow_mut().get_mut(&member.name) {
            let before = changes.len();
            changes.shift_remove(&(group.clone(), subject(change)));
            count(member, before, changes.len());
        }
    }

    /// Tells the node again and again, until `until`.
    pub(super) fn add(self: &Rc<Self>, member: &Arc<Member>, group: &Arc<str>, change: PeerChange, until: Millis) {
        let mut all = self.by_member.borrow_mut();
        let is_first = !all.contains_key(&member.name);
        let changes = all.entry(member.name.clone()).or_default();
        let before = changes.len();
        changes.insert((group.clone(), subject(&change)), (change, until));
        if changes.len() > MOST {
            let last = changes.values().map(|(_, until)| *until).max().unwrap_or(until);
            changes.retain(|(of, _), _| of != group);
            let everything = PeerChange::Clear { scope: ClearScope::Prefix(Bytes::new()), soft: false };
            changes.insert((group.clone(), subject(&everything)), (everything, last));
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
                changes.retain(|_, (_, until)| *until > now);
                count(member, before, changes.len());
                if changes.is_empty() {
                    all.remove(&member.name);
                    return true;
                }
                // A group that the node does not serve must not hold up the others.
                match changes.iter().find(|((group, _), _)| member.may_ask_for(group, now)) {
                    Some((about, (change, _))) => (about.clone(), change.clone()),
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
                        && changes.get(&(group.clone(), subject.clone())).is_some_and(|(held, _)| *held == change)
                    {
                        changes.shift_remove(&(group, subject));
                        member.counts.untold.fetch_sub(1, Relaxed);
                    }
                }
            }
        }
    }
}
