//! The routes over real sockets, in process: fast and general path side by side.
mod console;
mod documents;
mod fast_path;
mod items;
mod limits;
#[path = "../../../redis/src/tests/memory_store.rs"]
mod memory_store;
mod redis_rest;
mod routes;
mod source;
mod store;
mod support;
mod tags;
mod users;
