//! What is served when: a table of the state machine, then random histories against the bounds that
//! the rules give.

use crate::{
    Attributes, Cache, Config, Entry, Expiry, Fill, Lead, Lookup, Millis, NextRead, Outcome, StaleRules, StaleWindows,
    Wait, Write,
    sync::{Arc, lock},
};
use bytes::Bytes;
use proptest::prelude::*;
use std::{
    collections::HashMap,
    pin::pin,
    sync::Arc as Shared,
    task::{Context, Poll, Waker},
};

/// Windows for all entries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WhileTheSourceFails {
    windows: StaleWindows,
    ahead: u64,
}
impl WhileTheSourceFails {
    pub(crate) fn shared(if_error: u64) -> Shared<dyn StaleRules> {
        let windows = StaleWindows { while_renewed: 0, if_error, at_most: u64::MAX, gone_at: u64::MAX };
        Shared::new(WhileTheSourceFails { windows, ahead: 0 })
    }
}
impl StaleRules for WhileTheSourceFails {
    fn windows(&self, _: &Entry<'_>) -> StaleWindows {
        self.windows
    }
    fn renews_ahead(&self, _: &Entry<'_>, left: u64, _: Millis) -> bool {
        left <= self.ahead
    }
    fn longest_window(&self) -> u64 {
        self.windows.while_renewed.max(self.windows.if_error)
    }
    fn earliest_renewal(&self) -> u64 {
        self.ahead
    }
}

/// Fresh for 100 ms, renewed in the last 20 of them, served for 50 more while renewed, and for 200
/// if the source fails.
fn cache() -> Arc<Cache> {
    let windows = StaleWindows { while_renewed: 50, if_error: 200, at_most: u64::MAX, gone_at: u64::MAX };
    let stale_rules: Option<Shared<dyn StaleRules>> = Some(Shared::new(WhileTheSourceFails { windows, ahead: 20 }));
    Cache::new(Config { stale_rules, seed: Some(1), ..Config::default() })
}

fn fill(cache: &Arc<Cache>, value: &'static str, now: Millis) {
    match cache.lookup(cache.key(b"k"), now, |_| ()) {
        Lookup::Lead(lead) | Lookup::Renew(_, lead) => {
            assert!(lead.finish(
                Outcome::Value(value.into()),
                Fill::Store(Expiry::FreshFor(100), Attributes::NONE),
                now
            ));
        }
        other => panic!("no lead: {other:?}"),
    }
}

type Seen = Lookup<(Bytes, Option<Millis>)>;
fn look(cache: &Arc<Cache>, now: Millis) -> Seen {
    cache.lookup(cache.key(b"k"), now, |entry| (entry.value.to_bytes(), entry.stale_since()))
}
fn poll(wait: Wait) -> Poll<Outcome> {
    pin!(wait).poll(&mut Context::from_waker(Waker::noop()))
}
/// A row of the table in words.
fn told(seen: &Seen) -> &'static str {
    match seen {
        Lookup::Hit((_, None)) => "hit",
        Lookup::Hit((_, Some(_))) => "stale",
        Lookup::Renew(Some((_, None)), _) => "hit, renew",
        Lookup::Renew(Some((_, Some(_))), _) => "stale, renew",
        Lookup::Renew(None, _) => "absent, renew",
        Lookup::Absent => "absent",
        Lookup::Lead(lead) if lead.has_fallback() => "fetch or stale",
        Lookup::Lead(_) => "fetch",
        Lookup::Wait(_) => "wait",
    }
}

#[test]
fn what_is_served_at_each_age() {
    // Age, what the first reader gets, and the second while the fetch of the first is in flight.
    let table = [
        (0, "hit", "hit"),
        (79, "hit", "hit"),
        (80, "hit, renew", "hit"),
        (99, "hit, renew", "hit"),
        (100, "stale, renew", "stale"),
        (149, "stale, renew", "stale"),
        (150, "fetch or stale", "wait"),
        (299, "fetch or stale", "wait"),
        (300, "fetch", "wait"),
        (9999, "fetch", "wait"),
    ];
    for (age, first, second) in table {
        let cache = cache();
        fill(&cache, "v", 1000);
        let one = look(&cache, 1000 + age);
        assert_eq!((told(&one), told(&look(&cache, 1000 + age))), (first, second), "age {age}");
        assert!(cache.explain(cache.key(b"k"), 1000 + age).is_fetching == !matches!(one, Lookup::Hit(_)), "age {age}");
        drop(one);
        // What is said of it is what happens.
        let explained = self::cache();
        fill(&explained, "v", 1000);
        let known = explained.explain(explained.key(b"k"), 1000 + age);
        let next = match known.next {
            NextRead::Hit => "hit",
            NextRead::HitAndRenew => "hit, renew",
            NextRead::Stale => "stale, renew",
            NextRead::FetchOrStale => "fetch or stale",
            NextRead::Fetch => "fetch",
        };
        assert_eq!(next, first, "age {age}");
        let stale_since = known.held.and_then(|held| held.stale_since);
        assert_eq!(stale_since, (100..300).contains(&age).then_some(1100), "age {age}");
        assert_eq!(
            known.held.map(|held| held.served_until),
            (age < 300).then_some([Some(1150), Some(1300)]),
            "age {age}"
        );
        // The background gives nothing back earlier than that.
        let again = self::cache();
        fill(&again, "v", 1000);
        again.tick(1000 + age);
        assert_eq!(told(&look(&again, 1000 + age)), first, "age {age}, after a tick");
    }
}

#[test]
fn what_is_served_if_the_fetch_fails() {
    // Age, what is known then, and what readers get while further fetches are held off until 80 ms
    // later.
    let table = [(100, Some("v"), "stale"), (150, Some("v"), "stale"), (240, Some("v"), "stale"), (300, None, "fetch")];
    for (age, known, meanwhile) in table {
        let (cache, now) = (cache(), 1000 + age);
        fill(&cache, "v", 1000);
        let (Lookup::Lead(lead) | Lookup::Renew(_, lead)) = look(&cache, now) else { panic!("no fetch") };
        assert_eq!(lead.last_known(now), known.map(|value| Some(value.into())), "age {age}");
        lead.hold_off(now + 80, now);
        lead.finish(Outcome::Failed("down".into()), Fill::Skip, now);
        assert_eq!(told(&look(&cache, now + 30)), meanwhile, "age {age}");
        assert_ne!(told(&look(&cache, now + 80)), "stale", "age {age}: asks again");
    }
}

#[test]
fn a_fetch_that_takes_too_long_is_answered_early_and_goes_on() {
    let cache = cache();
    fill(&cache, "old", 1000);
    let Lookup::Lead(lead) = look(&cache, 1160) else { panic!("no fetch") };
    let Lookup::Wait(second) = look(&cache, 1160) else { panic!("not shared") };
    let mut first = pin!(lead.wait());
    let context = &mut Context::from_waker(Waker::noop());
    assert!(first.as_mut().poll(context).is_pending());
    lead.early_answer().give(1170);
    assert_eq!(first.poll(context), Poll::Ready(Outcome::Value("old".into())));
    assert_eq!(poll(second), Poll::Ready(Outcome::Value("old".into())));
    // No lookup waits for it any more, and none fetches a second time.
    assert_eq!(told(&look(&cache, 1180)), "stale");
    // Where the copy has become too old, readers wait for the end.
    let Lookup::Wait(late) = look(&cache, 1310) else { panic!("a second fetch") };
    assert!(lead.finish(Outcome::Value("new".into()), Fill::Store(Expiry::FreshFor(100), Attributes::NONE), 1320));
    assert_eq!(poll(late), Poll::Ready(Outcome::Value("new".into())));
    assert_eq!(told(&look(&cache, 1320)), "hit");
    // A second loss fences the flight; who waits for it is answered all the same.
    let Lookup::Lead(lead) = look(&cache, 1320 + 150) else { panic!("no fetch") };
    let mut wait = pin!(lead.wait());
    cache.mark_stale(1475);
    lead.early_answer().give(1480);
    assert_eq!(wait.as_mut().poll(context), Poll::Ready(Outcome::Value("new".into())));
    drop(lead);
    // Too late, and with nothing to give.
    let Lookup::Lead(lead) = look(&cache, 1320 + 150) else { panic!("no fetch") };
    let early = lead.early_answer();
    cache.invalidate(cache.key(b"k"));
    let mut wait = pin!(lead.wait());
    early.give(1480);
    assert!(wait.as_mut().poll(context).is_pending(), "the copy was forgotten");
    drop(lead);
    assert_eq!(wait.poll(context), Poll::Ready(Outcome::Abandoned));
}

#[test]
fn absences_grow_old_like_values() {
    let cache = cache();
    let Lookup::Lead(lead) = look(&cache, 1000) else { panic!("no fetch") };
    assert!(lead.finish(Outcome::Absent, Fill::Store(Expiry::FreshFor(100), Attributes::NONE), 1000));
    assert_eq!(told(&look(&cache, 1050)), "absent");
    let renewed = look(&cache, 1120);
    assert_eq!((told(&renewed), told(&look(&cache, 1120))), ("absent, renew", "absent"));
    drop(renewed);
    let Lookup::Lead(lead) = look(&cache, 1200) else { panic!("no fetch") };
    assert_eq!(lead.last_known(1200), Some(None));
}

#[test]
fn absences_have_a_room_of_their_own_and_evict_no_values() {
    let full = || Config { max_memory: 8 << 20, shards: Some(1), seed: Some(1), ..Config::default() };
    for config in [full(), Config { max_keys: Some(16_000), ..full() }] {
        let cache = Cache::new(config);
        let mut tier = cache.tier();
        let name = |n: u32| n.to_le_bytes();
        for n in 0..15_000 {
            tier.set(cache.key(&name(n)), Write::new(&[7; 300]), 0).expect("it fits");
        }
        let held = || (0..15_000).filter(|n| cache.tier().peek(cache.key(&name(*n)), 0, |_| ()).is_some()).count();
        assert_eq!(held(), 15_000);
        for n in 1_000_000..1_200_000 {
            let Lookup::Lead(lead) = cache.lookup(cache.key(&name(n)), 0, |_| ()) else { panic!("no fetch") };
            lead.finish(Outcome::Absent, Fill::Store(Expiry::FreshFor(100), Attributes::NONE), 0);
        }
        assert_eq!(held(), 15_000);
        let remembered = cache.stats().negative_entries;
        assert!((500..100_000).contains(&remembered), "{remembered}");
        lock(cache.mutex(0)).check();
        // Their room is free again when they are over.
        cache.tick(1_000);
        assert_eq!(cache.stats().negative_entries, 0);
        let Lookup::Lead(lead) = cache.lookup(cache.key(b"another"), 1_000, |_| ()) else { panic!("no fetch") };
        assert!(lead.finish(Outcome::Absent, Fill::Store(Expiry::FreshFor(100), Attributes::NONE), 1_000));
    }
}

#[test]
fn what_cannot_be_kept_is_not_shared_for_a_while() {
    let cache = cache();
    let Lookup::Lead(lead) = look(&cache, 0) else { panic!("no fetch") };
    lead.stop_sharing(10, 0);
    lead.finish(Outcome::Value("private".into()), Fill::Skip, 0);
    let (one, two) = (look(&cache, 5), look(&cache, 5));
    assert_eq!((told(&one), told(&two)), ("fetch", "fetch"));
    let Lookup::Lead(lead) = one else { panic!("checked above") };
    assert!(
        !lead.finish(Outcome::Value("v".into()), Fill::Store(Expiry::Never, Attributes::NONE), 5),
        "there is no telling which is newer"
    );
    let (one, two) = (look(&cache, 10), look(&cache, 10));
    assert_eq!((told(&one), told(&two)), ("fetch", "wait"));
}

#[test]
fn marks_end_what_was_stored_before_them() {
    let cache = cache();
    let mut tier = cache.tier();
    let names: Vec<String> = (0..2000).map(|n| format!("{}:{n}", if n % 2 == 0 { "even" } else { "odd" })).collect();
    for name in &names {
        tier.set(cache.key(name.as_bytes()), Write::new(b"v"), 0).expect("it fits");
    }
    cache.mark_prefix(b"even:", true, 10);
    let held =
        |now| names.iter().filter(|name| cache.tier().peek(cache.key(name.as_bytes()), now, |_| ()).is_some()).count();
    assert_eq!(held(10), 1000);
    tier.set(cache.key(b"even:0"), Write::new(b"new"), 10).expect("it fits");
    assert_eq!(held(10), 1001, "written after the mark");
    cache.tick(20);
    assert_eq!(tier.len(), 1001, "swept");
    assert!(!lock(cache.mutex(0)).has_marks, "and the mark is gone");
    // Out of date, then gone, unless written meanwhile.
    cache.mark_stale(100);
    tier.set(cache.key(b"odd:1"), Write::new(b"new"), 110).expect("it fits");
    cache.tick(299);
    assert_eq!((held(299), tier.len()), (1, 1001), "kept for those whose fetch fails");
    cache.tick(100_000);
    assert_eq!((held(100_000), tier.len()), (1, 1));
    assert!(!lock(cache.mutex(0)).has_marks);
    // More than a shard keeps: nothing that they cover comes back, nothing else goes.
    for n in 0..100 {
        let key = format!("p{n}:k");
        tier.set(cache.key(key.as_bytes()), Write::new(b"v"), 100_000).expect("it fits");
        cache.mark_prefix(format!("p{n}:").as_bytes(), true, 100_000);
    }
    assert_eq!(
        (0..100).filter(|n| tier.peek(cache.key(format!("p{n}:k").as_bytes()), 100_001, |_| ()).is_some()).count(),
        0
    );
    assert!(tier.peek(cache.key(b"odd:1"), 100_001, |_| ()).is_some());
    lock(cache.mutex(0)).check();
}

/// What a client clears by very many prefixes is removed in steps, not under one lock.
#[test]
fn many_marks_are_thinned_out_in_steps() {
    let cache = Cache::new(Config { shards: Some(1), ..Config::default() });
    let mut tier = cache.tier();
    let entries = if cfg!(miri) { 300 } else { 10_000 };
    for n in 0..entries {
        tier.set(cache.key(format!("{}:{n}", n % 100).as_bytes()), Write::new(b"v"), 0).expect("it fits");
    }
    // Not `Tier::len`, which removes at once what was cleared.
    let held = || lock(cache.mutex(0)).index.len();
    let mut steps = 0;
    for n in 0..100 {
        loop {
            let before = held();
            let has_more = cache.thin_marks(0);
            assert!(before - held() <= 256, "{} at once", before - held());
            if !has_more {
                break;
            }
            steps += 1;
        }
        cache.mark_prefix(format!("{n}:").as_bytes(), true, 0);
        let marks = lock(cache.mutex(0)).marks.marks.len();
        assert!(marks <= 32, "{marks}");
    }
    assert!(steps > 2 && held() < entries, "{steps}");
}

#[test]
fn shards_share_the_prefix_of_a_clear() {
    let cache = Cache::new(Config { shards: Some(16), ..Config::default() });
    for n in 0..1000_u32 {
        cache.tier().set(cache.key(&n.to_le_bytes()), Write::new(b"v"), 0).expect("it fits");
    }
    cache.mark_prefix(b"k", true, 0);
    let of = |number| lock(cache.mutex(number)).marks.marks[0].prefix.clone();
    let first = of(0);
    assert!((1..cache.shards()).all(|number| Shared::ptr_eq(&first, &of(number))));
}

#[test]
fn a_loss_does_not_make_older_losses_younger() {
    let cache = cache();
    cache.tier().set(cache.key(b"k"), Write::new(b"v"), 0).expect("it fits");
    for loss in 0..100 {
        cache.mark_stale(10 + loss * 20);
    }
    assert_eq!(told(&look(&cache, 209)), "fetch or stale");
    assert_eq!(told(&look(&cache, 210)), "fetch");
}

#[derive(Debug, Clone)]
enum Op {
    Read(u8),
    /// The oldest fetch of the key ends: with a new value, an absence, a failure, a value that is
    /// not kept.
    End(u8, u8),
    Overdue(u8),
    Write(u8),
    Invalidate(u8),
    Mark(u8),
    Wait(u64),
    Tick,
}
fn op() -> impl Strategy<Value = Op> {
    let key = 0..4_u8;
    prop_oneof![
        8 => key.clone().prop_map(Op::Read),
        6 => (key.clone(), 0..6_u8).prop_map(|(key, how)| Op::End(key, how)),
        2 => key.clone().prop_map(Op::Overdue),
        1 => key.clone().prop_map(Op::Write),
        1 => key.clone().prop_map(Op::Invalidate),
        // Everything out of date, half of it out of date, half of it gone.
        1 => (0..3_u8).prop_map(Op::Mark),
        5 => (1..90_u64).prop_map(Op::Wait),
        1 => Just(Op::Tick),
    ]
}

/// What holds for a value: the end of its own freshness, the end of its freshness by that or a
/// mark, and the last moment at all.
#[derive(Debug, Clone, Copy)]
struct Truth {
    own_end: Millis,
    fresh_until: Millis,
    gone_at: Millis,
}
impl Truth {
    fn new(own_end: Millis) -> Truth {
        Truth { own_end, fresh_until: own_end, gone_at: own_end + 200 }
    }
}

proptest! {
    #[test]
    fn nothing_is_older_than_its_bound_and_no_key_has_two_fetches(ops in proptest::collection::vec(op(), 1..200)) {
        let cache = cache();
        let mut now = 1000;
        let mut serial = 0_u64;
        let mut truths: HashMap<Vec<u8>, (u8, Truth)> = HashMap::new();
        let mut flights: HashMap<u8, Vec<(Lead, Millis)>> = HashMap::new();
        // Fetches begun before these are fenced: a second one may be in flight.
        let mut fenced: HashMap<u8, Millis> = HashMap::new();
        let name = |key: u8| [b'a' + key % 2, key];
        let serve = |value: &[u8], now: Millis, what: &str, truths: &HashMap<Vec<u8>, (u8, Truth)>| {
            let (_, truth) = truths[value];
            let bound = match what {
                "fresh" => truth.fresh_until,
                "while renewed" => truth.fresh_until + 50,
                _ => truth.gone_at,
            };
            assert!(now < bound.min(truth.gone_at), "{what} at {now}: {truth:?}");
        };
        for op in ops {
            now += 1;
            match op {
                Op::Read(key) => {
                    let name = name(key);
                    let found = cache.lookup(cache.key(&name), now, |e| (e.value.to_bytes(), e.stale_since()));
                    let lead = match found {
                        Lookup::Hit((value, None)) => { serve(&value, now, "fresh", &truths); None }
                        // While a fetch is overdue, or after one failed, the longer bound holds.
                        Lookup::Hit((value, Some(_))) => { serve(&value, now, "if the source fails", &truths); None }
                        Lookup::Renew(Some((value, None)), lead) => { serve(&value, now, "fresh", &truths); Some(lead) }
                        Lookup::Renew(Some((value, Some(_))), lead) => { serve(&value, now, "while renewed", &truths); Some(lead) }
                        Lookup::Renew(None, lead) | Lookup::Lead(lead) => Some(lead),
                        Lookup::Absent | Lookup::Wait(_) => None,
                    };
                    if let Some(lead) = lead {
                        let running = flights.entry(key).or_default();
                        let since = fenced.get(&key).copied().unwrap_or(0);
                        assert!(running.iter().all(|(_, begun)| *begun <= since), "two fetches of {key}");
                        running.push((lead, now));
                    }
                }
                Op::End(key, how) => {
                    let Some(running) = flights.get_mut(&key).filter(|running| !running.is_empty()) else { continue };
                    let (lead, _) = running.remove(0);
                    serial += 1;
                    let value = serial.to_le_bytes().to_vec();
                    match how {
                        0..=2 => {
                            truths.insert(value.clone(), (key, Truth::new(now + 100)));
                            lead.finish(Outcome::Value(value.into()), Fill::Store(Expiry::FreshFor(100), Attributes::NONE), now);
                        }
                        3 => { lead.finish(Outcome::Absent, Fill::Store(Expiry::FreshFor(100), Attributes::NONE), now); }
                        _ => {
                            if let Some(Some(known)) = lead.last_known(now) {
                                serve(&known, now, "if the source fails", &truths);
                            }
                            lead.hold_off(now + 40, now);
                            lead.finish(Outcome::Failed("down".into()), Fill::Skip, now);
                        }
                    }
                }
                Op::Overdue(key) => {
                    if let Some((lead, _)) = flights.get(&key).and_then(|running| running.last()) {
                        let wait = lead.wait();
                        lead.early_answer().give(now);
                        if let Poll::Ready(Outcome::Value(value)) = poll(wait) {
                            serve(&value, now, "if the source fails", &truths);
                        }
                    }
                }
                Op::Write(key) => {
                    serial += 1;
                    let value = serial.to_le_bytes().to_vec();
                    truths.values_mut().filter(|truth| truth.0 == key).for_each(|truth| truth.1.gone_at = truth.1.gone_at.min(now));
                    truths.insert(value.clone(), (key, Truth::new(now + 70)));
                    let write = Write { expiry: Expiry::FreshUntil(now + 70), ..Write::new(&value) };
                    cache.tier().set(cache.key(&name(key)), write, now).expect("it fits");
                    fenced.insert(key, now);
                }
                Op::Invalidate(key) => {
                    truths.values_mut().filter(|truth| truth.0 == key).for_each(|truth| truth.1.gone_at = truth.1.gone_at.min(now));
                    cache.invalidate(cache.key(&name(key)));
                    fenced.insert(key, now);
                }
                Op::Mark(how) => {
                    let prefix: &[u8] = if how == 0 { b"" } else { b"a" };
                    cache.mark_prefix(prefix, how == 2, now);
                    for (_, truth) in truths.values_mut().filter(|truth| name(truth.0).starts_with(prefix)) {
                        if how == 2 {
                            truth.gone_at = truth.gone_at.min(now);
                        } else if truth.fresh_until > now {
                            truth.fresh_until = now;
                            truth.gone_at = truth.gone_at.min(truth.own_end.max(now + 200));
                        }
                    }
                    (0..4).filter(|key| name(*key).starts_with(prefix)).for_each(|key| { fenced.insert(key, now); });
                }
                Op::Wait(millis) => now += millis,
                Op::Tick => cache.tick(now),
            }
            lock(cache.mutex(0)).check();
        }
    }
}
