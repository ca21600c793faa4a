//! `flush_all`, now or later.
use larder_core::{app::Worker, read::Group};
use larder_proto::resp::encode;
use larder_ring::peer::ClearScope;
use larder_source::{Pace, SourceError, SourceKind};
use std::{cell::RefCell, rc::Rc, time::Duration};
use tokio::task::JoinHandle;

/// The longest delay: 30 days.
const LONGEST: u64 = 30 * 86_400;

/// The `flush_all` that a client of this worker has put off. A later one takes its place.
#[derive(Debug, Default)]
pub struct PendingFlush(RefCell<Option<JoinHandle<()>>>);

impl PendingFlush {
    /// Flushes after so many seconds.
    pub(crate) fn later(&self, worker: &Worker, delay: u64) {
        let group = worker.groups.default().clone();
        let flush = tokio::task::spawn_local(async move {
            tokio::time::sleep(Duration::from_secs(delay.min(LONGEST))).await;
            if let Err(error) = flush(&group).await {
                tracing::warn!(%error, "a delayed flush_all failed");
            }
        });
        self.replace(Some(flush));
    }

    /// A client flushes now.
    pub(crate) fn cancel(&self) {
        self.replace(None);
    }

    fn replace(&self, by: Option<JoinHandle<()>>) {
        if let Some(before) = self.0.replace(by) {
            before.abort();
        }
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
                    peers.clear_everywhere(ClearScope::Prefix(bytes::Bytes::new()), false, || group.flushed()).await;
                }
                None => group.flushed(),
            }
            Ok(())
        }
    }
}
