//! Reads of several clients that begin in the same turn of a core's loop, of keys that one node is
//! asked for: they travel in one message. Most of what a read of another node costs is its message.
use super::{member::Member, membership::Membership, messages::MOST_KEYS, peer_group::PeerGroup};
use larder_source::Fetch;
use std::{cell::RefCell, mem, rc::Rc, sync::Arc};

/// The reads that this turn has begun.
#[derive(Default)]
pub(super) struct GatheredReads(RefCell<Vec<OfOwner>>);

/// Those of one node, which is the owner of the keys unless another is asked first; never empty.
struct OfOwner {
    owner: Arc<Member>,
    membership: Arc<Membership>,
    fetches: Vec<Fetch>,
}

impl PeerGroup {
    /// Ends a fetch with the answer of the key's owner. It leaves with the others of this turn.
    pub(super) fn gather(self: &Rc<Self>, membership: &Arc<Membership>, owner: &Arc<Member>, fetch: Fetch) {
        let mut gathered = self.gathered.0.borrow_mut();
        if gathered.is_empty() {
            // It runs after the connections that are ready now.
            tokio::task::spawn_local(self.clone().send_gathered());
        }
        let same = |of: &&mut OfOwner| {
            Arc::ptr_eq(&of.owner, owner) && Arc::ptr_eq(&of.membership, membership) && of.fetches.len() < MOST_KEYS
        };
        match gathered.iter_mut().find(same) {
            Some(of) => of.fetches.push(fetch),
            None => {
                gathered.push(OfOwner { owner: owner.clone(), membership: membership.clone(), fetches: vec![fetch] })
            }
        }
    }

    async fn send_gathered(self: Rc<Self>) {
        let mut gathered = mem::take(&mut *self.gathered.0.borrow_mut());
        let last = gathered.pop();
        for of in gathered {
            tokio::task::spawn_local(self.clone().send(of));
        }
        if let Some(of) = last {
            self.send(of).await;
        }
    }

    async fn send(self: Rc<Self>, of: OfOwner) {
        let OfOwner { owner, membership, mut fetches } = of;
        match fetches.pop() {
            Some(only) if fetches.is_empty() => self.fetch(membership, owner, only).await,
            last => {
                fetches.extend(last);
                self.fetch_many(membership, owner, fetches, true).await;
            }
        }
    }
}
