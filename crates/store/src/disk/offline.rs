//! A store opened for the command line.
use super::{
    dir::{Dir, database},
    opening,
    settings::StoreSettings,
    tree::Tree,
};
use std::path::Path;

/// A store opened for the command line: without threads and without writes.
pub struct Offline {
    tree: Tree,
    dir: Dir,
}
impl Offline {
    /// Opens a store that is there.
    ///
    /// # Errors
    /// As [`Store::open`](super::Store::open).
    pub fn open(dir: &Path, settings: StoreSettings) -> Result<Offline, String> {
        if !database(dir).is_dir() {
            return Err(format!("{}: holds no store", dir.display()));
        }
        let (dir, tree) = opening::open(dir, &settings)?;
        Ok(Offline { tree, dir })
    }
    /// Its entries.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }
    /// Drops what was overwritten, deleted or has expired.
    ///
    /// # Errors
    /// A text that names the store.
    pub fn compact(&self) -> Result<(), String> {
        self.tree.compact()
    }
}
impl Drop for Offline {
    fn drop(&mut self) {
        opening::close(&self.tree, &self.dir);
    }
}
