//! Several Larders as one cache: real processes that own keys of one ring, and the Go libraries
//! whose ring it is.

use crate::{common, larder, network, source_conformance::scripted_origin, tls::certificates};

mod addressed_node;
mod disagreement;
mod discovery;
pub(crate) mod fleet;
mod go_node;
mod gossip;
mod groups;
mod handover;
mod interop;
mod kubernetes_server;
mod lying_node;
mod mixed_ring;
mod networks;
mod observation;
mod pods;
mod reads;
mod removals;
mod ring;
mod srv_records;
mod store;
mod zones;
