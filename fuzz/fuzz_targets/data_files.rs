//! Any bytes as a data file that a table is made of (text, CSV, TSV, JSON lines, keys), or as a dump of GCache: an answer, and no more entries than bytes.
//! What a strict build takes, another takes as well.
#![no_main]
use larder_store::{
    snapshot::{Conversion, DocumentForm, SnapshotCompression, from_gcache, is_gcache_dump},
    table::{BuildOptions, Format, Input, Table, build},
};
use libfuzzer_sys::fuzz_target;
use std::{fs, path::PathBuf};

/// A folder in memory, where there is one.
fn folder() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let base = if memory.is_dir() { memory } else { std::env::temp_dir() };
    base.join(format!("larder-fuzz-data-{}", std::process::id()))
}

fuzz_target!(|input: (u8, &[u8])| {
    let (kind, bytes) = input;
    let dir = folder();
    fs::create_dir_all(&dir).expect("a folder");
    let (from, to) = (dir.join("input"), dir.join("output"));
    fs::write(&from, bytes).expect("written");
    if kind & 7 == 7 {
        let _ = is_gcache_dump(&from);
        let conversion = Conversion {
            groups: &[],
            skips_others: true,
            compression: SnapshotCompression::None,
            is_document: |_| false,
        };
        let form = DocumentForm { compact: |text| Some(text.to_vec()), metadata: b"" };
        if let Ok(converted) = from_gcache(&from, &to, &conversion, &form) {
            assert!(converted.entries <= bytes.len() as u64);
        }
        return;
    }
    let format = Format::NAMES[usize::from(kind & 7) % Format::NAMES.len()].1;
    if format == Format::Table {
        return;
    }
    let mut options = BuildOptions::of(Input { format, ..Input::of(from) }, to.clone());
    options.memory = 1 << 16;
    let lenient = build(&options, &mut |_| {});
    if let Ok(built) = &lenient {
        assert!(built.entries <= bytes.len() as u64);
        assert_eq!(Table::open(&to).expect("a table").len(), built.entries);
    }
    options.strict = true;
    if let Ok(strict) = build(&options, &mut |_| {}) {
        assert_eq!(lenient.expect("what is without a bad line is taken").entries, strict.entries);
    }
});
