//! From the URL of a database to its source.
use super::{
    changes::{GroupChanges, wrong_watches},
    lookup::Plan,
    plan::{PlanError, check},
    postgres_settings::PostgresSettings,
    postgres_source::PostgresSource,
    session_pool::Connections,
};
use crate::{source_health::SourceHealth, source_limits::SourceLimits, source_setup::SourceSetup};
use larder_base::buffers::Buffers;
use larder_config::PostgresUrl;
use std::{rc::Rc, sync::Arc, thread, time::Duration};

/// How long the start waits for a database that does not answer. Later it is asked again.
const LONGEST_CHECK: Duration = Duration::from_secs(10);

/// Reads the files that the URL names, and has the database check the table and the queries, if it
/// answers.
///
/// # Errors
/// A text that names the file or host at fault, or the database's own message and place.
pub(crate) fn setup(
    url: &PostgresUrl,
    limits: SourceLimits,
    health: SourceHealth,
    buffers: Arc<Buffers>,
) -> Result<SourceSetup, String> {
    let settings = Arc::new(PostgresSettings::new(url, limits, health, buffers)?);
    match checked(&settings) {
        Ok(plan) => {
            settings.plan.get_or_init(|| Arc::new(plan));
        }
        Err(PlanError::Wrong(why)) => return Err(format!("postgres://{}: {why}", url.origin())),
        Err(PlanError::Unreachable(why)) => {
            let source = url.origin();
            tracing::warn!(source, reason = why, "PostgreSQL does not answer: its queries are checked when it does");
        }
    }
    let changes = Arc::new(GroupChanges::new(&settings));
    let connections = Arc::new(Connections::new(&settings));
    Ok(SourceSetup::of(settings.health.clone(), move |scope, _| {
        if let Some(scope) = scope {
            changes.follow(&settings.health, scope.to);
        }
        Rc::new(PostgresSource::new(settings.clone(), changes.clone(), connections.clone()))
    }))
}

/// The start is not asynchronous, and may run within a runtime: hence a thread.
fn checked(settings: &Arc<PostgresSettings>) -> Result<Plan, PlanError> {
    let unreachable = |why: String| PlanError::Unreachable(why);
    let settings = settings.clone();
    let check = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| unreachable(error.to_string()))?;
        let limit = LONGEST_CHECK.min(10 * settings.limits.timeout);
        let all = async {
            let plan = check(&settings).await?;
            wrong_watches(&settings).await.map_or(Ok(plan), |why| Err(PlanError::Wrong(why)))
        };
        let checked = runtime.block_on(async { tokio::time::timeout(limit, all).await });
        checked.unwrap_or_else(|_| Err(unreachable(format!("no answer after {limit:?}"))))
    };
    let thread = thread::Builder::new().name("postgres-check".into()).spawn(check);
    let thread = thread.map_err(|error| PlanError::Unreachable(error.to_string()))?;
    thread.join().unwrap_or_else(|_| Err(PlanError::Unreachable("the check panicked".to_owned())))
}
