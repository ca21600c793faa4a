//! A way to the other nodes with faults to order ([`lifecycle::faults`](larder_base::lifecycle::faults)):
//! requests to nodes wait, fail, or do not arrive.
use super::{
    messages::{OwnerAnswer, OwnerRequest},
    transport::{AskedFor, MemberMove, PeerAnswer, PeerChange, PeerError, To, Transport},
};
use async_trait::async_trait;
use bytes::Bytes;
use larder_base::lifecycle::faults::{FaultKind, FaultPlace, Faults};
use larder_store::clock;
use std::{rc::Rc, sync::Arc};
use tokio::time::{Instant, sleep_until};

const FAILED: &str = "a fault that was ordered (POST /v1/faults)";
const CUT: &str = "connection cut by a fault that was ordered (POST /v1/faults)";

/// See the module.
pub(super) struct FaultyTransport {
    pub(super) to_nodes: Rc<dyn Transport>,
    pub(super) faults: Arc<Faults>,
}

impl FaultyTransport {
    /// What becomes of a request: it goes on, perhaps later, or has failed.
    async fn pass(&self, deadline: Instant) -> Result<(), PeerError> {
        match self.faults.strike(FaultPlace::Peers, "", clock::now()) {
            None => Ok(()),
            Some(FaultKind::Delay(delay)) => {
                let until = Instant::now() + delay;
                sleep_until(until.min(deadline)).await;
                if until < deadline { Ok(()) } else { Err(PeerError::NoAnswer(FAILED.into())) }
            }
            Some(FaultKind::Cut) => Err(PeerError::NotReached(CUT.into())),
            Some(FaultKind::Error | FaultKind::Full | FaultKind::Jump(_)) => Err(PeerError::NoAnswer(FAILED.into())),
        }
    }
}

#[async_trait(?Send)]
impl Transport for FaultyTransport {
    async fn get(&self, to: To<'_>, key: &[u8], epoch: u64, asked_for: AskedFor<'_>) -> Result<PeerAnswer, PeerError> {
        self.pass(to.deadline).await?;
        self.to_nodes.get(to, key, epoch, asked_for).await
    }
    async fn get_many(
        &self,
        to: To<'_>,
        keys: Vec<Bytes>,
        held_only: bool,
        epoch: u64,
    ) -> Result<Vec<Option<PeerAnswer>>, PeerError> {
        self.pass(to.deadline).await?;
        self.to_nodes.get_many(to, keys, held_only, epoch).await
    }
    async fn tell(&self, to: To<'_>, change: &PeerChange) -> Result<(), PeerError> {
        self.pass(to.deadline).await?;
        self.to_nodes.tell(to, change).await
    }
    async fn at_owner(&self, to: To<'_>, request: &OwnerRequest) -> Result<OwnerAnswer, PeerError> {
        self.pass(to.deadline).await?;
        self.to_nodes.at_owner(to, request).await
    }
    async fn hottest(&self, to: To<'_>, this: &str, max_bytes: usize) -> Result<Vec<Bytes>, PeerError> {
        self.pass(to.deadline).await?;
        self.to_nodes.hottest(to, this, max_bytes).await
    }
    async fn announce(&self, to: To<'_>, this: &str, what: MemberMove, hash: &str) -> Result<String, PeerError> {
        self.pass(to.deadline).await?;
        self.to_nodes.announce(to, this, what, hash).await
    }
}
