//! Threads that let others go first: those that flush and compact, and those that free memory.

/// How far the threads that flush and compact stand behind those that answer, where there are not
/// cores enough for all: nice(2), as far as it goes. If they fall behind for that, writers are
/// slowed ([`pressure`](super::pressure)).
#[cfg(target_os = "linux")]
const NICE: i32 = 19;

/// Lets others go before this thread, and before those that it starts.
pub(super) fn go_behind() {
    // On Linux a thread has a priority of its own, which those that it starts inherit. Without it they
    // are as all others.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(NICE);
}

/// Runs `work` on a thread of its own that lets others go first.
pub(super) fn in_background<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let run = || {
        go_behind();
        work()
    };
    std::thread::scope(|scope| scope.spawn(run).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
