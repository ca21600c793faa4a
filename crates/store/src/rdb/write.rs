//! Writes strings as an RDB file.
use super::format::{DATABASE, END, EXPIRES_MS, MAGIC, STRING, SUMS};
use crc::{Digest, Table};
use std::io::{self, Write};

/// The version that is written. Redis reads it from 5 on.
const VERSION: &[u8; 4] = b"0009";

/// Writes an RDB file to anything that takes bytes, in small pieces.
pub struct RdbWriter<W: Write> {
    out: W,
    sum: Digest<'static, u64, Table<16>>,
    database: Option<u64>,
}

impl<W: Write> RdbWriter<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// What `out` says.
    pub fn new(out: W) -> io::Result<RdbWriter<W>> {
        let mut writer = RdbWriter::without_header(out);
        writer.put(MAGIC)?;
        writer.put(VERSION)?;
        Ok(writer)
    }

    pub(super) fn without_header(out: W) -> RdbWriter<W> {
        RdbWriter { out, sum: SUMS.digest(), database: None }
    }

    /// Adds a string of at most 4 GiB, which ends at `expiry` (milliseconds since the Unix epoch).
    /// The caller gives no key of a database twice.
    ///
    /// # Errors
    /// What the output says.
    pub fn push(&mut self, database: u64, key: &[u8], value: &[u8], expiry: Option<u64>) -> io::Result<()> {
        if self.database.replace(database) != Some(database) {
            self.put(&[DATABASE])?;
            self.put_length(database)?;
        }
        if let Some(expiry) = expiry {
            self.put(&[EXPIRES_MS])?;
            self.put(&expiry.to_le_bytes())?;
        }
        self.put(&[STRING])?;
        self.put_string(key)?;
        self.put_string(value)
    }

    /// Writes the end and the checksum, and gives the output back.
    ///
    /// # Errors
    /// What the output says.
    pub fn finish(self) -> io::Result<W> {
        self.end_with(&[END])
    }

    /// Writes these bytes and the checksum.
    pub(super) fn end_with(mut self, end: &[u8]) -> io::Result<W> {
        self.put(end)?;
        let sum = self.sum.clone().finalize();
        self.put(&sum.to_le_bytes())?;
        Ok(self.out)
    }

    pub(super) fn put_string(&mut self, string: &[u8]) -> io::Result<()> {
        self.put_length(string.len() as u64)?;
        self.put(string)
    }

    pub(super) fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sum.update(bytes);
        self.out.write_all(bytes)
    }

    fn put_length(&mut self, len: u64) -> io::Result<()> {
        match len {
            ..0x40 => self.put(&[len as u8]),
            0x40..0x4000 => self.put(&[0x40 | (len >> 8) as u8, len as u8]),
            0x4000..=0xffff_ffff => {
                self.put(&[0x80])?;
                self.put(&(len as u32).to_be_bytes())
            }
            _ => {
                self.put(&[0x81])?;
                self.put(&len.to_be_bytes())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            format::RdbError,
            read::{RdbItem, RdbReader},
        },
        *,
    };
    use proptest::{collection::vec, option, prelude::*};

    type Owned = (u64, Vec<u8>, Vec<u8>, Option<u64>);

    fn written(entries: &[Owned]) -> Vec<u8> {
        let mut writer = RdbWriter::new(Vec::new()).expect("memory");
        for (database, key, value, expiry) in entries {
            writer.push(*database, key, value, *expiry).expect("memory");
        }
        writer.finish().expect("memory")
    }

    fn read(bytes: &[u8]) -> Result<Vec<Owned>, RdbError> {
        let mut reader = RdbReader::new(bytes, 200, 20_000)?;
        let mut all = Vec::new();
        while let Some(item) = reader.next()? {
            let RdbItem::String { database, key, value, expiry } = item else { panic!("{item:?}") };
            all.push((database, key.to_vec(), value.to_vec(), expiry.map(|at| at as u64)));
        }
        assert!(reader.has_sum());
        Ok(all)
    }

    fn owned() -> impl Strategy<Value = Owned> {
        let value = prop_oneof![vec(any::<u8>(), 0..80), vec(any::<u8>(), 16_300..16_500)];
        (0..300_u64, vec(any::<u8>(), 0..100), value, option::of(0..1_u64 << 60))
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(entries in vec(owned(), 0..20), place in 0.0..1.0_f64, bit in 0..8) {
            let bytes = written(&entries);
            prop_assert_eq!(read(&bytes).expect("it is whole"), entries);
            let at = (bytes.len() as f64 * place) as usize;
            prop_assert!(check(&bytes[..at]).is_err(), "cut off");
            let mut damaged = bytes;
            damaged[at] ^= 1_u8 << bit;
            prop_assert!(check(&damaged).is_err(), "a flipped bit");
        }

        /// Any bytes after a header are an answer.
        #[test]
        fn any_bytes_can_be_read(bytes in vec(any::<u8>(), 0..200)) {
            let _ = check(&[&b"REDIS0011\xfe\0"[..], &bytes].concat());
        }
    }

    fn check(bytes: &[u8]) -> Result<(), RdbError> {
        let mut reader = RdbReader::new(bytes, 200, 20_000)?;
        while reader.next()?.is_some() {}
        Ok(())
    }

    #[test]
    fn what_is_over_a_limit_is_skipped_and_named() {
        let string = |key: usize, value: usize| (0, vec![b'k'; key], vec![b'v'; value], None);
        let bytes = written(&[string(200, 20_000), string(201, 1), string(1, 20_001), string(2, 1)]);
        let mut reader = RdbReader::new(&bytes[..], 200, 20_000).expect("a header");
        let mut kinds = Vec::new();
        while let Some(item) = reader.next().expect("it is whole") {
            kinds.push(match item {
                RdbItem::String { .. } => "string",
                RdbItem::Other { kind, .. } => kind,
            });
        }
        assert_eq!(kinds, ["string", "key over the limit", "string over the limit", "string"]);
    }

    #[test]
    fn lengths_that_the_file_does_not_have_are_damage() {
        for bytes in [
            // Plain, of 2^62 bytes: skipped. Of 20,000 bytes: read. Compressed, to 2^62 bytes; to 20,000 bytes from
            // 9,000.
            &b"\x00\x01k\x81\x40\0\0\0\0\0\0\0"[..],
            b"\x00\x01k\x80\0\0\x4e\x20",
            b"\x00\x01k\xc3\x04\x81\x40\0\0\0\0\0\0\0\x03abcd",
            b"\x00\x01k\xc3\x80\0\0\x23\x28\x80\0\0\x4e\x20\x03abcd",
            // A list, a hash and a stream of 2^62 elements.
            b"\x01\x01k\x81\x40\0\0\0\0\0\0\0\x01a",
            b"\x04\x01k\x81\x40\0\0\0\0\0\0\0\x01a\x01b",
            b"\x0f\x01k\0\0\0\0\x01\x01g\0\0\0\x01\x01c\0\0\0\0\0\0\0\0\x81\x40\0\0\0\0\0\0\0",
        ] {
            let result = check(&[&b"REDIS0011"[..], bytes].concat());
            assert!(matches!(result, Err(RdbError::Damaged { .. } | RdbError::Io(_))), "{bytes:?}: {result:?}");
        }
    }

    #[test]
    fn a_file_without_a_checksum_is_read() {
        let mut bytes = written(&[(0, b"k".to_vec(), b"v".to_vec(), None)]);
        let sum = bytes.len() - 8;
        bytes[sum..].fill(0);
        let mut reader = RdbReader::new(&bytes[..], 200, 200).expect("a header");
        assert!(reader.next().expect("a key").is_some() && reader.next().expect("the end").is_none());
        assert!(!reader.has_sum());
        bytes.push(0);
        assert!(check(&bytes).is_err(), "bytes follow");
        assert!(check(b"REDIS0003\xfe\0\0\x01k\x01v\xff").is_ok(), "before version 5 there is none");
        assert!(check(b"REDIS0014\xff").is_err() && check(b"RED").is_err() && check(b"VALKEY080\xff").is_err());
    }
}
