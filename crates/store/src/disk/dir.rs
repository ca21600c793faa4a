//! The store's directory: whose it is, what is in it, and how it is made so that a crash meanwhile
//! leaves nothing half done.
use crate::atomic_files;
use std::{
    fs::{self, File, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    path::{Path, PathBuf},
};

/// Says what the directory is.
const MARK: &str = "larder-store";
/// What the mark begins with; the version follows.
const WHAT: &str = "Larder disk store, version ";
/// The version of the layout and of [`format`](super::format).
const VERSION: u32 = 1;

/// A directory that is ours alone until this is dropped.
pub(super) struct Dir {
    path: PathBuf,
    pub(super) lock: File,
}

impl Dir {
    /// Locks the directory, and marks it as a store if it is empty or not there.
    pub(super) fn lock(path: &Path) -> Result<Dir, String> {
        let at = |path: &Path| format!("disk store {}", path.display());
        let failed = |path: &Path, what: &str, error: io::Error| format!("{}: {what}: {error}", at(path));
        fs::create_dir_all(path).map_err(|error| failed(path, "cannot be made", error))?;
        let is_marked = path.join(MARK).exists();
        if !is_marked {
            // Looked at before anything is written: another program's directory is left as it is.
            let mut others = fs::read_dir(path).map_err(|error| failed(path, "cannot be read", error))?;
            let others = others.find_map(|entry| {
                let name = entry.ok()?.file_name().to_string_lossy().into_owned();
                // These are left by a first start that was killed.
                (name != "lock" && !name.starts_with(&format!(".{MARK}."))).then_some(name)
            });
            if let Some(name) = others {
                return Err(format!("{}: holds no store but {name}: not touched", at(path)));
            }
        }
        let lock = lock(&path.join("lock")).map_err(|error| format!("{}: {error}", at(path)))?;
        let mark = path.join(MARK);
        if is_marked {
            let text = fs::read_to_string(&mark).map_err(|error| failed(&mark, "cannot be read", error))?;
            check_mark(&text).map_err(|error| format!("{}: {error}", at(&mark)))?;
        } else {
            atomic_files::write(&mark, format!("{WHAT}{VERSION}\n").as_bytes())
                .map_err(|error| failed(&mark, "cannot be written", error))?;
        }
        Ok(Dir { path: path.to_path_buf(), lock })
    }
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
    /// fjall's directory, made by `make` under another name and then renamed: there is a whole
    /// database or none.
    pub(super) fn database(&self, make: impl FnOnce(&Path) -> Result<(), String>) -> Result<PathBuf, String> {
        let path = database(&self.path);
        if !path.exists() {
            let failed = |error: io::Error| format!("disk store {}: {error}", self.path.display());
            let new = self.path.join("db.new");
            if new.exists() {
                fs::remove_dir_all(&new).map_err(failed)?;
            }
            make(&new)?;
            atomic_files::rename(&new, &path).map_err(failed)?;
        }
        Ok(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        // Closing the file is not enough: a child process that starts in this moment has it until its `exec`.
        let _ = self.lock.unlock();
    }
}

/// The path of fjall's own directory.
pub(super) fn database(dir: &Path) -> PathBuf {
    dir.join("db")
}

fn check_mark(text: &str) -> Result<(), String> {
    match text.strip_prefix(WHAT).map(|version| version.trim_end().parse::<u32>()) {
        Some(Ok(VERSION)) => Ok(()),
        Some(Ok(other)) => Err(format!("is of version {other}; this Larder reads version {VERSION}")),
        _ => Err("is damaged, or not of a Larder store".to_string()),
    }
}

fn lock(path: &Path) -> Result<File, String> {
    let failed = |error| format!("{}: {error}", path.display());
    let mut file = File::options().read(true).write(true).create(true).truncate(false).open(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {
            let pid = std::process::id().to_string();
            file.set_len(0)
                .and_then(|()| file.rewind())
                .and_then(|()| file.write_all(pid.as_bytes()))
                .map_err(failed)?;
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            let _ = file.read_to_string(&mut pid);
            match pid.trim() == std::process::id().to_string() {
                true => Err("is in use by this process already: a store belongs to one group".to_string()),
                false => Err(format!("is in use by another process ({})", pid.trim())),
            }
        }
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}
