//! Files and directories that are there whole or not at all, whatever happens to the machine.
use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

/// The path with something after its name.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(suffix);
    name.into()
}

/// Puts what is synced in its place; from then on it is there.
pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// A file of these bytes.
pub(super) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_with(path, |file| file.write_all(bytes))
}

/// A file of what `write` writes. After an error nothing is left.
pub(super) fn write_with(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let new = beside(path, ".new");
    let mut file = File::create(&new)?;
    let written = write(&mut file).and_then(|()| file.sync_all()).and_then(|()| rename(&new, path));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}
