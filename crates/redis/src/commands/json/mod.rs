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

pub(crate) use arrays::{arrappend, arrindex, arrinsert, arrlen, arrpop, arrtrim};
pub(crate) use inspect::{debug_memory, resp};
pub(crate) use reads::{get, mget, objkeys, objlen, strlen, type_of};
pub(crate) use set::{merge, mset, set};
pub(crate) use values::{clear, del, number, strappend, toggle};
