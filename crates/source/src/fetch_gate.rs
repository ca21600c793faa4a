//! One core's door to a source: sends fetches, lets them wait for a slot, or fails them at once.
use super::{
    admission::{FOREGROUND, FetchAdmission, FetchEnd, Rejection},
    fetch::Fetch,
    ordered_faults::strike_fetches,
    source_error::SourceError,
    source_health::SourceHealth,
};
use larder_store::clock;
use larder_units::show_duration;
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    pin::pin,
    rc::Rc,
    sync::Arc,
};
use tokio::time::{Instant, timeout_at};

/// Hands admitted fetches to a source.
type SendBatch = dyn Fn(&mut Vec<Fetch>);

/// One core's door to a source.
pub(super) struct FetchGate(Rc<GateState>);

struct GateState {
    health: Arc<SourceHealth>,
    /// With the time until which each waits, in order.
    waiting: RefCell<VecDeque<(Fetch, Instant)>>,
    /// Whether a task sends the waiting fetches.
    is_draining: Cell<bool>,
    send: Box<SendBatch>,
}

impl FetchGate {
    /// `send` hands admitted fetches to the source. It must not keep the source alive.
    pub(super) fn new(health: Arc<SourceHealth>, send: impl Fn(&mut Vec<Fetch>) + 'static) -> FetchGate {
        FetchGate(Rc::new(GateState {
            health,
            waiting: RefCell::default(),
            is_draining: Cell::new(false),
            send: Box::new(send),
        }))
    }

    /// Takes over a batch of fetches.
    pub(super) fn fetch(&self, batch: &mut Vec<Fetch>) {
        let state = &self.0;
        state.health.note_fetches(batch.len());
        if state.health.admission().begin_all(batch.len()) {
            state.send_admitted(batch);
        } else {
            self.fetch_with_care(batch);
        }
    }

    /// Waits for a slot for a request that is not a fetch.
    ///
    /// # Errors
    /// `Unavailable`: the circuit is open, or no slot became free in time.
    pub(super) async fn admit(&self) -> Result<AdmittedRequest, SourceError> {
        let health = &self.0.health;
        let admission = health.admission();
        let until = Instant::now() + admission.patience;
        loop {
            // Before the look: a slot that becomes free after it wakes this task.
            let mut freed = pin!(admission.server.freed.notified());
            freed.as_mut().enable();
            if admission.begin_some(1, || health.last_error()) == 1 {
                health.note_fetches(1);
                return Ok(AdmittedRequest { health: health.clone(), begun: Instant::now(), is_finished: false });
            }
            let (why, error) = match admission.open_error() {
                Some(error) => (Rejection::Circuit, error),
                None if timeout_at(until, freed).await.is_ok() => continue,
                None => (Rejection::Limit, waited_too_long(admission)),
            };
            health.note_failed(1);
            admission.rejected(why, 1);
            return Err(error);
        }
    }

    /// The circuit is not closed, or few slots are free.
    #[cold]
    fn fetch_with_care(&self, batch: &mut Vec<Fetch>) {
        let state = &self.0;
        let admission = state.health.admission();
        let until = Instant::now() + admission.patience;
        for fetch in batch.drain(..) {
            if fetch.is_background() && !admission.server.is_below(1, FOREGROUND) {
                let limit = admission.server.limit();
                let reason =
                    format!("most of the {limit} fetches that may be in flight are: a renewal in the background waits");
                state.reject([fetch], Rejection::Background, SourceError::Unavailable(reason.into()));
            } else if admission.server.room(&admission.load) == 0 {
                let reason = format!("more than {} fetches in flight (source-max-in-flight)", admission.server.max());
                state.reject([fetch], Rejection::Limit, SourceError::Unavailable(reason.into()));
            } else {
                admission.server.wait(&admission.load, 1);
                state.waiting.borrow_mut().push_back((fetch, until));
            }
        }
        state.send_waiting();
        if !state.waiting.borrow().is_empty() && !state.is_draining.replace(true) {
            tokio::task::spawn_local(drain(state.clone()));
        }
    }
}

fn waited_too_long(admission: &FetchAdmission) -> SourceError {
    let (limit, waited) = (admission.server.limit(), show_duration(admission.patience));
    let reason = format!("waited {waited} behind {limit} fetches in flight, which is all that the source takes now");
    SourceError::Unavailable(reason.into())
}

/// A request that has a slot until it is finished or dropped.
pub(super) struct AdmittedRequest {
    health: Arc<SourceHealth>,
    begun: Instant,
    is_finished: bool,
}
impl AdmittedRequest {
    pub(super) fn finish<T>(mut self, answer: &Result<T, SourceError>) {
        self.is_finished = true;
        if let Some(reason) = answer.as_ref().err().and_then(SourceError::reason) {
            self.health.note_error(reason);
        }
        self.health.finished(FetchEnd::of(answer), self.begun.elapsed());
    }
}
impl Drop for AdmittedRequest {
    fn drop(&mut self) {
        if !self.is_finished {
            self.health.admission().given_up(self.begun.into_std());
        }
    }
}

/// Sends waiting fetches as slots become free, and fails those that waited too long. Ends when none
/// waits.
async fn drain(state: Rc<GateState>) {
    let server = state.health.admission().server.clone();
    loop {
        // Before the look: a slot that becomes free after it wakes this task.
        let mut freed = pin!(server.freed.notified());
        freed.as_mut().enable();
        state.send_waiting();
        let until = state.waiting.borrow().front().map(|(_, until)| *until);
        let Some(until) = until else {
            state.is_draining.set(false);
            return;
        };
        // Either way the next look decides.
        let _ = timeout_at(until, freed).await;
    }
}

impl GateState {
    /// Hands admitted fetches to the source, unless a fault strikes them.
    fn send_admitted(self: &Rc<Self>, batch: &mut Vec<Fetch>) {
        batch.iter().for_each(Fetch::note_sent);
        if let Some(faults) = self.health.faults() {
            let state = self.clone();
            strike_fetches(&self.health, faults, batch, move |fetch| state.send(&mut vec![fetch]));
        }
        if !batch.is_empty() {
            self.send(batch);
        }
    }
    fn send(&self, batch: &mut Vec<Fetch>) {
        (self.send)(batch);
        if !batch.is_empty() {
            // The source is gone: its fetches are dropped, which releases their waiters.
            self.health.abandoned(batch.len());
            batch.clear();
        }
    }
    /// Sends as many waiting fetches as may be sent now.
    fn send_waiting(self: &Rc<Self>) {
        let admission = self.health.admission();
        loop {
            self.expire(Instant::now());
            let count = self.waiting.borrow().len();
            if count == 0 {
                return;
            }
            let begun = admission.begin_some(count, || self.health.last_error());
            if begun == 0 {
                if let Some(error) = admission.open_error() {
                    let all = self.take(count);
                    self.reject(all, Rejection::Circuit, error);
                }
                return;
            }
            // Not borrowed while they are sent: a source may answer at once.
            let mut batch = self.take(begun);
            self.send_admitted(&mut batch);
        }
    }
    fn expire(&self, now: Instant) {
        let overdue = self.waiting.borrow().iter().take_while(|(_, until)| *until <= now).count();
        if overdue > 0 {
            let admission = self.health.admission();
            let error = waited_too_long(admission);
            let overdue = self.take(overdue);
            self.reject(overdue, Rejection::Limit, error);
        }
    }
    fn take(&self, count: usize) -> Vec<Fetch> {
        let admission = self.health.admission();
        admission.server.waited(&admission.load, count);
        self.waiting.borrow_mut().drain(..count).map(|(fetch, _)| fetch).collect()
    }
    fn reject(&self, fetches: impl IntoIterator<Item = Fetch>, why: Rejection, error: SourceError) {
        let now = clock::now();
        let mut count = 0;
        for fetch in fetches {
            fetch.finish(Err(error.clone()), now);
            count += 1;
        }
        self.health.note_failed(count);
        self.health.admission().rejected(why, count);
    }
}

impl Drop for GateState {
    /// Fetches that still wait are dropped, which releases their waiters.
    fn drop(&mut self) {
        let admission = self.health.admission();
        admission.server.waited(&admission.load, self.waiting.get_mut().len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BreakerPolicy, ServerLoads, SourceLimits};
    use larder_config::SourceUrl;
    use std::time::Duration;

    #[test]
    fn a_probe_that_is_given_up_leaves_room_for_another() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(async {
            let breaker = Some(BreakerPolicy { share: 75, window: Duration::from_secs(10) });
            let limits = SourceLimits { breaker, max_in_flight: 100, ..SourceLimits::SMALLEST };
            let health = Arc::new(SourceHealth::new(&SourceUrl::None, &limits, &ServerLoads::default()));
            let gate = FetchGate::new(health.clone(), |_| ());
            for _ in 0..10 {
                let admitted = gate.admit().await.expect("the circuit is closed");
                admitted.finish(&Err::<(), _>(SourceError::Unavailable("down".into())));
            }
            assert!(gate.admit().await.is_err(), "the circuit is open");
            health.admission().connected();
            let mut probes = Vec::new();
            for _ in 0..3 {
                probes.push(gate.admit().await.expect("a probe"));
            }
            drop(probes);
            assert!(gate.admit().await.is_ok(), "no probe is under way");
        });
    }
}
