//! Any text is JSON or none, as serde_json sees it; any path, edit and patch of a document leaves a document.
#![no_main]

use arbitrary::Arbitrary;
use larder_document::{Edit, Edited, Layout, Patch, Path, Pointer, apply, compact, find, find_pointer, merge, write_pretty};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

#[derive(Debug, Arbitrary)]
struct Input<'a> {
    text: &'a [u8],
    other: &'a [u8],
    path: &'a str,
    kind: u8,
    index: i8,
}

/// serde_json refuses numbers that no float holds, and nests one level less.
fn is_json(text: &[u8]) -> bool {
    let beyond = |error: serde_json::Error| {
        let text = error.to_string();
        text.contains("number out of range") || text.contains("recursion limit")
    };
    serde_json::from_slice::<Value>(text).map_or_else(beyond, |_| true)
}

fuzz_target!(|input: Input<'_>| {
    let Ok(text) = compact(input.text) else {
        // serde_json takes lone surrogates as raw text only, and is asked for a value here.
        assert!(serde_json::from_slice::<Value>(input.text).is_err());
        return;
    };
    assert!(is_json(&text) && compact(&text).as_deref() == Ok(&text));
    let mut pretty = Vec::new();
    write_pretty(&text, Layout { indent: b" ", newline: b"\n", space: b" " }, |part| {
        pretty.extend_from_slice(part);
        true
    });
    assert_eq!(compact(&pretty).as_deref(), Ok(&*text));
    if let Ok(pointer) = Pointer::parse(input.path)
        && let Some(found) = find_pointer(&text, &pointer)
    {
        assert!(is_json(&text[found.span]));
    }
    let other = compact(input.other).unwrap_or_else(|_| b"{\"a\":[1]}".to_vec());
    assert!(is_json(&merge(&text, &other)));
    let patched = |edited| match edited {
        Edited::Same => text.clone(),
        Edited::Part(splice) => apply(&text, &[splice]),
        Edited::Whole(text) => text,
    };
    if let Ok(patch) = Patch::parse(input.other)
        && let Ok(edited) = patch.apply(&text, 1 << 20)
    {
        assert!(is_json(&patched(edited)));
    }
    // A value equals itself, and no number equals its successor, whatever the digits.
    let test = |value: &[u8]| Patch::parse(&[b"[{\"op\":\"test\",\"path\":\"\",\"value\":", value, b"}]"].concat());
    if let Ok(patch) = test(&pretty) {
        assert_eq!(patch.apply(&text, usize::MAX), Ok(Edited::Same));
    }
    if text.iter().all(u8::is_ascii_digit) {
        let longer = [&text[..], b".00001"].concat();
        assert!(test(&longer).is_ok_and(|patch| patch.apply(&text, usize::MAX).is_err()));
    }
    let Ok(path) = Path::parse(input.path) else { return };
    let Ok(found) = find(&text, &path, 64 << 10) else { return };
    found.iter().for_each(|found| assert!(is_json(&text[found.span.clone()])));
    let (index, values) = (i64::from(input.index), [other.clone()]);
    let edit = match input.kind % 8 {
        0 => Edit::Replace(&other),
        1 => Edit::Append(&values),
        2 => Edit::Insert(index, &values),
        3 => Edit::Pop(index),
        4 => Edit::Trim(index, index.saturating_add(2)),
        5 => Edit::Clear,
        6 => Edit::Toggle,
        _ => Edit::Merge(&other),
    };
    if let Ok((edited, outcomes)) = edit.apply(&text, &found, usize::MAX) {
        let after = patched(edited);
        assert!(outcomes.len() <= found.len() && compact(&after).as_deref() == Ok(&after));
    }
});
