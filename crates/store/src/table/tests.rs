mod compressed;
mod lines;

use super::{
    BuildOptions, Built, Decoder, Duplicates, Format, FrameCompression, Input, Now, Origin, Position, Table,
    TableError, build,
    format::{CHUNK, HEADER, MAGIC, PART},
    frames::{FrameEncoder, Sample},
    index::Hash,
    write::{Item, Writer},
};
use proptest::prelude::*;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use xxhash_rust::xxh3::xxh3_64;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// The bytes of a table of these entries in 2 to `part_bits` parts.
fn bytes_of(model: &Model, part_bits: u32, seed: u64) -> Vec<u8> {
    written(model, part_bits, seed, FrameCompression::None)
}
fn written(model: &Model, part_bits: u32, seed: u64, compression: FrameCompression) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.ltab");
    let mut items: Vec<_> = model.iter().map(|(key, value)| Item { hash: Hash::of(key, seed), key, value }).collect();
    items.sort_by_key(|item| item.hash);
    let mut sample = Sample::default();
    items.iter().for_each(|item| sample.push(item.value));
    let encoder = (compression == FrameCompression::Zstd).then(|| FrameEncoder::new(&sample).unwrap());
    let mut writer = Writer::create(&path, part_bits, seed, Origin::default(), encoder).unwrap();
    for part in 0..1 << part_bits {
        let these: Vec<_> = items.iter().copied().filter(|item| item.hash.part(part_bits) == part).collect();
        writer.part(&these).unwrap();
    }
    writer.finish().unwrap();
    std::fs::read(path).unwrap()
}

fn numbered(count: usize) -> Model {
    (0..count).map(|n| (format!("key {n}").into_bytes(), format!("value {}", n * n).into_bytes())).collect()
}

fn entries(table: &Table) -> Model {
    table
        .entries(Position::default())
        .map(|entry| entry.map(|(key, value)| (key.to_vec(), value.into_owned())).unwrap())
        .collect()
}

/// Makes every checksum right again, so that what it guards is looked at.
fn reseal(bytes: &mut [u8]) {
    let number = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let (body, tail) = (number(bytes, 48), number(bytes, 56));
    if HEADER.checked_add(body).and_then(|sum| sum.checked_add(tail)) == Some(bytes.len()) {
        let tail_at = HEADER + body;
        let dictionary = u32::from_le_bytes(bytes[96..100].try_into().unwrap()) as usize;
        let sums_at = (tail_at + tail).saturating_sub(8 * body.div_ceil(CHUNK) + dictionary);
        for chunk in 0..body.div_ceil(CHUNK) {
            let begin = HEADER + chunk * CHUNK;
            let sum = xxh3_64(&bytes[begin..(begin + CHUNK).min(tail_at)]).to_le_bytes();
            if let Some(place) = bytes.get_mut(sums_at + 8 * chunk..sums_at + 8 * chunk + 8) {
                place.copy_from_slice(&sum);
            }
        }
        let sum = xxh3_64(&bytes[tail_at..]).to_le_bytes();
        bytes[72..80].copy_from_slice(&sum);
    }
    let sum = xxh3_64(&bytes[..HEADER - 8]).to_le_bytes();
    bytes[HEADER - 8..HEADER].copy_from_slice(&sum);
}

/// Asks everything that can be asked; only what must hold of any bytes is checked.
fn exercise(bytes: &[u8], keys: &[&[u8]]) {
    let Ok(table) = Table::from_bytes(bytes) else { return };
    let mut decoder = Decoder::default();
    for key in keys {
        let _ = table.get_now(key, &mut decoder);
        let _ = table.get(key);
    }
    let walked = table.entries(Position::default()).take(100_000).count() as u64;
    assert!(walked <= table.len() + 1);
    let _ = table.verify();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_table_is_the_map_that_it_was_made_of(
        model in proptest::collection::btree_map(
            proptest::collection::vec(any::<u8>(), 1..40),
            prop_oneof![9 => proptest::collection::vec(any::<u8>(), 0..60), 1 => proptest::collection::vec(any::<u8>(), 250..700)],
            0..300,
        ),
        others in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 20),
        part_bits in 0..6u32,
        seed: u64,
        compression in prop::sample::select(vec![FrameCompression::None, FrameCompression::Zstd]),
    ) {
        let bytes = written(&model, part_bits, seed, compression);
        let table = Table::from_bytes(&bytes).unwrap();
        prop_assert_eq!(table.len(), model.len() as u64);
        for key in others.iter().chain(model.keys()) {
            let found = table.get(key).unwrap();
            prop_assert_eq!(found.as_deref(), model.get(key).map(|value| &value[..]));
        }
        prop_assert_eq!(entries(&table), model.clone());
        table.verify().unwrap();
        let mut decoder = Decoder::default();
        for key in others.iter().chain(model.keys()) {
            let found = table.get_now(key, &mut decoder);
            prop_assert_eq!(found, model.get(key).map_or(Now::Absent, |value| Now::Found(value)));
        }
    }

    #[test]
    fn changed_bytes_never_panic_whatever_their_checksums(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        header in proptest::collection::vec((16..104usize, any::<u8>()), 0..2),
        compression in prop::sample::select(vec![FrameCompression::None, FrameCompression::Zstd]),
    ) {
        let mut bytes = written(&compressed::alike(100), 2, 0, compression);
        for (at, byte) in &changes {
            let at = HEADER + at.index(bytes.len() - HEADER);
            bytes[at] = *byte;
        }
        for (at, byte) in &header {
            bytes[*at] = *byte;
        }
        exercise(&bytes, &[b"1", b"50", b"none", b""]);
        reseal(&mut bytes);
        exercise(&bytes, &[b"1", b"50", b"none", b""]);
    }
}

#[test]
fn every_flipped_byte_is_found_and_named() {
    let bytes = bytes_of(&numbered(300), 1, 0);
    let mut flipped = bytes.clone();
    for at in 0..bytes.len() {
        flipped[at] ^= 0x10;
        let error = Table::from_bytes(&flipped).and_then(|table| table.verify()).expect_err("a flipped byte");
        if at < MAGIC.len() {
            assert!(matches!(error, TableError::NotATable { .. }), "{at}: {error}");
            flipped[at] = bytes[at];
            continue;
        }
        let TableError::Damaged { section, at: place, .. } = error else { panic!("{at}: {error}") };
        let tail_at = bytes.len() - 2 * PART - 8;
        let (expected, begin) = match at {
            ..HEADER => ("header", 0),
            _ if at < tail_at => ("body", HEADER),
            _ => ("tail", tail_at),
        };
        assert_eq!((section, place), (expected, begin as u64), "byte {at}");
        flipped[at] = bytes[at];
    }
}

#[test]
fn only_what_lies_in_a_damaged_chunk_is_lost() {
    let model: Model = (0..5000).map(|n| (format!("key {n}").into_bytes(), vec![b'v'; 100])).collect();
    let mut bytes = bytes_of(&model, 0, 0);
    let at = HEADER + 3 * CHUNK + 77;
    bytes[at] ^= 1;
    let table = Table::from_bytes(&bytes).unwrap();
    let failed: Vec<_> = model.keys().filter_map(|key| table.get(key).err()).collect();
    assert!(failed.len() > 300 && failed.len() < 700, "{} of 5000 keys", failed.len());
    let place = HEADER + 3 * CHUNK;
    let text = format!("body at byte {place}: bytes {place} to {} do not have their checksum", place + CHUNK);
    assert!(failed[0].to_string().ends_with(&text), "{}", failed[0]);
    // Nothing is given out of it without a look, either.
    assert!(table.check_all().is_err());
    let mut decoder = Decoder::default();
    assert_eq!(model.keys().filter(|key| table.get_now(key, &mut decoder) == Now::Unknown).count(), failed.len());
}

#[test]
fn a_file_that_is_cut_off_or_added_to_is_refused() {
    let mut bytes = bytes_of(&numbered(50), 0, 0);
    for len in (1..bytes.len()).step_by(7).chain(bytes.len() - 20..bytes.len()) {
        let error = Table::from_bytes(&bytes[..len]).expect_err("cut off").to_string();
        assert!(error.contains("damaged table: header at byte 0"), "{len}: {error}");
    }
    bytes.push(0);
    let error = Table::from_bytes(&bytes).expect_err("added to").to_string();
    assert!(error.contains("it is truncated or was added to"), "{error}");
}

#[test]
fn a_file_that_is_no_table_is_named_with_what_to_type() {
    for (bytes, said) in [
        (
            "häuser 4711\n".as_bytes(),
            "it is text; build a table from it with `larder table build (memory) -o (memory).ltab`",
        ),
        // Cut off in the middle of a character.
        (&"ä".repeat(4096).as_bytes()[..4096 - 1], "it is text"),
        (b"\x89LSNP\r\n\x1a and more", "it is a snapshot; check it with `larder snapshot verify (memory)`"),
        (
            b"larder backup\n\x01\0",
            "it is a backup of a disk store; restore it with `larder store restore (memory) DIR`",
        ),
        (b"REDIS0011\xfa\x09", "it is a dump of Redis; convert it with `larder snapshot convert (memory) FILE`"),
        (b"\x1f\x8b\x08\0", "decompress it with `gzip -dk (memory)`"),
        (b"\x28\xb5\x2f\xfd\0", "decompress it with `zstd -dk (memory)`"),
        (b"\x7fELF\x02\x01", "it does not begin like one"),
    ] {
        let error = Table::from_bytes(bytes).expect_err(said).to_string();
        assert!(error.starts_with("(memory): is not a table of Larder's: ") && error.contains(said), "{error}");
    }
}

#[test]
fn what_this_version_cannot_read_is_said() {
    let bytes = bytes_of(&numbered(1), 0, 0);
    for (at, value, expected) in [
        (8, 2, "format version 2; this larder reads version 1"),
        (12, 2, "values in compression 2, which this larder cannot read"),
    ] {
        let mut other = bytes.clone();
        other[at] = value;
        reseal(&mut other);
        let error = Table::from_bytes(&other).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn lengths_of_all_widths_lie_in_a_block_together() {
    let mut model = numbered(40);
    model.insert(vec![b'k'; 300], vec![1; 70_000]);
    model.insert(b"empty".to_vec(), Vec::new());
    let table = std::sync::Arc::new(Table::from_bytes(&bytes_of(&model, 0, 1)).unwrap());
    assert_eq!(entries(&table), model);
    let large = table.get(&[b'k'; 300]).unwrap().unwrap();
    assert_eq!(table.share(&large).as_ptr(), large.as_ptr(), "by reference");
    assert_eq!(&table.share(b"not of this table")[..], b"not of this table");
}

/// A directory to build in.
struct Place(tempfile::TempDir);
impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
    fn options(&self, name: &str, text: &str) -> BuildOptions {
        std::fs::write(self.path(name), text).unwrap();
        BuildOptions { memory: 1 << 20, ..BuildOptions::of(Input::of(self.path(name)), self.path("out.ltab")) }
    }
    /// Builds, and nothing but the table is left of it.
    fn build(&self, options: &BuildOptions) -> Result<(Built, Model), TableError> {
        let files = || std::fs::read_dir(self.0.path()).unwrap().count();
        let before = files() + usize::from(!options.output.exists());
        let built = build(options, &mut |_| ());
        assert!(files() <= before, "something is left over");
        let table = Table::open(&options.output)?;
        table.verify().unwrap();
        built.map(|built| (built, entries(&table)))
    }
}
fn model(entries: &[(&str, &str)]) -> Model {
    entries.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
}

#[test]
fn the_input_is_not_overwritten_by_its_table() {
    let place = Place::new();
    let mut options = place.options("x.data", "a 1\n");
    options.output = place.path("../").join(place.0.path().file_name().unwrap()).join("x.data");
    let error = build(&options, &mut |_| ()).unwrap_err().to_string();
    assert!(error.contains("is the input"), "{error}");
    assert_eq!(std::fs::read(place.path("x.data")).unwrap(), b"a 1\n");
    let error = Table::open(place.0.path()).unwrap_err().to_string();
    assert!(error.contains("not a regular file"), "{error}");
}

#[test]
fn bad_lines_and_duplicates_can_be_errors() {
    let place = Place::new();
    let good = place.options("x.data", "a 1\nb 2\n");
    place.build(&good).unwrap();
    let strict = BuildOptions { strict: true, ..place.options("y.data", "a 5\nlonely\n") };
    let error = build(&strict, &mut |_| ()).unwrap_err().to_string();
    assert!(error.ends_with("y.data: line 2: there is no blank behind the key"), "{error}");
    let once = BuildOptions { duplicates: Duplicates::Error, ..place.options("z.data", "a 5\nb 6\na 7\n") };
    let error = build(&once, &mut |_| ()).unwrap_err().to_string();
    assert_eq!(error, "line 3: the key a was in line 1 already");
    assert_eq!(entries(&Table::open(&good.output).unwrap()), model(&[("a", "1"), ("b", "2")]), "as it was");
    assert_eq!(std::fs::read_dir(place.0.path()).unwrap().count(), 4, "nothing is left over");
}

#[test]
fn a_table_is_changed_into_another() {
    let place = Place::new();
    let first = BuildOptions { output: place.path("first.ltab"), ..place.options("x.data", "a 1\nb 2\nc 3\nd 4\n") };
    place.build(&first).unwrap();
    std::fs::write(place.path("gone"), "d\nnever\n").unwrap();
    let changes =
        "{\"key\":\"b\",\"value\":\"new\"}\n{\"key\":\"c\",\"value\":null}\n{\"key\":\"e\",\"value\":\"5\"}\n";
    let changed = BuildOptions {
        base: Some(first.output.clone()),
        remove: Some(place.path("gone")),
        duplicates: Duplicates::Error,
        ..place.options("changes.json", changes)
    };
    let (built, entries) = place.build(&changed).unwrap();
    assert_eq!(entries, model(&[("a", "1"), ("b", "new"), ("e", "5")]));
    assert_eq!((built.entries, built.replaced, built.bad.count), (3, 0, 0));
    // And copied.
    let copy = BuildOptions { input: Input::of(first.output), ..place.options("unused", "") };
    assert_eq!(copy.input.format, Format::Table);
    assert_eq!(place.build(&copy).unwrap().1.len(), 4);
}

#[test]
fn the_bytes_do_not_depend_on_the_memory() {
    let place = Place::new();
    let text: String = (0..200_000).map(|n| format!("{} value of {n}\n", n % 150_000)).collect();
    let roomy = BuildOptions { memory: 1 << 30, ..place.options("x.data", &text) };
    let (built, entries) = place.build(&roomy).unwrap();
    assert_eq!((built.entries, built.replaced, built.spilled), (150_000, 50_000, 0));
    assert_eq!(entries[&b"7"[..]], b"value of 150007");
    let bytes = std::fs::read(&roomy.output).unwrap();
    let tight = BuildOptions { memory: 1 << 20, ..roomy };
    let (built, _) = place.build(&tight).unwrap();
    assert!(built.spilled > 4 << 20, "{}", built.spilled);
    assert!(std::fs::read(&tight.output).unwrap() == bytes);
}

/// The bytes of a table stay what they are: this one was written by the first version.
#[test]
fn the_table_that_is_checked_in_is_read_and_would_be_written_again() {
    let vector = include_bytes!("vector.ltab");
    let mut expected = numbered(20);
    expected.insert(b"wide".to_vec(), vec![b'w'; 300]);
    assert_eq!(entries(&Table::from_bytes(vector).unwrap()), expected);
    assert!(bytes_of(&expected, 1, 42) == vector, "docs/formats/table.md describes other bytes");
}

#[test]
fn a_missing_file_is_named() {
    let error = Table::open(Path::new("/nowhere/t.ltab")).unwrap_err().to_string();
    assert!(error.starts_with("/nowhere/t.ltab: No such file"), "{error}");
}
