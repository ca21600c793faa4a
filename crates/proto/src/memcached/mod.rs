//! memcached's text protocol: the classic commands and the meta commands, as memcached 1.6 reads
//! them (`doc/protocol.txt` there).
//!
//! ```text
//! line  = command [" " token]... [CR] LF        tokens are separated by spaces
//! value = bytes CR LF                           behind the line of a command that stores
//! ```
//!
//! Invariants:
//! - A request borrows from the input; nothing is allocated.
//! - The length of a value is compared with the limit before the value is waited for. A value that
//!   is too long is skipped as it arrives.
//! - A line or a value that arrives in many pieces is not looked at again from its beginning.
mod meta;
mod number;
mod parse;
mod request;
#[cfg(test)]
mod tests;

pub use meta::{Meta, MetaCommand, MetaFlags, MetaMode};
pub use number::parse_u64 as number_of;
pub use parse::{Limits, Login, Parser, Step, keys_ahead};
pub use request::{Keys, MAX_KEY, Request, Store, StoreMode};
