//! Commands from end to end, without sockets of our own: what they answer, alone and beside a real
//! redis-server.
mod cached_replies;
mod differential;
mod dumps;
mod forwarded_commands;
mod json;
mod local_store;
mod local_tracking;
#[expect(dead_code, reason = "the tests of the routes use the rest")]
mod memory_store;
mod newer_commands;
mod own_replies;
mod own_users;
mod plain_gets;
mod plain_sets;
mod support;
mod tags;
mod upstream;
mod user_rules;

pub(crate) use support::Redis;
