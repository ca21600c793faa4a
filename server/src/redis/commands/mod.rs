//! The functions of the commands, by family. A function on the memory tier holds locks that cover all its keys. It
//! writes its reply last, or returns an error.
pub(super) mod client;
pub(super) mod client_pause;
pub(super) mod client_unblock;
pub(super) mod config;
pub(super) mod config_larder;
pub(super) mod connection;
pub(super) mod expire;
pub(super) mod get;
pub(super) mod increments;
pub(super) mod info;
mod info_larder;
pub(super) mod introspection;
pub(super) mod keys;
pub(super) mod keyspace;
pub(super) mod local_tracking;
pub(super) mod maintenance;
pub(super) mod merged_replies;
pub(super) mod object;
pub(super) mod pubsub;
pub(super) mod scan;
pub(super) mod select;
pub(super) mod server;
pub(super) mod strings;
pub(super) mod subscriptions;
pub(super) mod tags;
pub(super) mod upstream_hello_auth;
pub(super) mod upstream_tracking;
