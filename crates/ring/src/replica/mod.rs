//! Primary and replicas: a replica holds the same entries as its primary, a little later, and takes
//! no writes of its own.
//!
//! ```text
//!  primary                                                                        replica
//!  any core changes a key ─► ChangeLog: its name ─┐                               link ─► frames ─► Apply ─► memory tiers
//!                                                 ├─► Sender ── one connection ──►  └ acknowledges marks
//!  memory tiers: the entry, as it is when sent ───┘   (LARDER.REPLICATE on the Redis listener)
//! ```
//!
//! Invariants:
//! - When the primary has been quiet and the connection is up, both hold the same entries: keys,
//!   values, ends, tags, metadata.
//! - A mark vouches for all changes that the primary made before it sent the mark's changes. The
//!   age of a replica is the time since its last mark.
//! - What waits for slow replicas is bounded: names of keys, at most `replication-backlog` bytes
//!   for each group, and one chunk of output for each replica. A replica that needs a forgotten
//!   name gets a full copy.
//! - While no replica has asked for a stream, a write costs nothing more.
//!
//! # Why the order is right
//! *One key.* A change is logged under the lock of the key's shard, after it is made. The sender
//! reads a name from the log first and the entry afterwards, so what it sends is at least as new as
//! the change; and any later change is in the log behind that name. One task sends, in the order in
//! which it reads, so a key's states reach the replica in the order in which the key had them. The
//! last change is followed by a reading, so the last state arrives. A full copy only adds readings
//! to those, and needs no other argument.
//!
//! *A clear.* The replica executes clears by itself. A key that was set before a clear must be
//! gone, and one that was set after it must be there. A clear is logged under the locks of all
//! shards ([`Listener::clearing`](larder_engine::Listener::clearing)), so it stands between the
//! same changes in all stripes, and the sender sends it between them. A name before it may be sent
//! with a state from after it: the replica's clear then removes that state, but such a state comes
//! from a change whose name stands behind the clear, so it is sent again. Until then the
//! replica lacks a key which it had for a moment; it never has one for good that the primary lacks,
//! because whatever the replica stores after the clear was read after the clear.
//!
//! *Resuming.* A replica resumes from its last mark, which is a cut through all stripes under their
//! locks. What it had got beyond is sent again: present states, so that nothing goes back; and
//! clears, behind which all that was set after them comes again.
//!
//! *A replica that is promoted.* A link applies frames under a lock and only while its turn lasts;
//! a change of role ends the turn under the same lock. So nothing of the former primary overwrites
//! a client's write.
mod apply;
mod change_log;
mod change_logs;
mod change_ring;
mod changes_at;
mod connected_replicas;
mod forwarder;
pub mod frames;
mod link;
mod link_status;
mod replication;
mod rounds;
mod sender;
#[cfg(test)]
mod tests;
mod wake;

pub use changes_at::ChangesAt;
pub use connected_replicas::{ConnectedReplica, ConnectedReplicas};
pub use forwarder::{ForwardError, Forwarder};
pub use link::{client_tls, follow_primary};
pub use link_status::{LinkState, LinkStatus};
pub use replication::{Replication, Role};
pub use sender::{ReplicaRequest, serve_replica};
