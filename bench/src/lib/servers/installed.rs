//! Where the servers' programs are.
use anyhow::Context;
use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// A program in `PATH`, or in the folders where Debian keeps servers.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// A program that must be there.
pub(crate) fn require(program: &str) -> anyhow::Result<PathBuf> {
    find(program).with_context(|| format!("{program} is not installed (not found in PATH)"))
}

/// A binary that an environment variable names; absent if it is not set.
///
/// # Errors
/// If it names no file.
pub(crate) fn given(variable: &str) -> anyhow::Result<Option<PathBuf>> {
    let path = env::var_os(variable).filter(|path| !path.is_empty());
    path.map(|path| {
        fs::canonicalize(&path).with_context(|| format!("{variable}: cannot find {}", Path::new(&path).display()))
    })
    .transpose()
}
