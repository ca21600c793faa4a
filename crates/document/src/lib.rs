//! JSON documents as text: a document is kept as the compact text that it is, found in by scanning,
//! and changed by replacing a part of it.
//!
//! ```text
//! compact   checks a client's text, and makes it the one form that documents are kept in
//! scan      where values, members and elements are, by blocks of 64 bytes
//! jsonpath  what a JSONPath consists of; `path_parser` reads it
//! path      the two path syntaxes of RedisJSON, and JSON pointers
//! locate    the values that a path finds
//! query     evaluates the segments of a JSONPath by scanning; `filter`: its filters
//! splice    changes of parts, and the text after them
//! edit      what commands do to a value: append, increment, merge …
//! decimal   the exact order of numbers
//! equality  which values are equal; `changed_last`: which of several RedisJSON answers for
//! number    arithmetic on numbers
//! merge     JSON Merge Patch (RFC 7386)
//! patch     JSON Patch (RFC 6902)
//! pretty    the text with indentation
//! ```
//!
//! Invariants:
//! - What is not touched by an edit stays byte for byte: order, numbers, escapes.
//! - A scan reads each byte once at most and allocates nothing but the list of what it finds. Below
//!   `*` and `..` it reads a byte once more for each container around it.
//!   Nothing recurses deeper than [`MAX_DEPTH`].
//! - Numbers are compared by their digits, never as floats.
//! - A text that was not made by [`compact()`] gives wrong answers, but no panic.
#![warn(missing_docs)]
mod changed_last;
mod compact;
mod decimal;
mod edit;
mod equality;
mod error;
mod filter;
mod jsonpath;
mod locate;
mod merge;
mod number;
mod patch;
mod path;
mod path_parser;
mod pretty;
mod query;
mod scan;
mod splice;
mod string;

pub use changed_last::changed_last;
pub use compact::{MAX_DEPTH, compact, compact_into, compacted, is_json};
pub use edit::{Edit, EditError, Edited, MOST_WORK, Outcome};
pub use equality::index_of;
pub use error::{JsonError, LocateError, PathError};
pub use jsonpath::{Pattern, PatternTooLarge, Step};
pub use locate::{Place, find, find_element, find_member, find_pointer, find_within, place_for};
pub use merge::merge;
pub use number::NumberEdit;
pub use patch::{Patch, PatchError};
pub use path::{Path, Pointer};
pub use pretty::{Layout, write_pretty};
pub use scan::{Found, Span, count, is_empty, key_and_value, parts, value_end};
pub use splice::{Splice, apply};
pub use string::{push_escaped, push_key, unescaped, unescaped_len};
