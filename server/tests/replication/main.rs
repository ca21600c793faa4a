//! Primary and replicas as real processes, with connections that are cut and processes that are killed and frozen.
#![expect(clippy::unwrap_used, unreachable_pub)]

#[path = "../common/mod.rs"]
mod common;
mod equality;
mod faults;
mod forwarding;
#[path = "../common/larder.rs"]
mod larder;
mod link_proxy;
#[path = "../common/network.rs"]
mod network;
mod networks;
mod roles;
#[path = "../common/sentinel.rs"]
mod sentinel;
mod sentinels;
mod skewed_clocks;
mod workload;
