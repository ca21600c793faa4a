//! RESP2 and RESP3, both sides: borrowed commands in, replies out; and replies of an upstream
//! server.
//!
//! Written after the protocol description (<https://redis.io/docs/latest/develop/reference/protocol-spec/>) and, where that is
//! silent, after what redis-server 7 answers: its error texts are parsed by clients.
mod number;
mod parse;
mod scan;
mod write;

pub use number::{parse_i64, parse_u64};
pub use parse::{Args, Limits, Parsed, Parser, ProtocolError, commands_ahead, first_arguments, gets_ahead, sets_ahead};
pub use scan::{Malformed, Scanner, Values, View, view};
pub use write::{Reply, encode, write_command};
