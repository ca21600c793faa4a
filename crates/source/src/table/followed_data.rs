//! The data file that a table was built from: whether it has changed, and another build.
use larder_config::DataFile;
use larder_store::table::{Input, Table};
use std::{
    io,
    os::unix::fs::MetadataExt as _,
    path::Path,
    process::{Command, Stdio},
};

/// The command that builds `table` from `data`, with more options. It runs in a process of its own: the allocator
/// keeps what a build has freed (20 MB after a million entries), which serving has no use for.
pub fn table_build(data: &Path, table: &Path, options: &[&str]) -> io::Result<Command> {
    // It leads to this program even after an upgrade has replaced its file.
    let this = Path::new("/proc/self/exe");
    let program = if this.exists() { this.to_owned() } else { std::env::current_exe()? };
    let mut build = Command::new(program);
    build.args(["table", "build", "--empty-values"]).args(options).arg("-o").arg(table).arg("--").arg(data);
    build.stdin(Stdio::null());
    Ok(build)
}

/// The identity of a file, from its metadata. The time of its last status change finds files that
/// were copied into place with their size and time of modification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileStamp(u64, u64, u64, [i64; 4]);

impl FileStamp {
    pub(super) fn of(path: &Path) -> Option<FileStamp> {
        let file = std::fs::metadata(path).ok()?;
        let times = [file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()];
        Some(FileStamp(file.dev(), file.ino(), file.len(), times))
    }
}

/// A data file and what it was when a table was last built from it.
pub(super) struct FollowedData {
    file: DataFile,
    built: Option<FileStamp>,
    /// The last build failed.
    failed: bool,
    /// At the last look.
    seen: Option<FileStamp>,
}

impl FollowedData {
    /// `served` was built from this file, perhaps before its last change.
    pub(super) fn of(file: DataFile, served: &Table) -> FollowedData {
        let seen = FileStamp::of(&file.path);
        let is_current = Input::origin(&file.path).is_ok_and(|origin| served.origin() == Some(origin));
        FollowedData { built: if is_current { seen } else { None }, file, failed: false, seen }
    }

    /// Whether the table must be built again. Without a request for it, that is so when the file is
    /// watched and did not change since the last look: a writer may not be done.
    pub(super) fn is_due(&mut self, is_requested: bool) -> bool {
        let now = FileStamp::of(&self.file.path);
        let is_settled = std::mem::replace(&mut self.seen, now) == now;
        let is_other = now != self.built;
        match is_requested {
            true => is_other || self.failed,
            // A missing file may be about to be replaced.
            false => self.file.watch && is_other && is_settled && now.is_some(),
        }
    }

    /// Builds the table. The error is what the build says.
    pub(super) fn build(&mut self, table: &Path) -> Result<(), String> {
        self.built = FileStamp::of(&self.file.path);
        let output = table_build(&self.file.path, table, &["--json"]).and_then(|mut build| build.output());
        self.failed = !output.as_ref().is_ok_and(|output| output.status.success());
        let output = output.map_err(|error| format!("{}: cannot start the build: {error}", table.display()))?;
        let said = String::from_utf8_lossy(&output.stderr);
        let lines = said.lines().map(|line| line.strip_prefix("larder: ").unwrap_or(line));
        if self.failed {
            return Err(lines.collect::<Vec<_>>().join("; "));
        }
        lines.for_each(|line| tracing::warn!("{line}"));
        Ok(())
    }
}
