//! Servers under test, as child processes: found, started on a free port, waited for until they
//! answer, stopped when dropped.
//!
//! A server dies with the program that started it, even if that is killed: it runs under `setpriv
//! --pdeathsig`.
//!
//! Each server starts with what makes it fastest or smallest as a cache: nothing is written to
//! disk. Everything else is its default.
mod go_caches;
mod installed;
mod larder;
mod memcached;
mod nginx;
mod port;
mod process;
mod redis_servers;
#[cfg(test)]
mod tests;
mod varnish;

pub(crate) use go_caches::{gcache, groupcache_go, groupcache_go_among};
pub(crate) use installed::{find, given, require};
pub(crate) use larder::{FLOOR_VALUE, floor, floor_proxy, larder, larder_on};
pub(crate) use memcached::memcached;
pub(crate) use nginx::{backend, nginx, nginx_balancer, nginx_cache, nginx_shield, nginx_with};
pub(crate) use port::{Port, fixed_port, free_port};
pub(crate) use process::ServerProcess;
pub(crate) use redis_servers::{POGOCACHE, dragonfly, pogocache, redis, redis_with, restart_redis, valkey};
pub(crate) use varnish::varnish;
