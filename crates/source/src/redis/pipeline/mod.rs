//! The pipeline of one connection: encodes requests and matches replies to them, in order. No I/O.
mod batch_replies;
mod fetch_batch;
mod marked_replies;
mod pipeline_state;
mod receive_replies;
mod send_requests;
#[cfg(test)]
mod tests;

pub(super) use pipeline_state::{CONFUSED, Pipeline, Protocol};
