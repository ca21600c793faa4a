//! Compression of what monitoring systems take.
use flate2::{Compression, write::GzEncoder};
use std::io::Write as _;

/// The text, compressed. `None`: it failed, which writing to memory does not.
pub fn gzip(text: &[u8]) -> Option<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(text.len() / 4), Compression::fast());
    encoder.write_all(text).ok()?;
    encoder.finish().ok()
}
