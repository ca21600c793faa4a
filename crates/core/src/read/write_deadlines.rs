//! Deadlines of writes to a source on this machine.
use super::group::Group;
use larder_source::SourceError;
use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
};

impl Group {
    /// Starts a write, which does not depend on the future: if it must wait, it goes on in a task of
    /// its own. The future awaits it for as long as clients wait.
    ///
    /// A write that waits for nothing, as most of a disk store's with one request at a time, thus
    /// needs neither task nor timer.
    pub(super) fn start_write<T: 'static>(
        self: &Rc<Self>,
        slow: bool,
        write: impl Future<Output = Result<T, SourceError>> + 'static,
    ) -> impl Future<Output = Result<T, SourceError>> + 'static {
        let mut write = Box::pin(write);
        // The task's first poll sets the waker that counts.
        let mut cx = Context::from_waker(Waker::noop());
        let begun = match catch_unwind(AssertUnwindSafe(|| write.as_mut().poll(&mut cx))) {
            Ok(Poll::Ready(answer)) => Ok(answer),
            Ok(Poll::Pending) => Err(tokio::task::spawn_local(write)),
            // As in a task: only this write's client notices.
            Err(_) => Ok(Err(abandoned())),
        };
        let group = self.clone();
        async move {
            match begun {
                Ok(answer) => answer,
                Err(task) => {
                    let done = async { task.await.unwrap_or_else(|_| Err(abandoned())) };
                    group.in_time(slow, SourceError::Lost, done).await
                }
            }
        }
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

fn abandoned() -> SourceError {
    SourceError::Lost("write abandoned".into())
}
