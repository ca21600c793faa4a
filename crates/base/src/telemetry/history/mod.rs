//! The last hours of the metrics, for the console: a row of numbers each second, kept in rings of
//! fixed size.
//!
//! ```text
//!  Snapshot ──► columns ──► one row ─┬─► rings: 1 s, 10 s, 1 min ──► /v1/history
//!     │                              └─► text, rendered once ──────┐
//!     └───────► event_rules ──► event_log ──► /v1/events           ├─► live ──► /v1/live (each reader shares the bytes)
//!                                    └─────── text, rendered once ─┘
//! ```
//!
//! Invariants:
//! - One sampler, on the control thread, calls [`History::sample`]. Readers never make it wait for
//!   rendering: they copy rows under the lock and render outside of it.
//! - The rings have their whole size from the start. It depends on the number of groups alone, of
//!   which [`MOST_GROUPS`] are kept.
//! - A time without a sample is missing (`null`), not zero.
mod columns;
mod event_log;
mod event_rules;
mod live;
mod ring;
mod row_text;
#[cfg(test)]
mod tests;

pub use event_log::{Event, EventKind, EventLog, NewEvent};
pub use live::LiveMessage;
pub use ring::Resolution;

use super::metrics_snapshot::Snapshot;
use columns::Columns;
use event_rules::EventRules;
use live::Live;
use parking_lot::Mutex;
use ring::{Ring, Rows};
use row_text::{put_columns, put_row};
use std::time::{Duration, Instant};
use tokio::sync::broadcast;

/// Groups whose numbers are kept; those that come after them in the configuration are left out.
pub const MOST_GROUPS: usize = 8;
/// Samples between two messages with all metrics to the live readers.
const STATS_EVERY: u64 = 5;
/// The clock was set if it differs by more than this from what it should be.
const CLOCK_JUMP: Duration = Duration::from_secs(5);

/// The last hours of the metrics, the latest events, and who follows them live.
#[derive(Debug)]
pub struct History {
    columns: Columns,
    state: Mutex<State>,
    /// The latest events.
    pub events: EventLog,
    live: Live,
}

#[derive(Debug)]
struct State {
    /// What the columns read at the latest sample; empty before the first.
    readings: Vec<f64>,
    /// Reused for each row.
    row: Vec<f32>,
    rings: [Ring; 3],
    rules: EventRules,
    samples: u64,
    /// The time of the latest sample, and when that was by a clock that is never set.
    latest: Option<(Duration, Instant)>,
}

impl History {
    /// For these groups, in the order of the configuration. `now`: since the Unix epoch.
    pub fn new(groups: impl Iterator<Item = String>, now: Duration) -> History {
        let columns = Columns::new(groups.take(MOST_GROUPS).collect());
        let width = columns.len();
        let history = History {
            state: Mutex::new(State {
                readings: Vec::new(),
                row: vec![0.0; width],
                rings: Resolution::ALL.map(|resolution| Ring::new(resolution, width)),
                rules: EventRules::default(),
                samples: 0,
                latest: None,
            }),
            columns,
            events: EventLog::default(),
            live: Live::default(),
        };
        let version = env!("CARGO_PKG_VERSION");
        history.add_event(now, NewEvent::info(EventKind::Start, None, format!("Larder {version} has started")));
        history
    }

    /// Takes a sample: of counters, what was counted since the sample before. `now`: since the Unix
    /// epoch; `at`: the same moment by a clock that is never set.
    pub fn sample(&self, now: Duration, at: Instant, snapshot: &Snapshot) {
        let (events, row, stats_due) = {
            let mut state = self.state.lock();
            let state = &mut *state;
            let mut events = state.rules.compare(snapshot);
            if let Some((before, was)) = state.latest.replace((now, at)) {
                let expected = before + at.saturating_duration_since(was);
                if expected > now + CLOCK_JUMP {
                    // What was kept is about times that are still to come.
                    state.rings.iter_mut().for_each(Ring::forget);
                    let text = format!(
                        "the clock was set back by {:.0} s: the charts begin again",
                        (expected - now).as_secs_f64()
                    );
                    events.push(NewEvent::info(EventKind::Clock, None, text));
                } else if now > expected + CLOCK_JUMP {
                    let text = format!(
                        "the clock was set forward by {:.0} s, or the machine slept",
                        (now - expected).as_secs_f64()
                    );
                    events.push(NewEvent::info(EventKind::Clock, None, text));
                }
            }
            let mut readings = self.columns.read(snapshot);
            std::mem::swap(&mut state.readings, &mut readings);
            let row = !readings.is_empty();
            if row {
                self.columns.fill(&mut state.row, &readings, &state.readings);
                for ring in &mut state.rings {
                    ring.put(now.as_secs(), &state.row, self.columns.folds());
                }
            }
            let row = (row && self.live.has_readers()).then(|| {
                let mut text = String::with_capacity(8 * state.row.len());
                put_row(&mut text, now.as_secs(), &state.row);
                text
            });
            let stats_due = state.samples.is_multiple_of(STATS_EVERY);
            state.samples += 1;
            (events, row, stats_due)
        };
        if let Some(row) = row {
            self.live.send("sample", &row);
        }
        if stats_due && self.live.has_readers() {
            self.live.send("stats", &super::stats_json(snapshot).to_string());
        }
        events.into_iter().for_each(|event| self.add_event(now, event));
    }

    /// Notes an event and tells those who follow.
    pub fn add_event(&self, now: Duration, event: NewEvent) {
        let event = self.events.add(now, event);
        if self.live.has_readers() {
            self.live.send("event", &event.json().to_string());
        }
    }

    /// The messages from now on. A reader that is slow misses some.
    pub fn follow(&self) -> broadcast::Receiver<LiveMessage> {
        self.live.follow()
    }

    /// The rows of complete steps, the oldest first, that begin after `since` (Unix seconds).
    pub fn rows(&self, resolution: Resolution, since: u64) -> HistoryPage<'_> {
        let rows = self.state.lock().rings[resolution as usize].rows(since);
        HistoryPage { columns: &self.columns, resolution, rows }
    }

    /// Bytes that the rings take at most.
    pub fn ring_bytes(&self) -> usize {
        self.state.lock().rings.iter().map(Ring::bytes).sum()
    }
}

/// Rows of one resolution.
#[derive(Debug)]
pub struct HistoryPage<'h> {
    columns: &'h Columns,
    resolution: Resolution,
    rows: Rows,
}

impl HistoryPage<'_> {
    /// Bytes that the text will have, roughly and rather more.
    pub fn expected_bytes(&self) -> usize {
        self.columns.len() * (96 + 8 * self.rows.len())
    }

    /// `{"resolution":10,"columns":[{"name","fold","group"?,"up_to"?},…],"rows":[[unix seconds,
    /// number or null, …],…]}`
    pub fn json(&self) -> String {
        let mut text = String::with_capacity(self.expected_bytes());
        text.push_str("{\"resolution\":");
        text.push_str(&self.resolution.seconds().to_string());
        text.push_str(",\"columns\":");
        put_columns(&mut text, self.columns);
        text.push_str(",\"rows\":[");
        for (at, (second, row)) in self.rows.iter().enumerate() {
            if at > 0 {
                text.push(',');
            }
            put_row(&mut text, second, row);
        }
        text.push_str("]}");
        text
    }
}
