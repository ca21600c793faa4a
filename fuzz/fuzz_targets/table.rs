//! Any bytes are a table or none: nothing panics, nothing is read outside of them. Half of the time their checksums are made right, so that what is behind them is
//! looked at as well.
#![no_main]
use larder_store::{table::Decoder, table::Position, table::Table};
use libfuzzer_sys::fuzz_target;
use xxhash_rust::xxh3::xxh3_64;

const HEADER: usize = 4096;
const CHUNK: usize = 65536;

/// A valid header in front of these bytes, of which so many are the body, in 2 to `part_bits` parts (docs/formats/table.md); with a dictionary and the
/// bytes of a frame if values are compressed.
fn sealed(body: &[u8], directory: &[u8], part_bits: u32, entries: u64, compressed: Option<(&[u8], u16)>) -> Vec<u8> {
    let mut tail = directory.to_vec();
    tail.resize(32 << part_bits, 0);
    body.chunks(CHUNK).for_each(|chunk| tail.extend(xxh3_64(chunk).to_le_bytes()));
    let (dictionary, frame) = compressed.unwrap_or_default();
    tail.extend(dictionary);
    let mut bytes = b"\x89LTAB\r\n\x1a\x01\0\0\0".to_vec();
    bytes.extend(u32::from(compressed.is_some()).to_le_bytes());
    for number in [entries, 0, 0, 0, body.len() as u64, tail.len() as u64] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(part_bits.to_le_bytes());
    bytes.extend(16u32.to_le_bytes());
    bytes.extend(xxh3_64(&tail).to_le_bytes());
    bytes.resize(96, 0);
    bytes.extend((dictionary.len() as u32).to_le_bytes());
    bytes.extend(u32::from(frame).to_le_bytes());
    bytes.resize(HEADER - 8, 0);
    bytes.extend(xxh3_64(&bytes).to_le_bytes());
    bytes.extend(body);
    bytes.extend(tail);
    bytes
}

fn exercise(bytes: &[u8], key: &[u8]) {
    let Ok(table) = Table::from_bytes(bytes) else { return };
    let mut decoder = Decoder::default();
    let _ = table.get_now(key, &mut decoder);
    let _ = table.get(key);
    let walked = table.entries(Position::default()).take(10_000);
    for entry in walked {
        let Ok((key, _)) = entry else { break };
        let _ = table.get(key);
    }
    if table.len() < 10_000 {
        let _ = table.verify();
    }
    let _ = table.get_now(key, &mut decoder);
}

/// A sound table with compressed values, some bytes of its body and its dictionary changed: few others get as far as to be decompressed.
fn changed(changes: &[(u16, u8)]) -> Vec<u8> {
    let mut bytes = include_bytes!("../../crates/store/src/table/vector-zstd.ltab").to_vec();
    let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let (entries, body) = (number(16), number(48) as usize);
    let (directory_at, dictionary_at) = (HEADER + body, bytes.len() - number(96) as u32 as usize);
    let places: Vec<usize> = (HEADER..directory_at).chain(dictionary_at..bytes.len()).collect();
    for (at, byte) in changes {
        bytes[places[usize::from(*at) % places.len()]] ^= byte;
    }
    let (body, directory) = (&bytes[HEADER..directory_at], &bytes[directory_at..directory_at + 64]);
    sealed(body, directory, 1, entries, Some((&bytes[dictionary_at..], 512)))
}

type Fuzzed<'a> = (&'a [u8], &'a [u8], Vec<[u32; 6]>, u8, Option<(&'a [u8], u16)>, &'a [u8], Vec<(u16, u8)>);

fuzz_target!(|input: Fuzzed<'_>| {
    let (raw, body, parts, part_bits, compressed, key, changes) = input;
    exercise(&changed(&changes), key);
    exercise(raw, key);
    let part_bits = u32::from(part_bits % 3);
    let mut directory = Vec::new();
    let mut sum = 0;
    for [begin, len, numbers @ ..] in parts.iter().take(1 << part_bits) {
        // Most of them within the body.
        let begin = HEADER as u64 + u64::from(*begin) % (body.len() as u64 + 2);
        directory.extend(begin.to_le_bytes());
        directory.extend((u64::from(*len) % (body.len() as u64 + 2)).to_le_bytes());
        numbers.iter().for_each(|number| directory.extend((number % 1024).to_le_bytes()));
        sum += u64::from(numbers[0] % 1024);
    }
    exercise(&sealed(body, &directory, part_bits, sum, compressed), key);
});
