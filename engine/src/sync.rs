//! The locks, in one place so that `shuttle` can take their part in tests of the interleavings.

#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::{Arc, Mutex, MutexGuard};

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::{Arc, Mutex, MutexGuard};

use std::sync::PoisonError;

/// Locks, also after a panic elsewhere: closures that run under a shard's lock only read, so what it guards is whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
