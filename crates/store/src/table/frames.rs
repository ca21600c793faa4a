//! Compressed values: each block keeps its values in frames of zstd, made with a dictionary that
//! the table brings along.
//!
//! A frame holds the values of neighbours, up to [`FRAME`] bytes together, or one that is larger by
//! itself. So a read decompresses little more than what it is for, and the dictionary makes up for
//! what small frames cannot learn by themselves (docs/decisions/0017-own-table-format.md has the
//! figures).
use super::{error::TableError, limits::MAX_VALUE};
use std::{borrow::Cow, fmt, io, ops::Range};
use zstd::{
    bulk::Compressor,
    zstd_safe::{DCtx, DDict},
};

/// How a table keeps its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FrameCompression {
    /// As they are.
    #[default]
    None,
    /// In frames of zstd.
    Zstd,
}
impl FrameCompression {
    /// Their names.
    pub const NAMES: [(&str, FrameCompression); 2] =
        [("none", FrameCompression::None), ("zstd", FrameCompression::Zstd)];
    /// Its name.
    pub fn name(self) -> &'static str {
        FrameCompression::NAMES[self as usize].0
    }
}

/// Bytes that values of one frame have together at most, unless it is a single one.
pub(super) const FRAME: usize = 512;
/// The most that a reader accepts for that: the lengths of frames have two bytes.
pub(super) const MAX_FRAME: usize = 0xffff;
/// The largest dictionary that is written.
const DICTIONARY: usize = 32 << 10;
/// The largest that is read.
pub(super) const MAX_DICTIONARY: usize = 1 << 20;
/// Bytes of values that a dictionary is made of, for each of its own.
const SAMPLES: usize = 64;
/// Bytes of one value that are looked at for it.
const SAMPLED: usize = 8 << 10;
/// zstd's own default. Higher ones take a multiple of the time and make small frames no smaller.
const LEVEL: i32 = 3;
/// Binary logarithm of the most that zstd makes of one byte: a block of 128 KiB takes four.
const MAX_RATIO_BITS: u32 = 15;

/// Values of which a dictionary is made.
#[derive(Default)]
pub(super) struct Sample {
    bytes: Vec<u8>,
    lens: Vec<usize>,
}
impl Sample {
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= SAMPLES * DICTIONARY
    }
    pub(super) fn push(&mut self, value: &[u8]) {
        if !self.is_full() {
            let begin = &value[..value.len().min(SAMPLED)];
            self.bytes.extend_from_slice(begin);
            self.lens.push(begin.len());
        }
    }
}

/// Makes frames.
pub(super) struct FrameEncoder {
    compressor: Compressor<'static>,
    pub(super) dictionary: Vec<u8>,
    /// What goes into a frame.
    raw: Vec<u8>,
    frame: Vec<u8>,
}
impl FrameEncoder {
    pub(super) fn new(sample: &Sample) -> Result<FrameEncoder, TableError> {
        // For a small table a small one, as it is a part of the file.
        let size = DICTIONARY.min(sample.bytes.len() / SAMPLES);
        // Where there is too little to learn from, none: the frames are read with it all the same.
        let dictionary = zstd::dict::from_continuous(&sample.bytes, &sample.lens, size).unwrap_or_default();
        let compressor = Compressor::with_dictionary(LEVEL, &dictionary).and_then(|mut compressor| {
            // The table knows both.
            compressor.include_contentsize(false)?;
            compressor.include_dictid(false)?;
            Ok(compressor)
        });
        Ok(FrameEncoder { compressor: compressor.map_err(failed)?, dictionary, raw: Vec::new(), frame: Vec::new() })
    }

    /// Appends the frames of a block's values to `out`, and the length of each to `lens`.
    pub(super) fn put(&mut self, values: &[&[u8]], out: &mut Vec<u8>, lens: &mut Vec<usize>) -> Result<(), TableError> {
        let mut framing = Framing::new(FRAME);
        for value in values {
            if framing.add(value.len()) {
                self.end(out, lens)?;
            }
            self.raw.extend_from_slice(value);
        }
        self.end(out, lens)
    }
    fn end(&mut self, out: &mut Vec<u8>, lens: &mut Vec<usize>) -> Result<(), TableError> {
        self.frame.clear();
        self.frame.reserve(zstd::zstd_safe::compress_bound(self.raw.len()));
        self.compressor.compress_to_buffer(&self.raw, &mut self.frame).map_err(failed)?;
        // What would not get shorter stays as it is, which its length says.
        let kept = if self.frame.len() < self.raw.len() { &self.frame } else { &self.raw };
        out.extend_from_slice(kept);
        lens.push(kept.len());
        self.raw.clear();
        Ok(())
    }
}
fn failed(error: io::Error) -> TableError {
    TableError::Input(format!("zstd: {error}").into())
}

/// Which values share a frame: writer and reader go by the same rule.
pub(super) struct Framing {
    limit: usize,
    /// Bytes of the frame so far; `None` before its first value.
    raw: Option<usize>,
}
impl Framing {
    pub(super) fn new(limit: usize) -> Framing {
        Framing { limit, raw: None }
    }
    /// The next value has this length. Does it begin another frame?
    pub(super) fn add(&mut self, len: usize) -> bool {
        match self.raw.map(|raw| raw.saturating_add(len)) {
            Some(raw) if raw > self.limit => {
                self.raw = Some(len);
                true
            }
            raw => {
                self.raw = Some(raw.unwrap_or(len));
                false
            }
        }
    }
    /// Bytes of the frame so far.
    pub(super) fn raw(&self) -> usize {
        self.raw.unwrap_or(0)
    }
}

/// Where a value is.
#[derive(Debug, Clone)]
pub(super) struct StoredFrame<'t> {
    /// Its frame, or the value itself.
    pub(super) bytes: &'t [u8],
    /// Where that begins in the file.
    pub(super) at: usize,
    /// Bytes of the frame once it is decompressed; as many as it has if it is not compressed.
    pub(super) raw: usize,
    /// The value's own of them.
    pub(super) value: Range<usize>,
}
impl<'t> StoredFrame<'t> {
    /// The value, if it lies in the file as it is.
    #[inline]
    pub(super) fn plain(&self) -> Option<&'t [u8]> {
        if self.bytes.len() == self.raw { self.bytes.get(self.value.clone()) } else { None }
    }
}

/// What frames are read with.
pub(super) struct Frames {
    dictionary: DDict<'static>,
    /// See [`FRAME`].
    pub(super) limit: usize,
}
impl fmt::Debug for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frames").field("limit", &self.limit).finish_non_exhaustive()
    }
}
impl Frames {
    /// `None`: this is no dictionary.
    pub(super) fn new(dictionary: &[u8], limit: usize) -> Option<Frames> {
        Some(Frames { dictionary: DDict::try_create(dictionary)?, limit })
    }
}

/// What one thread decompresses with: made when it is needed first (some 100 KB), used again and
/// again.
#[derive(Default)]
pub struct Decoder {
    context: Option<DCtx<'static>>,
    buffer: Vec<u8>,
    /// Where the frame that the buffer holds begins in its file.
    held: Option<usize>,
}
impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder").field("buffer", &self.buffer.capacity()).finish_non_exhaustive()
    }
}
impl Decoder {
    /// The value of a frame that is compressed, in the decoder's buffer.
    pub(super) fn decode(&mut self, frames: &Frames, stored: &StoredFrame<'_>) -> Result<&[u8], &'static str> {
        self.held = None;
        if stored.raw > MAX_VALUE || stored.raw >> MAX_RATIO_BITS > stored.bytes.len() {
            return Err("a frame says that it holds more than it can");
        }
        self.buffer.clear();
        self.buffer.reserve_exact(stored.raw);
        let context = self.context.get_or_insert_with(DCtx::create);
        match context.decompress_using_ddict(&mut self.buffer, stored.bytes, &frames.dictionary) {
            Ok(len) if len == stored.raw => {}
            _ => return Err("a frame does not hold what its lengths say"),
        }
        self.buffer.get(stored.value.clone()).ok_or("a value is beyond its frame")
    }

    /// Like `decode`, by itself, for walks: the next value may be of the frame that was
    /// decompressed for this one. All calls are for the same table.
    pub(super) fn owned(
        &mut self,
        frames: &Frames,
        stored: &StoredFrame<'_>,
    ) -> Result<Cow<'static, [u8]>, &'static str> {
        if self.held != Some(stored.at) {
            self.decode(frames, stored)?;
            if stored.value == (0..stored.raw) {
                // It is not shared, and it may be large.
                return Ok(Cow::Owned(std::mem::take(&mut self.buffer)));
            }
            self.held = Some(stored.at);
        }
        self.buffer
            .get(stored.value.clone())
            .map(|value| Cow::Owned(value.to_vec()))
            .ok_or("a value is beyond its frame")
    }
}
