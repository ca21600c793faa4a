//! Requests and responses as bytes: bodies, fields, errors, and the answers to reads of one key.
pub(crate) mod content_codings;
pub(crate) mod html_page;
pub(crate) mod preconditions;
pub(crate) mod problem_json;
pub(crate) mod read_responses;
pub(crate) mod request_body;
pub(crate) mod response_body;
pub(crate) mod response_writer;
