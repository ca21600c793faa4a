//! Any bytes as an RDB file, and pieces of one with a checksum that is right: an answer within the limits, never a panic. What is accepted is what
//! another reader finds in it.
#![no_main]

use arbitrary::Arbitrary;
use crc::{CRC_64_REDIS, Crc};
use larder_store::rdb::{Dumped, RdbItem, RdbReader, RdbWriter, dump, read_dump};
use libfuzzer_sys::fuzz_target;
use rdb::{Filter, RdbDecoder, RdbValue};

const MAX_KEY: usize = 64;
const MAX_VALUE: usize = 1 << 12;

/// What stands between the header and the end.
#[derive(Debug, Arbitrary)]
enum Piece<'a> {
    Database(u8),
    Expiry(u64),
    String(&'a [u8], &'a [u8]),
    /// A string that is compressed, or says so.
    Compressed(u16, &'a [u8]),
    /// A type, a key and what is meant to be its value.
    Value(u8, u8, &'a [u8]),
    Bytes(&'a [u8]),
}

fn sealed(version: u8, pieces: &[Piece<'_>]) -> Vec<u8> {
    let mut bytes = format!("REDIS{:04}", version % 15).into_bytes();
    let put_string = |bytes: &mut Vec<u8>, string: &[u8]| {
        bytes.push(0x80);
        bytes.extend((string.len() as u32).to_be_bytes());
        bytes.extend(string);
    };
    for piece in pieces {
        match piece {
            Piece::Database(number) => bytes.extend([0xfe, number % 64]),
            Piece::Expiry(at) => {
                bytes.push(0xfc);
                bytes.extend(at.to_le_bytes());
            }
            Piece::String(key, value) => {
                bytes.push(0);
                put_string(&mut bytes, key);
                put_string(&mut bytes, value);
            }
            Piece::Compressed(len, packed) => {
                bytes.extend([0, 1, b'c', 0xc3, 0x80]);
                bytes.extend((packed.len() as u32).to_be_bytes());
                bytes.push(0x80);
                bytes.extend(u32::from(*len).to_be_bytes());
                bytes.extend(*packed);
            }
            Piece::Value(kind, key, value) => {
                bytes.extend([kind % 28, 1, *key]);
                bytes.extend(*value);
            }
            Piece::Bytes(more) => bytes.extend(*more),
        }
    }
    bytes.push(0xff);
    let sum = Crc::<u64>::new(&CRC_64_REDIS).checksum(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

type Strings = Vec<(u64, Vec<u8>, Vec<u8>, Option<u64>)>;

/// The strings of a whole file.
fn read(bytes: &[u8]) -> Option<(Strings, bool)> {
    let mut reader = RdbReader::new(bytes, MAX_KEY, MAX_VALUE).ok()?;
    let (mut strings, mut has_others) = (Vec::new(), false);
    while let Some(item) = reader.next().ok()? {
        match item {
            RdbItem::String { database, key, value, expiry } => {
                assert!(key.len() <= MAX_KEY && value.len() <= MAX_VALUE);
                strings.push((database, key.to_vec(), value.to_vec(), expiry.map(|at| at as u64)));
            }
            RdbItem::Other { .. } => has_others = true,
        }
    }
    Some((strings, has_others))
}

struct StringsOnly;
impl Filter for StringsOnly {
    fn matches_type(&self, kind: u8) -> bool {
        kind == 0
    }
}

/// The same by the library; `None` if it refuses the file, as it does for databases beyond 32 bits.
fn read_by_library(bytes: &[u8]) -> Option<Strings> {
    let (mut database, mut strings) = (0, Vec::new());
    for value in RdbDecoder::new(bytes, StringsOnly).ok()? {
        match value.ok()? {
            RdbValue::SelectDb(number) => database = u64::from(number),
            RdbValue::String { key, value, expiry } => strings.push((database, key, value, expiry)),
            _ => {}
        }
    }
    Some(strings)
}

fn exercise(bytes: &[u8]) {
    let Some((strings, has_others)) = read(bytes) else { return };
    let mut writer = RdbWriter::new(Vec::new()).expect("memory");
    for (database, key, value, expiry) in &strings {
        writer.push(*database, key, value, *expiry).expect("memory");
    }
    let written = writer.finish().expect("memory");
    assert_eq!(read(&written), Some((strings.clone(), false)));
    // The library allocates as much as a note (0xfa) says of its length, and has none of our limits.
    if !has_others
        && !bytes.contains(&0xfa)
        && let Some(theirs) = read_by_library(bytes)
    {
        // Seconds before 1970 are not negative for it.
        let without_expiry = |strings: Strings| strings.into_iter().map(|(d, k, v, _)| (d, k, v)).collect::<Vec<_>>();
        assert_eq!(without_expiry(theirs), without_expiry(strings));
    }
}

/// The bytes as what RESTORE is given, with their sum and without.
fn exercise_dump(bytes: &[u8]) {
    let sum = Crc::<u64>::new(&CRC_64_REDIS).checksum(bytes);
    for dumped in [bytes.to_vec(), [bytes, &sum.to_le_bytes()].concat()] {
        if let Ok(Dumped::String(value)) = read_dump(&dumped, MAX_VALUE) {
            assert!(value.len() <= MAX_VALUE);
            assert_eq!(read_dump(&dump(&value), MAX_VALUE), Ok(Dumped::String(value)));
        }
    }
}

fuzz_target!(|input: (&[u8], u8, Vec<Piece<'_>>)| {
    let (raw, version, pieces) = input;
    exercise(raw);
    exercise_dump(raw);
    exercise(&sealed(version, &pieces));
});
