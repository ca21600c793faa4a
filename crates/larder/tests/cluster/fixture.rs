//! A Redis Cluster of the test's own: real redis-servers, three masters, and replicas if asked for.
use super::common::{Client, RedisServer, Reply, wait_until};
use std::collections::HashMap;

pub(crate) const SLOTS: usize = 16384;
/// A node that is silent for this long, milliseconds, is taken for gone by the others: longer than a
/// busy machine makes one wait.
const NODE_TIMEOUT: &str = "30000";

pub(crate) struct Cluster {
    /// Three masters, then their replicas.
    pub(crate) nodes: Vec<RedisServer>,
}

impl Cluster {
    /// Three masters with a third of the slots each.
    pub(crate) fn of_masters() -> Cluster {
        Cluster::start(3)
    }
    /// The same, each with a replica: node 3 has node 0 for its master.
    pub(crate) fn with_replicas() -> Cluster {
        Cluster::start(6)
    }

    fn start(count: usize) -> Cluster {
        let args =
            ["--cluster-enabled", "yes", "--cluster-node-timeout", NODE_TIMEOUT, "--repl-diskless-sync-delay", "0"];
        let cluster = Cluster { nodes: (0..count).map(|_| RedisServer::with(&args)).collect() };
        for (index, node) in cluster.nodes.iter().enumerate() {
            let epoch = (index + 1).to_string();
            assert_eq!(node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]), Reply::ok());
            // Each to each, not to wait until they hear of each other.
            for other in &cluster.nodes[..index] {
                assert_eq!(node.command(&["CLUSTER", "MEET", "127.0.0.1", &other.port().to_string()]), Reply::ok());
            }
            if index < 3 {
                let (first, last) = (index * SLOTS / 3, (index + 1) * SLOTS / 3 - 1);
                let range = [first.to_string(), last.to_string()];
                assert_eq!(node.command(&["CLUSTER", "ADDSLOTSRANGE", &range[0], &range[1]]), Reply::ok());
            }
        }
        wait_until("the nodes to know each other", || cluster.nodes.iter().all(|node| view(node).len() == count));
        for replica in 3..count {
            let master = cluster.id(replica - 3);
            wait_until("a replica to begin", || {
                cluster.nodes[replica].command(&["CLUSTER", "REPLICATE", &master]) == Reply::ok()
            });
        }
        cluster.settle();
        cluster
    }

    /// Waits until every node that is there takes the cluster for whole, and knows which nodes are
    /// replicas, which follow their masters.
    pub(crate) fn settle(&self) {
        wait_until("the cluster to be whole", || {
            self.nodes.iter().all(|node| {
                let info = text(node.command(&["CLUSTER", "INFO"]));
                let role = node.command(&["ROLE"]);
                let follows = !matches!(&role, Reply::Array(Some(parts))
                    if parts[0] == Reply::bulk("slave") && parts[3] != Reply::bulk("connected"));
                let view = view(node);
                let masters = view.values().filter(|node| node.slots > 0).count();
                let replicas = view.values().filter(|node| node.is_replica).count();
                info.contains("cluster_state:ok") && follows && masters == 3 && replicas == self.nodes.len() - 3
            })
        });
    }

    /// From now on the nodes that are left do not wait long for one that is silent, until they are
    /// told otherwise.
    pub(crate) fn impatient(&self, nodes: &[usize], impatient: bool) {
        let timeout = if impatient { "1000" } else { NODE_TIMEOUT };
        for node in nodes {
            let set = self.nodes[*node].command(&["CONFIG", "SET", "cluster-node-timeout", timeout]);
            assert_eq!(set, Reply::ok());
        }
    }

    /// `redis+cluster://` with one node of it.
    pub(crate) fn url(&self) -> String {
        format!("redis+cluster://127.0.0.1:{}", self.nodes[1].port())
    }
    pub(crate) fn id(&self, node: usize) -> String {
        text(self.nodes[node].command(&["CLUSTER", "MYID"]))
    }
    pub(crate) fn slot(&self, key: &str) -> usize {
        self.nodes[0].command(&["CLUSTER", "KEYSLOT", key]).int() as usize
    }
    /// The node that has the slot. Waits until all see the same: who had no part in a move hears of
    /// it later.
    pub(crate) fn owner(&self, slot: usize) -> usize {
        let mut owner = None;
        wait_until("all to see one node for the slot", || {
            owner = self.owner_now(0, slot);
            owner.is_some() && (1..self.nodes.len()).all(|asked| self.owner_now(asked, slot) == owner)
        });
        owner.expect("waited for")
    }
    /// In a failover the old master's slots have no node until the new one is heard to claim them.
    fn owner_now(&self, asked: usize, slot: usize) -> Option<usize> {
        let nodes = text(self.nodes[asked].command(&["CLUSTER", "NODES"]));
        let has = |word: &str| {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            matches!((first.parse::<usize>(), last.parse::<usize>()), (Ok(first), Ok(last)) if (first..=last).contains(&slot))
        };
        let line = nodes.lines().find(|line| line.split(' ').skip(8).any(has))?;
        let port: u16 = line.split([':', '@']).nth(1).expect("a port").parse().expect("a port");
        Some(self.nodes.iter().position(|node: &RedisServer| node.port() == port).expect("a node of ours"))
    }
    /// A connection to the node that has the key.
    pub(crate) fn client(&self, key: &str) -> Client {
        self.nodes[self.owner(self.slot(key))].client()
    }

    /// Moves a slot, keys and all, in the steps of `redis-cli --cluster reshard`.
    pub(crate) fn begin_moving(&self, slot: usize, from: usize, to: usize) {
        let text = slot.to_string();
        assert_eq!(self.nodes[to].command(&["CLUSTER", "SETSLOT", &text, "IMPORTING", &self.id(from)]), Reply::ok());
        assert_eq!(self.nodes[from].command(&["CLUSTER", "SETSLOT", &text, "MIGRATING", &self.id(to)]), Reply::ok());
    }
    pub(crate) fn move_keys(&self, slot: usize, from: usize, to: usize) {
        let (slot, port) = (slot.to_string(), self.nodes[to].port().to_string());
        let mut source = self.nodes[from].client();
        loop {
            let Reply::Array(Some(keys)) = source.command(&["CLUSTER", "GETKEYSINSLOT", &slot, "10"]) else {
                panic!("no keys")
            };
            let keys: Vec<String> = keys.into_iter().map(text).collect();
            if keys.is_empty() {
                return;
            }
            let mut migrate = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            migrate.extend(keys.iter().map(|key| &**key));
            let reply = source.command(&migrate);
            assert!(matches!(&reply, Reply::Simple(text) if text == "OK" || text == "NOKEY"), "{reply:?}");
        }
    }
    pub(crate) fn end_moving(&self, slot: usize, from: usize, to: usize) {
        let (slot, id) = (slot.to_string(), self.id(to));
        for node in [to, from] {
            assert_eq!(self.nodes[node].command(&["CLUSTER", "SETSLOT", &slot, "NODE", &id]), Reply::ok());
        }
    }
}

struct Seen {
    is_replica: bool,
    slots: usize,
}

/// What a node knows of the others: those with an id and an address.
fn view(node: &RedisServer) -> HashMap<String, Seen> {
    let nodes = text(node.command(&["CLUSTER", "NODES"]));
    let lines = nodes.lines().filter(|line| !line.contains("handshake"));
    lines
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            (words[0].to_owned(), Seen { is_replica: words[2].contains("slave"), slots: words.len().saturating_sub(8) })
        })
        .collect()
}

pub(crate) fn text(reply: Reply) -> String {
    match reply {
        Reply::Bulk(Some(text)) => String::from_utf8(text).expect("text"),
        other => panic!("not a text: {other:?}"),
    }
}
