//! Any bytes as a message of another node, and as what a copy carries of its source: an answer without a panic, whose times and tags are usable, and
//! which is the same after it was written and read again.
#![no_main]
#![allow(dead_code, reason = "the server uses the rest")]
use libfuzzer_sys::fuzz_target;
use prost::Message as _;

#[path = "../../crates/source/src/client_mark.rs"]
mod client_mark;
#[path = "../../crates/source/src/copy_metadata.rs"]
mod copy_metadata;
#[path = "../../crates/ring/src/peer/messages.rs"]
mod messages;
// The files name what they share by its crate.
extern crate self as larder_source;

use copy_metadata::{CopyMetadata, CopyMetadataView};
use messages::{GetKeysRequest, GetKeysResponse, GetResponse, HottestKeys, OwnerRequest, SetRequest};

fn of_source(bytes: &[u8], now: u64) {
    let view = CopyMetadataView::read(bytes);
    let _ = view.shown_type();
    let mut read: CopyMetadata = view.to_owned();
    read.bound_max_age(now.saturating_add(1), now);
    let written = read.encode();
    let again = CopyMetadataView::read(&written).to_owned().encode();
    assert_eq!(again, CopyMetadataView::read(&again).to_owned().encode());
}

fuzz_target!(|input: (&[u8], &[u8], Option<i64>, Option<i64>, Option<u64>, u64)| {
    let (bytes, metadata, expire, fresh_for, age, now) = input;
    of_source(metadata, now);
    let message = GetResponse {
        value: Some(bytes.to_vec().into()),
        expire,
        fresh_for,
        metadata: Some(metadata.to_vec().into()),
        age,
        tags: vec![bytes.to_vec().into()],
        ..GetResponse::default()
    };
    let encoded = message.encode_to_vec();
    for sent in [bytes, &encoded] {
        if let Ok(read) = GetResponse::decode(sent) {
            let _ = read.fresh_until(now);
            let said = read.copy_metadata(now);
            assert!(said.born.is_none_or(|born| born <= now));
            of_source(&said.encode(), now);
        }
        let _ = (SetRequest::decode(sent), HottestKeys::decode(sent), GetKeysRequest::decode(sent));
        let _ = (GetKeysResponse::decode(sent), OwnerRequest::decode(sent));
    }
    assert_eq!(GetResponse::decode(&encoded[..]), Ok(message));
});
