//! Peers: several Larders, and groupcache's own nodes, as one cache. Each key has one owner among them.
//!
//! ```text
//! ring.rs   which member owns which keys
//! ring/     its hashes, and choices among the owners: bounded load, zones
//! ```
//!
//! Invariants:
//! - A [`Ring`] is immutable: a new set of members is a new ring. Two rings with the same epoch agree on the owner of every key.
mod ring;

pub use ring::{Ring, RingHash};
