//! The course of a simulation: calm, faults, quiet, calm; and what is looked at in each.
use super::world::{History, Way, World};
use bytes::Bytes;
use larder_engine::Millis;
use larder_store::clock;
use std::{
    future::poll_fn,
    pin::{Pin, pin},
    rc::Rc,
    time::Duration,
};
use tokio::{runtime::Builder, sync::oneshot, time::sleep};

/// Keys that clients of all nodes ask for.
const SHARED: usize = 12;
/// Keys of each node that its clients alone ask for.
const PRIVATE: usize = 4;
/// Longer than a node that is out is left alone, and than its changes take to be told, ms.
const QUIET: Millis = 12_000;

/// What a seed decides.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scenario {
    seed: u64,
    pub(super) nodes: usize,
    /// Longest life of a copy, ms.
    pub(super) ttl: Millis,
    pub(super) hot_copy_ttl: Duration,
    /// Nodes come and go, and differ about the ring. What they have not told others is then lost,
    /// and only lifetimes bound the age of copies.
    moves: bool,
    faults: usize,
    /// 0: the nodes are in none.
    pub(super) zones: usize,
    /// `peer-bounded-load`.
    pub(super) is_bounded: bool,
}

impl Scenario {
    pub(super) fn of_seed(seed: u64) -> Scenario {
        let mut chance = fastrand::Rng::with_seed(seed ^ 0x5eed);
        let moves = chance.bool();
        let scenario = Scenario {
            seed,
            nodes: chance.usize(3..=5),
            ttl: if moves { chance.u64(1_000..8_000) } else { 3_600_000 },
            hot_copy_ttl: Duration::from_millis(if chance.bool() { 10_000 } else { chance.u64(100..3_000) }),
            moves,
            faults: chance.usize(5..40),
            zones: 0,
            is_bounded: false,
        };
        match chance.usize(0..4) {
            0 | 1 => scenario,
            2 => Scenario { zones: chance.usize(2..=3), ..scenario },
            _ => Scenario { is_bounded: true, ..scenario },
        }
    }
}

/// Runs one simulation.
pub(super) fn run(scenario: &Scenario) -> History {
    // The waits that nodes vary.
    fastrand::seed(scenario.seed);
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    let history = runtime.block_on(async {
        let world = World::new(scenario.seed, scenario.nodes);
        let mut course = pin!(course(&world, scenario));
        poll_fn(|cx| {
            for number in 0..scenario.nodes {
                let (tasks, skew) = {
                    let machine = &world.machines.borrow()[number];
                    (machine.tasks.clone(), machine.skew)
                };
                let Some(tasks) = tasks else { continue };
                clock::stand_at(Some(world.now().saturating_add_signed(skew)));
                // It may have no tasks now, and have some later.
                let _ = Pin::new(&mut *tasks.borrow_mut()).poll(cx);
            }
            clock::stand_at(Some(world.now()));
            course.as_mut().poll(cx)
        })
        .await;
        world.history()
    });
    clock::stand_at(None);
    history
}

async fn course(world: &Rc<World>, scenario: &Scenario) {
    (0..scenario.nodes).for_each(|number| world.start(scenario, number));
    wait_until(world, "all nodes to serve", || world.open().len() == scenario.nodes).await;
    clients(world, scenario, 100).await;
    burst(world, scenario, "first").await;
    for number in 0..scenario.faults {
        fault(world, scenario).await;
        clients(world, scenario, 20 + number % 20).await;
    }
    heal(world, scenario).await;
    let lifetimes = if scenario.moves { scenario.ttl } else { 0 };
    sleep(Duration::from_millis(QUIET + lifetimes)).await;
    world.log(format_args!("quiet"));
    for key in (0..SHARED).map(shared_key) {
        for number in 0..scenario.nodes {
            at_node(world, scenario, number, &key, true).await;
        }
    }
    agree(world, scenario).await;
    burst(world, scenario, "last").await;
    writes_are_seen(world, scenario).await;
    clients(world, scenario, 50).await;
}

async fn wait_until(world: &Rc<World>, what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..1_000 {
        if is_so() {
            return;
        }
        sleep(Duration::from_millis(50)).await;
    }
    world.violation(format_args!("waited in vain for {what}"));
}

/// FNV-1 spreads keys that differ in their last letters badly.
fn shared_key(number: usize) -> Bytes {
    format!("{:x}-shared", number * 7919).into()
}
fn private_key(node: usize, number: usize) -> Bytes {
    format!("private-{node}-{:x}-key", number * 7919).into()
}

/// A client of a node, in a task of that node.
async fn at_node(world: &Rc<World>, scenario: &Scenario, number: usize, key: &Bytes, latest: bool) {
    let (done, wait) = oneshot::channel();
    client(world, scenario, number, key.clone(), Some(done), latest);
    // It ends with the client, whatever comes of that.
    let _ = wait.await;
}
fn client(
    world: &Rc<World>,
    scenario: &Scenario,
    number: usize,
    key: Bytes,
    done: Option<oneshot::Sender<()>>,
    latest: bool,
) {
    let (me, scenario) = (world.clone(), *scenario);
    world.spawn(number, async move {
        me.read(&scenario, number, &key, latest).await;
        drop(done);
    });
}

/// Requests of clients, some at the same moment.
async fn clients(world: &Rc<World>, scenario: &Scenario, count: usize) {
    // Of which a write and reads are often under way together.
    let mut contended = 0;
    for _ in 0..count {
        let open = world.open();
        if open.is_empty() {
            sleep(Duration::from_millis(100)).await;
            continue;
        }
        let number = open[world.one_of(open.len())];
        let key = match world.happens(0.3) {
            true => private_key(number, world.one_of(PRIVATE)),
            false => {
                if world.happens(0.2) {
                    contended = world.one_of(SHARED);
                }
                shared_key(if world.happens(0.7) { contended } else { world.one_of(SHARED) })
            }
        };
        if world.happens(0.12) {
            let (me, value) = (world.clone(), format!("{}={}", String::from_utf8_lossy(&key), world.pick(1..u64::MAX)));
            world.spawn(number, async move { me.write(number, &key, value.into()).await });
        } else {
            client(world, scenario, number, key, None, false);
        }
        if world.happens(0.7) {
            world.pause(1..40).await;
        }
    }
}

/// All nodes ask for the same new keys at once: each is fetched once.
async fn burst(world: &Rc<World>, scenario: &Scenario, name: &str) {
    let keys: Vec<Bytes> = (0..8).map(|number| format!("{:x}-{name}", number * 7919).into()).collect();
    for _ in 0..3 {
        for key in &keys {
            for number in 0..scenario.nodes {
                client(world, scenario, number, key.clone(), None, true);
            }
        }
        world.pause(0..30).await;
    }
    // Less than the shortest life, which would end in a second fetch.
    sleep(Duration::from_millis(500)).await;
    for key in &keys {
        let fetches = world.origin.fetches(key);
        // A node that has much under way at the owner asks another, which fetches the key as well: once for
        // its peers, and once for its clients.
        let most = if scenario.is_bounded { 2 * scenario.nodes } else { 1 };
        if fetches == 0 || fetches > most {
            let key = String::from_utf8_lossy(key);
            world.violation(format_args!("{key} was fetched {fetches} times while all nodes agreed"));
        }
    }
}

/// While all nodes reach each other, who reads after a write has ended reads what it wrote, at
/// every node: also where the key was being read, fetched and copied meanwhile.
async fn writes_are_seen(world: &Rc<World>, scenario: &Scenario) {
    for round in 0..12 {
        let key: Bytes = format!("{:x}-seen", round * 7919).into();
        // Of half of the keys the nodes have copies; the others are being fetched when they are written.
        if round % 2 == 0 {
            for _ in 0..3 {
                for number in 0..scenario.nodes {
                    at_node(world, scenario, number, &key, true).await;
                }
            }
        }
        let writer = world.one_of(scenario.nodes);
        let (done, mut ended) = oneshot::channel::<()>();
        let (me, written, value) = (world.clone(), key.clone(), format!("{round}={}", world.pick(1..u64::MAX)));
        world.spawn(writer, async move {
            me.write(writer, &written, value.into()).await;
            drop(done);
        });
        while matches!(ended.try_recv(), Err(oneshot::error::TryRecvError::Empty)) {
            client(world, scenario, world.one_of(scenario.nodes), key.clone(), None, false);
            world.pause(1..8).await;
        }
        for number in 0..scenario.nodes {
            at_node(world, scenario, number, &key, true).await;
        }
        // What was under way when the write ended may have stored something since.
        world.pause(100..200).await;
        for number in 0..scenario.nodes {
            at_node(world, scenario, number, &key, true).await;
        }
    }
}

/// Something goes wrong, or is mended.
async fn fault(world: &Rc<World>, scenario: &Scenario) {
    let (one, other) = (world.one_of(scenario.nodes), world.one_of(scenario.nodes));
    let cut = || Way { is_cut: true, ..Way::default() };
    match world.pick(0..if scenario.moves { 10 } else { 6 }) {
        0 => world.set_way(one, other, cut()),
        1 => {
            world.set_way(one, other, cut());
            world.set_way(other, one, cut());
        }
        2 => (0..scenario.nodes).for_each(|other| world.set_way(one, other, cut())),
        3 => world.set_way(one, other, Way { loss: 0.3, ..Way::default() }),
        4 => world.set_way(one, other, Way { delay: 0..world.pick(10..900), ..Way::default() }),
        5 => ways_are_open(world, scenario),
        6 if world.node(one).is_some() => world.kill(one),
        7 if world.node(one).is_some() => {
            world.leave(one);
            world.pause(0..3_000).await;
            world.kill(one);
        }
        6..=8 if world.node(one).is_none() => world.start(scenario, one),
        _ => {
            // A node that has heard of some nodes alone.
            let mut known: Vec<_> =
                (0..scenario.nodes).filter(|_| world.happens(0.6)).map(|number| scenario.node(number)).collect();
            if world.happens(0.3) {
                // It has not heard of their zones.
                known.iter_mut().for_each(|node| node.zone = None);
            }
            if let Some(node) = world.node(one) {
                world.log(format_args!("node {one} knows {known:?}"));
                node.peers.replace(known);
            }
        }
    }
    world.pause(0..800).await;
}

fn ways_are_open(world: &Rc<World>, scenario: &Scenario) {
    for from in 0..scenario.nodes {
        (0..scenario.nodes).for_each(|to| world.set_way(from, to, Way::default()));
    }
}

/// All that went wrong is mended.
async fn heal(world: &Rc<World>, scenario: &Scenario) {
    ways_are_open(world, scenario);
    for number in 0..scenario.nodes {
        let is_open = world.open().contains(&number);
        // One that has left does not come back.
        let has_left =
            world.node(number).is_some_and(|node| node.peers.standing() > larder_ring::peer::Standing::Serving);
        if has_left {
            world.kill(number);
        }
        if has_left || !is_open && world.node(number).is_none() {
            world.start(scenario, number);
        }
        if let Some(node) = world.node(number) {
            node.peers.replace((0..scenario.nodes).map(|number| scenario.node(number)).collect());
        }
    }
    wait_until(world, "all nodes to serve", || world.open().len() == scenario.nodes).await;
}

/// Reads until each node has reached each other again, as it does within the longest time that it
/// leaves one alone.
async fn agree(world: &Rc<World>, scenario: &Scenario) {
    let is_out =
        |number: usize| world.node(number).is_none_or(|node| node.peers.now().others().any(|member| member.is_out()));
    for round in 0..100 {
        if !(0..scenario.nodes).any(is_out) {
            return;
        }
        for number in 0..scenario.nodes {
            for key in 0..20 {
                let key = format!("{:x}-agree-{number}", (round * 20 + key) * 7919).into();
                at_node(world, scenario, number, &key, false).await;
            }
        }
        sleep(Duration::from_millis(100)).await;
    }
    world.violation(format_args!("nodes take each other for gone"));
}
