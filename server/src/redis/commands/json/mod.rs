//! JSON.*: documents, with the commands, paths and replies of RedisJSON. With a Redis source, Redis
//! answers them.
//!
//! A path in RedisJSON's older syntax (`.a`) is about one value, and so is the reply. A JSONPath
//! (`$.a`) may find any number: the reply is an array. `documents.rs` has what all commands share.
mod arrays;
mod documents;
mod inspect;
mod reads;
mod set;
mod values;

pub(in crate::redis) use arrays::{arrappend, arrindex, arrinsert, arrlen, arrpop, arrtrim};
pub(in crate::redis) use inspect::{debug_memory, resp};
pub(in crate::redis) use reads::{get, mget, objkeys, objlen, strlen, type_of};
pub(in crate::redis) use set::{merge, mset, set};
pub(in crate::redis) use values::{clear, del, numincrby, nummultby, numpowby, strappend, toggle};
