//! The file layer (`layer.c`) from the outside: builds it, and takes from a directory what a power
//! cut might have taken.
use std::{
    collections::HashMap,
    fs::{self, File},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
};

/// The compiled layer, and where one process under it notes what it does.
pub(crate) struct Layer {
    library: PathBuf,
    notes: PathBuf,
    fault: PathBuf,
    dir: PathBuf,
}

impl Layer {
    /// Builds it with the C compiler, which Rust needs as well. `dir`: whose files it watches;
    /// `scratch`: where it may write.
    pub(crate) fn new(dir: &Path, scratch: &Path) -> Layer {
        let library = scratch.join("layer.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/crash/layer.c");
        let built = Command::new("cc")
            .args(["-O1", "-shared", "-fPIC", "-o"])
            .arg(&library)
            .args([source, "-ldl", "-lpthread"])
            .status();
        assert!(built.unwrap().success(), "the layer does not compile");
        Layer { library, notes: scratch.join("notes"), fault: scratch.join("fault"), dir: dir.canonicalize().unwrap() }
    }
    /// Puts a process that is about to start under the layer.
    pub(crate) fn apply(&self, command: &mut Command) {
        let _ = fs::remove_file(&self.notes);
        command.env("LD_PRELOAD", &self.library).env("LAYER_DIR", &self.dir);
        command.env("LAYER_LOG", &self.notes).env("LAYER_FAULT", &self.fault);
    }
    /// From now on writes and syncs fail with this errno; `None`: they succeed again.
    pub(crate) fn fail(&self, errno: Option<i32>) {
        match errno {
            // Renamed into place: the layer must not read half of it.
            Some(errno) => {
                let new = self.fault.with_extension("new");
                fs::write(&new, errno.to_string()).unwrap();
                fs::rename(new, &self.fault).unwrap();
            }
            None => fs::remove_file(&self.fault).unwrap(),
        }
    }
    /// The process is dead: takes away what it had not synced, but for a part that `keep` chooses
    /// of each file's (given how many bytes there are of it). Returns how many bytes are gone.
    pub(crate) fn cut(&self, mut keep: impl FnMut(u64) -> u64) -> u64 {
        // By inode: how far it is stable, and how large.
        let mut stable: HashMap<u64, (u64, u64)> = HashMap::new();
        for line in fs::read_to_string(&self.notes).unwrap_or_default().lines() {
            let mut words = line.split(' ');
            let what = words.next().unwrap();
            let numbers: Vec<u64> = words.map(|word| word.parse().unwrap()).collect();
            match (what, numbers.as_slice()) {
                ("O", [inode, size]) => {
                    stable.insert(*inode, (*size, *size));
                }
                ("S", [inode, end, size]) => {
                    let file = stable.get_mut(inode).unwrap();
                    *file = (file.0.max(*end), file.1.max(*size));
                }
                ("T", [inode, size]) => {
                    let file = stable.get_mut(inode).unwrap();
                    *file = (file.0.min(*size), file.1.min(*size));
                }
                other => panic!("the layer has no model for {other:?}"),
            }
        }
        let mut gone = 0;
        for path in files(&self.dir) {
            let meta = fs::metadata(&path).unwrap();
            let Some(&(end, size)) = stable.get(&meta.ino()) else {
                continue;
            };
            // What was preallocated and not written reads as zeros, before and after.
            let written = written(&path, end, meta.len());
            let kept = keep(written).min(written);
            gone += written - kept;
            let end = end + kept;
            let file = File::options().write(true).open(&path).unwrap();
            file.set_len(end).unwrap();
            file.set_len(size.max(end)).unwrap();
        }
        gone
    }
}

/// The bytes from `end` on up to the last that is not zero.
fn written(path: &Path, end: u64, length: u64) -> u64 {
    use std::os::unix::fs::FileExt;
    let file = File::open(path).unwrap();
    let mut unsynced = vec![0; usize::try_from(length.saturating_sub(end)).unwrap()];
    file.read_exact_at(&mut unsynced, end).unwrap();
    unsynced.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1)
}

/// All files under a directory.
pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}
