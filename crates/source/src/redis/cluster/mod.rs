//! `redis+cluster://`: a Redis Cluster. Each node has a
//! [`RedisSource`](super::redis_source::RedisSource) of its own.
//!
//! ```text
//! fetch, relay ──► slot of the key ──► slot map ──► connections of its node ──► answer
//!                                         ▲                                       │ MOVED, ASK, TRYAGAIN, CLUSTERDOWN, node gone
//!               refresh: CLUSTER NODES, every second       redirect: ask another node, or later, until the deadline
//! ```
//!
//! - One task for all cores refreshes the slot map (`slot_map_refresh`): every second, and as soon
//!   as a node redirects a command.
//! - Each node announces changes of the keys that were read there. When a slot leaves its node or
//!   starts to move, the tier forgets everything, because some changes would not be announced. Keys
//!   of a moving slot and redirected fetches are not kept.
//! - Commands go to the node of their keys. A command for all nodes goes to all, and its replies
//!   are merged into one (`command_routing`, `merged_node_replies`).
//! - A client's commands to one node stay in order. A redirected command may be overtaken by others
//!   to its slot in the same pipeline.
mod cluster_core;
mod cluster_dedicated;
mod cluster_nodes;
mod cluster_relay;
mod cluster_setup;
mod cluster_source;
mod command_routing;
pub(crate) mod key_slot;
mod merged_node_replies;
mod scan_cursor;
mod slot_map;
mod slot_map_refresh;
mod slot_redirects;

pub(super) use {cluster_setup::ClusterSetup, cluster_source::ClusterSource};
