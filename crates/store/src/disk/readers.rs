//! The threads that read.
use super::{read_queue::ReadQueue, shared::Shared};

pub(super) fn run(shared: &Shared) {
    work_off(&shared.reads, shared);
}
/// For what reads all entries.
pub(super) fn run_scans(shared: &Shared) {
    work_off(&shared.scans, shared);
}
fn work_off(queue: &ReadQueue, shared: &Shared) {
    while let Some(work) = queue.pop() {
        // Work that panics (in fjall, on damaged files) has not answered; its drop tells the waiting task.
        // The thread goes on.
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&shared.tree)));
        if done.is_err() {
            tracing::error!("a read of disk store {} panicked", shared.dir.path().display());
        }
    }
}
