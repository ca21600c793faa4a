//! Changes that other nodes hear of: the owner first, then all.
use super::{
    member::Member,
    membership::Membership,
    peer_group::{LONG, PeerGroup},
    transport::{AskedFor, ClearScope, NodeReply, NodeRequest, PeerChange, PeerError, To},
    untold::{UntoldChange, is_stored_at},
    wait_for_all::wait_for_all,
};
use bytes::Bytes;
use larder_engine::Millis;
use larder_source::SourceError;
use larder_store::clock;
use std::{
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
};
use tokio::time::Instant;

impl PeerGroup {
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
            PeerError::NotReached(reason) | PeerError::NoGroup(reason) => SourceError::Unavailable(reason),
            PeerError::NoAnswer(reason) | PeerError::Closed(reason) | PeerError::NoRoom(reason) => {
                SourceError::Lost(reason)
            }
            PeerError::Refused(reason) => SourceError::Refused(format!("ERR {reason}").into()),
        })
    }

    async fn tell(&self, member: &Arc<Member>, change: &PeerChange) -> Result<(), PeerError> {
        self.change_at(member, NodeRequest::Tell(change.clone())).await.map(drop)
    }

    /// Has a node change something, and notes whether it could be reached.
    pub(super) async fn change_at(&self, member: &Arc<Member>, change: NodeRequest) -> Result<NodeReply, PeerError> {
        member.counts.changes.fetch_add(1, Relaxed);
        let deadline = Instant::now() + self.client.patience(member);
        let told = if member.may_ask(clock::now()) {
            let to = To { member, group: &self.name, deadline, asked_for: AskedFor::NOBODY };
            self.client.nodes.call(to, change).await
        } else {
            Err(PeerError::NotReached(format!("peer {} is out", member.name).into()))
        };
        match &told {
            Ok(_) => self.note_reached(member),
            Err(error) => {
                member.counts.failed_changes.fetch_add(1, Relaxed);
                if !member.is_out() {
                    self.note_failed(member, error);
                }
            }
        }
        told
    }

    /// Tells a node, now or as soon as it can be reached. It is not told later to remove what it
    /// alone stores: by then it may have newer values.
    ///
    /// # Errors
    /// `Lost` if such a node gave no answer.
    pub(super) async fn tell_surely(&self, member: &Arc<Member>, change: PeerChange) -> Result<(), SourceError> {
        self.client.untold.forget(member, &self.name, &change);
        match self.tell(member, &change).await {
            Ok(()) => {}
            Err(PeerError::Refused(reason)) => {
                tracing::debug!(%reason, "a peer does not take a change");
            }
            // It has no copies.
            Err(PeerError::NoGroup(_)) => {}
            Err(
                PeerError::NotReached(reason)
                | PeerError::NoAnswer(reason)
                | PeerError::Closed(reason)
                | PeerError::NoRoom(reason),
            ) => {
                let of_store = self.is_store();
                if of_store && is_stored_at(&self.membership(), member, &change) {
                    return Err(SourceError::Lost(reason));
                }
                let until = clock::now() + self.longest_life();
                self.client.untold.add(member, &self.name, UntoldChange { change, until, of_store });
            }
        }
        Ok(())
    }

    /// How long a copy may be about, ms.
    fn longest_life(&self) -> u64 {
        // Of a store, other nodes than the owner have hot copies only.
        let of_fills = if self.is_store() { 0 } else { self.policy.longest_ttl().unwrap_or(LONG) };
        of_fills.max(self.hot_copy_ttl()).saturating_add(self.policy.longest_stale())
    }

    /// A key has a new value at its owner: the other nodes forget their copies.
    pub(super) async fn changed_at_owner(self: &Rc<Self>, key: &[u8]) {
        let membership = self.membership();
        let owner = membership.owner(key).clone();
        let change = PeerChange::Remove(Bytes::copy_from_slice(key));
        // The owner has the value: nothing is lost where a node is told later.
        let _ = self.tell_others(&membership, &change, &[&owner]).await;
    }

    /// Copies of a key are out of date: tells the owner, then those who read it for their zones,
    /// then the other nodes, so that no node fills itself from an older copy. This node has to
    /// forget its own copy once those know whom it would ask, which is what `forget` is for. A node
    /// that cannot be reached is told later.
    ///
    /// # Errors
    /// `Lost` if the owner stores the key alone and gave no answer.
    pub async fn removed(self: &Rc<Self>, key: &[u8], forget: impl Fn()) -> Result<(), SourceError> {
        let membership = self.membership();
        let owner = membership.owner(key).clone();
        let change = PeerChange::Remove(Bytes::copy_from_slice(key));
        let at_owner = if owner.is_self { Ok(()) } else { self.tell_surely(&owner, change.clone()).await };
        forget();
        let mut told: Vec<&Arc<Member>> = self.readers(&membership, key);
        if !told.is_empty() {
            self.tell_each(told.iter().copied().filter(|reader| !reader.is_self), &change).await?;
            // Read meanwhile from a reader that did not know yet.
            forget();
        }
        told.push(&owner);
        at_owner.and(self.tell_others(&membership, &change, &told).await)
    }

    /// Clears copies at all nodes but this one.
    async fn clear_others(self: &Rc<Self>, scope: ClearScope, soft: bool) -> Result<(), SourceError> {
        let membership = self.membership();
        self.tell_others(&membership, &PeerChange::Clear { scope, soft }, &[]).await
    }

    /// Clears here (`clear`) and at all nodes. A node that is cleared early may fill itself from
    /// one that is cleared late, so each is cleared twice; three times where a node may ask its
    /// zone's reader, and that the owner.
    ///
    /// # Errors
    /// `Lost` if the nodes are one store and one of them gave no answer. The others are cleared.
    pub async fn clear_everywhere(
        self: &Rc<Self>,
        scope: ClearScope,
        soft: bool,
        clear: impl Fn(),
    ) -> Result<(), SourceError> {
        let times = if self.membership().has_zones() { 3 } else { 2 };
        let mut cleared = Ok(());
        for _ in 0..times {
            clear();
            cleared = self.clear_others(scope.clone(), soft).await;
        }
        cleared
    }

    /// Tells all nodes but some at once, and waits for all.
    async fn tell_others(
        self: &Rc<Self>,
        membership: &Membership,
        change: &PeerChange,
        but: &[&Arc<Member>],
    ) -> Result<(), SourceError> {
        let others = membership.others().filter(|member| !but.iter().any(|but| Arc::ptr_eq(but, member)));
        self.tell_each(others, change).await
    }

    async fn tell_each(
        self: &Rc<Self>,
        members: impl Iterator<Item = &Arc<Member>>,
        change: &PeerChange,
    ) -> Result<(), SourceError> {
        let tasks = members.map(|member| {
            let (me, member, change) = (self.clone(), member.clone(), change.clone());
            tokio::task::spawn_local(async move { me.tell_surely(&member, change).await })
        });
        wait_for_all(tasks.collect()).await.into_iter().collect()
    }
}
