//! The master that Sentinels name, shared between the task that asks them and the connections to
//! the master.
use larder_config::RedisAddress;
use std::{io, time::Duration};
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};

/// Receives the address of the current master, and each change of it.
pub(super) type MasterAddress = watch::Receiver<Option<RedisAddress>>;

/// The current master of one service.
pub(super) struct SentinelMaster {
    pub(super) service: String,
    address: watch::Sender<Option<RedisAddress>>,
    refresh: Notify,
}

impl SentinelMaster {
    pub(super) fn new(service: String) -> SentinelMaster {
        SentinelMaster { service, address: watch::Sender::new(None), refresh: Notify::new() }
    }
    pub(super) fn subscribe(&self) -> MasterAddress {
        self.address.subscribe()
    }
    /// The address that the Sentinels last named.
    pub(super) fn address(&self) -> Option<RedisAddress> {
        self.address.borrow().clone()
    }
    pub(super) fn set_address(&self, address: RedisAddress) {
        self.address.send_replace(Some(address));
    }
    /// The server may no longer be the master: asks the Sentinels soon.
    pub(super) fn request_refresh(&self) {
        self.refresh.notify_one();
    }
    /// Waits for [`request_refresh`](SentinelMaster::request_refresh), also if it was called
    /// before.
    pub(super) async fn refresh_requested(&self) {
        self.refresh.notified().await;
    }

    pub(super) async fn wait_address(&self, master: &mut MasterAddress, limit: Duration) -> io::Result<RedisAddress> {
        let named = timeout(limit, master.wait_for(Option::is_some)).await;
        let address = named.ok().and_then(Result::ok).and_then(|address| address.clone());
        address.ok_or_else(|| io::Error::other(format!("no Sentinel names a master for `{}`", self.service)))
    }
}
