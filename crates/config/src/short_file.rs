//! Files of bounded length.
use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

/// The bytes of a file; `None` if there are more than `longest`. A file of the kernel, or a pipe,
/// has no length before it is read.
///
/// # Errors
/// The file cannot be read.
pub fn read_short_file(path: &Path, longest: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(longest.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= longest).then_some(bytes))
}
