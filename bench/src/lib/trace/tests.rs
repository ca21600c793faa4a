use super::*;
use proptest::{collection::vec, prelude::*};
use records::{MAX_LINE, MAX_RUN, TraceRecords};
use std::{
    io::{BufReader, Write},
    path::Path,
};
use trace_file::extension;

fn read(bytes: &[u8], format: TraceFormat) -> anyhow::Result<Vec<u64>> {
    // A tiny buffer splits records and lines at every possible place.
    TraceRecords::new(BufReader::with_capacity(3, bytes), format).collect()
}

fn error(bytes: &[u8], format: TraceFormat) -> String {
    format!("{:#}", read(bytes, format).expect_err("must be refused"))
}

fn write(keys: &[u64], format: TraceFormat) -> Vec<u8> {
    match format {
        TraceFormat::Arc => keys.iter().flat_map(|k| format!("{k} 1 0 0\n").into_bytes()).collect(),
        TraceFormat::Cache2k => keys.iter().flat_map(|&k| (k as u32).to_be_bytes()).collect(),
        TraceFormat::U64 => keys.iter().flat_map(|k| k.to_le_bytes()).collect(),
        TraceFormat::Ops => {
            let mut writer = TraceWriter::new(Vec::new()).expect("a vector");
            for &key in keys {
                // Each is written, read and removed: what was read counts.
                for kind in [OperationKind::Set(5), OperationKind::Get, OperationKind::Del] {
                    writer.write(TracedOperation { at: 0, kind, key }).expect("a vector");
                }
            }
            writer.finish().expect("a vector")
        }
    }
}

/// Writes `bytes` to a file of this name, compressed as the name says, and hands its path to
/// `test`.
fn with_file<T>(name: &str, bytes: &[u8], test: impl FnOnce(&Path) -> T) -> T {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    let bytes = match extension(&path) {
        Some("zst") => {
            // Two frames: archives are often made of several.
            let (a, b) = bytes.split_at(bytes.len() / 2);
            let frame = |part| zstd::encode_all(part, 1).expect("compress");
            [frame(a), frame(b)].concat()
        }
        Some("xz") => {
            let options = lzma_rust2::XzOptions::with_preset(1);
            let mut writer = lzma_rust2::XzWriter::new(Vec::new(), options).expect("writer");
            writer.write_all(bytes).expect("compress");
            writer.finish().expect("compress")
        }
        _ => bytes.to_vec(),
    };
    std::fs::write(&path, bytes).expect("write the trace");
    test(&path)
}

proptest! {
    #[test]
    fn arc_reads_back(keys in vec(0..u64::MAX, 0..200)) {
        prop_assert_eq!(read(&write(&keys, TraceFormat::Arc), TraceFormat::Arc).expect("well-formed"), keys);
    }

    #[test]
    fn arc_runs_read_back(runs in vec((0..1u64 << 60, 0..50u64), 0..50)) {
        let text: String = runs.iter().map(|(start, count)| format!("{start}\t{count} 7 7\r\n")).collect();
        let keys: Vec<u64> = runs.iter().flat_map(|&(start, count)| start..start + count).collect();
        prop_assert_eq!(read(text.as_bytes(), TraceFormat::Arc).expect("well-formed"), keys);
    }

    #[test]
    fn cache2k_reads_back(keys in vec(0..=u64::from(u32::MAX), 0..200)) {
        prop_assert_eq!(read(&write(&keys, TraceFormat::Cache2k), TraceFormat::Cache2k).expect("well-formed"), keys);
    }

    #[test]
    fn u64_reads_back(keys in vec(any::<u64>(), 0..200)) {
        prop_assert_eq!(read(&write(&keys, TraceFormat::U64), TraceFormat::U64).expect("well-formed"), keys);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in vec(any::<u8>(), 0..300)) {
        for format in [TraceFormat::Arc, TraceFormat::Cache2k, TraceFormat::U64] {
            let _ = read(&bytes, format);
        }
    }
}

#[test]
fn files_read_back_whatever_their_name_says() {
    let keys: Vec<u64> = (0..5000).map(|i| i * i % 1009).collect();
    for (format, name) in [
        (TraceFormat::Arc, "t.lis"),
        (TraceFormat::Cache2k, "t.trace"),
        (TraceFormat::U64, "t.u64"),
        (TraceFormat::Ops, "t.ops"),
    ] {
        for suffix in ["", ".zst", ".xz"] {
            let name = format!("{name}{suffix}");
            with_file(&name, &write(&keys, format), |path| {
                let trace = TraceFile::new(path, None).expect("the name tells the format");
                assert_eq!(trace.name(), name);
                for _ in 0..2 {
                    let read: anyhow::Result<Vec<u64>> = trace.keys().expect("opens").collect();
                    assert_eq!(read.expect("well-formed"), keys, "{name}");
                }
                let distinct = keys.iter().collect::<std::collections::HashSet<_>>().len() as u64;
                assert_eq!(
                    Requests::File(trace).summary().expect("well-formed"),
                    TraceSummary { requests: 5000, distinct }
                );
            });
        }
    }
}

#[test]
fn an_explicit_format_wins_over_the_name() {
    with_file("t.lis", &write(&[7, 8], TraceFormat::U64), |path| {
        let trace = TraceFile::new(path, Some(TraceFormat::U64)).expect("given");
        let keys: anyhow::Result<Vec<u64>> = trace.keys().expect("opens").collect();
        assert_eq!(keys.expect("well-formed"), [7, 8]);
    });
    let refused = TraceFile::new(Path::new("t.bin.zst"), None).expect_err("unknown name");
    assert!(refused.to_string().contains("--format"), "{refused}");
}

#[test]
fn hostile_lengths_are_refused_by_name() {
    let huge = error(b"0 1 0 0\n0 18446744073709551615 0 0\n", TraceFormat::Arc);
    assert!(huge.contains("line 2") && huge.contains(&MAX_RUN.to_string()), "{huge}");
    let overflow = error(b"18446744073709551615 2 0 0\n", TraceFormat::Arc);
    assert!(overflow.contains("64-bit"), "{overflow}");
    let long = error(&[b'1'; MAX_LINE + 1], TraceFormat::Arc);
    assert!(long.contains(&MAX_LINE.to_string()), "{long}");
    assert!(error(b"7\n", TraceFormat::Arc).contains("no count"));
    assert!(error(b"x 1\n", TraceFormat::Arc).contains("start"));
}

#[test]
fn damaged_traces_are_refused() {
    assert!(error(&[0; 9], TraceFormat::U64).contains("within a record of 8"));
    assert!(error(&[0; 3], TraceFormat::Cache2k).contains("within a record of 4"));
    for name in ["t.u64.zst", "t.u64.xz"] {
        let bytes = write(&(0..1000).collect::<Vec<_>>(), TraceFormat::U64);
        with_file(name, &bytes, |path| {
            let mut packed = std::fs::read(path).expect("read");
            packed.truncate(packed.len() - packed.len() / 3);
            std::fs::write(path, packed).expect("write");
            Requests::File(TraceFile::new(path, None).expect("named")).summary().expect_err("truncated");
        });
    }
    with_file("t.u64", b"", |path| {
        let empty = Requests::File(TraceFile::new(path, None).expect("named")).summary().expect_err("empty");
        assert!(empty.to_string().contains("no requests"), "{empty}");
    });
}
