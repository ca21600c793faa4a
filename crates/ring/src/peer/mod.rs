//! Several Larders as one cache: each key has one owner among the nodes, which fills it for all
//! (groupcache's design).
//!
//! ```text
//! read ── the tier has it (own key, or hot copy) ──────────────────────────────► answered
//!   │ miss
//!   ▼
//! PeerSource ── own key ────────────────────────────► the group's source ──────► filled, answered
//!   │ the key of another node
//!   ▼
//! transport ── owner ── its tier, or its source ───► answer ── hot? ── kept for `hot-copy-ttl`
//!   │ not reached          (never forwarded again)
//!   ▼
//! the next node on the ring, then the source, a few at a time
//! ```
//!
//! Invariants:
//! - What comes from another node is answered from this node's tier or source. It is never sent on
//!   to a third node, and it never waits for a flight that asks another node (`Lead::is_direct`,
//!   [`Peers::settled`]): nodes that disagree about the ring make no circle. The one exception is a
//!   zone's reader, which asks the owner for nodes that agree with it (decision 0057).
//! - Owners first: a removal is heard by the owner before any other node forgets its copy, and then
//!   by the readers of the zones, so no node can fill itself from an older one.
//! - A copy of another node's key lives no longer than the owner's, and no longer than
//!   `hot-copy-ttl`; but what a node has taken over from one that leaves lives as long as it would
//!   have there.
//! - A read never waits for the fetch of another key: reads of several clients that travel together
//!   are answered from the owner's tier, or asked again alone.
//! - Without a source the nodes' tiers are the store: a key's owner alone runs the commands that
//!   change it, and whatever sees more of an entry than its value (`at_owner`). A node that does
//!   not own a key refuses.
//! - Then only the owner's answer says that a key is absent. If it cannot be reached, the read fails.
//! - A node that lacks a group is out for that group alone.
//! - A node that joins or has left answers nothing that its peers read (421): they ask the next
//!   node on the ring.
mod at_owner;
mod discovery;
mod gathered_reads;
mod grpc_messages;
mod grpc_transport;
mod handover;
mod hot_keys;
mod hottest_keys;
mod http_transport;
mod member;
mod membership;
mod messages;
mod node_routes;
mod outage;
mod owner_reads;
pub mod peer_answers;
mod peer_client;
mod peer_counts;
mod peer_group;
mod peer_setup;
mod peer_source;
mod ring;
mod ring_disagreement;
mod standing;
mod told_changes;
mod transport;
mod untold;
mod wait_for_all;

pub use discovery::Discovery;
pub use grpc_messages::{
    Announced, Announcement, Change, ChangeKind, Clear, Done, HottestPart, HottestRequest, KeyRequest, KeysRequest, Set,
};
pub use handover::{join, leave};
pub use member::{Member, MemberCounts};
pub use membership::{Membership, Peers};
pub use messages::{
    EncodedEntry, GetKeysRequest, GetKeysResponse, GetResponse, HeaderField, HottestKeys, HttpWrite, KeyAnswer,
    MOST_KEYS, OwnerAnswer, OwnerRequest, PROTOBUF, SetRequest, of_expire,
};
pub use node_routes::{
    AT_OWNER, BASE_PATH, CLEAR, GET_KEYS, HOTTEST, MEMBER, REMOVE_KEYS, RING, bearer, parse_remove_keys,
};
pub use peer_answers::no_such_group;
pub use peer_client::{NodeCalls, PeerClient};
pub use peer_group::PeerGroup;
pub use peer_setup::{open_client, share};
pub use peer_source::PeerSource;
pub use ring::{Ring, RingHash};
pub use ring_disagreement::{OtherRing, ring_of};
pub use standing::Standing;
pub use transport::{
    ASKING_NODE, AskedFor, ClearScope, MemberMove, NodeReply, NodeRequest, PeerAnswer, PeerChange, PeerError, To,
    Transport,
};
