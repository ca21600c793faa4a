//! Policies of the literature, written plainly, for comparison. They decide about keys alone and
//! store nothing.
//!
//! Each follows the paper or the program that its file names, with the parameters given there.
//! Speed and memory do not matter here, and nothing else uses them.
mod links;
mod reference_policy;
mod s3_fifo;
mod sieve;
mod sketch;
#[cfg(test)]
mod tests;
mod w_tiny_lfu;

pub(super) use reference_policy::ReferencePolicy;
pub(super) use s3_fifo::S3Fifo;
pub(super) use sieve::Sieve;
pub(super) use w_tiny_lfu::WTinyLfu;
