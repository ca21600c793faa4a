//! The locks behind [`KeyGuard`](super::Held): a fixed number of them, shared by all keys of a group.
use std::sync::OnceLock;
use tokio::sync::Semaphore;

/// So many that writers of different keys seldom meet, even if each waits for the disk.
pub(super) const STRIPES: usize = 1024;

/// The locks of a group's keys, by their hash; made when the first is wanted.
#[derive(Debug, Default)]
pub(super) struct LockStripes(OnceLock<Box<[Semaphore]>>);
impl LockStripes {
    pub(super) fn stripes(&self) -> &[Semaphore] {
        self.0.get_or_init(|| (0..STRIPES).map(|_| Semaphore::new(1)).collect())
    }
}
