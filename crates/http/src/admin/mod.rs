//! Control of the running server, by the routes of the admin listener.
pub(crate) mod config_routes;
pub(crate) mod connection_routes;
pub(crate) mod fault_routes;
pub(crate) mod group_control;
pub(crate) mod snapshot_routes;
pub(crate) mod store_backup;
