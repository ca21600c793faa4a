//! Primary and replicas as real processes, with connections that are cut and processes that are killed and frozen.
#![expect(clippy::unwrap_used, unreachable_pub)]

#[path = "../common/mod.rs"]
mod common;
mod equality;
mod faults;
#[path = "../common/larder.rs"]
mod larder;
mod link_proxy;
mod roles;
mod sentinel;
mod workload;
