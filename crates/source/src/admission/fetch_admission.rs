//! What all cores share of the admission of one group's fetches.
use super::{
    circuit_breaker::BreakerState,
    retry_budget::RetryBudget,
    server_load::{FOREGROUND, GroupLoad, ServerLoad, ServerLoads, server_name},
    shared_breaker::{SharedBreaker, Transition},
};
use crate::{source_error::SourceError, source_limits::SourceLimits};
use larder_base::telemetry::AdmissionSnapshot;
use larder_config::SourceUrl;
use larder_units::show_duration;
use parking_lot::Mutex;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// Longest wait for a free slot, and the same as a part of `source-timeout`.
const WAIT: (Duration, u32) = (Duration::from_millis(250), 4);

/// How a fetch ended, as far as the source's health is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FetchEnd {
    /// With a value or an absence.
    Answered,
    /// With an error of the source itself (`WRONGTYPE`), or a rest that it asked for and gets: it
    /// works.
    Refused,
    /// Without an answer.
    Failed,
}
impl FetchEnd {
    pub(crate) fn of<T>(answer: &Result<T, SourceError>) -> FetchEnd {
        match answer {
            Ok(_) => FetchEnd::Answered,
            // It has the value. Whether that is of use is for others to say.
            Err(SourceError::OnlyStreamed(_)) => FetchEnd::Answered,
            Err(SourceError::Throttled(..)) => FetchEnd::Refused,
            Err(error) if error.is_unavailable() => FetchEnd::Failed,
            Err(_) => FetchEnd::Refused,
        }
    }
}

/// Why a fetch is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rejection {
    Circuit,
    Limit,
    Background,
}

/// The shared part. By default nothing is limited.
#[derive(Debug)]
pub(crate) struct FetchAdmission {
    /// Names the source in logs: no user, no password, no path.
    name: String,
    started: Instant,
    pub(crate) server: Arc<ServerLoad>,
    pub(crate) load: Arc<GroupLoad>,
    breaker: Option<SharedBreaker>,
    /// Why the circuit opened.
    open_reason: Mutex<Arc<str>>,
    budget: Mutex<RetryBudget>,
    /// How long a fetch waits for a slot.
    pub(crate) patience: Duration,
    rejected: [AtomicU64; 3],
    retries: AtomicU64,
    retries_denied: AtomicU64,
}
impl Default for FetchAdmission {
    fn default() -> FetchAdmission {
        let server = Arc::new(ServerLoad::new(u32::MAX as usize, false));
        FetchAdmission::with(String::new(), server, None, WAIT.0)
    }
}
impl FetchAdmission {
    pub(crate) fn new(url: &SourceUrl, limits: &SourceLimits, servers: &ServerLoads) -> FetchAdmission {
        let name = server_name(url);
        let patience = (limits.timeout / WAIT.1).min(WAIT.0);
        FetchAdmission::with(name, servers.of(url, limits), limits.breaker.map(SharedBreaker::new), patience)
    }
    fn with(
        name: String,
        server: Arc<ServerLoad>,
        breaker: Option<SharedBreaker>,
        patience: Duration,
    ) -> FetchAdmission {
        FetchAdmission {
            name,
            started: Instant::now(),
            load: server.join(),
            breaker,
            open_reason: Mutex::new("".into()),
            budget: Mutex::new(RetryBudget::new(server.max())),
            server,
            patience,
            rejected: Default::default(),
            retries: AtomicU64::new(0),
            retries_denied: AtomicU64::new(0),
        }
    }
    pub(crate) fn in_flight(&self) -> usize {
        self.load.in_flight.load(Relaxed)
    }
    pub(crate) fn snapshot(&self) -> AdmissionSnapshot {
        let [circuit, limit, background] = self.rejected.each_ref().map(|count| count.load(Relaxed));
        let now = self.breaker.as_ref().map(SharedBreaker::state);
        AdmissionSnapshot {
            circuit: now.map(|now| BreakerState::ALL.map(|state| (state.name(), state == now))),
            opened: self.breaker.as_ref().map_or(0, SharedBreaker::opened),
            limit: self.server.limit() as u64,
            waiting: self.load.waiting.load(Relaxed) as u64,
            rejected_circuit: circuit,
            rejected_limit: limit,
            rejected_background: background,
            retries: self.retries.load(Relaxed),
            retries_denied: self.retries_denied.load(Relaxed),
        }
    }

    /// Begins all of `count` fetches, if nothing is in their way.
    pub(crate) fn begin_all(&self, count: usize) -> bool {
        let closed = self.breaker.as_ref().is_none_or(|breaker| breaker.state() == BreakerState::Closed);
        if !closed || self.load.waiting.load(Relaxed) > 0 || !self.server.is_below(count, FOREGROUND) {
            return false;
        }
        match self.server.begin(&self.load, count) {
            begun if begun == count => true,
            begun => {
                self.server.end(&self.load, begun, None, self.started);
                false
            }
        }
    }
    /// Begins up to `count` fetches within the limit alone.
    pub(crate) fn begin(&self, count: usize) -> usize {
        self.server.begin(&self.load, count)
    }
    /// Begins up to `count` fetches, as far as circuit, limit and the group's share allow.
    pub(crate) fn begin_some(&self, count: usize, last_error: impl FnOnce() -> Option<Arc<str>>) -> usize {
        let Some(breaker) = &self.breaker else { return self.begin(count) };
        let now = self.started.elapsed();
        let (admitted, transition) = breaker.admit(now, count);
        self.note(transition, last_error);
        let begun = self.server.begin(&self.load, admitted);
        breaker.give_back(admitted - begun, now);
        begun
    }
    /// Whether no fetch is sent now. The error for those that ask.
    pub(crate) fn open_error(&self) -> Option<SourceError> {
        let breaker = self.breaker.as_ref()?;
        (breaker.state() == BreakerState::Open).then(|| SourceError::Unavailable(self.open_reason.lock().clone()))
    }
    pub(crate) fn rejected(&self, why: Rejection, count: usize) {
        self.rejected[why as usize].fetch_add(count as u64, Relaxed);
    }

    /// So many fetches that were sent have ended alike, at this moment.
    pub(crate) fn finished(
        &self,
        count: usize,
        (end, took): (FetchEnd, Duration),
        at: Instant,
        last_error: impl FnOnce() -> Option<Arc<str>>,
    ) {
        // A quick failure (connection refused) says nothing about how much the server can take.
        let latency = (end != FetchEnd::Failed || took >= self.patience).then_some(took);
        if let Some(breaker) = &self.breaker {
            let now = at.saturating_duration_since(self.started);
            let transition = breaker.ended(count, now, now.saturating_sub(took), end == FetchEnd::Failed);
            self.note(transition, last_error);
        }
        self.server.end(&self.load, count, latency, at);
    }
    /// Begun fetches were dropped.
    pub(crate) fn abandoned(&self, count: usize) {
        self.server.end(&self.load, count, None, self.started);
    }
    /// A request that was sent at `begun` was given up. If it was a probe, another may go.
    pub(crate) fn given_up(&self, begun: Instant) {
        if let Some(breaker) = &self.breaker {
            breaker.give_back(1, begun.saturating_duration_since(self.started));
        }
        self.abandoned(1);
    }
    /// A connection to the source was made.
    pub(crate) fn connected(&self) {
        if let Some(breaker) = &self.breaker {
            self.note(breaker.connected(self.started.elapsed()), || None);
        }
    }
    /// Whether a fetch may be sent a second time. `fetches` counts all fetches of the source.
    pub(crate) fn may_retry(&self, fetches: u64) -> bool {
        let may = self.budget.lock().take(self.started.elapsed(), fetches);
        let count = if may { &self.retries } else { &self.retries_denied };
        count.fetch_add(1, Relaxed);
        may
    }

    /// Reports a change of the circuit, once.
    fn note(&self, transition: Option<Transition>, last_error: impl FnOnce() -> Option<Arc<str>>) {
        let (Some(Transition { to, outcomes: (ended, failed), failed_in_a_row }), Some(breaker)) =
            (transition, &self.breaker)
        else {
            return;
        };
        let (source, window) = (&self.name, show_duration(breaker.policy().window));
        match to {
            // Why it opened first says more than that a probe failed.
            BreakerState::Open if !self.open_reason.lock().is_empty() => {
                tracing::debug!(%source, "source circuit stays open: a probe failed");
            }
            BreakerState::Open => {
                let last = last_error().map_or_else(String::new, |error| format!("; the last error: {error}"));
                let what = match failed * 100 >= ended * u64::from(breaker.policy().share) {
                    true => format!("{failed} of {ended} fetches failed within {window}"),
                    false => format!("the latest {failed_in_a_row} fetches failed, and none was answered meanwhile"),
                };
                let reason = format!("circuit open: {what} (source-breaker){last}");
                tracing::warn!(%source, %reason, "source circuit opened: misses fail at once");
                *self.open_reason.lock() = reason.into();
            }
            BreakerState::HalfOpen => tracing::debug!(%source, "source circuit half-open: the source is probed"),
            BreakerState::Closed => {
                *self.open_reason.lock() = "".into();
                self.server.restart();
                tracing::info!(%source, "source circuit closed: misses are fetched again, a few at first");
            }
        }
        self.server.wake();
    }
}
