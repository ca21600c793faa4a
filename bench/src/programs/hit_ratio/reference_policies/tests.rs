use super::*;
use fastrand::Rng;

fn hits<P: ReferencePolicy>(entries: usize, keys: impl IntoIterator<Item = u64>) -> u64 {
    let mut policy = P::new(entries);
    keys.into_iter().map(|key| u64::from(policy.request(key))).sum()
}

/// Whether a key is held after these requests.
fn holds<P: ReferencePolicy>(entries: usize, keys: &[u64], key: u64) -> bool {
    let mut policy = P::new(entries);
    for key in keys {
        policy.request(*key);
    }
    policy.request(key)
}

fn never_holds_too_much<P: ReferencePolicy>() {
    let mut rng = Rng::with_seed(5);
    for entries in [1, 2, 3, 10, 50] {
        let keys: Vec<u64> = (0..400).map(|_| rng.u64(..100)).collect();
        let held = (0..100).filter(|key| holds::<P>(entries, &keys, *key)).count();
        assert!(held <= entries && held > 0, "{} holds {held} of {entries}", P::NAME);
    }
    assert_eq!(hits::<P>(300, (0..3000).map(|n| n % 300)), 2700, "{}", P::NAME);
}

#[test]
fn none_holds_more_than_its_entries() {
    never_holds_too_much::<Sieve>();
    never_holds_too_much::<S3Fifo>();
    never_holds_too_much::<WTinyLfu>();
}

/// The example of the paper's figure: visited keys stay where they are, and the hand goes on.
#[test]
fn sieve_keeps_what_was_visited() {
    let keys = [1, 2, 3, 1, 2, 4, 5];
    // 3 leaves for 4: the hand spared 1 and 2. Then it begins again, and 1 leaves for 5.
    let held: Vec<u64> = (1..=5).filter(|key| holds::<Sieve>(3, &keys, *key)).collect();
    assert_eq!(held, [2, 4, 5]);
}

#[test]
fn s3_fifo_moves_what_was_read_twice_and_what_comes_back() {
    let fill = |first: u64| first..first + 10;
    // Read twice in small: it outlives a scan.
    let keys: Vec<u64> = [1, 1, 1].into_iter().chain(fill(100)).collect();
    assert!(holds::<S3Fifo>(10, &keys, 1));
    // Read once: it goes to the ghost, and from there to main.
    let keys: Vec<u64> = [1, 1].into_iter().chain(fill(100)).collect();
    assert!(!holds::<S3Fifo>(10, &keys, 1));
    let keys: Vec<u64> = keys.into_iter().chain([1]).chain(fill(200)).collect();
    assert!(holds::<S3Fifo>(10, &keys, 1));
}

#[test]
fn w_tiny_lfu_keeps_frequent_keys_through_a_scan_and_adapts_to_recency() {
    let frequent = || (0..2000).map(|n| n % 50);
    let keys: Vec<u64> = frequent().chain(1000..1200).collect();
    let held = (0..50).filter(|key| holds::<WTinyLfu>(60, &keys, *key)).count();
    assert!(held > 45, "{held}");
    // Each key comes back within 400 requests, if at all: a window of 1 % sees few of them again.
    let recency = (0..400_000_u64).map(|n| if n % 2 == 0 { n } else { n.saturating_sub(n * 7919 % 400) / 2 * 2 });
    let adapted = hits::<WTinyLfu>(500, recency);
    assert!(adapted > 60_000, "{adapted}");
}
