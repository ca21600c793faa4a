//! What all cores share of a disk store: the open store, its limits and its health.
use crate::{
    source_error::SourceError,
    source_health::{ConnectionHealth, ConnectionState, SourceHealth},
    source_limits::SourceLimits,
};
use larder_base::buffers::{BufferKind, Buffers};
use larder_store::{StoredValue, disk::Store};
use parking_lot::Mutex;
use std::{path::Path, sync::Arc, time::Duration};

/// What all cores share: the open store.
#[derive(Clone)]
pub(super) struct DiskSetup {
    pub(super) store: Store,
    pub(super) limits: SourceLimits,
    pub(super) health: Arc<SourceHealth>,
    pub(super) buffers: Arc<Buffers>,
}

impl DiskSetup {
    pub(super) fn open(
        dir: &Path,
        limits: SourceLimits,
        health: SourceHealth,
        buffers: Arc<Buffers>,
    ) -> Result<DiskSetup, String> {
        let health = Arc::new(health);
        let mut state = ConnectionHealth::new(health.clone());
        state.set(ConnectionState::Up);
        let state = Mutex::new(state);
        let reported = health.clone();
        let poisoned = Box::new(move |reason: &Arc<str>| {
            reported.note_error(reason);
            state.lock().set(ConnectionState::Down);
        });
        let store = Store::open(dir, limits.store, poisoned)?;
        Ok(DiskSetup { store, limits, health, buffers })
    }
    /// Faults to order may delay or fail what is about to be done.
    pub(super) async fn operate(&self, is_write: bool) -> Result<(), SourceError> {
        self.health.operate_disk(is_write, |reason| self.named(reason)).await
    }
    pub(super) fn unavailable(&self, what: &str) -> SourceError {
        SourceError::Unavailable(self.named(what))
    }
    pub(super) fn timed_out(&self, within: Duration) -> SourceError {
        self.unavailable(&format!("no answer within {within:?}"))
    }
    pub(super) fn lost(&self, what: &str) -> SourceError {
        SourceError::Lost(self.named(what))
    }
    fn named(&self, what: &str) -> Arc<str> {
        format!("disk store {}: {what}", self.store.dir().display()).into()
    }
}

pub(super) fn counted(value: StoredValue, buffers: &Arc<Buffers>) -> StoredValue {
    StoredValue { value: buffers.count(BufferKind::Fetched, value.value), ..value }
}
