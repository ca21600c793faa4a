//! Any text is a mask or none, and matching ends; what has no special character matches itself alone.
#![no_main]
#[path = "../../crates/http/src/item_api/key_mask.rs"]
#[allow(dead_code)]
mod key_mask;

use key_mask::KeyMask;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &str)| {
    let (mask, key) = input;
    let Ok(read) = KeyMask::parse(mask) else { return };
    let matches = read.matches(key, &mut 0);
    if !mask.contains(['*', '?', '[', '{', '\\']) {
        assert_eq!(matches, Some(mask == key));
    }
});
