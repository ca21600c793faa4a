//! W-TinyLFU with an adaptive window, with Caffeine's parameters: Einziger, Eytan, Friedman and
//! Manes, "Adaptive Software Cache Management", Middleware 2018.
use super::{
    links::{Links, List, NONE},
    reference_policy::{KeyMap, ReferencePolicy},
    sketch::Sketch,
};
use fastrand::Rng;

/// The window's share at first.
const WINDOW: f64 = 0.01;
/// The protected share of what is not window.
const PROTECTED: f64 = 0.8;
/// A step of the climber at first, in parts of all entries; how it shrinks with each step; by how
/// much the hit ratio has to change for the first step to come back.
const STEP: f64 = 0.0625;
const STEP_DECAY: f64 = 0.98;
const RESTART: f64 = 0.05;
/// Requests between two steps, for each entry.
const SAMPLE: usize = 10;
/// A candidate more frequent than this may win against an entry that is more frequent, once in 128.
const WARM: u8 = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Window,
    Probation,
    Protected,
}

/// Hill climbing: the window's size goes on in a direction while the hit ratio rises.
#[derive(Debug)]
struct Climber {
    requests: usize,
    hits: usize,
    ratio_before: f64,
    step: f64,
}

/// A window before the admission, and a segmented LRU behind it.
#[derive(Debug)]
pub(in super::super) struct WTinyLfu {
    entries: usize,
    by_key: KeyMap<u32>,
    slots: Vec<(u64, Part)>,
    free: Vec<u32>,
    links: Links,
    /// By [`Part`].
    lists: [List; 3],
    window_size: usize,
    protected_size: usize,
    sketch: Sketch,
    climber: Climber,
    rng: Rng,
}

impl WTinyLfu {
    fn move_to(&mut self, slot: u32, part: Part) {
        let from = std::mem::replace(&mut self.slots[slot as usize].1, part);
        self.links.take(&mut self.lists[from as usize], slot);
        self.links.push(&mut self.lists[part as usize], slot);
    }

    fn list(&self, part: Part) -> List {
        self.lists[part as usize]
    }

    fn hit(&mut self, slot: u32) {
        let part = self.slots[slot as usize].1;
        self.move_to(slot, if part == Part::Window { Part::Window } else { Part::Protected });
        self.demote();
    }

    /// What protected has too much goes back to probation.
    fn demote(&mut self) {
        while self.list(Part::Protected).len > self.protected_size {
            self.move_to(self.list(Part::Protected).oldest, Part::Probation);
        }
    }

    /// Whether an entry from the window takes the place of one that is held.
    fn admits(&mut self, candidate: u32, victim: u32) -> bool {
        let frequency = |slot: u32| self.sketch.frequency(self.slots[slot as usize].0);
        let (candidate, victim) = (frequency(candidate), frequency(victim));
        candidate > victim || candidate > WARM && self.rng.u8(..128) == 0
    }

    /// The window's oldest go on to probation; one entry leaves if there are too many.
    fn make_room(&mut self) {
        let mut candidate = NONE;
        while self.list(Part::Window).len > self.window_size {
            candidate = self.list(Part::Window).oldest;
            self.move_to(candidate, Part::Probation);
        }
        if self.by_key.len() <= self.entries {
            return;
        }
        let parts = [Part::Probation, Part::Protected, Part::Window];
        let victim = parts.map(|part| self.list(part).oldest).into_iter().find(|slot| *slot != NONE);
        let victim = victim.expect("there are too many entries");
        let loser =
            if candidate == NONE || candidate == victim || self.admits(candidate, victim) { victim } else { candidate };
        let (key, part) = self.slots[loser as usize];
        self.by_key.remove(&key);
        self.links.take(&mut self.lists[part as usize], loser);
        self.free.push(loser);
    }

    fn climb(&mut self, is_hit: bool) {
        let climber = &mut self.climber;
        climber.requests += 1;
        climber.hits += usize::from(is_hit);
        if climber.requests < self.entries.saturating_mul(SAMPLE) {
            return;
        }
        let ratio = climber.hits as f64 / climber.requests as f64;
        let change = ratio - climber.ratio_before;
        let direction = if change >= 0.0 { climber.step.signum() } else { -climber.step.signum() };
        let first = STEP * self.entries as f64;
        let step = if change.abs() >= RESTART { first } else { climber.step.abs() };
        let amount = direction * step;
        climber.step = amount * STEP_DECAY;
        (climber.requests, climber.hits, climber.ratio_before) = (0, 0, ratio);
        self.resize_window(amount);
    }

    fn resize_window(&mut self, by: f64) {
        if by >= 0.0 {
            let quota = (by as usize).min(self.protected_size);
            (self.window_size, self.protected_size) = (self.window_size + quota, self.protected_size - quota);
        } else {
            let quota = (-by as usize).min(self.window_size - 1);
            (self.window_size, self.protected_size) = (self.window_size - quota, self.protected_size + quota);
        }
        self.demote();
        while self.list(Part::Window).len < self.window_size {
            let probation = self.list(Part::Probation).oldest;
            let oldest = if probation == NONE { self.list(Part::Protected).oldest } else { probation };
            if oldest == NONE {
                return;
            }
            self.move_to(oldest, Part::Window);
        }
        while self.list(Part::Window).len > self.window_size {
            self.move_to(self.list(Part::Window).oldest, Part::Probation);
        }
    }
}

impl ReferencePolicy for WTinyLfu {
    const NAME: &'static str = "w_tiny_lfu";

    fn new(entries: usize) -> WTinyLfu {
        let entries = entries.max(1);
        // Larger caches shrink the window first.
        let climber = Climber { requests: 0, hits: 0, ratio_before: 0.0, step: -STEP * entries as f64 };
        let window_size = ((entries as f64 * WINDOW) as usize).max(1);
        WTinyLfu {
            entries,
            by_key: KeyMap::default(),
            slots: Vec::new(),
            free: Vec::new(),
            links: Links::default(),
            lists: [List::EMPTY; 3],
            window_size,
            protected_size: ((entries - window_size) as f64 * PROTECTED) as usize,
            sketch: Sketch::new(entries),
            climber,
            rng: Rng::with_seed(1),
        }
    }

    fn request(&mut self, key: u64) -> bool {
        self.sketch.add(key);
        let held = self.by_key.get(&key).copied();
        if let Some(slot) = held {
            self.hit(slot);
        } else {
            let slot = self.free.pop().unwrap_or_else(|| {
                self.slots.push((key, Part::Window));
                self.links.add()
            });
            self.slots[slot as usize] = (key, Part::Window);
            self.links.push(&mut self.lists[Part::Window as usize], slot);
            self.by_key.insert(key, slot);
            self.make_room();
        }
        self.climb(held.is_some());
        held.is_some()
    }
}
