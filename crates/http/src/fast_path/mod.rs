//! The fast path: answers plain requests of fast routes from a loop of its own, and hands the
//! connection to the general path at the first request that is anything else.
//!
//! One turn: send what is left, read, answer every request that is complete from inside the
//! engine's lookup, send. Reads that have to wait for the source keep their places in the order of
//! answers and leave as one batch.
mod delayed_responses;
mod fast_connection;
mod item_requests;
mod plain_requests;
mod redis_requests;
mod send_output;

pub(super) use fast_connection::serve;
