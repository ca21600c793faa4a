//! What a client sends to the item API: any body and query are an answer. A value that is accepted is compact JSON, and the element that a read asks
//! for is the one that a tree has there.
#![no_main]

/// What the server's file of this name says, without its responses.
mod item_error {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ErrorCode {
        BadRequest,
        NoKey,
        NoValue,
        NotFound,
        CannotSet,
    }
    #[derive(Debug)]
    pub struct ItemError;
    impl From<ErrorCode> for ItemError {
        fn from(_: ErrorCode) -> ItemError {
            ItemError
        }
    }
    impl ItemError {
        pub fn of(_: ErrorCode, _: impl Into<String>) -> ItemError {
            ItemError
        }
    }
}
#[path = "../../crates/http/src/item_api/item_request.rs"]
mod item_request;

use item_request::{ItemRequest, mask_of};
use larder_document::compact;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fn exercise(body: &[u8], query: &[u8]) {
    let _ = mask_of(body, query);
    let Ok(request) = ItemRequest::parse(body, query) else { return };
    assert!(!request.key.is_empty());
    let echoed = request.echoed();
    assert!(echoed.subkey.is_empty() || echoed.subindex == 0);
    let Ok(text) = request.compact_value() else { return };
    assert_eq!(compact(&text).as_deref(), Ok(&*text), "it is compact");
    let Ok(tree) = serde_json::from_slice::<Value>(&text) else { return };
    let wanted = match () {
        () if !request.subkey.is_empty() => tree.as_object().and_then(|object| object.get(&*request.subkey)),
        () if request.subindex != 0 => {
            let index = usize::try_from(request.subindex).ok().and_then(|index| index.checked_sub(1));
            index.and_then(|index| tree.as_array()?.get(index))
        }
        () => Some(&tree),
    };
    let part = request.part_of(&text).ok().map(|part| serde_json::from_slice::<Value>(&text[part]).expect("JSON"));
    assert_eq!(part.as_ref(), wanted);
}

fuzz_target!(|input: (&[u8], &str, &str, &str, i8)| {
    let (raw, key, value, subkey, subindex) = input;
    let cut = raw.iter().position(|byte| *byte == 0).unwrap_or(raw.len());
    exercise(&raw[..cut], raw.get(cut + 1..).unwrap_or_default());
    // Mostly a request.
    let text = |text: &str| Value::from(text).to_string();
    let body = format!(
        "{{\"Key\":{},\"value\":{value},\"subkey\":{},\"subindex\":{subindex},\"x\":[{value}]}}",
        text(key),
        text(subkey)
    );
    exercise(body.as_bytes(), b"");
    exercise(body.as_bytes(), raw);
});
