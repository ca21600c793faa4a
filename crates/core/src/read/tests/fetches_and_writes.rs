//! Fetches, writes, and writes that overtake fetches.
use super::scripted_source::*;
use crate::read::{Group, PeerRequest};
use larder_ring::peer::{NodeRequest, PeerChange};
use larder_source::{CopyMetadataView, FillPolicy, FreshnessTable, KeyPolicy, PrefixTable, SourceError};
use larder_store::{StoredValue, clock};

#[test]
fn an_error_reaches_every_waiter_and_is_not_stored() {
    run(async {
        for error in [unavailable(), SourceError::Refused("WRONGTYPE x".into())] {
            let (group, source) = group(FillPolicy::default());
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
        let (group, source) = group(FillPolicy::default());
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
        let (group, source) = group(FillPolicy::default());
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
    let expiry = |policy: &FillPolicy, own: Option<u64>| {
        let (group, _) = group(policy.clone());
        let mut batch = Vec::new();
        group.begin(group.cache.key(KEY), 1_000, &mut batch, |_| ());
        let found = StoredValue::string("v", own);
        batch.remove(0).finish(Ok(Some(found)), 1_000);
        let mut tier = group.cache.tier();
        tier.peek(group.cache.key(KEY), 1_000, |entry| entry.expiry())
    };
    let none = FillPolicy::default();
    let own = KeyPolicy { ttl: Some(10_000), ..KeyPolicy::default() };
    let ten = FillPolicy::from(own);
    assert_eq!(expiry(&none, None), Some(None));
    assert_eq!(expiry(&none, Some(5_000)), Some(Some(5_000)));
    assert_eq!(expiry(&ten, None), Some(Some(11_000)));
    assert_eq!(expiry(&ten, Some(5_000)), Some(Some(5_000)));
    assert_eq!(expiry(&ten, Some(50_000)), Some(Some(11_000)));
    assert_eq!(expiry(&ten, Some(1_000)), None, "past already: not stored");
    assert_eq!(expiry(&ten, Some(0)), None);
    let with = |prefix: &[u8], ttl| {
        let prefixes = PrefixTable::new([(prefix, KeyPolicy { ttl, ..KeyPolicy::default() })]);
        FillPolicy::from(FreshnessTable { own, prefixes })
    };
    let three = with(b"ke", Some(3_000));
    assert_eq!(expiry(&three, None), Some(Some(4_000)), "the prefix's lifetime");
    assert_eq!(expiry(&three, Some(2_000)), Some(Some(2_000)));
    assert_eq!(expiry(&three, Some(50_000)), Some(Some(4_000)));
    let endless = with(b"ke", None);
    assert_eq!(expiry(&endless, None), Some(None), "the prefix has none, although the group has one");
    let others = with(b"kex", Some(3_000));
    assert_eq!(expiry(&others, None), Some(Some(11_000)));
}

/// A copy may be served stale, but not once the source has the key no more.
#[test]
fn written_copies_are_gone_when_the_source_drops_the_key() {
    let gone_at = |group: &Group| {
        let gone_at = |entry: larder_engine::Entry<'_>| CopyMetadataView::read(entry.metadata()).gone_at;
        group.cache.tier().peek(group.cache.key(KEY), clock::now(), gone_at)
    };
    run(async {
        let stale = KeyPolicy { ttl: Some(60_000), stale_while_revalidate: 3_600_000, ..KeyPolicy::default() };
        let (group, source) = group(stale.into());
        let end = clock::now() + 120_000;
        let put = begin(&group, move |group| async move { group.put(KEY, "v".into(), Some(end)).await }).await;
        source.answer(0, None);
        assert!(put.await.expect("no panic").is_ok());
        assert_eq!(gone_at(&group), Some(Some(end)));

        let request = PeerRequest { group: &group, now: clock::now(), instance: 0, ring: None, trace: None };
        let set = |expiry| PeerChange::Set { key: KEY.into(), value: "w".into(), expiry };
        request.run(NodeRequest::Tell(set(Some(end + 1)))).await;
        assert_eq!(gone_at(&group), Some(Some(end + 1)));

        // Within the stale window, after it, and while the copy is fresh.
        for (left, kept) in [(120_000, false), (36_000_000, true), (30_000, true)] {
            request.run(NodeRequest::Tell(set(Some(clock::now() + 360_000_000)))).await;
            let end = clock::now() + left;
            let expire = begin(&group, move |group| async move { group.expire(KEY, Some(end)).await }).await;
            source.answer(0, None);
            assert_eq!(expire.await.expect("no panic"), Ok(true));
            assert_eq!(cached(&group).is_some(), kept, "{left} ms are left");
        }
    });
}

#[test]
fn a_fetch_that_a_write_overtook_is_not_stored() {
    run(async {
        let (group, source) = group(FillPolicy::default());
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
        let (group, source) = group(FillPolicy::default());
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
        let (group, source) = group(FillPolicy::default());
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
            let (group, source) = group(FillPolicy::default());
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
        let (group, source) = group(FillPolicy::default());
        let put = put(&group, "v").await;
        put.abort();
        settle().await;
        source.answer(0, None);
        settle().await;
        assert_eq!(cached(&group), Some("v".into()));
    });
}
