//! Keyspace notifications (`notify-keyspace-events`), for groups whose entries only Larder changes.
//!
//! ```text
//! a change, under the lock of its key ─► note ─► queue ─► the lock is free: publish ─► channels ─► subscribers
//! ```
//!
//! Invariants:
//! - The events of a key are published in the order of its changes.
//! - [`KeyEvents::publish`] returns only when all events are published that its caller has noted.
//! - A source that other programs change has no events. They come and go as a mirror takes its place.
//! - While no event is wanted, a change costs the test of one word.
//!
//! Lock order: the tier's shards, then the queue. Publishing holds neither.
use super::event_classes::EventClasses;
use bytes::Bytes;
use larder_base::special::Switch;
use larder_engine::{Cache, Key, Listener, ListenerKind, Listening, Removal};
use parking_lot::Mutex;
use std::{
    fmt, mem,
    sync::{
        Arc,
        atomic::{
            AtomicBool, AtomicU32,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
};

/// What happened to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyEvent {
    /// There was no such key before.
    New,
    Set,
    Append,
    SetRange,
    SetBit,
    IncrBy,
    IncrByFloat,
    PfAdd,
    Del,
    Expire,
    Persist,
    RenameFrom,
    RenameTo,
    CopyTo,
    Restore,
    Expired,
    Evicted,
    /// A document was changed by the command of this name.
    Document(&'static str),
}

impl KeyEvent {
    /// A document was stored over HTTP.
    pub const DOCUMENT_SET: KeyEvent = KeyEvent::Document("json.set");

    /// The name that Redis gives it, and its class.
    fn name_and_class(self) -> (&'static str, EventClasses) {
        use EventClasses as Of;
        match self {
            KeyEvent::New => ("new", Of::NEW),
            KeyEvent::Set => ("set", Of::STRING),
            KeyEvent::Append => ("append", Of::STRING),
            KeyEvent::SetRange => ("setrange", Of::STRING),
            KeyEvent::SetBit => ("setbit", Of::STRING),
            KeyEvent::IncrBy => ("incrby", Of::STRING),
            KeyEvent::IncrByFloat => ("incrbyfloat", Of::STRING),
            KeyEvent::PfAdd => ("pfadd", Of::STRING),
            KeyEvent::Del => ("del", Of::GENERIC),
            KeyEvent::Expire => ("expire", Of::GENERIC),
            KeyEvent::Persist => ("persist", Of::GENERIC),
            KeyEvent::RenameFrom => ("rename_from", Of::GENERIC),
            KeyEvent::RenameTo => ("rename_to", Of::GENERIC),
            KeyEvent::CopyTo => ("copy_to", Of::GENERIC),
            KeyEvent::Restore => ("restore", Of::GENERIC),
            KeyEvent::Expired => ("expired", Of::EXPIRED),
            KeyEvent::Evicted => ("evicted", Of::EVICTED),
            KeyEvent::Document(command) => (command, Of::MODULE),
        }
    }
}

/// Where events go.
pub trait EventChannels: Send + Sync + fmt::Debug {
    /// Publishes a message. No lock of the tier is held. Comparing the channel with patterns takes
    /// steps from `left`: patterns for which no steps are left count as different.
    fn publish_event(&self, channel: &[u8], message: &[u8], left: &mut usize);
}

/// What the memory tier has of a group's entries, so what its own removals say of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TierRole {
    /// The entries.
    Store,
    /// Copies, which expire when their entries do.
    Copies,
    /// Copies, some of which expire before (`ttl`).
    ShorterCopies,
}

/// Events that are published when the store has taken the change.
pub type NotedEvents = Vec<(KeyEvent, Bytes)>;

/// Steps of comparing channels with patterns that the changes of one turn wait for, at most: some
/// milliseconds.
const MOST_STEPS: usize = 1 << 22;
/// Steps that each event adds to them, so that many events do not take those of a short pattern.
const STEPS_OF_EVENT: usize = 1 << 12;

/// The keyspace notifications of a group.
#[derive(Debug)]
pub struct KeyEvents {
    /// The classes that are wanted. While nothing is published, [`is_on`](Self::is_on) is off.
    classes: AtomicU32,
    is_on: Switch,
    channels: Arc<dyn EventChannels>,
    /// `None`: the source is one that other programs change, so no events are published now.
    tier: Mutex<Option<TierRole>>,
    noted: Mutex<Vec<(KeyEvent, Box<[u8]>)>>,
    /// There is something to publish. Cleared only when it is published.
    is_due: AtomicBool,
    /// Held by the thread that publishes.
    turn: Mutex<()>,
    listening: Mutex<Option<Listening>>,
}

impl KeyEvents {
    /// Off. `is_on` is the switch that writers test.
    pub fn new(channels: Arc<dyn EventChannels>, is_on: Switch, tier: Option<TierRole>) -> KeyEvents {
        KeyEvents {
            classes: AtomicU32::new(0),
            is_on,
            channels,
            tier: Mutex::new(tier),
            noted: Mutex::default(),
            is_due: AtomicBool::new(false),
            turn: Mutex::default(),
            listening: Mutex::default(),
        }
    }

    /// Whether some events are published.
    #[inline]
    pub fn are_on(&self) -> bool {
        self.is_on.is_on()
    }

    pub fn classes(&self) -> EventClasses {
        EventClasses(self.classes.load(Relaxed))
    }

    /// Whether events can be published with the source that the group has now.
    pub fn can_be_on(&self) -> bool {
        self.tier.lock().is_some()
    }

    /// Publishes these classes of events from now on. `cache`: the memory tier of the group.
    pub fn set_classes(&self, classes: EventClasses, cache: &Arc<Cache>) {
        self.classes.store(classes.0, Relaxed);
        self.switch(cache);
    }

    /// The tier has this of the entries from now on. The classes stay, also while there are no events.
    pub fn set_tier(&self, tier: Option<TierRole>, cache: &Arc<Cache>) {
        *self.tier.lock() = tier;
        self.switch(cache);
    }

    fn switch(&self, cache: &Arc<Cache>) {
        let mut listening = self.listening.lock();
        let is_on = self.classes().are_published() && self.can_be_on();
        match is_on {
            false => *listening = None,
            true if listening.is_none() => *listening = Some(cache.listen(ListenerKind::Events)),
            true => {}
        }
        self.is_on.set(is_on);
    }

    /// Notes an event, which [`publish`](Self::publish) publishes. The caller has not yet freed the
    /// lock under which the key was changed.
    #[cold]
    pub fn note(&self, event: KeyEvent, key: &[u8]) {
        if !self.classes().has(event.name_and_class().1) {
            return;
        }
        let mut noted = self.noted.lock();
        noted.push((event, key.into()));
        self.is_due.store(true, Release);
    }

    /// Publishes what was noted. The caller holds no lock of the tier.
    #[inline]
    pub fn publish(&self) {
        if self.is_due.load(Acquire) {
            self.publish_noted();
        }
    }

    #[cold]
    fn publish_noted(&self) {
        let _turn = self.turn.lock();
        let mut left = MOST_STEPS;
        loop {
            let noted = {
                let mut noted = self.noted.lock();
                if noted.is_empty() {
                    self.is_due.store(false, Release);
                    return;
                }
                mem::take(&mut *noted)
            };
            for (event, key) in noted {
                left += STEPS_OF_EVENT;
                self.send(event, &key, &mut left);
            }
        }
    }

    fn send(&self, event: KeyEvent, key: &[u8], left: &mut usize) {
        let (classes, (name, _)) = (self.classes(), event.name_and_class());
        if classes.has(EventClasses::BY_KEY) {
            self.channels.publish_event(&[b"__keyspace@0__:", key].concat(), name.as_bytes(), left);
        }
        if classes.has(EventClasses::BY_EVENT) {
            self.channels.publish_event(&[b"__keyevent@0__:", name.as_bytes()].concat(), key, left);
        }
    }
}

impl Listener for KeyEvents {
    fn changed(&self, _: Key<'_>, _: u64) {}

    fn removed(&self, key: Key<'_>, why: Removal) {
        let tier = *self.tier.lock();
        let (event, is_of_entry) = match why {
            Removal::Expired => (KeyEvent::Expired, matches!(tier, Some(TierRole::Store | TierRole::Copies))),
            Removal::Evicted => (KeyEvent::Evicted, tier == Some(TierRole::Store)),
        };
        if is_of_entry {
            self.note(event, key.bytes());
        }
    }

    fn settled(&self) {
        self.publish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_engine::{Config, Expiry, Write};

    #[derive(Debug, Default)]
    struct Published(Mutex<Vec<String>>);
    impl EventChannels for Published {
        fn publish_event(&self, channel: &[u8], message: &[u8], _: &mut usize) {
            let text = [channel, b" ", message].concat();
            self.0.lock().push(String::from_utf8(text).unwrap());
        }
    }

    /// Takes all steps that it may.
    #[derive(Debug, Default)]
    struct Greedy(Mutex<Vec<usize>>);
    impl EventChannels for Greedy {
        fn publish_event(&self, _: &[u8], _: &[u8], left: &mut usize) {
            self.0.lock().push(mem::take(left));
        }
    }

    #[test]
    fn the_events_of_a_command_share_their_steps() {
        let greedy = Arc::new(Greedy::default());
        let events = Arc::new(KeyEvents::new(greedy.clone(), Switch::default(), Some(TierRole::Store)));
        let cache = Cache::new(Config { shards: Some(1), ..Config::default() });
        assert!(cache.set_listener(ListenerKind::Events, events.clone()));
        events.set_classes(EventClasses::parse(b"KA").unwrap(), &cache);
        (0..3).for_each(|_| events.note(KeyEvent::Set, b"k"));
        events.publish();
        assert_eq!(*greedy.0.lock(), [MOST_STEPS + STEPS_OF_EVENT, STEPS_OF_EVENT, STEPS_OF_EVENT]);
    }

    #[test]
    fn what_is_wanted_is_published_when_no_lock_is_held() {
        for tier in [TierRole::Store, TierRole::Copies, TierRole::ShorterCopies] {
            let published = Arc::new(Published::default());
            let events = Arc::new(KeyEvents::new(published.clone(), Switch::default(), Some(tier)));
            let cache = Cache::new(Config { max_keys: Some(1), shards: Some(1), ..Config::default() });
            assert!(cache.set_listener(ListenerKind::Events, events.clone()));
            let take = || std::mem::take(&mut *published.0.lock());
            let set = |name: &[u8], expiry, now| {
                let key = cache.key(name);
                let mut tier = cache.exclusive([key]);
                tier.set(key, Write { expiry, ..Write::new(b"v") }, now).unwrap();
                if events.are_on() {
                    events.note(KeyEvent::Set, name);
                }
                assert!(take().is_empty(), "the lock is held");
            };
            set(b"a", Expiry::Never, 1);
            assert!(take().is_empty());
            events.set_classes(EventClasses::parse(b"A").unwrap(), &cache);
            assert!(!events.are_on(), "neither K nor E");
            events.set_classes(EventClasses::parse(b"KE$xe").unwrap(), &cache);
            set(b"b", Expiry::At(5), 1);
            let mut expected = vec!["__keyspace@0__:b set", "__keyevent@0__:set b"];
            if tier == TierRole::Store {
                expected.splice(0..0, ["__keyspace@0__:a evicted", "__keyevent@0__:evicted a"]);
            }
            assert_eq!(take(), expected);
            cache.tick(5000);
            let expected = ["__keyspace@0__:b expired", "__keyevent@0__:expired b"];
            assert_eq!(take(), expected[..if tier == TierRole::ShorterCopies { 0 } else { 2 }]);
            events.note(KeyEvent::Del, b"b");
            events.publish();
            assert!(take().is_empty(), "not wanted");
            events.set_tier(None, &cache);
            set(b"c", Expiry::Never, 1);
            assert!(take().is_empty() && !cache.is_listened_to(), "of another source");
            events.set_tier(Some(tier), &cache);
            set(b"c", Expiry::Never, 1);
            assert_eq!(take().last().unwrap(), "__keyevent@0__:set c", "the classes stay");
            events.set_classes(EventClasses::parse(b"").unwrap(), &cache);
            set(b"c", Expiry::Never, 1);
            assert!(take().is_empty() && !cache.is_listened_to());
        }
    }
}
