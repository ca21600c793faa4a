//! The file behind `larder serve DATA`.
use std::path::PathBuf;

/// A data file. The source of group `default` is the table that is built from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataFile {
    /// The file.
    pub path: PathBuf,
    /// The table is built again whenever the file has changed, and not only at a reload.
    pub watch: bool,
}
