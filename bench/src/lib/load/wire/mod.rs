//! The protocols: requests written into a buffer, replies found in one. No I/O.
//!
//! A reply is scanned, not decoded: where it ends, whether it is an error, how many keys it found.
//! Lengths are a stranger's, so they are bounded before they are believed.
mod http_requests;
mod key_batch;
mod memcache_requests;
mod protocol;
mod request_template;
mod resp_requests;
mod scanned_reply;
mod statuses;
#[cfg(test)]
mod tests;

pub(crate) use key_batch::KeyBatch;
pub(crate) use protocol::Wire;
pub(crate) use resp_requests::scan as scan_resp;
pub(crate) use scanned_reply::{Expect, ReplyScan, ScannedReply};
pub(crate) use statuses::Statuses;
