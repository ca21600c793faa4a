//! The bytes of an RDB file: counted, summed, and as the file's lengths and strings.
use super::{
    format::{RdbError, SUMS},
    lzf,
};
use crc::{Digest, Table};
use std::io::{self, BufRead as _, BufReader, Read, Write as _};

/// Bytes that are read at once.
const READ: usize = 256 << 10;
/// Memory that is had at once for a string of which no byte was read yet.
const RESERVED: usize = 64 << 10;

/// A length of the file, or how a string is encoded.
enum Length {
    Plain(u64),
    Encoded(u8),
}

pub(super) struct Input<R: Read> {
    bytes: BufReader<Summed<R>>,
    /// Bytes read so far.
    at: u64,
    /// A compressed string.
    packed: Vec<u8>,
}

impl<R: Read> Input<R> {
    pub(super) fn new(input: R) -> Input<R> {
        let summed = Summed { input, sum: SUMS.digest() };
        Input { bytes: BufReader::with_capacity(READ, summed), at: 0, packed: Vec::new() }
    }

    pub(super) fn damaged(&self, what: &'static str) -> RdbError {
        RdbError::Damaged { at: self.at, what }
    }

    /// The sum of all that was read. Of bytes that end with their own sum it is 0. To be asked at
    /// the end.
    pub(super) fn sum(&self) -> u64 {
        self.bytes.get_ref().sum.clone().finalize()
    }

    /// Whether no byte follows.
    pub(super) fn is_at_end(&mut self) -> Result<bool, RdbError> {
        Ok(self.bytes.fill_buf()?.is_empty())
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], RdbError> {
        let mut array = [0; N];
        match self.bytes.read_exact(&mut array) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(self.cut_off()),
            Err(error) => return Err(error.into()),
        }
        self.at += N as u64;
        Ok(array)
    }

    pub(super) fn byte(&mut self) -> Result<u8, RdbError> {
        Ok(self.array::<1>()?[0])
    }

    pub(super) fn skip(&mut self, len: u64) -> Result<(), RdbError> {
        let skipped = io::copy(&mut self.bytes.by_ref().take(len), &mut io::sink())?;
        self.at += skipped;
        if skipped == len { Ok(()) } else { Err(self.cut_off()) }
    }

    fn cut_off(&self) -> RdbError {
        self.damaged("the file ends too early")
    }

    /// `len` bytes. Memory is had for those that the file has.
    fn take(&mut self, len: u64, into: &mut Vec<u8>) -> Result<(), RdbError> {
        into.clear();
        into.reserve(RESERVED.min(len as usize));
        let taken = self.bytes.by_ref().take(len).read_to_end(into)? as u64;
        self.at += taken;
        if taken == len { Ok(()) } else { Err(self.cut_off()) }
    }

    /// `00xxxxxx`, `01xxxxxx` and a byte, `80` and 4 bytes, `81` and 8 bytes; `11xxxxxx`: an
    /// encoding.
    fn length_or_encoding(&mut self) -> Result<Length, RdbError> {
        let first = self.byte()?;
        Ok(match (first >> 6, first) {
            (0, _) => Length::Plain(first.into()),
            (1, _) => Length::Plain(u64::from(first & 0x3f) << 8 | u64::from(self.byte()?)),
            (3, _) => Length::Encoded(first & 0x3f),
            (_, 0x80) => Length::Plain(u32::from_be_bytes(self.array()?).into()),
            (_, 0x81) => Length::Plain(u64::from_be_bytes(self.array()?)),
            _ => return Err(self.damaged("a length of an unknown kind")),
        })
    }

    pub(super) fn length(&mut self) -> Result<u64, RdbError> {
        match self.length_or_encoding()? {
            Length::Plain(len) => Ok(len),
            Length::Encoded(_) => Err(self.damaged("a length is missing")),
        }
    }

    /// Reads a string. One of more than `most` bytes is skipped: `false`.
    pub(super) fn string(&mut self, most: usize, into: &mut Vec<u8>) -> Result<bool, RdbError> {
        let most = most as u64;
        let number = match self.length_or_encoding()? {
            Length::Plain(len) if len > most => return self.skip(len).map(|()| false),
            Length::Plain(len) => return self.take(len, into).map(|()| true),
            Length::Encoded(0) => i8::from_le_bytes(self.array()?).into(),
            Length::Encoded(1) => i16::from_le_bytes(self.array()?).into(),
            Length::Encoded(2) => i32::from_le_bytes(self.array()?),
            Length::Encoded(3) => return self.compressed(most, into),
            Length::Encoded(_) => return Err(self.damaged("a string of an unknown encoding")),
        };
        into.clear();
        write!(into, "{number}")?;
        Ok(true)
    }

    fn compressed(&mut self, most: u64, into: &mut Vec<u8>) -> Result<bool, RdbError> {
        let (packed, len) = (self.length()?, self.length()?);
        if len > most {
            return self.skip(packed).map(|()| false);
        }
        // Redis compresses only what becomes shorter by it.
        if packed >= len {
            return Err(self.damaged("a compressed string that is longer than itself"));
        }
        let mut bytes = std::mem::take(&mut self.packed);
        let taken = self.take(packed, &mut bytes);
        let is_whole = taken.is_ok() && lzf::decompress(&bytes, len as usize, into);
        self.packed = bytes;
        taken?;
        if is_whole { Ok(true) } else { Err(self.damaged("a compressed string cannot be decompressed")) }
    }

    pub(super) fn skip_string(&mut self) -> Result<(), RdbError> {
        let len = match self.length_or_encoding()? {
            Length::Plain(len) => len,
            Length::Encoded(0) => 1,
            Length::Encoded(1) => 2,
            Length::Encoded(2) => 4,
            Length::Encoded(3) => {
                let packed = self.length()?;
                self.length()?;
                packed
            }
            Length::Encoded(_) => return Err(self.damaged("a string of an unknown encoding")),
        };
        self.skip(len)
    }
}

struct Summed<R> {
    input: R,
    sum: Digest<'static, u64, Table<16>>,
}
impl<R: Read> Read for Summed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.sum.update(&buffer[..read]);
        Ok(read)
    }
}
