//! What a node has the owner of a key do, where the nodes' memory tiers are the store (`none:` with
//! `peers`): the owner runs Redis commands, or a write that came over HTTP, and gives back the
//! reply as it is. It never sends them on. Decision 0051.
use super::{
    member::Member,
    messages::{OwnerAnswer, OwnerRequest},
    peer_group::PeerGroup,
    transport::{NodeRequest, PeerChange, PeerError},
    wait_for_all::wait_for_all,
};
use bytes::Bytes;
use larder_source::SourceError;
use std::{rc::Rc, sync::Arc};

/// What a client is told whose key no node takes for its own.
pub(super) const NOT_AGREED: &str = "the nodes do not agree yet about who owns the key: try again";

impl PeerGroup {
    /// The node that a key belongs to.
    pub fn owner(&self, key: &[u8]) -> Arc<Member> {
        self.client.peers.now().owner(key).clone()
    }

    /// Has the owner do something. `None`: it is no Larder, or one that does not know how.
    ///
    /// # Errors
    /// `Unavailable` if nothing was done: the owner cannot be reached, or does not take the key for
    /// its own. `Lost` if it does not answer.
    pub async fn at_owner(
        &self,
        owner: &Arc<Member>,
        request: OwnerRequest,
    ) -> Result<Option<OwnerAnswer>, SourceError> {
        if owner.is_other() {
            return Ok(None);
        }
        match self.change_at(owner, NodeRequest::AtOwner(request)).await.map(|reply| reply.of_owner) {
            Ok(answer) if answer.status == OwnerAnswer::NOT_THE_OWNER => {
                Err(SourceError::Unavailable(format!("peer {}: {NOT_AGREED}", owner.name).into()))
            }
            Ok(answer) => {
                owner.note_larder();
                Ok(Some(answer))
            }
            Err(PeerError::NotReached(reason) | PeerError::NoGroup(reason)) => Err(SourceError::Unavailable(reason)),
            Err(PeerError::NoAnswer(reason) | PeerError::Closed(reason) | PeerError::NoRoom(reason)) => {
                Err(SourceError::Lost(reason))
            }
            Err(PeerError::Refused(reason)) => {
                tracing::debug!(%reason, "a peer runs no commands for other nodes");
                owner.note_other();
                Ok(None)
            }
        }
    }

    /// Keys have new values here, and this node owns them: the other nodes forget their copies. A
    /// node that cannot be reached is told later.
    pub async fn changed_here(self: &Rc<Self>, keys: Vec<Bytes>) {
        let membership = self.membership();
        let tasks = membership.others().map(|member| {
            let (me, member, keys) = (self.clone(), member.clone(), keys.clone());
            tokio::task::spawn_local(async move {
                for key in keys {
                    // It has a copy at most.
                    let _ = me.tell_surely(&member, PeerChange::Remove(key)).await;
                }
            })
        });
        wait_for_all(tasks.collect()).await;
    }
}
