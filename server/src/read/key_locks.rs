//! Keys that somebody holds while he changes them, on a source that keeps its entries on this machine: what is read, worked out
//! and written back is then one step for everybody else who writes. Reads wait for nobody.
use super::{group::Group, lock_stripes::STRIPES, pending_writes::PendingWrites};
use crate::source::SourceError;
use std::{rc::Rc, sync::Arc};
use tokio::sync::SemaphorePermit;

/// Keys that are held, until it is dropped; on whatever core. Those who wait for a key get it in their order.
#[derive(Debug)]
pub struct KeyGuard {
    writes: Arc<PendingWrites>,
    stripes: Vec<u16>,
}
impl Drop for KeyGuard {
    fn drop(&mut self) {
        let locks = self.writes.locks.stripes();
        self.stripes.iter().for_each(|stripe| locks[usize::from(*stripe)].add_permits(1));
    }
}

/// One key that is held for a write, and is taken for changed when it is let go.
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
    /// Holds a key that is about to be written, if the source keeps its entries here.
    ///
    /// # Errors
    /// As [`hold`](Group::hold).
    pub(super) async fn lock_if_local(&self, key: &[u8]) -> Result<Option<WriteLock>, SourceError> {
        match self.source.as_local() {
            Some(_) => Ok(Some(WriteLock { held: self.hold([key]).await?, key: key.into() })),
            None => Ok(None),
        }
    }

    /// Holds keys. Nobody must hold some while he waits for others: take all at once.
    ///
    /// # Errors
    /// `Unavailable` if somebody else has one for longer than clients wait for a write.
    pub async fn hold(&self, keys: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Result<Rc<KeyGuard>, SourceError> {
        let hash = |key: &[u8]| self.cache.key(key).hash();
        let mut stripes: Vec<u16> =
            keys.into_iter().map(|key| (hash(key.as_ref()) >> 20) as u16 % STRIPES as u16).collect();
        // One order for all: nobody waits in a circle.
        stripes.sort_unstable();
        stripes.dedup();
        self.hold_stripes(false, stripes).await
    }

    /// Holds all keys there are and could be.
    ///
    /// # Errors
    /// As [`hold`](Group::hold).
    pub async fn hold_all(&self) -> Result<Rc<KeyGuard>, SourceError> {
        self.hold_stripes(true, (0..STRIPES as u16).collect()).await
    }

    async fn hold_stripes(&self, slow: bool, stripes: Vec<u16>) -> Result<Rc<KeyGuard>, SourceError> {
        // Whoever goes away while he waits lets go of what he has so far.
        let mut held = KeyGuard { writes: self.writes.clone(), stripes: Vec::with_capacity(stripes.len()) };
        // Seldom does anybody wait: then a timer would be most of it.
        let free = stripes.iter().take_while(|stripe| held.take(**stripe)).count();
        if free < stripes.len() {
            self.in_time(slow, SourceError::Unavailable, held.wait_for(&stripes[free..])).await?;
        }
        Ok(Rc::new(held))
    }
}

impl KeyGuard {
    /// False: somebody else has it.
    fn take(&mut self, stripe: u16) -> bool {
        let taken = self.writes.locks.stripes()[usize::from(stripe)].try_acquire().map(SemaphorePermit::forget).is_ok();
        if taken {
            self.stripes.push(stripe);
        }
        taken
    }
    async fn wait_for(&mut self, stripes: &[u16]) -> Result<(), SourceError> {
        for stripe in stripes {
            let permit = self.writes.locks.stripes()[usize::from(*stripe)].acquire().await;
            permit.expect("nobody closes it").forget();
            self.stripes.push(*stripe);
        }
        Ok(())
    }
}
