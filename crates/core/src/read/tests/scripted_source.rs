//! A source whose requests are carried out and answered when the test says so, and the helpers of
//! these tests.
use crate::read::*;
use bytes::Bytes;
use larder_config::Coherence;
use larder_engine::{Cache, Config, Millis, Stored};
use larder_source::{Fetch, FillPolicy, KeyPolicy, LocalFuture, Source, SourceError, SourceKind, ValueWrites};
use larder_store::{StoredValue, clock};
use std::{cell::RefCell, collections::VecDeque, future::Future, rc::Rc, sync::Arc};
use tokio::sync::oneshot;

/// A source of one key, whose requests are carried out and answered when the test says so.
#[derive(Default)]
pub(super) struct ScriptedSource {
    pub(super) stored: RefCell<Option<Bytes>>,
    pub(super) requests: RefCell<VecDeque<ScriptedRequest>>,
}
/// A request on its way; carried out at most once, before it is answered.
pub(super) struct ScriptedRequest {
    pub(super) kind: Kind,
    pub(super) answer: Option<Result<Option<Bytes>, SourceError>>,
}
pub(super) enum Kind {
    Fetch(Fetch),
    Put(Bytes, oneshot::Sender<Result<bool, SourceError>>),
    Delete(oneshot::Sender<Result<bool, SourceError>>),
    Expire(oneshot::Sender<Result<bool, SourceError>>),
}
impl ScriptedSource {
    pub(super) fn push(&self, kind: Kind) {
        let request = ScriptedRequest { kind, answer: None };
        self.requests.borrow_mut().push_back(request);
    }
    pub(super) fn len(&self) -> usize {
        self.requests.borrow().len()
    }
    /// The source carries request `at` out.
    pub(super) fn apply(&self, at: usize) {
        let request = &mut self.requests.borrow_mut()[at];
        if request.answer.is_some() {
            return;
        }
        let before = self.stored.borrow().clone();
        match &request.kind {
            Kind::Fetch(_) | Kind::Expire(_) => {}
            Kind::Put(value, _) => *self.stored.borrow_mut() = Some(value.clone()),
            Kind::Delete(_) => *self.stored.borrow_mut() = None,
        }
        request.answer = Some(Ok(before));
    }
    /// Its answer to request `at` arrives; or the request fails.
    pub(super) fn answer(&self, at: usize, failure: Option<SourceError>) {
        if failure.is_none() {
            self.apply(at);
        }
        let request = self.requests.borrow_mut().remove(at).expect("a request");
        let answer = match (failure, request.answer) {
            (Some(error), _) => Err(error),
            (None, answer) => answer.expect("it was carried out"),
        };
        let existed = answer.clone().map(|before| before.is_some());
        // No task waits for the answer of a request whose task ended with the test.
        match request.kind {
            Kind::Fetch(fetch) => {
                let found = |value| StoredValue::string(value, None);
                fetch.finish(answer.map(|value| value.map(found)), clock::now());
            }
            Kind::Put(_, sender) | Kind::Delete(sender) | Kind::Expire(sender) => drop(sender.send(existed)),
        }
    }
}

pub(super) fn awaiting<T: 'static>(
    receiver: oneshot::Receiver<Result<T, SourceError>>,
) -> LocalFuture<'static, Result<T, SourceError>> {
    Box::pin(async { receiver.await.expect("the test answers") })
}
impl Source for ScriptedSource {
    fn kind(&self) -> SourceKind<'_> {
        SourceKind::Values(ValueWrites::Unchanged)
    }
    fn fetch(&self, batch: &mut Vec<Fetch>) {
        batch.drain(..).for_each(|fetch| self.push(Kind::Fetch(fetch)));
    }
    fn put<'a>(
        &'a self,
        _key: &'a [u8],
        value: &'a [u8],
        _expiry: Option<Millis>,
    ) -> LocalFuture<'a, Result<bool, SourceError>> {
        let (sender, receiver) = oneshot::channel();
        self.push(Kind::Put(Bytes::copy_from_slice(value), sender));
        awaiting(receiver)
    }
    fn delete<'a>(&'a self, _key: &'a [u8]) -> LocalFuture<'a, Result<bool, SourceError>> {
        let (sender, receiver) = oneshot::channel();
        self.push(Kind::Delete(sender));
        awaiting(receiver)
    }
    fn expire<'a>(&'a self, _key: &'a [u8], _expiry: Option<Millis>) -> LocalFuture<'a, Result<bool, SourceError>> {
        let (sender, receiver) = oneshot::channel();
        self.push(Kind::Expire(sender));
        awaiting(receiver)
    }
    fn ping(&self) -> LocalFuture<'_, Result<(), SourceError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

pub(super) const KEY: &[u8] = b"key";

pub(super) fn run<F: Future<Output = ()>>(test: F) {
    tokio::runtime::Builder::new_current_thread().build_local(Default::default()).expect("a runtime").block_on(test);
}
pub(super) fn group(policy: FillPolicy) -> (Rc<Group>, Rc<ScriptedSource>) {
    let source = Rc::new(ScriptedSource::default());
    let cache =
        Cache::new(Config { max_memory: 4 * 1024 * 1024, default_ttl: policy.of(KEY).ttl, ..Config::default() });
    let policy = Arc::new(policy);
    let group = Rc::new(Group {
        number: 0,
        name: "test".into(),
        cache,
        source: source.clone(),
        policy,
        writes: Arc::default(),
        peers: None,
        events: None,
    });
    (group, source)
}
/// Begins an operation in a task of its own; it has reached the source when this returns.
pub(super) async fn begin<R: 'static, F: Future<Output = R> + 'static>(
    group: &Rc<Group>,
    operation: impl FnOnce(Rc<Group>) -> F,
) -> tokio::task::JoinHandle<R> {
    let task = tokio::task::spawn_local(operation(group.clone()));
    settle().await;
    task
}
/// Lets every task run until it waits.
pub(super) async fn settle() {
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
}
pub(super) async fn read(group: &Rc<Group>) -> tokio::task::JoinHandle<Result<Option<Bytes>, SourceError>> {
    begin(group, |group| async move { group.read(KEY, clock::now()).await }).await
}
pub(super) async fn put(
    group: &Rc<Group>,
    value: &'static str,
) -> tokio::task::JoinHandle<Result<Stored, SourceError>> {
    begin(group, |group| async move { group.put(KEY, value.into(), None).await }).await
}
pub(super) fn cached(group: &Group) -> Option<Bytes> {
    let key = group.cache.key(KEY);
    let mut tier = group.cache.tier();
    tier.peek(key, clock::now(), |entry| entry.value.to_bytes())
}
pub(super) fn unavailable() -> SourceError {
    SourceError::Unavailable("down".into())
}

/// A fetch that the source vouches for comes back with this value.
pub(super) fn vouched(mut fetch: Fetch, value: &'static str) {
    fetch.vouch();
    fetch.finish(Ok(Some(StoredValue::string(value, None))), clock::now());
}

pub(super) fn miss(group: &Group) -> Fetch {
    let mut batch = Vec::new();
    group.begin(group.cache.key(KEY), clock::now(), &mut batch, |_| ());
    batch.pop().expect("a miss")
}

pub(super) fn in_mode(coherence: Coherence) -> (Rc<Group>, Rc<ScriptedSource>) {
    let own = KeyPolicy { negative_ttl: Some(60_000), ..KeyPolicy::default() };
    group(FillPolicy { coherence, ..own.into() })
}
