//! Open files: each connection is one, and the usual soft limit of 1,024 would be reached long before `max-connections`.
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that the process needs besides its clients' connections: listeners, pollers, upstream connections, logs, data.
const OTHERS: u64 = 128;

/// Raises the soft limit on open files as far as it is needed and allowed, and returns how many connections fit.
pub(super) fn connections_that_fit(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let needed = wanted as u64 + OTHERS;
    let current = limit.current.unwrap_or(u64::MAX);
    let allowed = limit.maximum.unwrap_or(u64::MAX);
    let mut granted = current;
    if current < needed {
        let raised = needed.min(allowed);
        let request = Rlimit { current: Some(raised), maximum: limit.maximum };
        if setrlimit(Resource::Nofile, request).is_ok() {
            granted = raised;
        }
    }
    let fit = granted.saturating_sub(OTHERS).max(1);
    wanted.min(usize::try_from(fit).unwrap_or(usize::MAX))
}
