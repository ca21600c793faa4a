//! What the commands do. A function on the tier sees it under locks that cover all its keys; it writes its reply last, or
//! returns why there is none.
pub(super) mod client;
pub(super) mod config;
pub(super) mod connection;
pub(super) mod expire;
pub(super) mod info;
pub(super) mod introspection;
pub(super) mod keys;
mod larder;
pub(super) mod maintenance;
pub(super) mod numbers;
pub(super) mod object;
pub(super) mod own;
pub(super) mod scan;
pub(super) mod server;
pub(super) mod strings;
