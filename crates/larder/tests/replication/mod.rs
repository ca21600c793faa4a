//! Primary and replicas as real processes, with connections that are cut and processes that are
//! killed and frozen.

use crate::{common, larder, network, sentinel};

mod equality;
mod faults;
mod forwarding;
mod link_proxy;
mod networks;
mod roles;
mod sentinels;
mod skewed_clocks;
mod workload;
