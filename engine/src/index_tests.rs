//! The index against a model: entries come, go and move, singly and by thousands, while a scan runs.

use crate::index::{Hint, Index, Records, ScanAt};
use proptest::prelude::*;
use std::{
    collections::{HashMap, HashSet},
    ops::RangeInclusive,
};

/// An index, and what it has to hold.
struct Model {
    index: Index,
    /// Hash and position of each entry, by its number.
    held: HashMap<u32, (u64, u32)>,
    /// The entry at a position.
    at: HashMap<u32, u32>,
    /// The numbers of the entries, to choose from.
    numbers: Vec<u32>,
    next: u32,
    /// Bits that all hashes have, so that some pages get more than others.
    skew: u64,
    scan: Option<ScanAt>,
    /// Entries that have been there since the scan began, and that it has not visited.
    unseen: HashSet<u32>,
}

fn mixed(n: u32) -> u64 {
    u64::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(n).wrapping_mul(0xd6e8_feb8_6659_fd93).rotate_left(32)
}

struct Held<'a> {
    held: &'a HashMap<u32, (u64, u32)>,
    at: &'a HashMap<u32, u32>,
}

impl Records for Held<'_> {
    fn hash(&self, position: u32) -> u64 {
        self.held[&self.at[&position]].0
    }

    fn prefetch(&self, _: u32) {}
}

impl Model {
    /// `skew`: hashes agree in so many of the bits that choose the page.
    fn new(skew: u32) -> Model {
        Model {
            index: Index::new(),
            held: HashMap::new(),
            at: HashMap::new(),
            numbers: Vec::new(),
            next: 0,
            skew: (1 << skew) - 1,
            scan: None,
            unseen: HashSet::new(),
        }
    }

    /// A position that is not taken, with this number of bits.
    fn position(&mut self, bits: u32) -> u32 {
        self.next += 1;
        self.next | ((1u64 << bits) >> 1) as u32
    }

    fn add(&mut self, bits: u32) {
        let position = self.position(bits);
        let (number, hash) = (self.next, mixed(self.next) | self.skew);
        let Model { index, held, at, .. } = self;
        index.insert(hash, position, &Held { held, at });
        self.held.insert(number, (hash, position));
        self.at.insert(position, number);
        self.numbers.push(number);
    }

    /// Removes the entry that `which` chooses.
    fn remove(&mut self, which: usize) {
        if self.numbers.is_empty() {
            return;
        }
        let number = self.numbers.swap_remove(which % self.numbers.len());
        let (hash, position) = self.held.remove(&number).expect("held");
        self.at.remove(&position);
        self.unseen.remove(&number);
        self.index.remove(hash, position);
    }

    fn relocate(&mut self, which: usize, bits: u32) {
        if self.numbers.is_empty() {
            return;
        }
        let number = self.numbers[which % self.numbers.len()];
        let to = self.position(bits);
        let (hash, from) = self.held[&number];
        self.index.moved(hash, from, to);
        self.held.insert(number, (hash, to));
        self.at.remove(&from);
        self.at.insert(to, number);
    }

    /// A step of a scan, which begins if none is under way.
    fn scan(&mut self, count: usize) {
        let from = self.scan.unwrap_or_else(|| {
            self.unseen = self.held.keys().copied().collect();
            ScanAt::START
        });
        let (mut seen, at, unseen) = (0, &self.at, &mut self.unseen);
        self.scan = self.index.scan(from, count, |position| {
            unseen.remove(&at[&position]);
            seen += 1;
        });
        if self.scan.is_none() {
            assert!(self.unseen.is_empty(), "not visited: {:?}", self.unseen);
        } else {
            assert!(seen >= count);
        }
    }

    fn check(&self) {
        self.index.check();
        assert_eq!(self.index.len(), self.held.len());
        for (hash, position) in self.held.values() {
            assert_eq!(self.index.find(*hash, |p| (p == *position).then_some(p)), Some(*position));
            let mut hinted = false;
            self.index.hinted(Hint::of(*hash), |p| hinted |= p == *position);
            assert!(hinted, "{position:#x} under its hint");
        }
        let random = self.index.random(mixed(self.next)).map(|p| self.at.contains_key(&p));
        assert_eq!(random, (!self.held.is_empty()).then_some(true));
    }

    /// A scan of what does not change sees each entry once.
    fn check_scan(&self) {
        let (mut seen, mut at) = (Vec::new(), Some(ScanAt::START));
        while let Some(from) = at {
            at = self.index.scan(from, 10, |p| seen.push(p));
        }
        seen.sort_unstable();
        let mut all: Vec<u32> = self.at.keys().copied().collect();
        all.sort_unstable();
        assert_eq!(seen, all);
    }
}

#[derive(Debug, Clone)]
enum Step {
    Add(u32, u32),
    Remove(u32),
    Relocate(u32, u32),
    Scan(usize),
}

/// So many entries by each step; positions of these numbers of bits.
fn steps(entries: RangeInclusive<u32>, bits: RangeInclusive<u32>) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (entries.clone(), bits.clone()).prop_map(|(n, bits)| Step::Add(n, bits)),
        2 => entries.clone().prop_map(Step::Remove),
        1 => (entries.clone(), bits).prop_map(|(n, bits)| Step::Relocate(n, bits)),
        2 => (1..=2 * *entries.end() as usize).prop_map(Step::Scan),
    ];
    prop::collection::vec(step, 1..40)
}

fn run(skew: u32, steps: Vec<Step>) {
    let mut model = Model::new(skew);
    for (turn, step) in steps.into_iter().enumerate() {
        let which = |n: u32| mixed(n ^ (turn as u32) << 16) as u32 as usize;
        match step {
            Step::Add(count, bits) => (0..count).for_each(|_| model.add(bits)),
            Step::Remove(count) => (0..count).for_each(|n| model.remove(which(n))),
            Step::Relocate(count, bits) => (0..count).for_each(|n| model.relocate(which(n), bits)),
            Step::Scan(count) => model.scan(count),
        }
        model.index.check();
    }
    model.check();
    model.check_scan();
    while model.scan.is_some() {
        model.scan(100);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The bits of positions: up to and beyond those that leave the tags whole.
    #[test]
    fn a_few_entries_are_found_and_scanned(steps in steps(1..=30, 20..=32)) {
        run(0, steps);
    }

    /// Enough for pages to be split and merged, and for the memory of pages to be freed.
    #[test]
    fn many_entries_are_found_and_scanned(steps in steps(1..=1200, 23..=27)) {
        run(0, steps);
    }

    /// A page that has all blocks that it can have is split out of turn, and two that are too large
    /// are not merged.
    #[test]
    fn entries_that_crowd_some_pages_are_found_and_scanned(steps in steps(1..=1200, 23..=27), skew in 1_u32..=5) {
        run(skew, steps);
    }
}

#[test]
fn a_scan_sees_what_stays_while_tags_lose_bits() {
    let mut model = Model::new(0);
    (0..300).for_each(|_| model.add(20));
    model.scan(30);
    let mut bits = 24;
    while model.scan.is_some() {
        (0..40).for_each(|_| model.add(bits));
        bits = (bits + 1).min(32);
        model.scan(30);
    }
    model.check();
}

#[test]
fn a_scan_sees_what_stays_while_pages_are_merged() {
    let mut model = Model::new(0);
    let all = if cfg!(miri) { 1200 } else { 8000 };
    (0..all).for_each(|_| model.add(20));
    let before = model.index.pages();
    model.scan(50);
    while model.scan.is_some() {
        (0..200).for_each(|n| {
            if model.numbers.len() > 100 {
                model.remove(n)
            }
        });
        model.scan(5);
    }
    assert!(before > 1 && model.index.pages() == 1);
    model.check();
}

/// The guard against an index that keeps the memory of entries that have left.
#[test]
fn an_index_gives_memory_back_as_entries_leave() {
    let mut model = Model::new(0);
    let all = if cfg!(miri) { 2000 } else { 50_000 };
    (0..all).for_each(|_| model.add(20));
    let bytes = |model: &Model| model.index.bytes() as f64 / model.held.len() as f64;
    let full = bytes(&model);
    assert!(full < 7.5 || cfg!(miri), "{full} B for each entry");
    while model.held.len() > all / 20 {
        model.remove(model.held.len() / 2);
        if model.held.len().is_multiple_of(1000) {
            assert!(bytes(&model) < 12.0, "{} B for each of {}", bytes(&model), model.held.len());
        }
    }
    model.check();
    (0..all).for_each(|n| model.remove(n));
    model.check();
    assert!(model.index.bytes() <= 2048, "{} B for nothing", model.index.bytes());
}

#[test]
fn a_page_without_room_for_another_block_is_split() {
    // All of the first entries share a page while there are fewer than 32.
    let mut model = Model::new(5);
    (0..1440).for_each(|_| model.add(20));
    assert!(model.index.pages() < 32);
    model.check();
    model.add(20);
    assert!(model.index.pages() > 32, "{} pages", model.index.pages());
    model.check();
    (0..1400).for_each(|n| model.remove(n));
    assert_eq!(model.index.pages(), 1);
    model.check();
}

/// Cursors come from clients, who may make them up.
#[test]
fn a_scan_from_any_place_ends() {
    let mut model = Model::new(0);
    (0..4000).for_each(|_| model.add(20));
    for n in 0..if cfg!(miri) { 20 } else { 2000 } {
        let word = mixed(n);
        // Some have few bits, some have all.
        let prefix = ((word >> 16) as u32 >> (word % 32)) << (word >> 8 & 31);
        let (mut at, mut steps) = (Some(ScanAt { prefix, tag: word as u16 }), 0);
        while let Some(from) = at {
            at = model.index.scan(from, 100, |_| {});
            steps += 1;
        }
        assert!(steps <= 41);
    }
}
