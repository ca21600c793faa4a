//! The routes over real sockets, in process: fast and general path side by side.
mod console;
mod documents;
mod fast_path;
mod items;
mod limits;
mod routes;
mod source;
mod store;
mod support;
mod tags;
mod users;
