//! Open files: each connection is one, and the usual soft limit of 1,024 would be reached long
//! before `max-connections`.
use crate::lifecycle::RunError;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that the process needs besides its clients' connections: listeners, pollers, upstream
/// connections, logs, data.
const OTHERS: u64 = 128;

/// Fewer connections than this are of no use.
const LEAST: u64 = 16;

/// Raises the soft limit on open files as far as it is needed and allowed, and returns how many
/// connections fit.
///
/// # Errors
/// [`RunError::OpenFiles`]: hardly any connection fits.
pub(super) fn connections_that_fit(wanted: usize) -> Result<usize, RunError> {
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
    let least = OTHERS + LEAST.min(wanted as u64);
    if granted < least {
        return Err(RunError::OpenFiles { limit: granted, least });
    }
    Ok(wanted.min(usize::try_from(granted - OTHERS).unwrap_or(usize::MAX)))
}
