//! What faults to order ([`lifecycle::faults`](larder_base::lifecycle::faults)) do to the requests of a
//! source.
//!
//! A fetch is struck when it is handed to the source, after its admission: so the circuit, the
//! limit on fetches in flight and the metrics see what they would see of a source with this fault.
//! A cut also breaks connections to a Redis, with all that follows from that.
use super::{
    admission::FetchEnd, fetch::Fetch, local_future::LocalFuture, source_error::SourceError,
    source_health::SourceHealth,
};
use larder_base::lifecycle::faults::{FaultKind, SourceFaults};
use larder_store::clock;
use larder_units::show_duration;
use std::{future::ready, sync::Arc, time::Duration};
use tokio::time::sleep;

/// The reason of a connection that was cut.
const CUT: &str = "connection cut by an injected fault (POST /v1/faults)";
/// What the system says of a full disk.
const NO_SPACE: &str = "No space left on device (os error 28)";
const FAILED: &str = "injected fault (POST /v1/faults)";

/// What becomes of a request.
enum Struck {
    /// It waits for this long, and then goes on.
    Waits(Duration),
    /// It fails for this reason, after so long.
    Fails(Arc<str>, Duration),
}

fn struck(faults: &SourceFaults, timeout: Duration) -> Option<Struck> {
    Some(match faults.strike(clock::now())? {
        FaultKind::Delay(delay) if delay < timeout => Struck::Waits(delay),
        FaultKind::Delay(_) => {
            let reason = format!("no answer within {} (source-timeout): {FAILED}", show_duration(timeout));
            Struck::Fails(reason.into(), timeout)
        }
        FaultKind::Error | FaultKind::Full | FaultKind::Jump(_) => Struck::Fails(FAILED.into(), Duration::ZERO),
        FaultKind::Cut => Struck::Fails(CUT.into(), Duration::ZERO),
    })
}

/// Takes the fetches that a fault strikes out of an admitted batch. Those that are only delayed are
/// given to `send` later.
#[cold]
pub(super) fn strike_fetches(
    health: &Arc<SourceHealth>,
    faults: &SourceFaults,
    batch: &mut Vec<Fetch>,
    send: impl Fn(Fetch) + Clone + 'static,
) {
    let fetches = std::mem::take(batch);
    for mut fetch in fetches {
        match struck(faults, fetch.timeout(faults.timeout)) {
            None => batch.push(fetch),
            Some(Struck::Waits(delay)) => {
                let send = send.clone();
                fetch.hold_back(delay);
                tokio::task::spawn_local(async move {
                    sleep(delay).await;
                    send(fetch);
                });
            }
            Some(Struck::Fails(reason, after)) => {
                let health = health.clone();
                tokio::task::spawn_local(async move {
                    sleep(after).await;
                    health.note_error(&reason);
                    let answer = Err(SourceError::Unavailable(reason));
                    health.finished(FetchEnd::of(&answer), after);
                    fetch.finish(answer, clock::now());
                });
            }
        }
    }
}

impl SourceHealth {
    /// Why a connection to the source breaks at this moment, if a fault breaks it.
    #[inline]
    pub(super) fn cut(&self) -> Option<Arc<str>> {
        let faults = self.faults()?;
        faults.cuts(clock::now()).then(|| CUT.into())
    }

    /// So many commands fail by a fault, and count like those that the source does not answer.
    fn note_struck(&self, reason: &Arc<str>, count: usize) {
        self.note_error(reason);
        self.note_failed(count);
    }

    /// An operation of a disk: it waits or fails as the faults want it. `named` puts the name of the
    /// disk before a reason.
    pub(super) async fn operate_disk(
        &self,
        is_write: bool,
        named: impl Fn(&str) -> Arc<str>,
    ) -> Result<(), SourceError> {
        let Some(faults) = self.faults() else { return Ok(()) };
        let reason = match faults.strike_disk(is_write, clock::now()) {
            None => return Ok(()),
            Some(FaultKind::Delay(delay)) => {
                sleep(delay).await;
                return Ok(());
            }
            Some(FaultKind::Full) => format!("{NO_SPACE}: {FAILED}"),
            Some(_) => FAILED.to_owned(),
        };
        let reason = named(&reason);
        self.note_struck(&reason, 1);
        Err(SourceError::Unavailable(reason))
    }

    /// A request of so many commands that is not a fetch, as the faults let it pass. A delay holds
    /// its answer back, so that requests stay in their order.
    pub(super) fn with_faults<'r, T: 'r>(
        &self,
        count: usize,
        request: impl FnOnce() -> LocalFuture<'r, Result<T, SourceError>>,
    ) -> LocalFuture<'r, Result<T, SourceError>> {
        let Some(faults) = self.faults() else { return request() };
        match struck(faults, faults.timeout) {
            None => request(),
            Some(Struck::Fails(reason, Duration::ZERO)) => {
                self.note_struck(&reason, count);
                Box::pin(ready(Err(SourceError::Unavailable(reason))))
            }
            Some(Struck::Waits(delay)) => {
                let answer = request();
                Box::pin(async move {
                    let answer = answer.await;
                    sleep(delay).await;
                    answer
                })
            }
            Some(Struck::Fails(reason, after)) => {
                let answer = request();
                self.note_struck(&reason, count);
                Box::pin(async move {
                    // It was sent, and may be carried out.
                    sleep(after).await;
                    drop(answer);
                    Err(SourceError::Lost(reason))
                })
            }
        }
    }
}
