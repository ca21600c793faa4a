//! Any string that is taken for a HyperLogLog: it is refused, or changes as one does.
#![no_main]
use larder_proto::hyperloglog::{HyperLogLog, Union, count, known_count};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (bool, Vec<u8>, Vec<Vec<u8>>)| {
    let (begins, mut value, elements) = input;
    if begins {
        value.splice(0..0, *b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\0");
    }
    let counted = count(&value);
    let mut union = Union::default();
    assert_eq!(union.add(&value).map(|()| union.count()), counted);
    let _ = known_count(&value);

    let mut buffer = Vec::new();
    let Ok(mut changed) = HyperLogLog::copy(&value, &mut buffer) else { return };
    for element in &elements {
        if changed.add(element).is_err() {
            assert!(counted.is_err());
            return;
        }
        // The second time, it is there.
        assert_eq!(changed.add(element), Ok(false));
    }
    assert!(buffer.len() <= value.len().max(12_304));
    if counted.is_ok() {
        let mut all = Union::default();
        all.add(&buffer).expect("it was one before");
        let mut merged = Vec::new();
        HyperLogLog::copy(&value, &mut merged).expect("as before").add_all(&all).expect("it was one before");
        assert_eq!(count(&merged), Ok(all.count()));
    }
});
