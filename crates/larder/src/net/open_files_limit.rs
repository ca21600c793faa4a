//! Open files: each connection is one, and the usual soft limit of 1,024 would be reached long
//! before `max-connections`.
use larder_base::lifecycle::RunError;
use larder_config::{Deployment, Settings, SourceUrl};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that the process needs besides those of its clients: listeners, pollers, the admin
/// listener's connections, refused connections, logs, snapshots.
const OTHERS: u64 = 112;

/// Pollers of one worker.
const OF_A_WORKER: u64 = 8;

/// Connections of one worker to a Redis besides `source-connections`: for writes and relayed
/// commands, quick and slow ones, in each protocol.
const RELAYING: u64 = 4;

/// Fewer connections than this are of no use.
const LEAST: u64 = 16;

/// Raises the soft limit on open files to the hard one, and returns how many files are left for
/// clients: one for each connection, and one more for each connection to the source that a client
/// needs for itself.
///
/// # Errors
/// [`RunError::OpenFiles`]: hardly any connection fits.
pub(super) fn files_for_clients(settings: &Settings) -> Result<usize, RunError> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let granted = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    let granted = granted.unwrap_or(u64::MAX);
    let reserve = reserve(settings, granted);
    let least = reserve + LEAST.min(settings.max_connections as u64);
    if granted < least {
        return Err(RunError::OpenFiles { limit: granted, least });
    }
    Ok(usize::try_from(granted - reserve).unwrap_or(usize::MAX))
}

/// The files that clients cannot take.
fn reserve(settings: &Settings, limit: u64) -> u64 {
    let workers = settings.threads as u64;
    let of_group = |source: &SourceUrl| match source {
        SourceUrl::None | SourceUrl::Table(_) | SourceUrl::Demo(_) => 0,
        SourceUrl::Redis(url) if !matches!(url.deployment, Deployment::Cluster { .. }) => {
            workers * (settings.connections_to(source) as u64 + RELAYING)
        }
        // Those that read, those that write, and the two of the change stream.
        SourceUrl::Postgres(_) => 2 * settings.connections_to(source) as u64 + 2,
        // The tables of the store, the connections to each node, one for each fetch.
        SourceUrl::Redis(_) | SourceUrl::Cassandra(_) | SourceUrl::Disk(_) | SourceUrl::Http(_) => limit / 4,
    };
    let sources = settings.groups.iter().flat_map(|group| std::iter::once(&group.source).chain(&group.mirror));
    let groups = sources.map(of_group);
    let peers = if settings.peers.are_set() { limit / 4 } else { 0 };
    let wanted = groups.fold(peers, u64::saturating_add).saturating_add(OF_A_WORKER * workers);
    OTHERS + wanted.min(limit / 2)
}
