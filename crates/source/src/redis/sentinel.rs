//! `redis+sentinel://`: Sentinels name the master (<https://redis.io/docs/latest/develop/reference/sentinel-clients/>).
//!
//! Larder asks them every second, and as soon as a connection is lost. The address that most of
//! them name is used. A connection to the master succeeds only if the server itself says that it is
//! the master (`ROLE`). When the Sentinels name another master, every connection ends and
//! reconnects.
use super::{connection::UpstreamConnection, connection_settings::ConnectionSettings, sentinel_master::SentinelMaster};
use crate::{source_health::SourceHealth, source_limits::SourceLimits};
use larder_base::buffers::Buffers;
use larder_config::{Deployment, RedisAddress, RedisUrl, SentinelUrl};
use larder_proto::resp::{View, encode, parse_i64, view};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::time::{sleep, timeout};

/// Shortest and longest pause between two rounds of questions.
const PERIOD: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// The Sentinels of a source, shared by all cores.
pub(super) struct Sentinels {
    master: Arc<SentinelMaster>,
    /// The settings for a connection to each Sentinel.
    each: Vec<Arc<ConnectionSettings>>,
    is_watched: AtomicBool,
}

impl Sentinels {
    /// The Sentinels of the URL, if it names any. `master` receives the address that they name.
    ///
    /// # Errors
    /// See [`ConnectionSettings::new`].
    pub(super) fn new(
        url: &RedisUrl,
        master: Option<&Arc<SentinelMaster>>,
        limits: SourceLimits,
        buffers: &Arc<Buffers>,
    ) -> Result<Option<Arc<Sentinels>>, String> {
        let (Deployment::Sentinel(sentinels), Some(master)) = (&url.deployment, master) else { return Ok(None) };
        let SentinelUrl { others, user, password, password_file, .. } = &**sentinels;
        let settings = |address: &RedisAddress| {
            let url = RedisUrl {
                address: address.clone(),
                user: user.clone(),
                password: password.clone(),
                password_file: password_file.clone(),
                database: 0,
                deployment: Deployment::Single,
                ..url.clone()
            };
            ConnectionSettings::new(&url, limits, Arc::new(SourceHealth::default()), buffers.clone()).map(Arc::new)
        };
        let each = [&url.address].into_iter().chain(others).map(settings).collect::<Result<_, _>>()?;
        Ok(Some(Arc::new(Sentinels { master: master.clone(), each, is_watched: AtomicBool::new(false) })))
    }

    /// Starts a task on this core that asks the Sentinels, unless another core has one.
    pub(super) fn watch(self: &Arc<Sentinels>) {
        if !self.is_watched.swap(true, Relaxed) {
            tokio::task::spawn_local(self.clone().keep_asking());
        }
    }
    async fn keep_asking(self: Arc<Sentinels>) {
        let connections: Vec<UpstreamConnection> =
            self.each.iter().map(|settings| UpstreamConnection::shared(settings.clone(), false)).collect();
        loop {
            self.ask(&connections).await;
            let known = self.master.address().is_some();
            sleep(PERIOD.0).await;
            if known {
                // A refresh that was requested during the pause is not lost.
                let _ = timeout(PERIOD.1, self.master.refresh_requested()).await;
            }
        }
    }
    async fn ask(&self, connections: &[UpstreamConnection]) {
        let command = encode(&[b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", self.master.service.as_bytes()]);
        // All at once: making a future queues its command.
        let asked: Vec<_> = connections.iter().map(|connection| connection.relay(command.clone().into(), 1)).collect();
        let mut votes: Vec<(RedisAddress, usize)> = Vec::new();
        for answer in asked {
            let Ok(answer) = answer.await else { continue };
            let Some(address) = address(&answer.last()) else { continue };
            match votes.iter_mut().find(|(other, _)| *other == address) {
                Some((_, count)) => *count += 1,
                None => votes.push((address, 1)),
            }
        }
        let present = self.master.address();
        let most = votes.into_iter().max_by_key(|(address, count)| (*count, Some(address) == present.as_ref()));
        if let Some((address, _)) = most
            && Some(&address) != present.as_ref()
        {
            tracing::info!(service = %self.master.service, master = %address, "the Sentinels name the master");
            self.master.set_address(address);
        }
    }
}

/// Parses an array of two strings: host and port. The reply is null if the service is unknown.
fn address(reply: &[u8]) -> Option<RedisAddress> {
    let View::Array(mut parts) = view(reply).ok()? else { return None };
    let (Some(View::Bulk(host)), Some(View::Bulk(port))) = (parts.next(), parts.next()) else { return None };
    let host = String::from_utf8(host.to_vec()).ok()?;
    let port = parse_i64(port).and_then(|port| u16::try_from(port).ok())?;
    Some(RedisAddress::Tcp { host, port })
}
