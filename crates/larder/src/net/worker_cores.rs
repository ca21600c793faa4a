//! The cores on which workers run (`pin`).
use std::io;

/// Keeps the calling thread on one core of those that it may use: worker 0 on the first, the next
/// on the second. If there are more workers than cores, some share one.
///
/// # Errors
/// The system refuses, or is not Linux.
#[cfg(target_os = "linux")]
pub(super) fn pin(worker: usize) -> io::Result<()> {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let allowed = sched_getaffinity(None)?;
    let cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
    let mut own = CpuSet::new();
    // The thread runs, so there is a core.
    own.set(cores.cycle().nth(worker).expect("at least one core"));
    Ok(sched_setaffinity(None, &own)?)
}

/// The same where it cannot be done.
#[cfg(not(target_os = "linux"))]
pub(super) fn pin(_worker: usize) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "threads can be pinned on Linux only"))
}
