//! What the commands do. A function on the tier sees it under locks that cover all its keys; it writes its reply last, or
//! returns why there is none.
pub(super) mod client;
pub(super) mod config;
pub(super) mod config_larder;
pub(super) mod connection;
pub(super) mod expire;
pub(super) mod increments;
pub(super) mod info;
mod info_larder;
pub(super) mod introspection;
pub(super) mod keys;
pub(super) mod maintenance;
pub(super) mod object;
pub(super) mod scan;
pub(super) mod server;
pub(super) mod strings;
