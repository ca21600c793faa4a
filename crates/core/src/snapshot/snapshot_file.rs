//! A snapshot that is open: read several times, even if a new one takes its name meanwhile.
use larder_store::snapshot::{SnapshotError, SnapshotReader};
use std::{
    fs::File,
    io::{self, BufReader, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

/// A snapshot that is open.
#[derive(Debug)]
pub(super) struct SnapshotFile {
    file: File,
    /// What errors call it.
    name: PathBuf,
}

impl SnapshotFile {
    /// Opens a file.
    pub(super) fn open(path: &Path) -> Result<SnapshotFile, SnapshotError> {
        match File::open(path) {
            Ok(file) => Ok(SnapshotFile { file, name: path.into() }),
            Err(error) => Err(SnapshotError::Io { path: path.into(), error }),
        }
    }

    /// A file that is open.
    pub(super) fn of(file: File, name: PathBuf) -> SnapshotFile {
        SnapshotFile { file, name }
    }

    /// Reads it from its begin. One reader at a time.
    pub(super) fn reader(&self) -> Result<SnapshotReader<BufReader<File>>, SnapshotError> {
        let rewound = self.file.try_clone().and_then(|mut file| file.seek(SeekFrom::Start(0)).map(|_| file));
        let file = rewound.map_err(|error| SnapshotError::Io { path: self.name.clone(), error })?;
        SnapshotReader::of(file).map_err(|error| error.of_file(&self.name))
    }

    /// What errors call it.
    pub(super) fn name(&self) -> &Path {
        &self.name
    }

    /// Its bytes.
    pub(super) fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}
