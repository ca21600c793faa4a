//! Tables whose values are compressed.
use super::*;
use std::borrow::Cow;

/// Values that have much in common, as records of one kind have.
pub(super) fn alike(count: usize) -> Model {
    let value = |n: usize| {
        let noise = xxh3_64(&n.to_le_bytes());
        format!("{{\"id\":{n},\"name\":\"person {}\",\"city\":\"Winterthur\",\"noise\":\"{noise:x}\"}}", n % 7)
            .into_bytes()
    };
    (0..count).map(|n| (n.to_string().into_bytes(), value(n))).collect()
}

/// A table with values of every kind: empty, alike, in frames of their own, too large to be
/// decompressed on a core, and of random bytes.
fn mixed() -> Model {
    let mut model = alike(3000);
    model.insert(b"empty".to_vec(), Vec::new());
    model.insert(b"text".to_vec(), b"again and ".repeat(500));
    model.insert(b"large".to_vec(), b"again and ".repeat(50_000));
    model.insert(b"random".to_vec(), (0..20_000u64).flat_map(|n| xxh3_64(&n.to_le_bytes()).to_le_bytes()).collect());
    model
}

#[test]
fn alike_values_take_a_fraction_and_are_what_they_were() {
    let model = alike(20_000);
    let (plain, packed) = (bytes_of(&model, 1, 0), written(&model, 1, 0, FrameCompression::Zstd));
    assert!(packed.len() * 2 < plain.len(), "{} of {}", packed.len(), plain.len());
    let table = Table::from_bytes(&packed).unwrap();
    assert_eq!(table.compression(), FrameCompression::Zstd);
    assert!((256..=32 << 10).contains(&table.dictionary_bytes()), "{}", table.dictionary_bytes());
    assert_eq!(table.raw_bytes(), Table::from_bytes(&plain).unwrap().raw_bytes());
    assert_eq!(entries(&table), model);
    assert!(packed == written(&model, 1, 0, FrameCompression::Zstd), "the same entries make the same bytes");
}

#[test]
fn values_of_all_kinds_lie_together() {
    let model = mixed();
    let table = std::sync::Arc::new(Table::from_bytes(&written(&model, 0, 0, FrameCompression::Zstd)).unwrap());
    table.verify().unwrap();
    assert_eq!(entries(&table), model);
    let mut decoder = Decoder::default();
    for (key, value) in &model {
        let now = table.get_now(key, &mut decoder);
        let expected = if key == b"large" { Now::Unknown } else { Now::Found(value) };
        assert!(now == expected, "{}", key.escape_ascii());
        assert_eq!(table.get(key).unwrap().as_deref(), Some(&value[..]));
    }
    let random = table.get(b"random").unwrap().unwrap();
    assert!(matches!(random, Cow::Borrowed(_)), "what gets no shorter stays as it is");
    assert_eq!(table.share(&random).as_ptr(), random.as_ptr(), "by reference");
}

/// Where a frame that is compressed begins: where zstd's own mark is.
fn frames(bytes: &[u8]) -> Vec<usize> {
    (HEADER..bytes.len() - 4).filter(|&at| bytes[at..at + 4] == [0x28, 0xb5, 0x2f, 0xfd]).collect()
}

#[test]
fn a_frame_that_is_none_is_named_and_the_others_are_read() {
    let model = alike(200);
    let mut bytes = written(&model, 0, 0, FrameCompression::Zstd);
    let at = frames(&bytes)[3];
    bytes[at] ^= 1;
    reseal(&mut bytes);
    let table = Table::from_bytes(&bytes).unwrap();
    let failed: Vec<_> = model.keys().filter_map(|key| table.get(key).err()).collect();
    assert!((1..=16).contains(&failed.len()), "{} keys", failed.len());
    for error in failed.iter().chain(&table.verify().err()) {
        let expected = format!("frame at byte {at}: a frame does not hold what its lengths say");
        assert!(error.to_string().ends_with(&expected), "{error}");
    }
    let mut decoder = Decoder::default();
    let unknown = model.keys().filter(|key| table.get_now(key, &mut decoder) == Now::Unknown).count();
    assert_eq!(unknown, failed.len(), "left to those who can say why");
}

/// A file that could claim any length would make Larder allocate it.
#[test]
fn a_length_that_no_frame_can_have_is_refused_before_it_is_allocated() {
    let model: Model = [(b"k".to_vec(), vec![7; 100_000])].into();
    let mut bytes = written(&model, 0, 0, FrameCompression::Zstd);
    let [at] = frames(&bytes)[..] else { panic!("one frame") };
    // Before it: its own length, the key, the value's length; each length has four bytes.
    let len_at = at - 4 - 1 - 4;
    assert_eq!(bytes[len_at..len_at + 4], 100_000u32.to_le_bytes());
    for (len, expected) in [
        (100_001u32, "does not hold what its lengths say"),
        (99_999, "does not hold what its lengths say"),
        (500 << 20, "says that it holds more than it can"),
        (u32::MAX, "says that it holds more than it can"),
    ] {
        bytes[len_at..len_at + 4].copy_from_slice(&len.to_le_bytes());
        reseal(&mut bytes);
        let error = Table::from_bytes(&bytes).unwrap().get(b"k").unwrap_err().to_string();
        assert!(error.contains(&format!("frame at byte {at}: ")) && error.contains(expected), "{len}: {error}");
    }
}

#[test]
fn a_dictionary_that_is_damaged_is_refused() {
    let bytes = written(&alike(20_000), 0, 0, FrameCompression::Zstd);
    let mut flipped = bytes.clone();
    let at = bytes.len() - 1000;
    flipped[at] ^= 1;
    let error = Table::from_bytes(&flipped).unwrap_err().to_string();
    assert!(error.contains("damaged table: tail at byte "), "{error}");
    // One whose checksum was made right, but whose tables are none.
    let dictionary_at = bytes.len() - Table::from_bytes(&bytes).unwrap().dictionary_bytes() as usize;
    let mut none = bytes;
    none[dictionary_at + 8..dictionary_at + 100].fill(0xff);
    reseal(&mut none);
    let error = Table::from_bytes(&none).unwrap_err().to_string();
    assert!(error.ends_with(&format!("dictionary at byte {dictionary_at}: it is none of zstd")), "{error}");
}

#[test]
fn a_table_made_of_another_keeps_its_compression_unless_told_otherwise() {
    let place = Place::new();
    let text: String = alike(2000)
        .iter()
        .map(|(key, value)| format!("{} {}\n", String::from_utf8_lossy(key), String::from_utf8_lossy(value)))
        .collect();
    let first = BuildOptions {
        output: place.path("first.ltab"),
        compression: Some(FrameCompression::Zstd),
        ..place.options("x.data", &text)
    };
    let (_, expected) = place.build(&first).unwrap();
    assert_eq!(expected, alike(2000));
    let compression = |options: &BuildOptions| {
        let (_, entries) = place.build(options).unwrap();
        assert_eq!(entries.get(&b"77"[..]), expected.get(&b"77"[..]));
        Table::open(&options.output).unwrap().compression()
    };
    let changed = BuildOptions { base: Some(first.output.clone()), ..place.options("y.data", "new one\n") };
    assert_eq!(compression(&changed), FrameCompression::Zstd);
    let copied = BuildOptions { input: Input::of(first.output.clone()), ..place.options("unused", "") };
    assert_eq!(compression(&copied), FrameCompression::Zstd);
    let told = BuildOptions { compression: Some(FrameCompression::None), ..changed };
    assert_eq!(compression(&told), FrameCompression::None);
}

#[test]
fn compressed_bytes_do_not_depend_on_the_memory() {
    let place = Place::new();
    let text: String = (0..150_000).map(|n| format!("{} value of {n} and more of the same\n", n % 130_000)).collect();
    let options = |memory| BuildOptions {
        memory,
        compression: Some(FrameCompression::Zstd),
        output: place.path(&format!("{memory}.ltab")),
        ..place.options("x.data", &text)
    };
    let (roomy, tight) = (options(1 << 30), options(1 << 20));
    assert_eq!(place.build(&roomy).unwrap().0.spilled, 0);
    assert!(place.build(&tight).unwrap().0.spilled > 1 << 20);
    assert!(std::fs::read(&roomy.output).unwrap() == std::fs::read(&tight.output).unwrap());
}

/// What was written once, as [`written`] writes it with seed 42 in two parts, is read for good;
/// another version of zstd may write other frames.
#[test]
fn the_compressed_table_that_is_checked_in_is_read() {
    let table = Table::from_bytes(include_bytes!("../vector-zstd.ltab")).unwrap();
    table.verify().unwrap();
    assert!(table.dictionary_bytes() > 0);
    assert_eq!(entries(&table), vector());
}
/// More than a dictionary's least, so that there is one.
fn vector() -> Model {
    let mut model = alike(250);
    model.insert(b"wide".to_vec(), b"wide ".repeat(200));
    model
}
