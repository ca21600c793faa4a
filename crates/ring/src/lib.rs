//! The process among others of its kind: the ring of peers, of which each owns some keys ([`peer`]),
//! and a primary with its replicas ([`replica`]).
pub mod peer;
pub mod replica;
