//! Per-key write locks for sources on this machine. With them, reading, computing and writing back
//! is one atomic step for all other writers. Reads never wait for a lock.
use super::{
    group::Group,
    pending_writes::{PendingWrites, STRIPES},
};
use larder_source::SourceError;
use smallvec::SmallVec;
use std::{rc::Rc, sync::Arc};
use tokio::sync::SemaphorePermit;

/// Locked keys, until this is dropped. It may be dropped on any core. Waiters get a lock in order.
#[derive(Debug)]
pub struct KeyGuard {
    writes: Arc<PendingWrites>,
    stripes: SmallVec<[u16; 4]>,
}
impl Drop for KeyGuard {
    fn drop(&mut self) {
        let locks = self.writes.locks.stripes();
        self.stripes.iter().for_each(|stripe| locks[usize::from(*stripe)].add_permits(1));
    }
}

/// The lock of one key for a write. Dropping it breaks the watches on the key.
#[derive(Debug)]
pub(super) struct WriteLock {
    held: Rc<KeyGuard>,
    key: Box<[u8]>,
}
impl Drop for WriteLock {
    fn drop(&mut self) {
        self.held.writes.watched.changed([&self.key]);
    }
}

impl Group {
    /// Locks a key before a write, if the source is on this machine.
    ///
    /// # Errors
    /// As [`hold`](Group::hold).
    pub(super) async fn lock_if_local(&self, key: &[u8]) -> Result<Option<WriteLock>, SourceError> {
        match self.source.as_local() {
            Some(_) => Ok(Some(WriteLock { held: self.hold([key]).await?, key: key.into() })),
            None => Ok(None),
        }
    }

    /// Locks keys. Lock all of them at once: a caller that holds locks must not wait for others.
    ///
    /// # Errors
    /// `Unavailable` if another writer holds one for longer than clients wait for a write.
    pub async fn hold(&self, keys: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Result<Rc<KeyGuard>, SourceError> {
        let mut stripes: SmallVec<[u16; 4]> = keys.into_iter().map(|key| self.stripe(key.as_ref())).collect();
        // All callers use the same order, so there is no deadlock.
        stripes.sort_unstable();
        stripes.dedup();
        self.hold_stripes(false, stripes).await
    }

    /// Locks a key that is free; `None`: another writer holds it.
    pub(super) fn hold_free(&self, key: &[u8]) -> Option<KeyGuard> {
        let mut held = KeyGuard { writes: self.writes.clone(), stripes: SmallVec::new() };
        held.take(self.stripe(key)).then_some(held)
    }
    fn stripe(&self, key: &[u8]) -> u16 {
        (self.cache.key(key).hash() >> 20) as u16 % STRIPES as u16
    }

    /// Locks all keys, existing or not.
    ///
    /// # Errors
    /// As [`hold`](Group::hold).
    pub async fn hold_all(&self) -> Result<Rc<KeyGuard>, SourceError> {
        self.hold_stripes(true, (0..STRIPES as u16).collect()).await
    }

    async fn hold_stripes(&self, slow: bool, stripes: SmallVec<[u16; 4]>) -> Result<Rc<KeyGuard>, SourceError> {
        // If the caller is dropped while it waits, the locks taken so far are released.
        let mut held = KeyGuard { writes: self.writes.clone(), stripes: SmallVec::with_capacity(stripes.len()) };
        // Waiting is rare, and a timer would be most of the cost: try without one first.
        let free = stripes.iter().take_while(|stripe| held.take(**stripe)).count();
        if free < stripes.len() {
            let taken = async {
                held.wait_for(&stripes[free..]).await;
                Ok(())
            };
            self.in_time(slow, SourceError::Unavailable, taken).await?;
        }
        Ok(Rc::new(held))
    }
}

impl PendingWrites {
    /// Locks all keys of the group, for as long as it takes. If the caller no longer waits, the locks
    /// taken so far are released.
    pub(crate) async fn hold_all(self: &Arc<Self>) -> KeyGuard {
        let mut held = KeyGuard { writes: self.clone(), stripes: SmallVec::with_capacity(STRIPES) };
        for stripe in 0..STRIPES as u16 {
            if !held.take(stripe) {
                held.wait_for(&[stripe]).await;
            }
        }
        held
    }
}

impl KeyGuard {
    /// False if another writer holds it.
    fn take(&mut self, stripe: u16) -> bool {
        let taken = self.writes.locks.stripes()[usize::from(stripe)].try_acquire().map(SemaphorePermit::forget).is_ok();
        if taken {
            self.stripes.push(stripe);
        }
        taken
    }
    async fn wait_for(&mut self, stripes: &[u16]) {
        for stripe in stripes {
            let permit = self.writes.locks.stripes()[usize::from(*stripe)].acquire().await;
            permit.expect("nobody closes it").forget();
            self.stripes.push(*stripe);
        }
    }
}
