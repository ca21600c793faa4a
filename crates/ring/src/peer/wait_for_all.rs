//! Tasks that run side by side.
use tokio::task::JoinHandle;

/// Waits until all have ended. A panic in one of them is reported where it happens.
pub(super) async fn wait_for_all(tasks: Vec<JoinHandle<()>>) {
    for task in tasks {
        let _ = task.await;
    }
}
