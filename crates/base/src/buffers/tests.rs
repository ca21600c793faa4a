use super::{buffer_budget::*, *};
use bytes::Bytes;
use proptest::prelude::*;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Wake, Waker},
    thread,
};

const MIB: usize = 1 << 20;

fn client(buffers: &Arc<Buffers>, worker: usize) -> BufferAccount {
    BufferAccount::client(buffers, worker, ClientProtocol::Redis, Waker::noop().clone())
}
fn output(bytes: usize) -> HeldBytes {
    HeldBytes { output: bytes, ..HeldBytes::default() }
}
fn of(buffers: &Buffers, kind: &str) -> u64 {
    buffers.by_kind().find(|(name, _)| *name == kind).expect("a kind").1
}

#[derive(Debug, Clone)]
enum Step {
    Open(usize, bool),
    Set(usize, [usize; 3]),
    Close(usize),
    Count(usize),
    Clone(usize),
    Drop(usize),
    Charge(usize),
    Resize(usize, usize),
    Uncharge(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let size = || prop_oneof![0usize..100, 0usize..(100 << 10)];
    let step = prop_oneof![
        (0usize..3, any::<bool>()).prop_map(|(worker, http)| Step::Open(worker, http)),
        (any::<usize>(), [size(), size(), size()]).prop_map(|(at, to)| Step::Set(at, to)),
        any::<usize>().prop_map(Step::Close),
        size().prop_map(Step::Count),
        any::<usize>().prop_map(Step::Clone),
        any::<usize>().prop_map(Step::Drop),
        size().prop_map(Step::Charge),
        (any::<usize>(), size()).prop_map(|(at, to)| Step::Resize(at, to)),
        any::<usize>().prop_map(Step::Uncharge),
    ];
    proptest::collection::vec(step, 1..120)
}

fn pick<T>(from: &[T], at: usize) -> Option<usize> {
    (!from.is_empty()).then(|| at % from.len())
}

proptest! {
    /// Against a model that adds everything up again after each step; nothing is left over at the end.
    #[test]
    fn what_is_held_is_counted_once_and_given_back(steps in steps()) {
        let buffers = Buffers::new(200 << 10, 3, Vec::new());
        let mut holders: Vec<(BufferAccount, HeldBytes, bool)> = Vec::new();
        // The clones of one string share a number.
        let mut strings: Vec<(Bytes, usize)> = Vec::new();
        let mut charges: Vec<(BufferCharge, usize)> = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Open(worker, http) => {
                    let protocol = if http { ClientProtocol::Http } else { ClientProtocol::Redis };
                    let holder = BufferAccount::client(&buffers, worker, protocol, Waker::noop().clone());
                    holders.push((holder, HeldBytes::default(), http));
                }
                Step::Set(at, [input, output, referred]) => if let Some(at) = pick(&holders, at) {
                    holders[at].1 = HeldBytes { input, output, referred };
                    holders[at].0.set(holders[at].1);
                },
                Step::Close(at) => if let Some(at) = pick(&holders, at) {
                    holders.swap_remove(at);
                },
                Step::Count(len) => strings.push((buffers.count(BufferKind::Relayed, vec![1; len]), number)),
                Step::Clone(at) => if let Some(at) = pick(&strings, at) {
                    let (string, number) = &strings[at];
                    strings.push((string.slice(string.len() / 2..), *number));
                },
                Step::Drop(at) => if let Some(at) = pick(&strings, at) {
                    strings.swap_remove(at);
                },
                Step::Charge(bytes) => {
                    let mut charge = buffers.charge(BufferKind::Fetched);
                    charge.resize(bytes);
                    charges.push((charge, bytes));
                }
                Step::Resize(at, bytes) => if let Some(at) = pick(&charges, at) {
                    let fits = bytes <= charges[at].1 || bytes - charges[at].1 <= buffers.room();
                    prop_assert_eq!(charges[at].0.try_resize(bytes), fits);
                    charges[at].1 = if fits { bytes } else { charges[at].1 };
                },
                Step::Uncharge(at) => if let Some(at) = pick(&charges, at) {
                    charges.swap_remove(at);
                },
            }
            let sum = |http: bool, part: fn(&HeldBytes) -> usize| -> u64 {
                holders.iter().filter(|(.., is)| *is == http).map(|(_, holding, _)| part(holding) as u64).sum()
            };
            let parts = [
                ("redis_input", sum(false, |holding| holding.input)),
                ("redis_output", sum(false, |holding| holding.output)),
                ("http_input", sum(true, |holding| holding.input)),
                ("http_output", sum(true, |holding| holding.output)),
                ("fetched", charges.iter().map(|(_, bytes)| *bytes as u64).sum()),
            ];
            for (kind, expected) in parts {
                prop_assert_eq!(of(&buffers, kind), expected, "{}", kind);
            }
            // Short strings count nothing, long ones once.
            let mut numbers: Vec<usize> = strings.iter().map(|(_, number)| *number).collect();
            numbers.sort_unstable();
            numbers.dedup();
            let relayed = of(&buffers, "relayed");
            prop_assert_eq!(relayed == 0, relayed < 4096);
            prop_assert!(relayed <= numbers.len() as u64 * (200 << 10));
            let told: usize = holders.iter().filter(|(holder, ..)| holder.is_cut()).count();
            prop_assert_eq!(buffers.ending.load(Relaxed) == 0, told == 0);
        }
        drop((holders, strings, charges));
        prop_assert_eq!(buffers.used(), 0);
        prop_assert_eq!(buffers.ending.load(Relaxed), 0);
        prop_assert!(buffers.workers.iter().all(|worker| worker.accounts.lock().is_empty()));
    }
}

proptest! {
    #[test]
    fn a_growing_buffer_is_a_vector(steps in proptest::collection::vec((0usize..4, 0usize..200_000), 1..20)) {
        let (mut growing, mut model) = (GrowingBuffer::default(), Vec::new());
        for (step, size) in steps {
            match step {
                0 | 1 => {
                    let piece: Vec<u8> = (0..size).map(|at| (at * 31 + model.len()) as u8).collect();
                    growing.extend(&piece, 3 << 20);
                    model.extend_from_slice(&piece);
                }
                2 => {
                    growing.reserve_exact(size);
                    prop_assert!(growing.capacity() >= model.len() + size);
                }
                _ => {
                    let front = size.min(model.len());
                    growing.remove_front(front);
                    model.drain(..front);
                }
            }
            prop_assert!(growing[..] == model[..]);
        }
        prop_assert!(Bytes::from(growing) == model);
    }
}

#[test]
fn clones_are_counted_once_until_the_last_is_gone() {
    let buffers = Buffers::new(MIB, 1, Vec::new());
    let whole = buffers.count(BufferKind::Relayed, vec![7; 10_000]);
    let counted = of(&buffers, "relayed");
    assert!((10_000..10_200).contains(&counted), "{counted}");
    let part = whole.slice(9_000..);
    drop(whole);
    assert_eq!(of(&buffers, "relayed"), counted, "a part holds the whole");
    thread::spawn(move || drop(part)).join().expect("no panic");
    assert_eq!(buffers.used(), 0);
    assert_eq!(of(&buffers, "relayed"), 0);
    let short = buffers.count(BufferKind::Relayed, vec![7; 100]);
    assert_eq!((buffers.used(), short.len()), (0, 100));
}

#[test]
fn those_that_hold_the_most_are_cut_and_the_others_are_not() {
    let buffers = Buffers::new(10 * MIB, 2, Vec::new());
    let holders: Vec<BufferAccount> = (0..12).map(|n| client(&buffers, n % 2)).collect();
    // 0.5, 1, … 4.5 MiB, and then one more of the smallest.
    let mut held = 0;
    for (n, holder) in holders.iter().enumerate().take(6) {
        holder.set(output((n + 1) * MIB / 2));
        held += (n + 1) * MIB / 2;
        // The sixth passes the bound.
        assert_eq!(holders.iter().any(BufferAccount::is_cut), held > 10 * MIB, "at {held}");
    }
    let cut: Vec<usize> = (0..12).filter(|n| holders[*n].is_cut()).collect();
    assert_eq!(cut, [5], "the largest alone makes room enough");
    // Until it has gone it is expected to go: no other client is cut for what it still holds.
    holders[6].set(output(100 << 10));
    assert_eq!(holders.iter().filter(|holder| holder.is_cut()).count(), 1);
    assert_eq!(holders.iter().filter(|holder| holder.is_cut()).count(), 1);
    drop(holders);
    assert_eq!(buffers.used(), 0);
    assert_eq!(buffers.ending.load(Relaxed), 0);
}

#[test]
fn many_small_ones_are_cut_only_if_they_are_all_there_is() {
    let buffers = Buffers::new(MIB, 1, Vec::new());
    let small: Vec<BufferAccount> = (0..100).map(|_| client(&buffers, 0)).collect();
    small.iter().for_each(|holder| holder.set(output(4 << 10)));
    let large = client(&buffers, 0);
    large.set(output(MIB));
    assert!(large.is_cut() && !small.iter().any(BufferAccount::is_cut));
    drop(large);
    small.iter().for_each(|holder| holder.set(output(20 << 10)));
    assert!(small.iter().any(BufferAccount::is_cut));
    assert!(!small.iter().all(BufferAccount::is_cut));
}

#[test]
fn references_make_a_connection_more_likely_to_be_cut() {
    let buffers = Buffers::new(MIB, 1, Vec::new());
    let (owns, refers) = (client(&buffers, 0), client(&buffers, 0));
    refers.set(HeldBytes { referred: 2 * MIB, ..HeldBytes::default() });
    assert_eq!(buffers.used(), 0, "what it refers to is on another's account");
    let mut fetched = buffers.charge(BufferKind::Fetched);
    fetched.resize(MIB);
    owns.set(output(100 << 10));
    assert!(refers.is_cut() && !owns.is_cut());
    // As do messages that wait for it.
    let subscriber = client(&buffers, 0);
    subscriber.account().set_pushes(MIB / 2);
    drop(refers);
    fetched.resize(2 * MIB);
    assert!(subscriber.is_cut());
}

struct Flag(AtomicBool);
impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn who_is_cut_is_woken_and_so_is_who_waits_for_its_room() {
    let buffers = Buffers::new(MIB, 1, Vec::new());
    let (told, waits) = (Arc::new(Flag(false.into())), Arc::new(Flag(false.into())));
    let large = BufferAccount::client(&buffers, 0, ClientProtocol::Http, told.clone().into());
    large.set(output(2 * MIB));
    assert!(large.is_cut() && told.0.load(Relaxed));
    let waker = waits.clone().into();
    assert!(!buffers.poll_room(&Context::from_waker(&waker)));
    assert!(!waits.0.load(Relaxed));
    drop(large);
    assert!(waits.0.load(Relaxed));
    assert!(buffers.poll_room(&Context::from_waker(&waker)));
}

#[test]
fn a_panic_gives_back_what_was_held() {
    let buffers = Buffers::new(MIB, 1, Vec::new());
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let holder = client(&buffers, 0);
        holder.set(HeldBytes { input: 1000, output: 2000, referred: 3000 });
        let _counted = buffers.count(BufferKind::Relayed, vec![0; 10_000]);
        std::panic::resume_unwind(Box::new("a fault"));
    }));
    assert!(panicked.is_err());
    assert_eq!(buffers.used(), 0);
    assert!(buffers.workers[0].accounts.lock().is_empty());
}

#[test]
fn the_more_is_held_the_less_one_connection_may_be_due() {
    let buffers = Buffers::new(64 * MIB, 2, Vec::new());
    let fresh = buffers.allowance(1);
    assert_eq!(fresh, 4 * MIB);
    let mut hogs = Vec::new();
    let mut last = fresh;
    // Each takes what it may: together they do not come to the bound.
    for _ in 0..80 {
        let hog = client(&buffers, 0);
        hog.set(output(buffers.allowance(0).min(MIB)));
        hogs.push(hog);
        assert!(buffers.allowance(1) <= last, "every worker knows of it");
        last = buffers.allowance(1);
        assert!(last >= LEAST_DUE);
    }
    assert!(buffers.used() <= buffers.limit() && !hogs.iter().any(BufferAccount::is_cut));
    drop(hogs);
    buffers.tick();
    assert_eq!(buffers.allowance(1), fresh);
}

#[test]
fn threads_that_hold_and_give_back_leave_nothing() {
    let buffers = Buffers::new(MIB, 4, Vec::new());
    let threads: Vec<_> = (0..4)
        .map(|worker| {
            let buffers = buffers.clone();
            thread::spawn(move || {
                let mut kept = Vec::new();
                for round in 0..2_000usize {
                    let holder = client(&buffers, worker);
                    holder.set(HeldBytes { input: round * 37 % 50_000, output: round * 91 % 50_000, referred: round });
                    kept.push((holder, buffers.count(BufferKind::Relayed, vec![0; round % 9_000])));
                    if kept.len() > 20 {
                        kept.swap_remove(round % 20);
                    }
                    // Far from what a sum that went below zero would show.
                    assert!(buffers.used() < 64 * MIB);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    assert_eq!(buffers.used(), 0);
    assert_eq!(buffers.ending.load(Relaxed), 0);
}
