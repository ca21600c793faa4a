//! Any bytes as a message of PostgreSQL's change stream: no panic, and all that was counted can be
//! read.
//!
//! The decoder is a file of the server; it alone is built with it.
#![no_main]
use libfuzzer_sys::fuzz_target;
use pgoutput::{Message, decode};

#[path = "../../crates/source/src/postgres/changes/pgoutput.rs"]
mod pgoutput;

fuzz_target!(|bytes: &[u8]| {
    match decode(bytes) {
        Some(Message::Relation(relation)) => {
            let names: usize = relation.columns().map(|name| name.len() + 10).sum();
            assert!(names <= bytes.len());
        }
        Some(Message::Row { old, new, .. }) => {
            let columns: usize = old.iter().chain(&new).map(|tuple| tuple.columns().count()).sum();
            assert!(columns <= bytes.len());
        }
        Some(Message::Truncate(relations)) => assert!(relations.iter().count() <= bytes.len() / 4),
        Some(Message::Begin { .. } | Message::Commit { .. } | Message::Other) | None => {}
    }
});
