//! Deadlines of writes to a source on this machine.
use super::group::Group;
use crate::source::SourceError;
use std::{future::Future, rc::Rc, sync::Arc};
use tokio::task::JoinHandle;

impl Group {
    /// Awaits a write that runs in its own task, for as long as clients wait.
    pub(super) async fn await_write<T>(
        self: Rc<Self>,
        slow: bool,
        task: JoinHandle<Result<T, SourceError>>,
    ) -> Result<T, SourceError> {
        let done = async { task.await.unwrap_or_else(|_| Err(SourceError::Lost("write abandoned".into()))) };
        self.in_time(slow, SourceError::Lost, done).await
    }

    /// The result of `work`, or the error `late` if a source on this machine takes longer than
    /// clients wait.
    pub(super) async fn in_time<T>(
        &self,
        slow: bool,
        late: fn(Arc<str>) -> SourceError,
        work: impl Future<Output = Result<T, SourceError>>,
    ) -> Result<T, SourceError> {
        let Some(store) = self.source.as_local() else { return work.await };
        let patience = store.patience(slow);
        match tokio::time::timeout(patience, work).await {
            Ok(answer) => answer,
            Err(_) => Err(late(format!("no answer within {patience:?}").into())),
        }
    }
}
