//! Random interleavings of reads and writes, checked against the source.
use super::scripted_source::*;
use crate::read::*;
use larder_source::{FillPolicy, SourceError};
use larder_store::clock;
use proptest::prelude::*;
use std::{cell::Cell, rc::Rc};

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
            let (group, source) = group(FillPolicy::default());
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
