//! The native routes of keys: one key, many, lists, ranges, tags and documents.
pub(crate) mod document_routes;
pub(crate) mod key_routes;
pub(crate) mod list_keys;
pub(crate) mod mget;
mod mget_body;
pub(crate) mod range_routes;
pub(crate) mod tag_routes;
