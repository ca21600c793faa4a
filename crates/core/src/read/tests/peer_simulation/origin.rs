//! The source behind all nodes: what each key had when, and who fetched it.
use super::world::World;
use bytes::Bytes;
use larder_engine::Millis;
use larder_source::{Fetch, LocalFuture, Source, SourceError, SourceKind, ValueWrites};
use larder_store::{StoredValue, clock};
use std::{cell::RefCell, collections::BTreeMap, future::ready, rc::Rc};

/// What became of a key.
#[derive(Default)]
struct KeyHistory {
    /// Its values, each with the moment since when it is the current one.
    values: Vec<(Millis, Bytes)>,
    fetches: usize,
}

/// The values of all keys, by the true time.
#[derive(Default)]
pub(super) struct Origin(RefCell<BTreeMap<Bytes, KeyHistory>>);

impl Origin {
    /// The value of a key now. One that was never written has a value as well.
    pub(super) fn current(&self, key: &[u8]) -> Bytes {
        let first = || Bytes::from([key, b"=0"].concat());
        self.0
            .borrow()
            .get(key)
            .and_then(|history| history.values.last())
            .map_or_else(first, |(_, value)| value.clone())
    }
    /// Whether the key had this value at some moment since then.
    pub(super) fn had_since(&self, key: &[u8], value: &[u8], since: Millis) -> bool {
        let histories = self.0.borrow();
        let values = histories.get(key).map_or(&[][..], |history| &history.values);
        let ended = |at: usize| values.get(at).map_or(Millis::MAX, |(next, _)| *next);
        let is_first = value == [key, b"=0"].concat();
        is_first && ended(0) >= since
            || values.iter().enumerate().any(|(at, (_, had))| had == value && ended(at + 1) >= since)
    }
    /// How often it was fetched.
    pub(super) fn fetches(&self, key: &[u8]) -> usize {
        self.0.borrow().get(key).map_or(0, |history| history.fetches)
    }
    fn note_fetch(&self, key: &[u8]) {
        self.0.borrow_mut().entry(Bytes::copy_from_slice(key)).or_default().fetches += 1;
    }
    fn put(&self, key: &[u8], value: &[u8], now: Millis) {
        let (key, value) = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
        self.0.borrow_mut().entry(key).or_default().values.push((now, value));
    }
}

/// A node's way to the origin, which takes a while in both directions.
pub(super) struct OriginSource(pub(super) Rc<World>);

impl Source for OriginSource {
    fn kind(&self) -> SourceKind<'_> {
        SourceKind::Values(ValueWrites::Unchanged)
    }
    fn fetch(&self, batch: &mut Vec<Fetch>) {
        for fetch in batch.drain(..) {
            let world = self.0.clone();
            world.origin.note_fetch(fetch.key());
            tokio::task::spawn_local(async move {
                world.pause(1..60).await;
                let value = world.origin.current(fetch.key());
                world.pause(1..60).await;
                fetch.finish(Ok(Some(StoredValue::string(value, None))), clock::now());
            });
        }
    }
    fn put<'a>(
        &'a self,
        key: &'a [u8],
        value: &'a [u8],
        _expiry: Option<Millis>,
    ) -> LocalFuture<'a, Result<bool, SourceError>> {
        Box::pin(async move {
            self.0.pause(1..60).await;
            self.0.origin.put(key, value, self.0.now());
            self.0.pause(1..60).await;
            Ok(true)
        })
    }
    fn ping(&self) -> LocalFuture<'_, Result<(), SourceError>> {
        Box::pin(ready(Ok(())))
    }
}
