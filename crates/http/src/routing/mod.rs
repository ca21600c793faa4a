//! From a request to its route: the table of routes, who asks, what a request must pass, and the
//! description of the routes.
pub(crate) mod access_log;
pub(crate) mod docs_page;
pub(crate) mod openapi;
pub(crate) mod request_checks;
pub(crate) mod request_user;
pub(crate) mod route;
pub(crate) mod route_request;
pub(crate) mod route_table;
pub(crate) mod router;
pub(crate) mod upstream_user;
