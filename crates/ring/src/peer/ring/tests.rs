//! What holds for every ring; the agreement with the libraries is in `tests/peers`.
use super::{Ring, RingHash};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Two names of which one point each has the same CRC-32; found by search.
const TIE: (&str, &str) = ("http://10.0.32.9:8080", "http://10.0.60.20:8080");

/// The first eight bytes of the MD5 of the texts fnv1, a:1 and b:1, each with its length before it.
const EPOCH: u64 = 9_069_481_770_001_753_492;

const HASHES: [RingHash; 3] = [RingHash::Xxh3, RingHash::Fnv1, RingHash::Crc32];

fn names(count: usize) -> Vec<String> {
    (0..count).map(|node| format!("10.0.{}.{}:8080", node / 250, node % 250)).collect()
}

fn ring(hash: RingHash, names: &[String]) -> Ring {
    Ring::new(hash, &names.iter().map(String::as_str).collect::<Vec<_>>())
}

fn key(number: u64) -> Vec<u8> {
    // Spread over the ring: consecutive numbers in a key are neighbours on an FNV-1 ring.
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_string().into_bytes()
}

#[test]
fn owners_are_those_of_the_libraries() {
    // What `tests/interop/ring` printed; for 100,000 keys see `tests/peers`.
    let hosts = ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"];
    let urls = hosts.map(|host| format!("http://{host}"));
    let urls = urls.each_ref().map(String::as_str);
    let keys: [&[u8]; 4] = [b"a", b"user1", b"\x00\xff", b""];
    let owners = |ring: Ring| keys.map(|key| ring.owner(key).unwrap());
    assert_eq!(owners(Ring::new(RingHash::Fnv1, &hosts))[..3], [2, 0, 0], "groupcache-go v3");
    assert_eq!(owners(Ring::new(RingHash::Fnv1, &urls))[..3], [2, 2, 0], "mailgun's groupcache");
    assert_eq!(owners(Ring::new(RingHash::Crc32, &urls)), [0, 2, 2, 0], "the original groupcache");
}

/// Names as the files in `deploy`, a list of ports and a list of hosts have them.
fn fleets() -> [Vec<String>; 3] {
    [
        (0..3).map(|node| format!("larder-{node}.larder-peers:8080")).collect(),
        [8080, 8082, 8083].map(|port| format!("127.0.0.1:{port}")).into(),
        (1..4).map(|node| format!("10.0.0.{node}:8080")).collect(),
    ]
}

#[test]
fn keys_that_are_much_alike_are_spread_over_all_nodes() {
    let numbers = || 0..100_u32;
    let kinds: [Vec<String>; 5] = [
        numbers().map(|id| id.to_string()).collect(),
        numbers().map(|id| format!("{id:02}")).collect(),
        numbers().map(|id| format!("user:{}", 1_000_000 + id)).collect(),
        numbers().map(|id| format!("{}{id}", "/a/long/path".repeat(40))).collect(),
        ('a'..='z').chain('A'..='Z').flat_map(|letter| [letter.to_string(), format!("{letter}{letter}")]).collect(),
    ];
    for names in fleets() {
        for keys in &kinds {
            let owned = |hash| {
                let (ring, mut owned) = (ring(hash, &names), [0; 3]);
                keys.iter().for_each(|key| owned[ring.owner(key.as_bytes()).unwrap()] += 1);
                owned
            };
            let least = owned(RingHash::Xxh3).into_iter().min().unwrap() * 100 / keys.len();
            assert!(least >= 15, "{names:?}, {}: {:?}", keys[7], owned(RingHash::Xxh3));
        }
        let ids = &kinds[0];
        let of_fnv1 = ring(RingHash::Fnv1, &names);
        let with_most = |owner| ids.iter().filter(|id| of_fnv1.owner(id.as_bytes()) == Some(owner)).count();
        assert!((0..3).any(|owner| with_most(owner) >= 80), "so does not FNV-1, which Go nodes need");
    }
}

#[test]
fn the_points_of_xxh3_are_fixed() {
    // XXH3_64bits, seed 0, of the empty text and of `abc`, as xxHash publishes them.
    assert_eq!(RingHash::Xxh3.of_key(b""), 0x2d06_8005_38d3_94c2);
    assert_eq!(RingHash::Xxh3.of_key(b"abc"), 0x78af_5f94_892f_3950);
    assert_eq!(RingHash::Xxh3.of_replica(7, "a:1"), RingHash::Xxh3.of_key(b"7a:1"));
}

#[test]
fn a_ring_without_members_has_no_owner_and_one_of_one_member_has_one() {
    for hash in HASHES {
        let empty = ring(hash, &[]);
        assert_eq!(empty.owner(b"k"), None);
        assert_eq!(empty.owners(b"k").count(), 0);
        assert_eq!(empty.owner_within(b"k", |_| 0, 1.25), None);
        assert_eq!(empty.owner_in_zone(b"k", 2, |_| true), None);
        assert_eq!(empty.shares(), Vec::<f64>::new());
        let one = ring(hash, &names(1));
        assert!((0..1000).all(|number| one.owner(&key(number)) == Some(0)));
        assert!((one.shares()[0] - 1.0).abs() < 1e-9);
    }
}

#[test]
fn a_tie_goes_to_the_name_that_was_given_last() {
    // Two peers of which a point each has the same CRC-32. Found by search among http://10.a.b.c:8080.
    let (ours, theirs) = TIE;
    let point = |name: &str| (0..50).map(|replica| RingHash::Crc32.of_replica(replica, name)).collect::<BTreeSet<_>>();
    assert_eq!(point(ours).intersection(&point(theirs)).count(), 1);
    let (first, second) = (Ring::new(RingHash::Crc32, &[ours, theirs]), Ring::new(RingHash::Crc32, &[theirs, ours]));
    assert_eq!(first.points, second.points);
    let differing = first.members.iter().zip(&second.members).filter(|(first, second)| **first == **second).count();
    assert_eq!(differing, 1, "the rings differ in the owner of one point");
    assert_ne!(first.epoch(), second.epoch(), "rings that differ in an owner differ in their epoch");
    assert_eq!(
        first.members[first
            .points
            .iter()
            .position(|&tied| point(ours).contains(&tied) && point(theirs).contains(&tied))
            .unwrap()],
        1
    );
}

#[test]
fn a_name_that_is_given_twice_is_one_member() {
    for hash in HASHES {
        let twice = Ring::new(hash, &["a:1", "b:1", "a:1"]);
        let once = Ring::new(hash, &["b:1", "a:1"]);
        for number in 0..1000 {
            assert_eq!(twice.owner(&key(number)).unwrap(), once.owner(&key(number)).unwrap() + 1);
            assert_eq!(twice.owners(&key(number)).count(), 2);
        }
        assert_eq!(twice.epoch(), once.epoch());
    }
}

#[test]
fn the_epoch_is_a_fixed_number_and_changes_with_hash_and_names() {
    // Nodes of other builds and platforms compare it.
    assert_eq!(Ring::new(RingHash::Fnv1, &["a:1", "b:1"]).epoch(), EPOCH);
    let different = [
        Ring::new(RingHash::Fnv1, &["a:1", "b:1"]).epoch(),
        Ring::new(RingHash::Crc32, &["a:1", "b:1"]).epoch(),
        Ring::new(RingHash::Xxh3, &["a:1", "b:1"]).epoch(),
        Ring::new(RingHash::Fnv1, &["a:1"]).epoch(),
        Ring::new(RingHash::Fnv1, &["a:1b:1"]).epoch(),
        Ring::new(RingHash::Fnv1, &["a:1", "b:1", "c:1"]).epoch(),
    ];
    assert_eq!(BTreeSet::from(different).len(), different.len());
}

#[test]
fn shares_are_what_keys_find() {
    for hash in HASHES {
        let ring = ring(hash, &names(5));
        let mut found = [0.0; 5];
        (0..100_000).for_each(|number| found[ring.owner(&key(number)).unwrap()] += 1e-5);
        for (share, found) in ring.shares().into_iter().zip(found) {
            assert!((share - found).abs() < 0.02, "{hash:?}: share {share}, found {found}");
        }
    }
}

#[test]
fn bounded_load_places_no_more_than_factor_times_the_mean() {
    for hash in HASHES {
        let ring = ring(hash, &names(16));
        let mut loads = [0_u64; 16];
        for placed in 1..=20_000_u64 {
            let member = ring.owner_within(&key(placed), |member| loads[member], 1.25).unwrap();
            loads[member] += 1;
            let most = (1.25 * placed as f64 / 16.0).ceil() as u64;
            assert!(loads[member] <= most, "{hash:?}: {} on member {member} after {placed}", loads[member]);
        }
        let plain = (1..=20_000)
            .filter(|&number| ring.owner(&key(number)) != ring.owner_within(&key(number), |_| 0, 1.25))
            .count();
        assert_eq!(plain, 0, "without load the owner is chosen");
    }
}

#[test]
fn bounded_load_chooses_the_owner_if_loads_rise_while_it_looks() {
    let ring = ring(RingHash::Fnv1, &names(3));
    let calls = std::cell::Cell::new(0);
    let rising = |_| {
        calls.set(calls.get() + 1);
        if calls.get() <= 3 { 0 } else { u64::MAX }
    };
    assert_eq!(ring.owner_within(b"k", rising, 1.25), ring.owner(b"k"));
}

fn any_hash() -> impl Strategy<Value = RingHash> {
    prop_oneof![Just(RingHash::Xxh3), Just(RingHash::Fnv1), Just(RingHash::Crc32)]
}

fn any_names() -> impl Strategy<Value = Vec<String>> {
    proptest::collection::btree_set("[a-z]{1,12}:[0-9]{1,5}", 1..40).prop_map(|names| names.into_iter().collect())
}

fn any_keys() -> impl Strategy<Value = Vec<Vec<u8>>> {
    proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 1..200)
}

proptest! {
    #[test]
    fn the_lookup_finds_what_a_plain_search_finds(hash in any_hash(), names in any_names(), keys in any_keys()) {
        let ring = ring(hash, &names);
        let mut points = BTreeMap::new();
        for (member, name) in names.iter().enumerate() {
            points.extend((0..50).map(|replica| (hash.of_replica(replica, name), member)));
        }
        for key in &keys {
            let point = hash.of_key(key);
            let expected = points.range(point..).chain(&points).map(|(_, member)| *member);
            prop_assert_eq!(ring.owner(key), expected.clone().next());
            let mut distinct = Vec::new();
            expected.for_each(|member| if !distinct.contains(&member) { distinct.push(member) });
            prop_assert_eq!(ring.owners(key).collect::<Vec<_>>(), distinct);
        }
    }

    #[test]
    fn the_order_of_names_changes_nothing(hash in any_hash(), names in any_names(), keys in any_keys(), seed in any::<u64>()) {
        let mut shuffled = names.clone();
        fastrand::Rng::with_seed(seed).shuffle(&mut shuffled);
        let (first, second) = (ring(hash, &names), ring(hash, &shuffled));
        // Names whose points tie, which the epoch tells, are the exception.
        prop_assume!(first.epoch() == second.epoch());
        for key in &keys {
            prop_assert_eq!(&names[first.owner(key).unwrap()], &shuffled[second.owner(key).unwrap()]);
        }
    }

    #[test]
    fn a_new_member_takes_keys_and_moves_no_others(hash in any_hash(), names in any_names(), keys in any_keys()) {
        let (before, after) = (ring(hash, &names[1..]), ring(hash, &names));
        for key in &keys {
            let (old, new) = (before.owner(key).map(|member| member + 1), after.owner(key).unwrap());
            prop_assert!(new == 0 || Some(new) == old);
            // Seen the other way round: without the first member, its keys go to the next in line, and no other key moves.
            prop_assert_eq!(old, after.owners(key).find(|member| *member != 0));
        }
        // What it takes is its share, which is all that moves.
        let moved: f64 = before.shares().iter().zip(&after.shares()[1..]).map(|(before, after)| before - after).sum();
        prop_assert!(before.shares().is_empty() || (moved - after.shares()[0]).abs() < 1e-9);
    }

    #[test]
    fn shares_add_up_to_the_whole_ring(hash in any_hash(), names in any_names()) {
        let shares = ring(hash, &names).shares();
        prop_assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_zone_is_preferred_among_the_first_owners_alone(
        hash in any_hash(), names in any_names(), keys in any_keys(), replicas in 1..5_usize, zones in 1..4_usize,
    ) {
        let ring = ring(hash, &names);
        for key in &keys {
            let chosen = ring.owner_in_zone(key, replicas, |member: usize| member.is_multiple_of(zones)).unwrap();
            let first: Vec<usize> = ring.owners(key).take(replicas).collect();
            prop_assert!(first.contains(&chosen));
            let owner_alone = first[0] == chosen && !first.iter().any(|member| member.is_multiple_of(zones));
            prop_assert!(chosen.is_multiple_of(zones) || owner_alone);
        }
    }
}
