//! The account of open files, and the account of all buffers: bytes that the process holds for its clients besides the memory
//! tiers, against one bound (`max-buffers`).
//!
//! ```text
//!  worker 0: connections' own buffers ─┐ (one writer each, no shared line)
//!  worker 1: …                        ─┤
//!  commands and values on their way   ─┼─► used ─► over the bound: cut those that hold the most
//!  push messages                      ─┤        └► else: what one more connection may be due
//!  tables: a share each               ─┤
//!  values that outlive the tier       ─┘
//! ```
//!
//! Each byte is counted once, by the code that allocated it:
//! - A connection's own buffers ([`BufferAccount`]): at the end of a turn it says what it holds. A
//!   connection that holds nothing between turns, which is what a hit leaves, touches nothing here.
//! - Bytes that several may refer to ([`Buffers::count`]): until the last reference is gone. A
//!   value of the memory tier that is on its way to a client is the tier's; once the tier has
//!   dropped it, it is [`Lent`](larder_engine::Lent).
//! - Tables that all clients fill ([`TableShare`]): what they occupy, at most an eighth of the bound
//!   each. Tables whose size only settings choose (hot keys, limits, the log of changes for
//!   replicas) are not on the account.
//!
//! At the bound the connections that hold the most, references included, are told to end. Before
//! that a connection may be due less the less is free, as in a switch with shared memory (Choudhury
//! and Hahne, 1998): slow readers leave room for others.
mod buffer_account;
mod buffer_budget;
mod buffer_charge;
mod growing_buffer;
mod open_files;
#[cfg(test)]
mod tests;

pub use buffer_account::{BufferAccount, HeldBytes, SharedAccount};
pub use buffer_budget::{BufferKind, Buffers, ClientProtocol};
pub use buffer_charge::{BufferCharge, TableShare};
pub use growing_buffer::GrowingBuffer;
pub use open_files::OpenFile;
pub use open_files::OpenFiles;
