//! The slot map: which node owns each slot, merged from the views of several nodes.
use super::{
    cluster_nodes::{ClusterNode, NodeRole},
    key_slot::SLOTS,
};
use larder_config::RedisAddress;
use std::collections::{HashMap, HashSet};

const NO_OWNER: u16 = u16::MAX;

/// The cluster at one moment.
#[derive(Debug, Clone)]
pub(super) struct SlotMap {
    /// Masters with slots, by address.
    shards: Vec<ClusterShard>,
    /// For each slot an index into `shards`.
    owners: Box<[u16]>,
    /// Other names of nodes.
    aliases: HashMap<RedisAddress, RedisAddress>,
    /// Slots that are moving from one node to another.
    moving: HashSet<u16>,
    /// Every present node, also those without slots, which may get some soon.
    nodes: HashSet<RedisAddress>,
}

/// A master and its replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClusterShard {
    pub(super) master: RedisAddress,
    pub(super) replicas: Vec<RedisAddress>,
}

impl Default for SlotMap {
    /// The empty map.
    fn default() -> SlotMap {
        SlotMap {
            shards: Vec::new(),
            owners: vec![NO_OWNER; SLOTS].into(),
            aliases: HashMap::new(),
            moving: HashSet::new(),
            nodes: HashSet::new(),
        }
    }
}

impl SlotMap {
    /// Merges the views of nodes. Of two claims to a slot the higher epoch wins, like among the
    /// nodes themselves (<https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-slots-configuration-propagation-and-updates>). Only the
    /// old owner reports a moving slot, so slots of nodes without a view stay as in `before`.
    pub(super) fn merge(views: &[Vec<ClusterNode>], before: &SlotMap) -> SlotMap {
        let all = || views.iter().flatten();
        let mut best: Vec<Option<&ClusterNode>> = vec![None; SLOTS];
        for node in all().filter(|node| node.role == NodeRole::Master) {
            for slot in node.slots.iter().cloned().flatten() {
                let claim = &mut best[usize::from(slot)];
                if claim.is_none_or(|other| other.epoch < node.epoch) {
                    *claim = Some(node);
                }
            }
        }
        let mut map = SlotMap::default();
        let mut masters: Vec<&ClusterNode> = best.iter().flatten().copied().collect();
        // Neighbouring slots mostly have the same owner.
        masters.dedup_by_key(|node| &node.address);
        masters.sort_by_cached_key(|node| node.address.to_string());
        masters.dedup_by_key(|node| &node.address);
        let indexes: HashMap<&RedisAddress, u16> =
            masters.iter().enumerate().map(|(index, node)| (&node.address, index as u16)).collect();
        let ids: HashMap<&str, usize> = masters.iter().enumerate().map(|(index, node)| (&*node.id, index)).collect();
        let shard = |node: &&ClusterNode| ClusterShard { master: node.address.clone(), replicas: Vec::new() };
        map.shards = masters.iter().map(shard).collect();
        for (slot, node) in best.iter().enumerate() {
            map.owners[slot] = node.and_then(|node| indexes.get(&node.address).copied()).unwrap_or(NO_OWNER);
        }
        for node in all().filter(|node| !node.failed) {
            if let NodeRole::Replica(of) = &node.role
                && let Some(index) = ids.get(&**of)
            {
                map.shards[*index].replicas.push(node.address.clone());
            }
        }
        for shard in &mut map.shards {
            shard.replicas.sort_by_cached_key(RedisAddress::to_string);
            shard.replicas.dedup();
        }
        map.aliases = all().filter_map(|node| Some((node.alias.clone()?, node.address.clone()))).collect();
        let spoke: HashSet<&RedisAddress> = all().filter(|node| node.is_asked).map(|node| &node.address).collect();
        let is_silent = |slot: &&u16| map.owner(**slot).is_some_and(|shard| !spoke.contains(&shard.master));
        let silent = before.moving.iter().filter(is_silent);
        map.moving = all().flat_map(|node| &node.moving).chain(silent).copied().collect();
        let present = all().filter(|node| !node.failed).map(|node| &node.address);
        map.nodes = present.chain(map.shards.iter().map(|shard| &shard.master)).cloned().collect();
        map
    }

    /// The same map with one slot at another node.
    pub(super) fn with(&self, slot: u16, address: &RedisAddress) -> SlotMap {
        let mut map = self.clone();
        map.owners[usize::from(slot)] = map.shard(address);
        map.nodes.insert(address.clone());
        map
    }

    /// The index of this master's shard, which is added if it is missing.
    fn shard(&mut self, master: &RedisAddress) -> u16 {
        let known = self.shards.iter().position(|shard| shard.master == *master);
        let index = known.unwrap_or_else(|| {
            self.shards.push(ClusterShard { master: master.clone(), replicas: Vec::new() });
            self.shards.len() - 1
        });
        index as u16
    }

    pub(super) fn shards(&self) -> &[ClusterShard] {
        &self.shards
    }
    pub(super) fn is_empty(&self) -> bool {
        self.shards.is_empty()
    }
    pub(super) fn owner(&self, slot: u16) -> Option<&ClusterShard> {
        self.shards.get(usize::from(*self.owners.get(usize::from(slot))?))
    }
    /// The address of a node in this map, given any of its names.
    pub(super) fn resolve<'a>(&'a self, address: &'a RedisAddress) -> &'a RedisAddress {
        self.aliases.get(address).unwrap_or(address)
    }
    pub(super) fn is_moving(&self, slot: u16) -> bool {
        self.moving.contains(&slot)
    }
    /// Whether the node is present.
    pub(super) fn has(&self, address: &RedisAddress) -> bool {
        self.nodes.contains(address)
    }

    /// Whether copies from the time of `before` may be out of date. They may once a slot has left
    /// its node, which no longer announces changes of its keys, and once a slot starts to move,
    /// because keys that were absent may then be created at the other node.
    pub(super) fn outdates_copies(&self, before: &SlotMap) -> bool {
        let left = |slot: u16| {
            let (was, is) = (before.owner(slot), self.owner(slot));
            was.is_some_and(|was| is.is_none_or(|is| is.master != was.master))
        };
        (0..SLOTS as u16).any(left) || self.moving.iter().any(|slot| !before.is_moving(*slot))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::cluster_nodes, *};

    fn tcp(port: u16) -> RedisAddress {
        RedisAddress::Tcp { host: "h".into(), port }
    }
    fn merge(views: &[&str]) -> SlotMap {
        merge_after(&SlotMap::default(), views)
    }
    fn merge_after(before: &SlotMap, views: &[&str]) -> SlotMap {
        let views: Vec<_> = views.iter().map(|view| cluster_nodes::parse(view, &tcp(1), false)).collect();
        SlotMap::merge(&views, before)
    }
    fn owner(map: &SlotMap, slot: u16) -> Option<&RedisAddress> {
        map.owner(slot).map(|shard| &shard.master)
    }

    #[test]
    fn the_higher_epoch_has_the_slot() {
        // The old master does not know that it was replaced.
        let old = "a h:1@1 myself,master - 0 0 1 connected 0-99\nb h:2@1 slave a 0 0 1 connected";
        let new = "a h:1@1 master,fail - 0 0 1 connected\nb h:2@1 myself,master - 0 0 7 connected 0-99\nc h:3@1 slave b 0 0 7 connected";
        for views in [[old, new], [new, old]] {
            let map = merge(&views);
            assert_eq!(owner(&map, 99), Some(&tcp(2)));
            assert_eq!((owner(&map, 100), map.shards().len()), (None, 1));
            assert_eq!(map.shards()[0].replicas, [tcp(3)]);
        }
    }

    #[test]
    fn slots_that_leave_or_move_unsettle() {
        let one = merge(&["a h:1@1 myself,master - 0 0 1 connected 0-9\nb h:2@1 master - 0 0 2 connected 10-19"]);
        let same = merge(&["b h:2@1 myself,master - 0 0 2 connected 10-19\na h:1@1 master - 0 0 1 connected 0-9"]);
        let begun =
            merge(&["a h:1@1 myself,master - 0 0 1 connected 0-9 [9->-b]\nb h:2@1 master - 0 0 2 connected 10-19"]);
        let more = merge(&["a h:1@1 myself,master - 0 0 1 connected 0-9\nb h:2@1 master - 0 0 2 connected 10-20"]);
        assert!(one.outdates_copies(&one.with(9, &tcp(2))) && one.with(9, &tcp(2)).outdates_copies(&one));
        assert!(!same.outdates_copies(&one) && begun.outdates_copies(&one) && !begun.outdates_copies(&begun));
        assert!(begun.is_moving(9) && !begun.is_moving(8));
        assert!(
            !more.outdates_copies(&one)
                && !one.outdates_copies(&SlotMap::default())
                && SlotMap::default().outdates_copies(&one)
        );
        assert_eq!(owner(&one.with(9, &tcp(5)), 9), Some(&tcp(5)));
    }

    #[test]
    fn what_moves_does_until_its_node_says_otherwise() {
        let a = |moving| {
            format!("a h:1@1 myself,master - 0 0 1 connected 0-9 {moving}\nb h:2@1 master - 0 0 2 connected 10-19")
        };
        let b = "b h:2@1 myself,master - 0 0 2 connected 10-19\na h:1@1 master - 0 0 1 connected 0-9";
        let begun = merge(&[&a("[9->-b]")]);
        // Only the other node answered this time.
        let silent = merge_after(&begun, &[b]);
        assert!(silent.is_moving(9) && !silent.outdates_copies(&begun));
        assert!(!merge_after(&silent, &[b, &a("")]).is_moving(9));
        let gone = "b h:2@1 myself,master - 0 0 2 connected 9-19\na h:1@1 master - 0 0 1 connected 0-8";
        assert!(!merge_after(&silent, &[gone]).is_moving(9), "it has arrived");
    }

    #[test]
    fn nodes_without_slots_are_known() {
        let view = "a h:1@1 myself,master - 0 0 1 connected 0-9\nb h:2@1 master - 0 0 2 connected\nc h:3@1 slave a 0 0 1 connected\n\
                    d h:4@1 master,fail - 0 0 2 connected\ne h:5@1 master,fail - 0 0 2 connected 10";
        let map = merge(&[view]);
        let known: Vec<u16> = (1..7).filter(|port| map.has(&tcp(*port))).collect();
        assert_eq!(known, [1, 2, 3, 5]);
        assert!(map.with(3, &tcp(6)).has(&tcp(6)));
    }
}
