//! One core's view of the table: reads from the memory map, and reads on a thread that may wait for
//! the disk.
use super::table_reload::{ServedTable, SharedTable, TableSetup, announce};
use crate::{invalidation::InvalidationScope, source_error::SourceError, source_limits::SourceLimits};
use bytes::Bytes;
use larder_engine::Entry;
use larder_store::{
    StoredValue,
    table::{Decoder, Now, Table, TableError},
};
use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
    rc::Rc,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::sync::{Semaphore, mpsc};

/// Values of this size or more leave by reference: copying one takes longer than counting a
/// reference.
const BY_REFERENCE: usize = 16 << 10;
/// Threads of one core that may wait for the disk at the same time.
const WAITING: usize = 8;

/// The outcome of a lookup in the map.
pub enum TableLookup<R, F> {
    /// The key is there.
    Found(R),
    /// The key is not there.
    Absent,
    /// The map cannot tell without waiting for the disk.
    Unknown(F),
}

/// While this lives, all lookups of the core use one table, so that keys read together are of one
/// moment. Do not hold it across an await.
pub struct PinnedTable<'s>(&'s Cell<bool>);
impl Drop for PinnedTable<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// One core's handle on the table.
pub struct TableSource {
    pub(super) shared: Arc<SharedTable>,
    pub(super) limits: SourceLimits,
    /// The latest table that this core has seen.
    served: Rc<RefCell<Arc<ServedTable>>>,
    /// Reads keep using `served`; see [`PinnedTable`].
    pinned: Cell<bool>,
    /// For compressed values.
    decoder: RefCell<Decoder>,
    /// Threads that may wait for the disk on behalf of this core.
    pub(super) waiting: Arc<Semaphore>,
}

impl TableSource {
    pub(super) fn new(setup: &TableSetup, scope: Option<InvalidationScope>) -> TableSource {
        let shared = setup.shared.clone();
        if let Some(scope) = scope {
            let mut announcer = shared.announcer.lock();
            if announcer.is_none() {
                let (swaps, swapped) = mpsc::channel(1);
                *announcer = Some(swaps);
                tokio::task::spawn_local(announce(swapped, scope.to));
            }
        }
        let mut changes = shared.served.subscribe();
        let served = Rc::new(RefCell::new(changes.borrow_and_update().clone()));
        let followed = Rc::downgrade(&served);
        // A core without reads must not keep an old file open.
        tokio::task::spawn_local(async move {
            while changes.changed().await.is_ok() {
                let Some(served) = followed.upgrade() else { return };
                let next = changes.borrow_and_update().clone();
                served.replace(next);
            }
        });
        TableSource {
            limits: setup.limits,
            shared,
            served,
            pinned: Cell::new(false),
            decoder: RefCell::default(),
            waiting: Arc::new(Semaphore::new(WAITING)),
        }
    }

    /// Switches to the latest table if this core has not seen it yet.
    #[inline]
    fn catch_up(&self) {
        let seen = self.served.borrow().generation;
        if seen != self.shared.generation.load(Ordering::Acquire) {
            self.served.replace(self.shared.served.borrow().clone());
        }
    }

    /// Pins the latest table for all lookups while the result lives.
    #[inline]
    pub fn one_table(&self) -> PinnedTable<'_> {
        self.catch_up();
        self.pinned.set(true);
        PinnedTable(&self.pinned)
    }

    /// Reads a key in the map, or returns `read` if that would wait for the disk.
    #[inline]
    pub fn look<R, F: FnOnce(Entry<'_>) -> R>(&self, key: &[u8], read: F) -> TableLookup<R, F> {
        if !self.pinned.get() {
            self.catch_up();
        }
        let served = self.served.borrow();
        match served.table.get_now(key, &mut self.decoder.borrow_mut()) {
            Now::Found(value) if value.len() < BY_REFERENCE => {
                TableLookup::Found(served.about.inline(key, value, read))
            }
            Now::Found(value) => TableLookup::Found(served.about.large(key, served.table.share(value), read)),
            Now::Absent => TableLookup::Absent,
            Now::Unknown => TableLookup::Unknown(read),
        }
    }

    /// Prefetches the cache lines that a read of the key will touch.
    #[inline]
    pub fn prefetch(&self, key: &[u8]) {
        self.served.borrow().table.prefetch(key);
    }

    /// Runs `work` with the latest table on a thread that may wait for the disk.
    pub(super) async fn wait_for<T: Send + 'static>(
        &self,
        within: Duration,
        work: impl FnOnce(&ServedTable) -> Result<T, TableError> + Send + 'static,
    ) -> Result<T, SourceError> {
        wait_for(self.shared.clone(), self.waiting.clone(), within, work).await
    }
}

pub(super) async fn wait_for<T: Send + 'static>(
    shared: Arc<SharedTable>,
    waiting: Arc<Semaphore>,
    within: Duration,
    work: impl FnOnce(&ServedTable) -> Result<T, TableError> + Send + 'static,
) -> Result<T, SourceError> {
    let served = shared.served.borrow().clone();
    let done = tokio::time::timeout(within, async {
        let permit = waiting.acquire_owned().await;
        tokio::task::spawn_blocking(move || {
            let done = work(&served);
            drop(permit);
            done
        })
        .await
    });
    match done.await {
        Ok(Ok(Ok(done))) => Ok(done),
        Ok(Ok(Err(error))) => {
            shared.note(&error);
            Err(SourceError::Unavailable(error.to_string().into()))
        }
        Ok(Err(_)) => Err(SourceError::Unavailable("the read was abandoned".into())),
        Err(_) => Err(SourceError::Unavailable("the disk did not answer within source-timeout".into())),
    }
}

/// A value of the table, which is a string that lives for ever.
pub(super) fn stored_value(table: &Arc<Table>, value: Cow<'_, [u8]>) -> StoredValue {
    let value = match value {
        Cow::Owned(value) => value.into(),
        Cow::Borrowed(value) if value.len() < BY_REFERENCE => Bytes::copy_from_slice(value),
        Cow::Borrowed(value) => table.share(value),
    };
    StoredValue::string(value, None)
}
