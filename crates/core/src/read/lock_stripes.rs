//! The locks behind [`KeyGuard`](super::KeyGuard): a fixed number, shared by all keys of a group.
use std::sync::OnceLock;
use tokio::sync::Semaphore;

/// Enough that writers of different keys seldom share one, even if each waits for the disk.
pub(super) const STRIPES: usize = 1024;

/// The locks of a group, by key hash. Built at first use.
#[derive(Debug, Default)]
pub(super) struct LockStripes(OnceLock<Box<[Semaphore]>>);
impl LockStripes {
    pub(super) fn stripes(&self) -> &[Semaphore] {
        self.0.get_or_init(|| (0..STRIPES).map(|_| Semaphore::new(1)).collect())
    }
}
