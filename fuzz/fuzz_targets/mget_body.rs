//! The body of `POST /v1/mget`: any bytes are keys or a refusal, and keys that a client writes are the keys that are read.
//!
//! The parser is a file of the server; it alone is built with it.
#![no_main]
use base64::{Engine, prelude::BASE64_STANDARD};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

#[path = "../../crates/http/src/keys/mget_body.rs"]
mod mget_body;

fn parse(body: &[u8]) -> Option<Vec<Vec<u8>>> {
    let wanted = mget_body::WantedKeys::parse(body).ok()?;
    let len = wanted.len();
    let keys = wanted.into_keys().ok()?;
    assert_eq!(keys.len(), len);
    Some(keys)
}

fuzz_target!(|input: (&[u8], Vec<&[u8]>)| {
    let (body, keys) = input;
    if let Some(found) = parse(body) {
        assert!(found.iter().map(|key| key.len() + 2).sum::<usize>() <= body.len());
    }
    let written: Vec<Value> = keys
        .iter()
        .map(|key| match str::from_utf8(key) {
            Ok(text) => json!(text),
            Err(_) => json!({ "base64": BASE64_STANDARD.encode(key) }),
        })
        .collect();
    let found = parse(json!({ "keys": written }).to_string().as_bytes()).expect("it is a body");
    assert_eq!(found, keys);
});
