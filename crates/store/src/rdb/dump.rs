//! Single strings as DUMP returns them and RESTORE takes them.
//!
//! ```text
//!   type 1 | string | version of the format 2 | CRC-64 8
//! ```
use super::{
    format::{STRING, SUMS},
    input::Input,
    read::VERSIONS,
    write::RdbWriter,
};

/// The version that is written. Redis reads it from 5 on.
const VERSION: u16 = 9;
/// The version of Valkey 9, whose strings are those of Redis.
const VALKEY: u32 = 80;

/// What a dump holds.
#[derive(Debug, PartialEq, Eq)]
pub enum Dumped {
    /// A string within the limit.
    String(Vec<u8>),
    /// A longer one.
    TooLong,
    /// A value of another type.
    Other,
}

/// Why bytes are no dump.
#[derive(Debug, PartialEq, Eq)]
pub enum DumpError {
    /// The checksum is that of other bytes, or the version is unknown.
    Sum,
    /// The bytes are not those of a string.
    Damaged,
}

/// The dump of a string.
pub fn dump(value: &[u8]) -> Vec<u8> {
    let mut writer = RdbWriter::without_header(Vec::with_capacity(value.len() + 24));
    // Memory takes all bytes.
    let written = writer.put(&[STRING]).and_then(|()| writer.put_string(value));
    written.and_then(|()| writer.end_with(&VERSION.to_le_bytes())).unwrap_or_default()
}

/// Reads a dump. Memory is had for a string of at most `most` bytes, and as the bytes show that it
/// is there. All known versions have the same strings.
///
/// # Errors
/// The bytes are no dump.
pub fn read_dump(bytes: &[u8], most: usize) -> Result<Dumped, DumpError> {
    let (summed, sum) = bytes.split_last_chunk::<8>().ok_or(DumpError::Sum)?;
    let (value, version) = summed.split_last_chunk::<2>().ok_or(DumpError::Sum)?;
    let version = u32::from(u16::from_le_bytes(*version));
    if version > *VERSIONS.end() && version != VALKEY {
        return Err(DumpError::Sum);
    }
    if SUMS.checksum(summed) != u64::from_le_bytes(*sum) {
        return Err(DumpError::Sum);
    }
    let string = match value.split_first() {
        Some((&STRING, string)) => string,
        Some(_) => return Ok(Dumped::Other),
        None => return Err(DumpError::Damaged),
    };
    let (mut input, mut value) = (Input::new(string), Vec::new());
    let is_within = input.string(most, &mut value).map_err(|_| DumpError::Damaged)?;
    match input.is_at_end() {
        Ok(true) if is_within => Ok(Dumped::String(value)),
        Ok(true) => Ok(Dumped::TooLong),
        _ => Err(DumpError::Damaged),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    fn sealed(value: &[u8]) -> Vec<u8> {
        sealed_as(value, VERSION)
    }
    fn sealed_as(value: &[u8], version: u16) -> Vec<u8> {
        let summed = [value, &version.to_le_bytes()].concat();
        [&summed[..], &SUMS.checksum(&summed).to_le_bytes()].concat()
    }

    proptest! {
        #[test]
        fn what_is_dumped_is_read(
            value in prop_oneof![vec(any::<u8>(), 0..80), vec(any::<u8>(), 16_300..16_500)],
            place in 0.0..1.0_f64,
            bit in 0..8,
        ) {
            let bytes = dump(&value);
            prop_assert_eq!(read_dump(&bytes, value.len()), Ok(Dumped::String(value.clone())));
            if let Some(less) = value.len().checked_sub(1) {
                prop_assert_eq!(read_dump(&bytes, less), Ok(Dumped::TooLong));
            }
            let at = (bytes.len() as f64 * place) as usize;
            prop_assert_eq!(read_dump(&bytes[..at], usize::MAX), Err(DumpError::Sum), "cut off");
            let mut damaged = bytes;
            damaged[at] ^= 1_u8 << bit;
            prop_assert_eq!(read_dump(&damaged, usize::MAX), Err(DumpError::Sum), "a flipped bit");
        }

        /// Any bytes with their sum are an answer.
        #[test]
        fn any_bytes_can_be_read(value in vec(any::<u8>(), 0..60), kind in 0..3_u8) {
            if let Ok(Dumped::String(found)) = read_dump(&sealed(&[&[kind][..], &value].concat()), 100) {
                prop_assert!(found.len() <= 100 && kind == STRING);
            }
        }
    }

    #[test]
    fn what_redis_dumps_is_read() {
        let string = |text: &str| Ok(Dumped::String(text.into()));
        for (value, expected) in [
            (&b"\0\x05hello"[..], string("hello")),
            (b"\0\xc0\xff", string("-1")),
            (b"\0\xc1\x39\x30", string("12345")),
            (b"\0\xc3\x08\x14\x03abcd\xe0\x07\x03", string(&"abcd".repeat(5))),
            (b"\x04\x01\x01f\x01v", Ok(Dumped::Other)),
            // A length that the bytes do not have, one that compressed bytes cannot become, and bytes behind the end.
            (b"\0\x80\xff\xff\xff\xff", Err(DumpError::Damaged)),
            (b"\0\x81\x7f\xff\xff\xff\xff\xff\xff\xff", Err(DumpError::Damaged)),
            (b"\0\xc3\x03\x80\0\x10\0\0\0ab", Err(DumpError::Damaged)),
            (b"\0\x01ab", Err(DumpError::Damaged)),
            (b"\0\xc4", Err(DumpError::Damaged)),
            (b"\0", Err(DumpError::Damaged)),
            (b"", Err(DumpError::Damaged)),
        ] {
            assert_eq!(read_dump(&sealed(value), 1 << 20), expected, "{value:?}");
        }
        // As redis-server 7.0 writes it.
        let theirs = b"\0\x05hello\x0a\0";
        let whole = [&theirs[..], &SUMS.checksum(theirs).to_le_bytes()].concat();
        assert_eq!(read_dump(&whole, 5), string("hello"));
        for (version, is_known) in
            [(1, true), (13, true), (14, false), (79, false), (80, true), (81, false), (265, false)]
        {
            let expected = if is_known { string("hello") } else { Err(DumpError::Sum) };
            assert_eq!(read_dump(&sealed_as(b"\0\x05hello", version), 5), expected, "{version}");
        }
        for bytes in [&b""[..], b"123456789", b"\0\x05hello\x0a\0\0\0\0\0\0\0\0\0"] {
            assert_eq!(read_dump(bytes, 100), Err(DumpError::Sum));
        }
    }
}
