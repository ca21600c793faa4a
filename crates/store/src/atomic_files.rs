//! Files and directories that are there whole or not at all, whatever happens to the machine.
use std::{
    ffi::OsString,
    fs::{self, File},
    hash::{BuildHasher as _, RandomState},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

/// How the names of temporary files end.
const TEMPORARY: &str = ".tmp";

/// A file that is removed unless it was renamed.
#[derive(Debug)]
pub(super) struct Temporary(pub(super) PathBuf);
impl Temporary {
    /// A name beside `path` that no other file has: `.NAME.….tmp`.
    pub(super) fn beside(path: &Path) -> io::Result<Temporary> {
        let name = path.file_name().ok_or_else(|| io::Error::other("is not the name of a file"))?;
        // A rename would put a file in the place of a device: of /dev/null, if root asks for it.
        if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            return Err(io::Error::other("is there already, and is not a regular file"));
        }
        let mut hidden = OsString::from(".");
        hidden.push(name);
        let random = RandomState::new().hash_one(0) as u32;
        hidden.push(format!(".{}-{random:x}{TEMPORARY}", std::process::id()));
        Ok(Temporary(path.with_file_name(hidden)))
    }
}
impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Removes what earlier processes that were killed have left of writing `path`. To be called before
/// this process writes it; other processes that run keep theirs.
///
/// # Errors
/// The directory cannot be read, or a file not removed.
pub fn remove_leftovers(path: &Path) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| io::Error::other("is not the name of a file"))?;
    let begin = format!(".{}.", name.to_string_lossy());
    for entry in fs::read_dir(folder(path))? {
        let entry = entry?;
        let found = entry.file_name();
        let writer = found.to_str().and_then(|name| {
            name.strip_prefix(&begin)?.strip_suffix(TEMPORARY)?.split_once('-')?.0.parse::<u32>().ok()
        });
        if let Some(writer) = writer
            && (writer == std::process::id() || !Path::new(&format!("/proc/{writer}")).exists())
        {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Puts what is synced in its place; from then on it is there.
pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    sync_folder(to)
}
fn sync_folder(of: &Path) -> io::Result<()> {
    File::open(folder(of))?.sync_all()
}
fn folder(of: &Path) -> &Path {
    of.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A file of these bytes.
pub(super) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_with(path, |file| file.write_all(bytes))
}

/// A file of what `write` writes. After an error nothing is left.
///
/// # Errors
/// Those of `write`, and of the file system.
pub fn write_with(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    rename(&written(path, write)?.0, path)
}
/// Like `write_with`, and the file that was there stays as `kept`, in place of what has that name.
/// At each moment `path` leads to the old file or to the new one.
pub(super) fn write_keeping_with(
    path: &Path,
    kept: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let new = written(path, write)?;
    let link = Temporary::beside(kept)?;
    match fs::hard_link(path, &link.0) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        linked => {
            if linked.is_err() {
                // A file system without links.
                fs::copy(path, &link.0)?;
                File::open(&link.0)?.sync_all()?;
            }
            rename(&link.0, kept)?;
        }
    }
    rename(&new.0, path)
}
/// Like `write_with`, where there is no file yet: of several at once one is written, the
/// others end with [`AlreadyExists`](io::ErrorKind::AlreadyExists).
pub(super) fn write_new_with(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let new = written(path, write)?;
    match fs::hard_link(&new.0, path) {
        // A file system without links: it is looked at least.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists && !path.exists() => rename(&new.0, path),
        linked => linked.and_then(|()| sync_folder(path)),
    }
}
fn written(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<Temporary> {
    let new = Temporary::beside(path)?;
    let mut file = File::create(&new.0)?;
    write(&mut file)?;
    file.sync_all()?;
    Ok(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_at_once_write_no_mixture() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        let written = write_with(&path, |file| {
            file.write_all(b"one, ")?;
            write(&path, b"two")?;
            assert_eq!(fs::read(&path)?, b"two");
            file.write_all(b"whole")
        });
        written.expect("the first is written as well");
        assert_eq!(fs::read(&path).expect("a file"), b"one, whole");
        let second = write_new_with(&dir.path().join("new"), |file| {
            write_new_with(&dir.path().join("new"), |file| file.write_all(b"first"))?;
            file.write_all(b"second")
        });
        assert_eq!(second.map_err(|error| error.kind()), Err(io::ErrorKind::AlreadyExists));
        assert_eq!(fs::read(dir.path().join("new")).expect("a file"), b"first");
        let failed = write_with(&path, |file| file.write_all(b"half").and(Err(io::Error::other("full"))));
        assert!(failed.is_err());
        assert_eq!(fs::read(&path).expect("a file"), b"one, whole");
        assert_eq!(fs::read_dir(dir.path()).expect("the directory").count(), 2, "nothing is left over");
    }

    #[test]
    fn the_file_before_is_kept_under_another_name() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, kept) = (dir.path().join("file"), dir.path().join("file.old"));
        let read = |path: &Path| fs::read_to_string(path).ok();
        let write = |text: &str| write_keeping_with(&path, &kept, |file| file.write_all(text.as_bytes()));
        write("one").expect("there is none before");
        assert_eq!((read(&path).as_deref(), read(&kept)), (Some("one"), None));
        write("two").expect("a file");
        write("three").expect("one is kept already");
        assert_eq!((read(&path).as_deref(), read(&kept).as_deref()), (Some("three"), Some("two")));
        let failed = write_keeping_with(&path, &kept, |_| Err(io::Error::other("full")));
        assert!(failed.is_err());
        assert_eq!((read(&path).as_deref(), read(&kept).as_deref()), (Some("three"), Some("two")));
        assert_eq!(fs::read_dir(dir.path()).expect("the directory").count(), 2, "nothing is left over");
    }

    #[test]
    fn what_is_no_file_stays_what_it_is() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("socket");
        let _socket = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
        let error = write(&path, b"a file").expect_err("it is a socket");
        assert!(error.to_string().contains("not a regular file"), "{error}");
        std::os::unix::net::UnixStream::connect(&path).expect("the socket is still there");
    }
}
