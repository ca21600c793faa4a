//! What each coherence mode stores.
use super::scripted_source::*;
use crate::read::*;
use larder_config::Coherence;
use larder_engine::Stored;
use larder_store::{StoredValue, clock};
use std::rc::Rc;

#[test]
fn coherent_copies_are_vouched_for_and_end_with_writes_and_with_what_was_seen() {
    run(async {
        let (group, source) = in_mode(Coherence::Coherent);
        miss(&group).finish(Ok(Some(StoredValue::string("v", None))), clock::now());
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
