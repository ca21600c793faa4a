//! What a group's changes say to its keyspace notifications (`key_events`).
use super::{
    group::Group,
    key_events::{KeyEvent, NotedEvents},
};
use bytes::Bytes;
use larder_engine::{Key, Tier};
use larder_store::{StoredValue, ValueKind};
use smallvec::SmallVec;

/// What a change that no command names made of an entry.
fn events_of(before: Option<&StoredValue>, after: Option<&StoredValue>) -> SmallVec<[KeyEvent; 3]> {
    let mut events = SmallVec::new();
    let Some(after) = after else {
        events.extend(before.map(|_| KeyEvent::Del));
        return events;
    };
    if before.is_none() {
        events.push(KeyEvent::New);
    }
    // A value that was written again is one that was written, unless only its end is another.
    let is_same = |before: &StoredValue| (&before.value, before.kind) == (&after.value, after.kind);
    if before.is_none_or(|before| !is_same(before) || before.expiry == after.expiry) {
        events.push(match after.kind {
            ValueKind::Document => KeyEvent::DOCUMENT_SET,
            ValueKind::String | ValueKind::Flagged(_) => KeyEvent::Set,
        });
    }
    match (before.and_then(|before| before.expiry), after.expiry) {
        (before, after) if before == after => {}
        (_, Some(_)) => events.push(KeyEvent::Expire),
        (_, None) => events.push(KeyEvent::Persist),
    }
    events
}

impl Group {
    /// Whether keyspace events are published.
    #[inline]
    pub fn publishes_events(&self) -> bool {
        self.events.as_ref().is_some_and(|events| events.are_on())
    }

    /// The tier for a change of one key. While events are published, the lock of the key is held until
    /// they are noted.
    #[inline]
    pub fn tier_for_change(&self, key: Key<'_>) -> Tier<'_> {
        if self.publishes_events() { self.cache.exclusive([key]) } else { self.cache.tier() }
    }

    /// Notes an event of a key, whose lock is still held.
    #[inline]
    pub fn note_event(&self, event: KeyEvent, key: &[u8]) {
        if let Some(events) = &self.events
            && events.are_on()
        {
            events.note(event, key);
        }
    }

    /// Notes that a value was stored. `expires`: the client gave it a lifetime.
    #[inline]
    pub fn note_set(&self, key: &[u8], is_new: bool, expires: bool) {
        if self.publishes_events() {
            let all = [(KeyEvent::New, is_new), (KeyEvent::Set, true), (KeyEvent::Expire, expires)];
            all.iter().filter(|(_, happened)| *happened).for_each(|(event, _)| self.note_event(*event, key));
        }
    }

    /// Publishes what was noted. The keys are still locked, but not the tier.
    pub(super) fn publish_noted(&self) {
        if let Some(events) = &self.events {
            events.publish();
        }
    }

    /// The events of a change of an entry of the store.
    pub(super) fn events_of_change(
        &self,
        key: &Bytes,
        before: Option<&StoredValue>,
        after: Option<&StoredValue>,
    ) -> NotedEvents {
        match self.publishes_events() {
            true => events_of(before, after).into_iter().map(|event| (event, key.clone())).collect(),
            false => Vec::new(),
        }
    }
}
