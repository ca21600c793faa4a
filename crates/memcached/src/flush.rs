//! `flush_all`, now or later.
use larder_core::{app::Worker, read::Group};
use larder_proto::resp::encode;
use larder_ring::peer::ClearScope;
use larder_source::{Pace, SourceError, SourceKind};
use std::{rc::Rc, time::Duration};
use tokio::{sync::watch, time::timeout};

/// The longest delay: 30 days.
const LONGEST: u64 = 30 * 86_400;

/// Numbers the `flush_all` commands of all clients. A delayed one flushes only if no other came after
/// it.
#[derive(Debug, Default)]
pub struct PendingFlush(watch::Sender<u64>);

impl PendingFlush {
    /// Flushes after so many seconds.
    pub(crate) fn later(&self, worker: &Worker, delay: u64) {
        let (app, group) = (worker.app.clone(), worker.groups.default().clone());
        let own = self.cancel();
        let mut last = self.0.subscribe();
        tokio::task::spawn_local(async move {
            let delay = Duration::from_secs(delay.min(LONGEST));
            let is_replaced = timeout(delay, last.wait_for(|number| *number != own)).await.is_ok();
            // The node may have become a replica meanwhile.
            if is_replaced || app.replication.is_read_only() {
                return;
            }
            if let Err(error) = flush(&group).await {
                tracing::warn!(%error, "a delayed flush_all failed");
            }
        });
    }

    /// Replaces a delayed `flush_all`. Returns the number of the new one.
    pub(crate) fn cancel(&self) -> u64 {
        let mut own = 0;
        self.0.send_modify(|number| {
            *number += 1;
            own = *number;
        });
        own
    }
}

/// Deletes everything: at the source, if it takes that, and in the memory tier.
pub(crate) async fn flush(group: &Rc<Group>) -> Result<(), SourceError> {
    match group.source.kind() {
        SourceKind::Store(_) => {
            let held = group.hold_all().await?;
            group.clear_source(&held).await
        }
        SourceKind::Redis(server) => {
            let pace = Pace { slow: true, ..Pace::default() };
            let replies = server.relay_at(pace, encode(&[b"FLUSHDB"]).into(), 1, false).await;
            if !matches!(replies, Err(SourceError::Unavailable(_))) {
                group.flushed();
            }
            match replies?.last().strip_prefix(b"-") {
                Some(error) => Err(SourceError::Refused(String::from_utf8_lossy(error).trim_end().into())),
                None => Ok(()),
            }
        }
        SourceKind::Memory | SourceKind::Values(_) | SourceKind::Table(_) => {
            match &group.peers {
                Some(peers) => {
                    peers.clear_everywhere(ClearScope::Prefix(bytes::Bytes::new()), false, || group.flushed()).await?;
                }
                None => group.flushed(),
            }
            Ok(())
        }
    }
}
