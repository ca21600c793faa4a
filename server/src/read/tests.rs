use super::*;
use crate::{
    config::Coherence,
    source::{Fetch, FetchedValue, LocalFuture, Policy, Source, SourceError},
};
use bytes::Bytes;
use larder_engine::{Cache, Config, Millis, Stored};
use larder_store::clock;
use proptest::prelude::*;
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    future::Future,
    rc::Rc,
    sync::Arc,
};
use tokio::sync::oneshot;

/// A source of one key, whose requests are carried out and answered when the test says so.
#[derive(Default)]
struct KeyGuard {
    stored: RefCell<Option<Bytes>>,
    requests: RefCell<VecDeque<Request>>,
}
/// A request on its way; carried out at most once, before it is answered.
struct Request {
    kind: Kind,
    answer: Option<Result<Option<Bytes>, SourceError>>,
}
enum Kind {
    Fetch(Fetch),
    Put(Bytes, oneshot::Sender<Result<bool, SourceError>>),
    Delete(oneshot::Sender<Result<bool, SourceError>>),
    Expire(oneshot::Sender<Result<bool, SourceError>>),
}
impl KeyGuard {
    fn push(&self, kind: Kind) {
        let request = Request { kind, answer: None };
        self.requests.borrow_mut().push_back(request);
    }
    fn len(&self) -> usize {
        self.requests.borrow().len()
    }
    /// The source carries request `at` out.
    fn apply(&self, at: usize) {
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
    fn answer(&self, at: usize, failure: Option<SourceError>) {
        if failure.is_none() {
            self.apply(at);
        }
        let request = self.requests.borrow_mut().remove(at).expect("a request");
        let answer = match (failure, request.answer) {
            (Some(error), _) => Err(error),
            (None, answer) => answer.expect("it was carried out"),
        };
        let existed = answer.clone().map(|before| before.is_some());
        // Nobody waits for the answer of a request whose task ended with the test.
        match request.kind {
            Kind::Fetch(fetch) => {
                let found = |value| FetchedValue { value, expiry: None };
                fetch.finish(answer.map(|value| value.map(found)), clock::now());
            }
            Kind::Put(_, sender) | Kind::Delete(sender) | Kind::Expire(sender) => drop(sender.send(existed)),
        }
    }
}

fn awaiting<T: 'static>(
    receiver: oneshot::Receiver<Result<T, SourceError>>,
) -> LocalFuture<'static, Result<T, SourceError>> {
    Box::pin(async { receiver.await.expect("the test answers") })
}
impl Source for KeyGuard {
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

const KEY: &[u8] = b"key";

fn run<F: Future<Output = ()>>(test: F) {
    tokio::runtime::Builder::new_current_thread().build_local(Default::default()).expect("a runtime").block_on(test);
}
fn group(policy: Policy) -> (Rc<Group>, Rc<KeyGuard>) {
    let source = Rc::new(KeyGuard::default());
    let cache = Cache::new(Config { max_memory: 4 * 1024 * 1024, default_ttl: policy.ttl, ..Config::default() });
    let group = Rc::new(Group { name: "test".into(), cache, source: source.clone(), policy, writes: Arc::default() });
    (group, source)
}
/// Begins an operation in a task of its own; it has reached the source when this returns.
async fn begin<R: 'static, F: Future<Output = R> + 'static>(
    group: &Rc<Group>,
    operation: impl FnOnce(Rc<Group>) -> F,
) -> tokio::task::JoinHandle<R> {
    let task = tokio::task::spawn_local(operation(group.clone()));
    settle().await;
    task
}
/// Lets every task run until it waits.
async fn settle() {
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
}
async fn read(group: &Rc<Group>) -> tokio::task::JoinHandle<Result<Option<Bytes>, SourceError>> {
    begin(group, |group| async move { group.read(KEY, clock::now()).await }).await
}
async fn put(group: &Rc<Group>, value: &'static str) -> tokio::task::JoinHandle<Result<Stored, SourceError>> {
    begin(group, |group| async move { group.put(KEY, value.into(), None).await }).await
}
fn cached(group: &Group) -> Option<Bytes> {
    let key = group.cache.key(KEY);
    let mut tier = group.cache.tier();
    tier.peek(key, clock::now(), |entry| entry.value.to_bytes())
}
fn unavailable() -> SourceError {
    SourceError::Unavailable("down".into())
}

#[test]
fn an_error_reaches_every_waiter_and_is_not_stored() {
    run(async {
        for error in [unavailable(), SourceError::Refused("WRONGTYPE x".into())] {
            let (group, source) = group(Policy::default());
            let reads = [read(&group).await, read(&group).await, read(&group).await];
            assert_eq!(source.len(), 1, "one fetch for all");
            source.answer(0, Some(error.clone()));
            for read in reads {
                assert_eq!(read.await.expect("no panic"), Err(error.clone()));
            }
            let again = read(&group).await;
            source.answer(0, None);
            assert_eq!(again.await.expect("no panic"), Ok(None));
        }
    });
}

#[test]
fn a_dropped_fetch_releases_its_waiters() {
    run(async {
        let (group, source) = group(Policy::default());
        let reads = [read(&group).await, read(&group).await];
        source.requests.borrow_mut().clear();
        for read in reads {
            let error = read.await.expect("no panic").expect_err("no answer");
            assert_eq!(error.to_string(), "source unavailable: fetch abandoned");
        }
    });
}

#[test]
fn a_client_that_leaves_ends_nobody_elses_fetch() {
    run(async {
        let (group, source) = group(Policy::default());
        *source.stored.borrow_mut() = Some("v".into());
        let (first, second) = (read(&group).await, read(&group).await);
        first.abort();
        settle().await;
        source.answer(0, None);
        assert_eq!(second.await.expect("no panic"), Ok(Some("v".into())));
        assert_eq!(cached(&group), Some("v".into()));
    });
}

#[test]
fn fills_live_as_long_as_policy_and_source_allow() {
    let expiry = |policy: Policy, own: Option<u64>| {
        let (group, _) = group(policy);
        let mut batch = Vec::new();
        group.begin(group.cache.key(KEY), 1_000, &mut batch, |_| ());
        let found = FetchedValue { value: "v".into(), expiry: own };
        batch.remove(0).finish(Ok(Some(found)), 1_000);
        let mut tier = group.cache.tier();
        tier.peek(group.cache.key(KEY), 1_000, |entry| entry.expiry())
    };
    let none = Policy::default();
    let ten = Policy { ttl: Some(10_000), ..Policy::default() };
    assert_eq!(expiry(none, None), Some(None));
    assert_eq!(expiry(none, Some(5_000)), Some(Some(5_000)));
    assert_eq!(expiry(ten, None), Some(Some(11_000)));
    assert_eq!(expiry(ten, Some(5_000)), Some(Some(5_000)));
    assert_eq!(expiry(ten, Some(50_000)), Some(Some(11_000)));
    assert_eq!(expiry(ten, Some(1_000)), None, "past already: not stored");
    assert_eq!(expiry(ten, Some(0)), None);
}

#[test]
fn a_fetch_that_a_write_overtook_is_not_stored() {
    run(async {
        let (group, source) = group(Policy::default());
        *source.stored.borrow_mut() = Some("old".into());
        let read = read(&group).await;
        source.apply(0);
        let put = put(&group, "new").await;
        source.answer(1, None);
        assert!(put.await.expect("no panic").is_ok());
        source.answer(0, None);
        assert_eq!(read.await.expect("no panic"), Ok(Some("old".into())));
        assert_eq!(cached(&group), Some("new".into()));
    });
}

#[test]
fn a_fetch_that_an_expire_overtook_is_not_stored() {
    run(async {
        let (group, source) = group(Policy::default());
        *source.stored.borrow_mut() = Some("v".into());
        let read = read(&group).await;
        source.apply(0);
        let expire = begin(&group, |group| async move { group.expire(KEY, Some(clock::now() + 60_000)).await });
        let expire = expire.await;
        source.answer(1, None);
        assert_eq!(expire.await.expect("no panic"), Ok(true));
        source.answer(0, None);
        assert_eq!(read.await.expect("no panic"), Ok(Some("v".into())));
        assert_eq!(cached(&group), None, "its expiry is the one before");
    });
}

#[test]
fn a_write_that_was_refused_changes_nothing_and_a_lost_one_forgets() {
    run(async {
        let (group, source) = group(Policy::default());
        let first = put(&group, "old").await;
        source.answer(0, None);
        assert!(first.await.expect("no panic").is_ok());
        for error in [unavailable(), SourceError::Refused("OOM x".into())] {
            let put = put(&group, "new").await;
            source.answer(0, Some(error.clone()));
            assert_eq!(put.await.expect("no panic"), Err(error));
            assert_eq!(cached(&group), Some("old".into()));
        }
        let lost = SourceError::Lost("timed out".into());
        let put = put(&group, "new").await;
        source.answer(0, Some(lost.clone()));
        assert_eq!(put.await.expect("no panic"), Err(lost));
        assert_eq!(cached(&group), None);
    });
}

#[test]
fn overlapping_writes_forget_whatever_order_their_replies_come_in() {
    run(async {
        for order in [[0, 0], [1, 0]] {
            let (group, source) = group(Policy::default());
            let puts = [put(&group, "one").await, put(&group, "two").await];
            for at in order {
                source.answer(at, None);
                settle().await;
                assert_eq!(cached(&group), None);
            }
            for put in puts {
                assert!(put.await.expect("no panic").is_ok());
            }
            // Over: the next one stores again.
            let put = put(&group, "three").await;
            source.answer(0, None);
            assert!(put.await.expect("no panic").is_ok());
            assert_eq!(cached(&group), Some("three".into()));
        }
    });
}

#[test]
fn a_write_goes_on_when_its_client_leaves() {
    run(async {
        let (group, source) = group(Policy::default());
        let put = put(&group, "v").await;
        put.abort();
        settle().await;
        source.answer(0, None);
        settle().await;
        assert_eq!(cached(&group), Some("v".into()));
    });
}

/// A fetch that the source vouches for comes back with this value.
fn vouched(mut fetch: Fetch, value: &'static str) {
    fetch.vouch();
    fetch.finish(Ok(Some(FetchedValue { value: value.into(), expiry: None })), clock::now());
}
fn miss(group: &Group) -> Fetch {
    let mut batch = Vec::new();
    group.begin(group.cache.key(KEY), clock::now(), &mut batch, |_| ());
    batch.pop().expect("a miss")
}
fn in_mode(coherence: Coherence) -> (Rc<Group>, Rc<KeyGuard>) {
    group(Policy { coherence, negative_ttl: Some(60_000), ..Policy::default() })
}

#[test]
fn coherent_copies_are_vouched_for_and_end_with_writes_and_with_what_was_seen() {
    run(async {
        let (group, source) = in_mode(Coherence::Coherent);
        miss(&group).finish(Ok(Some(FetchedValue { value: "v".into(), expiry: None })), clock::now());
        assert_eq!(cached(&group), None, "nobody vouches for it");
        miss(&group).finish(Ok(None), clock::now());
        vouched(miss(&group), "v");
        assert_eq!(cached(&group), Some("v".into()));

        for stored in [Stored::Created(0), Stored::Replaced(0)] {
            let put = put(&group, "own").await;
            source.answer(0, None);
            assert_eq!(put.await.expect("no panic"), Ok(stored));
            assert_eq!(cached(&group), None);
        }

        vouched(miss(&group), "v");
        let expire = |group: Rc<Group>| async move { group.expire(KEY, Some(clock::now() + 60_000)).await };
        let expire = begin(&group, expire).await;
        source.answer(0, None);
        assert_eq!(expire.await.expect("no panic"), Ok(true));
        assert_eq!(cached(&group), None, "Redis forgot who has read it");

        vouched(miss(&group), "v");
        group.seen(group.cache.key(KEY));
        assert_eq!(cached(&group), None);
        let early = miss(&group);
        group.seen(group.cache.key(KEY));
        vouched(early, "v");
        assert_eq!(cached(&group), None, "fetched before it was seen");
    });
}

#[test]
fn an_answer_that_was_overtaken_takes_an_older_copy_with_it() {
    let (group, _) = in_mode(Coherence::Coherent);
    let first = miss(&group);
    first.sent_through(1);
    group.seen(group.cache.key(KEY));
    let second = miss(&group);
    second.sent_through(2);
    vouched(second, "old");
    assert_eq!(cached(&group), Some("old".into()));
    // Slow on the way, this one was read after the other: who gets it must not find that one next.
    vouched(first, "new");
    assert_eq!(cached(&group), None);
}

#[test]
fn modes_ttl_and_off() {
    for (coherence, kept) in [(Coherence::Ttl, true), (Coherence::Off, false)] {
        let (group, _) = in_mode(coherence);
        vouched(miss(&group), "v");
        assert_eq!(cached(&group).is_some(), kept);
        group.seen(group.cache.key(KEY));
        assert_eq!(cached(&group).is_some(), kept, "a copy is as old as it is");
    }
}

/// What may happen next, in a random history of one key.
#[derive(Debug, Clone)]
enum Step {
    Read,
    Put(&'static str),
    Delete,
    Expire,
    /// The source carries out a request (the index counts round).
    Apply(usize),
    /// A request's answer arrives.
    Answer(usize),
    /// A request is carried out or not, and its answer never arrives.
    Lose(usize),
    /// It is refused.
    Refuse(usize),
    /// The tier forgets the key.
    Evict,
}
fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Read),
        3 => prop::sample::select(vec!["a", "b", "c", "d"]).prop_map(Step::Put),
        1 => Just(Step::Delete),
        1 => Just(Step::Expire),
        4 => (0..8usize).prop_map(Step::Apply),
        5 => (0..8usize).prop_map(Step::Answer),
        1 => (0..8usize).prop_map(Step::Lose),
        1 => (0..8usize).prop_map(Step::Refuse),
        1 => Just(Step::Evict),
    ]
}
proptest! {
    /// Requests of several connections are carried out and answered in any order; still, once all is answered, what the
    /// tier has is what the source has.
    #[test]
    fn the_tier_never_ends_up_with_what_the_source_does_not_have(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let agree = Cell::new(true);
        run(async {
            let (group, source) = group(Policy::default());
            let mut last = source.len();
            for step in steps {
                let at = |index: usize| (last > 0).then(|| index % last);
                match step {
                    Step::Read => drop(read(&group).await),
                    Step::Put(value) => drop(put(&group, value).await),
                    Step::Delete => {
                        drop(begin(&group, |group| async move { group.delete(KEY).await }).await);
                    }
                    Step::Expire => {
                        let at = Some(clock::now() + 3_600_000);
                        let expire = |group: Rc<Group>| async move { group.expire(KEY, at).await };
                        drop(begin(&group, expire).await);
                    }
                    Step::Apply(index) => {
                        at(index).into_iter().for_each(|at| source.apply(at));
                    }
                    Step::Answer(index) => {
                        at(index).into_iter().for_each(|at| source.answer(at, None));
                    }
                    Step::Lose(index) => {
                        let lost = || Some(SourceError::Lost("x".into()));
                        at(index).into_iter().for_each(|at| source.answer(at, lost()));
                    }
                    Step::Refuse(index) => {
                        // What was carried out cannot be refused any more.
                        let open = at(index)
                            .filter(|&at| source.requests.borrow()[at].answer.is_none());
                        open.into_iter().for_each(|at| source.answer(at, Some(unavailable())));
                    }
                    Step::Evict => {
                        group.cache.tier().delete(group.cache.key(KEY), clock::now());
                    }
                }
                settle().await;
                last = source.len();
            }
            while source.len() > 0 {
                source.answer(0, None);
                settle().await;
            }
            let cached = cached(&group);
            agree.set(cached.is_none() || cached == *source.stored.borrow());
        });
        prop_assert!(agree.get());
    }
}
