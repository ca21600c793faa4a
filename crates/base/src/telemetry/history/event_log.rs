//! The latest events: what happened to the server, with its time, in a list of fixed length.
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{collections::VecDeque, time::Duration};

/// Events that are kept.
const KEPT: usize = 512;
/// Characters of a text that are kept.
const LONGEST: usize = 300;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    Start,
    Drain,
    Reload,
    SourceLost,
    SourceBack,
    SourceNode,
    Circuit,
    TrackingLost,
    Evictions,
    Refusals,
    Peers,
    Role,
    Replication,
    Snapshot,
    Certificates,
    Panic,
    Clock,
    Faults,
}

impl EventKind {
    /// The name in JSON. It stays the same over versions.
    pub fn name(self) -> &'static str {
        match self {
            EventKind::Start => "start",
            EventKind::Drain => "drain",
            EventKind::Reload => "reload",
            EventKind::SourceLost => "source-lost",
            EventKind::SourceBack => "source-back",
            EventKind::SourceNode => "source-node",
            EventKind::Circuit => "circuit",
            EventKind::TrackingLost => "tracking-lost",
            EventKind::Evictions => "evictions",
            EventKind::Refusals => "refusals",
            EventKind::Peers => "peers",
            EventKind::Role => "role",
            EventKind::Replication => "replication",
            EventKind::Snapshot => "snapshot",
            EventKind::Certificates => "certificates",
            EventKind::Panic => "panic",
            EventKind::Clock => "clock",
            EventKind::Faults => "faults",
        }
    }
}

/// An event before it has a number and a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEvent {
    /// What happened.
    pub kind: EventKind,
    /// An operator should look at it.
    pub is_warning: bool,
    /// The group that it is about.
    pub group: Option<String>,
    /// A sentence.
    pub text: String,
}

impl NewEvent {
    /// One that is as it should be.
    pub fn info(kind: EventKind, group: Option<&str>, text: impl Into<String>) -> NewEvent {
        NewEvent { kind, is_warning: false, group: group.map(str::to_owned), text: text.into() }
    }
    /// One that an operator should look at.
    pub fn warning(kind: EventKind, group: Option<&str>, text: impl Into<String>) -> NewEvent {
        NewEvent { is_warning: true, ..NewEvent::info(kind, group, text) }
    }
}

#[derive(Debug, Clone)]
pub struct Event {
    /// From 1, in order.
    pub number: u64,
    /// Since the Unix epoch.
    pub at: Duration,
    /// What happened.
    pub what: NewEvent,
}

impl Event {
    /// `{"number","at" (Unix milliseconds),"kind","severity","group"?,"text"}`
    pub fn json(&self) -> Value {
        let mut event = json!({
            "number": self.number,
            "at": self.at.as_millis() as u64,
            "kind": self.what.kind.name(),
            "severity": if self.what.is_warning { "warning" } else { "info" },
            "text": self.what.text,
        });
        if let Some(group) = &self.what.group {
            event["group"] = group.as_str().into();
        }
        event
    }
}

/// The latest events.
#[derive(Debug, Default)]
pub struct EventLog {
    kept: Mutex<(u64, VecDeque<Event>)>,
}

impl EventLog {
    /// Adds an event; the oldest leaves if the list is full.
    pub(super) fn add(&self, at: Duration, mut what: NewEvent) -> Event {
        if let Some((end, _)) = what.text.char_indices().nth(LONGEST) {
            what.text.truncate(end);
        }
        let mut kept = self.kept.lock();
        let (number, events) = &mut *kept;
        *number += 1;
        let event = Event { number: *number, at, what };
        if events.len() == KEPT {
            events.pop_front();
        }
        events.push_back(event.clone());
        event
    }

    /// The events that are kept, the oldest first.
    pub fn list(&self) -> Vec<Event> {
        self.kept.lock().1.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_are_kept_and_long_texts_are_cut() {
        let log = EventLog::default();
        for second in 0..KEPT as u64 + 3 {
            log.add(Duration::from_secs(second), NewEvent::info(EventKind::Reload, None, "é".repeat(400)));
        }
        let events = log.list();
        assert_eq!((events.len(), events[0].number, events[KEPT - 1].number), (KEPT, 4, KEPT as u64 + 3));
        assert_eq!(events[0].what.text.chars().count(), LONGEST);
    }

    #[test]
    fn an_event_as_json() {
        let log = EventLog::default();
        let what = NewEvent::warning(EventKind::SourceLost, Some("users"), "refused");
        let event = log.add(Duration::from_millis(1500), what);
        let wanted = json!({"number": 1, "at": 1500, "kind": "source-lost", "severity": "warning", "group": "users", "text": "refused"});
        assert_eq!(event.json(), wanted);
    }
}
