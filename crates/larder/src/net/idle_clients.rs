//! Ends Redis connections whose time is over.
use larder_core::{app::App, read::millis};
use larder_store::clock;
use std::{sync::Arc, time::Duration};
use tokio::time::sleep;

/// The longest time between two looks.
const LONGEST_PERIOD: Duration = Duration::from_secs(1);

/// Ends Redis connections that have been silent for `idle-timeout`, and those whose login is over.
///
/// One look at all of them now and then costs less than a timer each that every request would have
/// to move. This is for the control thread, so that workers have [no timer](larder_base::lifecycle::ticks).
pub(super) async fn close_idle(app: Arc<App>) {
    loop {
        // It may change meanwhile.
        let timeout = app.live.idle_timeout();
        let period = timeout.map_or(LONGEST_PERIOD, |timeout| timeout / 8);
        sleep(period.clamp(Duration::from_millis(10), LONGEST_PERIOD)).await;
        let (timeout, now) = (timeout.map(millis), clock::now());
        for worker in 0..app.settings.threads {
            app.clients.visit(worker, |client| {
                // More than, because the last word was noted in whole milliseconds, rounded down.
                let is_idle = |timeout| now.saturating_sub(client.active()) > timeout && !client.waits();
                if client.is_login_over(now) {
                    client.close();
                } else if timeout.is_some_and(is_idle) {
                    client.finish();
                }
            });
        }
    }
}
