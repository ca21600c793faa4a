//! Loading entries from a data file into a store that no server has open.
//!
//! Entries are written in batches, in the order of the file. A load that is killed leaves a sound
//! store with the entries before some line; the same load again completes it.
use super::{
    format::{EntryEncoder, MAX_KEY, fits},
    opening,
    settings::StoreSettings,
    tree::Tree,
};
use crate::{
    StoredValue,
    table::{BadLines, Input, LineRules, Progress, TableError},
};
use bytes::Bytes;
use std::{collections::HashMap, path::Path};

/// Bytes of keys and values in a batch.
const BATCH: usize = 4 << 20;

/// What was loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Entries that were written. Of lines with the same key the last one counts.
    pub entries: u64,
    /// Keys that were removed.
    pub removed: u64,
    /// Lines that were left out.
    pub bad: BadLines,
}

/// Writes the entries of `input` into the store in `dir`, which is made if it is not there. With
/// `strict` the file is read twice, and a bad line leaves the store as it was.
///
/// # Errors
/// A text that names the line, the file or the store.
pub fn load(
    input: &Input,
    strict: bool,
    dir: &Path,
    settings: &StoreSettings,
    progress: &mut dyn FnMut(Progress),
) -> Result<Loaded, String> {
    let rules = LineRules { strict, removes: true, max_key: MAX_KEY };
    let mut loaded = Loaded::default();
    if strict {
        if input.path.as_os_str() == "-" {
            return Err("--strict reads the input twice: name a file instead of standard input".to_owned());
        }
        input
            .entries(rules, &mut loaded.bad, progress, &mut |_, _, _| Ok(()))
            .map_err(|error| format!("{error}; the store is as it was"))?;
    } else if input.path.as_os_str() != "-" {
        // A wrong name of a file must not make a store.
        Input::origin(&input.path).map_err(|error| error.to_string())?;
    }
    let (dir, tree) = opening::open(dir, settings)?;
    let mut batch = Batch { tree: &tree, encoder: EntryEncoder::default(), writes: HashMap::new(), bytes: 0 };
    let done = input
        .entries(rules, &mut loaded.bad, progress, &mut |_, key, value| {
            match value {
                Some(_) => loaded.entries += 1,
                None => loaded.removed += 1,
            }
            batch.push(key, value)
        })
        .and_then(|_| batch.commit())
        .map_err(|error| error.to_string())
        .and_then(|()| tree.flush());
    let closed = opening::close(&tree, &dir);
    done?;
    closed.map_or(Ok(loaded), Err)
}

/// Changes on their way into the store.
struct Batch<'t> {
    tree: &'t Tree,
    encoder: EntryEncoder,
    writes: HashMap<Bytes, Option<Bytes>>,
    bytes: usize,
}

impl Batch<'_> {
    fn push(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), TableError> {
        if !fits(key) {
            return Err(TableError::Input(format!("a key of {} zero bytes is too long for a store", key.len()).into()));
        }
        let stored = value.map(|value| self.encoder.entry(&StoredValue::string(Bytes::copy_from_slice(value), None)));
        self.bytes += key.len() + value.map_or(0, <[u8]>::len);
        self.writes.insert(self.encoder.key(key), stored);
        if self.bytes >= BATCH { self.commit() } else { Ok(()) }
    }
    fn commit(&mut self) -> Result<(), TableError> {
        self.bytes = 0;
        self.tree.commit(std::mem::take(&mut self.writes), false).map_err(|error| TableError::Input(error.into()))
    }
}
