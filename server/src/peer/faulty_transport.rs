//! A way to the other nodes with faults to order ([`lifecycle::faults`](crate::lifecycle::faults)):
//! requests to nodes wait, fail, or do not arrive.
use super::{
    asked_for::AskedFor,
    member::Member,
    messages::{OwnerAnswer, OwnerRequest},
    transport::{MemberMove, PeerAnswer, PeerChange, PeerError, Transport},
};
use crate::{
    lifecycle::faults::{FaultKind, FaultPlace, Faults},
    source::LocalFuture,
};
use bytes::Bytes;
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

    fn faulty<'a, T: 'a>(
        &'a self,
        deadline: Instant,
        request: impl FnOnce() -> LocalFuture<'a, Result<T, PeerError>> + 'a,
    ) -> LocalFuture<'a, Result<T, PeerError>> {
        if !self.faults.are_on() {
            return request();
        }
        Box::pin(async move {
            self.pass(deadline).await?;
            request().await
        })
    }
}

impl Transport for FaultyTransport {
    fn get<'a>(
        &'a self,
        member: &'a Member,
        group: &'a str,
        key: &'a [u8],
        epoch: u64,
        asked_for: AskedFor<'a>,
        deadline: Instant,
    ) -> LocalFuture<'a, Result<PeerAnswer, PeerError>> {
        self.faulty(deadline, move || self.to_nodes.get(member, group, key, epoch, asked_for, deadline))
    }

    fn get_many<'a>(
        &'a self,
        member: &'a Member,
        group: &'a str,
        keys: Vec<Bytes>,
        held_only: bool,
        epoch: u64,
        deadline: Instant,
    ) -> LocalFuture<'a, Result<Vec<Option<PeerAnswer>>, PeerError>> {
        self.faulty(deadline, move || self.to_nodes.get_many(member, group, keys, held_only, epoch, deadline))
    }

    fn tell<'a>(
        &'a self,
        member: &'a Member,
        group: &'a str,
        change: &'a PeerChange,
        deadline: Instant,
    ) -> LocalFuture<'a, Result<(), PeerError>> {
        self.faulty(deadline, move || self.to_nodes.tell(member, group, change, deadline))
    }

    fn at_owner<'a>(
        &'a self,
        member: &'a Member,
        group: &'a str,
        request: &'a OwnerRequest,
        deadline: Instant,
    ) -> LocalFuture<'a, Result<OwnerAnswer, PeerError>> {
        self.faulty(deadline, move || self.to_nodes.at_owner(member, group, request, deadline))
    }

    fn hottest<'a>(
        &'a self,
        member: &'a Member,
        group: &'a str,
        this: &'a str,
        max_bytes: usize,
        deadline: Instant,
    ) -> LocalFuture<'a, Result<Vec<Bytes>, PeerError>> {
        self.faulty(deadline, move || self.to_nodes.hottest(member, group, this, max_bytes, deadline))
    }

    fn announce<'a>(
        &'a self,
        member: &'a Member,
        group: &'a str,
        this: &'a str,
        what: MemberMove,
        hash: &'a str,
        deadline: Instant,
    ) -> LocalFuture<'a, Result<String, PeerError>> {
        self.faulty(deadline, move || self.to_nodes.announce(member, group, this, what, hash, deadline))
    }
}
