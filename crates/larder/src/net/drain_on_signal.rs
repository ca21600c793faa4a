//! The end of the process: the signals that ask for it, and the drain that follows within `grace`.
use larder_base::{
    lifecycle::{RunError, drain_phase::Phase},
    telemetry::{EventKind, NewEvent},
};
use larder_core::app::App;
use std::{
    io,
    pin::pin,
    time::{Duration, Instant},
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
    task::AbortHandle,
    time::{sleep_until, timeout},
};

/// Part of `grace` that is kept for dropping what is left, so that the process ends within it.
const ABORT: Duration = Duration::from_millis(250);
/// One wish that the process end may arrive as two signals: timeout(1) sends its own to the process
/// and to its group.
pub(super) const ONE_WISH: Duration = Duration::from_millis(200);

/// Stops accepting, lets every core finish, writes the last snapshot if one is configured, and
/// gives up on what is left when `grace` is over, which began at `start`.
pub(super) async fn drain(
    app: &App,
    start: Instant,
    acceptors: Vec<AbortHandle>,
    ended: &mut mpsc::UnboundedReceiver<usize>,
    signals: &mut Signals,
) -> Result<(), RunError> {
    let grace = app.live.grace();
    // The listeners close with their tasks, and with the tasks go the workers' channels.
    acceptors.iter().for_each(AbortHandle::abort);
    let finish = grace.saturating_sub(ABORT.min(grace / 2));
    // Clients are told whole seconds.
    let moving = Duration::from_secs(finish.as_secs());
    app.note_event(NewEvent::info(EventKind::Drain, None, "the process ends: no new connections are accepted"));
    app.groups.iter().for_each(|group| group.source().health().end());
    app.drain.begin(moving);
    // Who waits is answered like all others.
    app.gate.pause.end();

    let mut left = app.settings.threads;
    // The snapshot is to have what clients write until the end, and half of the time.
    let mut save = pin!(app.snapshots.save_at_end());
    let (mut is_saving, mut saved) = (false, None);
    while left > 0 {
        let (next, then) = match app.drain.phase() {
            Phase::Serving | Phase::Draining => (moving, Some(Phase::Closing)),
            Phase::Closing => (finish, Some(Phase::Aborting)),
            Phase::Aborting => (grace, None),
        };
        tokio::select! {
            biased;
            number = signals.next(|| {}) => if start.elapsed() > ONE_WISH {
                return Err(RunError::SecondSignal(number));
            },
            _ = ended.recv() => left -= 1,
            result = &mut save, if is_saving && saved.is_none() => saved = Some(result),
            () = sleep_until((start + grace / 2).into()), if !is_saving => is_saving = true,
            () = sleep_until((start + next).into()) => match then {
                Some(phase) => app.drain.advance(phase),
                None => break,
            }
        }
    }
    let saved = match saved {
        Some(saved) => saved,
        None => tokio::select! {
            biased;
            saved = &mut save => saved,
            number = signals.next(|| {}), if start.elapsed() > ONE_WISH => return Err(RunError::SecondSignal(number)),
            () = sleep_until((start + finish).into()) => {
                let _ = timeout(ABORT, app.snapshots.call_off()).await;
                Err("it did not end within grace".to_owned())
            }
        },
    };
    saved.map_err(RunError::LastSnapshot)
}

/// The signals that end the process, and SIGHUP, which does not: it means "reload".
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    pub(super) fn new() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The number of the next signal that ends the process. Calls `reload` at each SIGHUP until
    /// then.
    pub(super) async fn next(&mut self, reload: impl Fn()) -> i32 {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return SignalKind::terminate().as_raw_value(),
                _ = self.interrupt.recv() => return SignalKind::interrupt().as_raw_value(),
                _ = self.hangup.recv() => reload(),
            }
        }
    }
}
