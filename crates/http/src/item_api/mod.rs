//! The item API: `POST`, `GET` and `DELETE` of `{item-prefix}/item`, and `GET {item-prefix}/keys`,
//! with JSON bodies, as GCache has them.
//!
//! ```text
//! body, query ──► item_request ──► item_routes ──► the group's reads and writes ──► item_response
//!                                    │ └─ keys: list_item_keys, key_mask               └─ errors: item_error, {"code","reason"}
//!                                    └─ memory_items: the same for the fast path, where nothing waits
//! ```
//!
//! Invariants:
//! - Values are JSON. What is stored is the compact text of the value, so that every other route
//!   and protocol sees that text.
//! - No tree of a value is built: a request's value is checked and copied as text, an element is
//!   found by skipping the others.
//! - Every answer on a path below the prefix is of this API, errors of the router included.
mod item_error;
mod item_prefix;
mod item_request;
mod item_response;
mod item_routes;
mod json_text;
mod key_mask;
mod list_item_keys;
mod memory_items;

pub(super) use item_error::{error_response, redirect};
pub(super) use item_prefix::{ItemPath, TABLE_PREFIX, meant_path, of_path};
pub(super) use item_routes::{delete_item, get_item, post_item, refused_write};
pub(super) use list_item_keys::list_item_keys;
pub(super) use memory_items::{DirectAnswer, answer_from_memory, is_within_limits, refused};
