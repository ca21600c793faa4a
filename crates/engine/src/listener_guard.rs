//! Listening to the changes of a cache, while a listener exists.

use crate::{
    cache::Cache,
    change_listener::{Listener, ListenerKind},
    sync::{Arc, lock},
};
use std::sync::Arc as Shared;

/// Has a cache tell its listener of changes until it is dropped.
#[derive(Debug)]
pub struct Listening(Arc<Cache>, ListenerKind);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.rules.changes.end(self.1);
    }
}

impl Cache {
    /// The listener that is told of changes while it [listens](Cache::listen). A cache has one
    /// listener of a kind for life; false if it had one already.
    pub fn set_listener(&self, kind: ListenerKind, listener: Shared<dyn Listener>) -> bool {
        self.rules.changes.set(kind, listener)
    }

    /// Does anybody listen?
    pub fn is_listened_to(&self) -> bool {
        self.rules.changes.are_heard()
    }

    /// Every change that begins after this returns is told to the listener, until the last
    /// [`Listening`] of this kind is dropped. The caller holds no lock of the cache.
    pub fn listen(self: &Arc<Self>, kind: ListenerKind) -> Listening {
        self.rules.changes.begin(kind);
        // A thread that locks a shard after us sees it; one before us has made its change.
        for number in 0..self.shards() {
            drop(lock(self.mutex(number)));
        }
        Listening(self.clone(), kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Attributes, Change, Condition, Config, Expiry, Fill, Key, Lookup, Outcome, Removal, Write};
    use std::sync::Mutex;

    #[derive(Debug, Default)]
    struct Heard(Mutex<Vec<String>>);
    impl Listener for Heard {
        fn changed(&self, key: Key<'_>, by: u64) {
            self.0.lock().unwrap().push(format!("{} {by}", String::from_utf8_lossy(key.bytes())));
        }
        fn removed(&self, key: Key<'_>, why: Removal) {
            self.0.lock().unwrap().push(format!("{} {why:?}", String::from_utf8_lossy(key.bytes())));
        }
        fn cleared(&self) {
            self.0.lock().unwrap().push("all".into());
        }
        fn settled(&self) {
            let heard = &mut *self.0.lock().unwrap();
            if heard.last().is_some_and(|last| last != ".") {
                heard.push(".".into());
            }
        }
    }
    fn write(value: &[u8], condition: Condition) -> Write<'_> {
        Write { value, expiry: Expiry::Never, attributes: Attributes::NONE, condition }
    }
    fn cache(max_keys: Option<usize>) -> (Arc<Cache>, Shared<Heard>) {
        let cache = Cache::new(Config { max_keys, shards: Some(2), ..Config::default() });
        let heard = Shared::<Heard>::default();
        let kind = ListenerKind::Tracking;
        assert!(cache.set_listener(kind, heard.clone()) && !cache.set_listener(kind, heard.clone()));
        (cache, heard)
    }
    /// Only what is told matters.
    fn ignore<T>(_: T) {}
    fn take(heard: &Heard) -> String {
        std::mem::take(&mut *heard.0.lock().unwrap()).join(" ")
    }

    #[test]
    fn every_change_is_told_before_its_operation_returns() {
        let (cache, heard) = cache(None);
        let key = cache.key(b"k");
        cache.tier().set(key, write(b"1", Condition::Always), 1).unwrap();
        assert_eq!(take(&heard), "", "nobody listens");
        let listening = cache.listen(ListenerKind::Tracking);
        let told = |what: &str, change: &mut dyn FnMut()| {
            change();
            assert_eq!(take(&heard), what);
        };
        told("k 0 .", &mut || ignore(cache.tier().set(key, write(b"2", Condition::Always), 1)));
        told("", &mut || ignore(cache.tier().set(key, write(b"2", Condition::IfAbsent), 1)));
        told("", &mut || ignore(cache.tier().get(key, 1, |_| ())));
        for (change, what) in [
            (Change::Keep, ""),
            (Change::Append(b"x"), "k 0 ."),
            (Change::Expire(Expiry::At(50)), "k 0 ."),
            (Change::Put(Expiry::Keep), "k 0 ."),
            (Change::Delete, "k 0 ."),
            (Change::Delete, ""),
            (Change::Expire(Expiry::Never), ""),
        ] {
            told(what, &mut || ignore(cache.tier().update(key, 1, |_, _| (change, ()))));
        }
        told("", &mut || ignore(cache.tier().delete(key, 1)));
        told("k 0 .", &mut || cache.invalidate(key));
        let expiring =
            |at| ignore(cache.tier().set(key, Write { expiry: Expiry::At(at), ..write(b"3", Condition::Always) }, 1));
        expiring(50);
        take(&heard);
        told("k 0 k Expired .", &mut || ignore(cache.tier().get(key, 60, |_| ())));
        expiring(100);
        take(&heard);
        told("k 0 k Expired .", &mut || cache.tick(5000));
        told("all .", &mut || cache.tier().clear());
        told("all .", &mut || ignore(cache.mark_stale(0)));
        // A fill tells what the source had.
        told("", &mut || {
            let Lookup::Lead(lead) = cache.lookup(key, 6000, |_| ()) else { panic!("a miss") };
            lead.finish(Outcome::Value("4".into()), Fill::Store(Expiry::Never, Attributes::NONE), 6000);
        });
        told("k 7 other 0 .", &mut || {
            let mut tier = cache.exclusive([key]);
            tier.act_as(7);
            tier.delete(key, 6000);
            drop(tier);
            // Not its own any more.
            heard.0.lock().unwrap().pop();
            ignore(cache.tier().set(cache.key(b"other"), write(b"", Condition::Always), 6000));
        });
        drop(listening);
        told("", &mut || cache.tier().clear());
    }

    #[test]
    fn listeners_of_each_kind_are_told_while_they_listen() {
        let (cache, heard) = cache(None);
        let (events, replicas) = (Shared::<Heard>::default(), Shared::<Heard>::default());
        assert!(cache.set_listener(ListenerKind::Events, events.clone()));
        assert!(cache.set_listener(ListenerKind::Replication, replicas.clone()));
        let told = || {
            ignore(cache.tier().set(cache.key(b"k"), write(b"1", Condition::Always), 1));
            [&heard, &events, &replicas].map(|heard| !take(heard).is_empty())
        };
        let events_listen = cache.listen(ListenerKind::Events);
        assert_eq!(told(), [false, true, false]);
        let tracking_listens = (cache.listen(ListenerKind::Tracking), cache.listen(ListenerKind::Tracking));
        drop(tracking_listens.0);
        assert_eq!(told(), [true, true, false]);
        let replication_listens = cache.listen(ListenerKind::Replication);
        drop((events_listen, tracking_listens.1));
        assert_eq!(told(), [false, false, true]);
        drop(replication_listens);
        assert_eq!(told(), [false, false, false]);
    }

    #[test]
    fn eviction_is_told_and_is_nobody_s() {
        let (cache, heard) = cache(Some(10));
        let _listening = cache.listen(ListenerKind::Tracking);
        for i in 0..100_u32 {
            let name = i.to_string();
            let key = cache.key(name.as_bytes());
            let mut tier = cache.exclusive([key]);
            tier.act_as(7);
            tier.set(key, write(b"", Condition::Always), 1).unwrap();
        }
        let heard = heard.0.lock().unwrap();
        assert_eq!(heard.iter().filter(|told| told.ends_with(" 7")).count(), 100);
        assert_eq!(heard.iter().filter(|told| told.ends_with(" 0")).count(), 90);
        assert_eq!(heard.iter().filter(|told| told.ends_with(" Evicted")).count(), 90);
    }
}
