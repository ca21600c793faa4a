//! Tasks that run side by side.
use tokio::task::JoinHandle;

/// Waits until all have ended; what they gave. A panic in one of them is reported where it happens.
pub(super) async fn wait_for_all<T>(tasks: Vec<JoinHandle<T>>) -> Vec<T> {
    let mut given = Vec::with_capacity(tasks.len());
    for task in tasks {
        given.extend(task.await);
    }
    given
}
