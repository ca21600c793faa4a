//! From the URL of a cluster to its source.
use super::{
    cassandra_settings::CassandraSettings,
    cassandra_source::CassandraSource,
    cluster_session::{ClusterSession, OpenError},
};
use crate::{source_health::SourceHealth, source_limits::SourceLimits, source_setup::SourceSetup};
use larder_base::buffers::Buffers;
use larder_config::CassandraUrl;
use std::{rc::Rc, sync::Arc, thread, time::Duration};

/// How long the start waits for a cluster that does not answer. Later it is asked again.
const LONGEST_CHECK: Duration = Duration::from_secs(10);

/// Reads the password file, and asks the cluster about the table, if it answers.
///
/// # Errors
/// A text that names the file at fault, or the cluster's own message.
pub(crate) fn setup(
    url: &CassandraUrl,
    limits: SourceLimits,
    health: SourceHealth,
    buffers: Arc<Buffers>,
) -> Result<SourceSetup, String> {
    let settings = Arc::new(CassandraSettings::new(url, limits, health, buffers)?);
    match checked(&settings) {
        Ok(()) => {}
        Err(OpenError::Wrong(why)) => return Err(format!("cassandra://{}: {why}", url.origin())),
        Err(OpenError::Unreachable(why)) => {
            let source = url.origin();
            tracing::warn!(source, reason = why, "Cassandra does not answer: it is asked again");
        }
    }
    let (health, sessions) = (settings.health.clone(), settings.sessions.clone());
    let opened = SourceSetup::of(health, move |_, _| Rc::new(CassandraSource::new(settings.clone())));
    Ok(SourceSetup { driver: Some(Box::new(move || sessions.snapshot())), ..opened })
}

fn checked(settings: &Arc<CassandraSettings>) -> Result<(), OpenError> {
    let settings = settings.clone();
    let limit = LONGEST_CHECK.min(10 * settings.limits.timeout);
    run_apart(limit, async move || ClusterSession::open(&settings).await.map(drop))
}

/// Runs requests to the cluster on a thread of their own: the start is not asynchronous, and may run
/// within a runtime.
pub(super) fn run_apart<T: Send + 'static, F: AsyncFnOnce() -> Result<T, OpenError> + Send + 'static>(
    limit: Duration,
    work: F,
) -> Result<T, OpenError> {
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| OpenError::Unreachable(error.to_string()))?;
        let done = runtime.block_on(async { tokio::time::timeout(limit, work()).await });
        done.unwrap_or_else(|_| Err(OpenError::Unreachable(format!("no answer after {limit:?}"))))
    };
    let thread = thread::Builder::new().name("cassandra-check".into()).spawn(run);
    let thread = thread.map_err(|error| OpenError::Unreachable(error.to_string()))?;
    thread.join().unwrap_or_else(|_| Err(OpenError::Unreachable("the check panicked".to_owned())))
}
