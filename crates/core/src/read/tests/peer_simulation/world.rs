//! What all nodes of a simulation share: time, chance, the network, the origin, and what was seen.
use super::{node::Node, origin::Origin};
use larder_engine::Millis;
use std::{
    cell::{Cell, RefCell},
    hash::{DefaultHasher, Hash, Hasher},
    ops::Range,
    rc::Rc,
    time::Duration,
};
use tokio::{task::LocalSet, time::Instant};

/// When the simulations begin, by the true clock.
const BEGIN: Millis = 1_800_000_000_000;
/// Lines of the log that are shown.
const LINES: usize = 60;

/// One direction between two nodes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Way {
    pub(super) is_cut: bool,
    /// Of a message, 0 to 1.
    pub(super) loss: f64,
    /// In ms.
    pub(super) delay: Range<u64>,
}
impl Default for Way {
    fn default() -> Way {
        Way { is_cut: false, loss: 0.0, delay: 0..4 }
    }
}

/// A machine: its tasks, and the node on it while it runs.
#[derive(Default)]
pub(super) struct Machine {
    pub(super) tasks: Option<Rc<RefCell<LocalSet>>>,
    pub(super) node: Option<Rc<Node>>,
    /// Clients may ask the node.
    pub(super) is_open: bool,
    /// How far its clock is off, ms.
    pub(super) skew: i64,
}

/// See the module.
pub(super) struct World {
    chance: RefCell<fastrand::Rng>,
    began: Instant,
    pub(super) origin: Origin,
    pub(super) machines: RefCell<Vec<Machine>>,
    ways: RefCell<Vec<Vec<Way>>>,
    pub(super) messages: Cell<u64>,
    digest: RefCell<DefaultHasher>,
    log: RefCell<Vec<String>>,
    violations: RefCell<Vec<String>>,
}

/// What a simulation was like.
pub(super) struct History {
    pub(super) messages: u64,
    pub(super) digest: u64,
    pub(super) log: Vec<String>,
    pub(super) violations: Vec<String>,
}

impl World {
    pub(super) fn new(seed: u64, machines: usize) -> Rc<World> {
        let mut chance = fastrand::Rng::with_seed(seed);
        let machine = |chance: &mut fastrand::Rng| Machine { skew: chance.i64(-60_000..60_000), ..Machine::default() };
        let of_machines = (0..machines).map(|_| machine(&mut chance)).collect();
        Rc::new(World {
            chance: RefCell::new(chance),
            began: Instant::now(),
            origin: Origin::default(),
            machines: RefCell::new(of_machines),
            ways: RefCell::new(vec![vec![Way::default(); machines]; machines]),
            messages: Cell::new(0),
            digest: RefCell::default(),
            log: RefCell::default(),
            violations: RefCell::default(),
        })
    }

    /// The true time.
    pub(super) fn now(&self) -> Millis {
        BEGIN + u64::try_from(self.began.elapsed().as_millis()).expect("a short simulation")
    }
    /// A number of the range.
    pub(super) fn pick(&self, range: Range<u64>) -> u64 {
        self.chance.borrow_mut().u64(range)
    }
    /// One of so many.
    pub(super) fn one_of(&self, count: usize) -> usize {
        self.chance.borrow_mut().usize(..count)
    }
    pub(super) fn happens(&self, probability: f64) -> bool {
        self.chance.borrow_mut().f64() < probability
    }
    /// Waits for so many ms.
    pub(super) async fn pause(&self, millis: Range<u64>) {
        let millis = self.pick(millis);
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }

    pub(super) fn way(&self, from: usize, to: usize) -> Way {
        self.ways.borrow()[from][to].clone()
    }
    pub(super) fn set_way(&self, from: usize, to: usize, way: Way) {
        let is_new = std::mem::replace(&mut self.ways.borrow_mut()[from][to], way.clone()) != way;
        if is_new {
            self.log(format_args!("{from} -> {to}: {way:?}"));
        }
    }

    pub(super) fn node(&self, number: usize) -> Option<Rc<Node>> {
        self.machines.borrow()[number].node.clone()
    }
    /// Runs a task at a node; false if there is none.
    pub(super) fn spawn(&self, number: usize, task: impl Future<Output = ()> + 'static) -> bool {
        let machines = self.machines.borrow();
        let Some(tasks) = &machines[number].tasks else { return false };
        tasks.borrow().spawn_local(task);
        true
    }

    /// Part of the history.
    pub(super) fn note(&self, event: impl Hash) {
        let mut digest = self.digest.borrow_mut();
        (self.now(), event).hash(&mut *digest);
    }
    pub(super) fn log(&self, line: std::fmt::Arguments<'_>) {
        let line = format!("{:>8} ms  {line}", self.now() - BEGIN);
        self.note(&line);
        self.log.borrow_mut().push(line);
    }
    /// Something that must not happen has.
    pub(super) fn violation(&self, what: std::fmt::Arguments<'_>) {
        self.violations.borrow_mut().push(format!("VIOLATED at {} ms: {what}", self.now() - BEGIN));
    }

    pub(super) fn history(&self) -> History {
        let mut log = self.log.take();
        let first = log.len().saturating_sub(LINES);
        History {
            messages: self.messages.get(),
            digest: self.digest.borrow().finish(),
            log: log.split_off(first),
            violations: self.violations.take(),
        }
    }
}
