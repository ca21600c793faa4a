//! Where a snapshot is: a file, or an object in S3-like storage. Calls block, those of an object
//! for as long as the storage takes.
use super::bucket::Bucket;
use larder_config::SnapshotPlace;
use larder_store::snapshot::{
    self, SaveProgress, Saved, SavedGroup, Scrutiny, SnapshotCompression, SnapshotError, SnapshotReader,
};
use std::{
    fs::{self, File},
    io::{self, BufReader, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

/// What the name of a snapshot ends with that was not loaded, or not as a whole, before another
/// took its place.
const OLD: &str = ".old";

/// The name that a snapshot is kept under.
pub(super) fn old_name(place: &SnapshotPlace) -> String {
    format!("{place}{OLD}")
}

/// What a snapshot contains, and how it is written.
pub(super) struct SaveOrder<'s> {
    pub(super) groups: &'s [SavedGroup<'s>],
    pub(super) compression: SnapshotCompression,
    /// What is there stays under [`old_name`].
    pub(super) keeps_old: bool,
    /// Bytes of the tiers, at most.
    pub(super) about: u64,
}

/// Writes a snapshot, which takes the place of the one before when it is whole. After an error that
/// one is as before.
pub(super) fn save(
    place: &SnapshotPlace,
    order: &SaveOrder<'_>,
    step: &mut dyn FnMut(SaveProgress) -> io::Result<()>,
) -> Result<Saved, SnapshotError> {
    let SaveOrder { groups, compression, keeps_old, about } = *order;
    match place {
        SnapshotPlace::File(path) => {
            let kept = keeps_old.then(|| PathBuf::from(old_name(place)));
            snapshot::save(path, kept.as_deref(), groups, compression, step)
        }
        SnapshotPlace::Bucket(settings) => {
            let mut saved = || {
                let bucket = Bucket::open(settings)?;
                let mut upload = bucket.upload(about);
                let saved = snapshot::save_to(&mut upload, groups, compression, step)?;
                if keeps_old {
                    bucket.keep(OLD)?;
                }
                upload.complete()?;
                Ok(saved)
            };
            saved().map_err(nameless)
        }
    }
}

/// Opens the snapshot for reading; an object is copied to this machine first.
pub(super) fn open(place: &SnapshotPlace) -> Result<SnapshotFile, SnapshotError> {
    match place {
        SnapshotPlace::File(path) => SnapshotFile::open(path),
        SnapshotPlace::Bucket(settings) => {
            let file = Bucket::open(settings).and_then(|bucket| bucket.download());
            Ok(SnapshotFile::of(file.map_err(nameless)?, place.to_string().into()))
        }
    }
}

/// Whether there is something that a save would replace.
pub(super) fn exists(place: &SnapshotPlace) -> io::Result<bool> {
    match place {
        SnapshotPlace::File(path) => fs::exists(path),
        SnapshotPlace::Bucket(settings) => Ok(Bucket::open(settings)?.len()?.is_some()),
    }
}

/// A snapshot without entries is smaller, in any case one with few groups.
const SMALL: u64 = 64 * 1024;

/// Whether there is a snapshot without entries. A damaged one may have entries.
pub(super) fn is_empty(place: &SnapshotPlace) -> bool {
    let is_small = match place {
        SnapshotPlace::File(path) => fs::metadata(path).is_ok_and(|file| file.len() <= SMALL),
        SnapshotPlace::Bucket(settings) => {
            let len = Bucket::open(settings).and_then(|bucket| bucket.len());
            len.is_ok_and(|len| len.is_some_and(|len| len <= SMALL))
        }
    };
    let has_no_entries = |file: SnapshotFile| Ok(file.reader()?.next_block(Scrutiny::Checksum)?.is_none());
    is_small && open(place).and_then(has_no_entries).unwrap_or(false)
}

/// Removes what killed processes have left. An upload that was not completed is the storage's to
/// remove.
pub(super) fn remove_leftovers(place: &SnapshotPlace) -> io::Result<()> {
    match place {
        SnapshotPlace::File(path) => snapshot::remove_leftovers(path),
        SnapshotPlace::Bucket(_) => Ok(()),
    }
}

/// The errors of a bucket name it themselves.
fn nameless(error: io::Error) -> SnapshotError {
    SnapshotError::Io { path: Path::new("").into(), error }
}

/// A snapshot that is open: it is read several times, even if a new one takes its name meanwhile.
#[derive(Debug)]
pub(super) struct SnapshotFile {
    file: File,
    /// What errors call it.
    name: PathBuf,
}

impl SnapshotFile {
    pub(super) fn open(path: &Path) -> Result<SnapshotFile, SnapshotError> {
        match File::open(path) {
            Ok(file) => Ok(SnapshotFile { file, name: path.into() }),
            Err(error) => Err(SnapshotError::Io { path: path.into(), error }),
        }
    }

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
