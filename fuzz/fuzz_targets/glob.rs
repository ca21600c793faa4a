//! Patterns of keys: no panic, an end, and a text without special characters matches itself alone.
#![no_main]
use larder_proto::glob::matches;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&[u8], &[u8])| {
    let (pattern, text) = input;
    let found = matches(pattern, text, false);
    if !pattern.iter().any(|byte| b"*?[\\".contains(byte)) {
        assert_eq!(found, pattern == text);
    }
    assert!(matches(b"*", text, false));
    // Behind an open bracket or a backslash a star would be something else.
    if found && !pattern.iter().any(|byte| b"[\\".contains(byte)) {
        assert!(matches(&[pattern, b"*"].concat(), text, false));
    }
    // A range's ends change with the case: `[Y-\]` has `Z`, and in lower case it is `[\-y]`, which lacks `z`.
    // What a class leaves out grows without the case: `[^X]` has `x`, and lacks it then.
    if found && !pattern.iter().any(|byte| b"-^".contains(byte)) {
        assert!(matches(pattern, text, true));
    }
});
