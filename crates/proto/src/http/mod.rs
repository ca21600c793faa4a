//! HTTP without I/O: what is read and written byte by byte on the fast path, and the small grammars
//! that every route shares (targets, entity tags, cache directives, forwarded addresses, JSON
//! strings, numbers and dates). Full HTTP/1.1 and HTTP/2 framing is hyper's.
//!
//! Invariants:
//! - [`head::Heads::front`] says [`head::Front::Plain`] only for requests that the general server
//!   would answer with the very same bytes.
//! - Nothing here allocates per request, except a decoder when its caller's buffer has to grow.
pub mod cache_control;
pub mod etag;
pub mod forwarded;
pub mod head;
pub mod json;
pub mod target;
pub mod text;
