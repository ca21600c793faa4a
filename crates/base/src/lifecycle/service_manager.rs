//! Messages to the service manager that started the process, in the form of systemd's sd_notify(3).
//!
//! The manager names its socket in `NOTIFY_SOCKET`, and the period of its watchdog in
//! `WATCHDOG_USEC`. Without these variables nothing is sent.
use sd_notify::NotifyState;
use std::time::Duration;

/// Time that the manager adds to `grace` before it kills a process that is stopping.
const MARGIN: Duration = Duration::from_secs(5);

/// The process serves. `status` is the line that `systemctl status` shows.
pub fn ready(status: &str) {
    // A line of the message is a variable of its own.
    send(&[NotifyState::Ready, NotifyState::Status(&status.replace('\n', " "))]);
}

/// The process reads its configuration again. [`ready`] ends that.
pub fn reloading() {
    // systemd 253 and later tell by the time which reload this message belongs to.
    match NotifyState::monotonic_usec_now() {
        Ok(now) => send(&[NotifyState::Reloading, now]),
        Err(error) => tracing::warn!("the service manager is not told of the reload: no monotonic clock: {error}"),
    }
}

/// The process ends within `grace`. The manager waits that long, whatever its own timeout is.
pub fn stopping(grace: Duration) {
    let micros = u32::try_from((grace + MARGIN).as_micros()).unwrap_or(u32::MAX);
    send(&[NotifyState::Stopping, NotifyState::ExtendTimeoutUsec(micros), NotifyState::Status("Draining")]);
}

/// Sends a keep-alive to the manager's watchdog.
pub(crate) fn alive() {
    send(&[NotifyState::Watchdog]);
}

/// Within this time the manager wants a keep-alive. `None`: it wants none.
pub(crate) fn watchdog_period() -> Option<Duration> {
    sd_notify::watchdog_enabled().filter(|period| !period.is_zero())
}

fn send(state: &[NotifyState]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!("the service manager (NOTIFY_SOCKET) cannot be reached: {error}");
    }
}
