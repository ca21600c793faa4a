//! The routes between nodes, and writes that another node makes.
pub(crate) mod grpc_service;
pub(crate) mod owner_requests;
pub(crate) mod peer_routes;
pub(crate) mod primary_writes;
