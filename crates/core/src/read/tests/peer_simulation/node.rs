//! A node of the simulation: Larder's own parts, put together as a worker puts them together.
use super::{
    origin::OriginSource,
    scenario::Scenario,
    transport::{CONNECT_TIMEOUT, SimulatedTransport},
    world::World,
};
use crate::read::{Group, PendingWrites};
use bytes::Bytes;
use larder_config::{Coherence, HotCopies, PeerAddress, PeerNode, PeerSettings, Zone};
use larder_engine::{Cache, Config};
use larder_ring::peer::{self, NodeCalls, PeerClient, Peers, Standing};
use larder_source::{FillPolicy, KeyPolicy};
use larder_store::clock;
use std::{cell::RefCell, rc::Rc, sync::Arc, time::Duration};
use tokio::{
    task::LocalSet,
    time::{Instant, timeout},
};

/// How long the origin may take.
pub(super) const SOURCE_TIMEOUT: Duration = Duration::from_secs(1);
/// Longer than the nodes and the source may take together, one after the other: a longer wait is a
/// circle.
const PATIENCE: Duration = Duration::from_secs(8);
/// How long a copy may have been on its way before its life begins, ms.
const ON_THE_WAY: u64 = 6_000;
/// How long a node hands its keys over.
const LEAVE: Duration = Duration::from_secs(2);

/// One that runs.
pub(super) struct Node {
    pub(super) group: Rc<Group>,
    pub(super) peers: Arc<Peers>,
}

/// Where a node is.
pub(super) fn address(number: usize) -> PeerAddress {
    PeerAddress { host: format!("node-{}", char::from(b'a' + number as u8)), port: number as u16 + 1 }
}

impl Scenario {
    /// The zone of a node.
    pub(super) fn zone(&self, number: usize) -> Option<Zone> {
        let zone = number.checked_rem(self.zones)?;
        Some(format!("zone-{zone}").parse().expect("a zone"))
    }
    /// A node as others know it.
    pub(super) fn node(&self, number: usize) -> PeerNode {
        PeerNode { address: address(number), zone: self.zone(number) }
    }
}

impl Node {
    fn new(world: &Rc<World>, scenario: &Scenario, number: usize) -> Node {
        let this = address(number);
        let settings = PeerSettings {
            peers: (0..scenario.nodes).map(|number| scenario.node(number)).collect(),
            this: Some(this.clone()),
            zone: scenario.zone(number),
            bounded_load: scenario.is_bounded.then(|| "1.25".parse().expect("a factor")),
            hot_copies: HotCopies { ttl: scenario.hot_copy_ttl, after: 2 },
            handover: 1 << 20,
            connect_timeout: CONNECT_TIMEOUT,
            ..PeerSettings::default()
        };
        let ttl = Some(scenario.ttl);
        let seed = Some(world.pick(0..u64::MAX));
        let cache = Cache::new(Config { max_memory: 4 << 20, default_ttl: ttl, seed, ..Config::default() });
        let own = KeyPolicy { ttl, ..KeyPolicy::default() };
        let policy = Arc::new(FillPolicy { coherence: Coherence::Ttl, ..own.into() });
        let peers = Arc::new(Peers::new(settings, this, vec![cache.clone()], vec![cache.clone()]));
        let transport = Box::new(SimulatedTransport { world: world.clone(), from: number, zones: scenario.zones });
        let nodes = NodeCalls::new(transport, None);
        let client = Rc::new(PeerClient::new(peers.clone(), nodes, SOURCE_TIMEOUT));
        let (name, source) = ("default".into(), Rc::new(OriginSource(world.clone())));
        let (shared, source) = peer::share(&client, &name, &cache, &policy, source);
        let writes = Arc::<PendingWrites>::default();
        let group =
            Rc::new(Group { number: 0, name, cache, source, policy, writes, peers: Some(shared), events: None });
        Node { group, peers }
    }
    fn shared(&self) -> Vec<Rc<peer::PeerGroup>> {
        self.group.peers.iter().cloned().collect()
    }
}

impl World {
    /// Starts a node, which takes its keys over before it answers for them.
    pub(super) fn start(self: &Rc<Self>, scenario: &Scenario, number: usize) {
        self.log(format_args!("node {number} starts"));
        let node = Rc::new(Node::new(self, scenario, number));
        {
            let machine = &mut self.machines.borrow_mut()[number];
            machine.tasks = Some(Rc::new(RefCell::new(LocalSet::new())));
            machine.node = Some(node.clone());
        }
        let world = self.clone();
        self.spawn(number, async move {
            peer::join(&node.shared()).await;
            world.log(format_args!("node {number} serves"));
            world.machines.borrow_mut()[number].is_open = true;
        });
    }

    /// Ends a node at once. What it was about to do is not done.
    pub(super) fn kill(&self, number: usize) {
        self.log(format_args!("node {number} is killed"));
        // What its tasks hold is dropped once the machines are gone.
        let _ended = {
            let machine = &mut self.machines.borrow_mut()[number];
            machine.is_open = false;
            (machine.tasks.take(), machine.node.take())
        };
    }

    /// Has a node hand its keys over, as it does before it ends.
    pub(super) fn leave(self: &Rc<Self>, number: usize) {
        let Some(node) = self.node(number) else { return };
        self.log(format_args!("node {number} leaves"));
        self.machines.borrow_mut()[number].is_open = false;
        self.spawn(number, async move {
            node.peers.advance(Standing::Leaving);
            peer::leave(&node.shared(), LEAVE).await;
        });
    }

    /// The nodes that clients may ask.
    pub(super) fn open(&self) -> Vec<usize> {
        let machines = self.machines.borrow();
        (0..machines.len()).filter(|number| machines[*number].is_open).collect()
    }

    /// A client reads a key at a node. `latest`: the answer has to be the latest value.
    pub(super) async fn read(self: &Rc<Self>, scenario: &Scenario, number: usize, key: &Bytes, latest: bool) {
        let Some(node) = self.node(number) else { return };
        let begun = (self.now(), Instant::now());
        let read = timeout(PATIENCE, node.group.read(key, clock::now())).await;
        let shown = String::from_utf8_lossy(key);
        let oldest = begun.0.saturating_sub(scenario.ttl + ON_THE_WAY);
        let is_right = |value: &Bytes| match latest {
            true => self.origin.current(key) == *value,
            false => self.origin.had_since(key, value, oldest),
        };
        match read {
            Err(_) => self.violation(format_args!("a read of {shown} at node {number} never ends")),
            Ok(Ok(Some(value))) if is_right(&value) => self.note((number, key, value)),
            Ok(Ok(value)) => {
                let value = String::from_utf8_lossy(value.as_deref().unwrap_or_default()).into_owned();
                let current = self.origin.current(key);
                self.violation(format_args!(
                    "node {number} has {value} for {shown}, which is {} (owner: {})",
                    String::from_utf8_lossy(&current),
                    node.peers.now().owner(key).name,
                ));
            }
            // Neither the owner nor its substitute is reached, and too much is under way; or a source is too slow.
            Ok(Err(_)) if !latest => {}
            Ok(Err(error)) => {
                self.violation(format_args!("a read of {shown} at node {number} fails in quiet: {error}"));
            }
        }
    }

    /// A client writes a key at a node.
    pub(super) async fn write(self: &Rc<Self>, number: usize, key: &Bytes, value: Bytes) {
        let Some(node) = self.node(number) else { return };
        self.note((number, key, &value));
        let shown = String::from_utf8_lossy(key);
        match timeout(PATIENCE, node.group.put(key, value, None)).await {
            Err(_) => self.violation(format_args!("a write of {shown} at node {number} never ends")),
            Ok(Err(error)) => self.violation(format_args!("a write of {shown} at node {number} fails: {error}")),
            Ok(Ok(_)) => {}
        }
    }
}
