//! Mode rules, the inspector and reloads of the configuration, in a real Larder, where they need
//! one before a real redis-server.

use crate::{common, larder};

mod doors;
mod inspector;
mod modes;
mod reload;

use common::{RedisServer, Reply, wait_until};
use larder::Larder;

/// A Larder before this Redis, connected to it.
fn before(redis: &RedisServer, more: &[&str]) -> Larder {
    let larder = Larder::start(&[&["--source", &redis.url()], more].concat());
    wait_until("the source to be connected", || group_metric(&larder, "source_up") == 1.0);
    larder
}
fn group_metric(larder: &Larder, name: &str) -> f64 {
    larder.metric(&format!("larder_{name}{{group=\"default\"}}"))
}
fn set(redis: &RedisServer, key: &str, value: &str) {
    assert_eq!(redis.command(&["SET", key, value]), Reply::ok());
}
