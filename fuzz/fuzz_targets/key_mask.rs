//! Any text is a mask or none, and matching ends; what has no special character matches itself alone.
#![no_main]
use larder_proto::key_mask::KeyMask;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &str)| {
    let (mask, key) = input;
    let Ok(read) = KeyMask::parse(mask) else { return };
    let matches = read.matches(key);
    if !mask.contains(['*', '?', '[', '{', '\\']) {
        assert_eq!(matches, mask == key);
    }
});
