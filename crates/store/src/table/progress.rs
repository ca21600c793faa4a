//! How far a build has come, for who waits for it.

/// How far a build has come.
#[derive(Debug, Clone, Copy)]
pub enum Progress {
    /// Bytes of the input read, and how many there are if that is known.
    Reading(u64, Option<u64>),
    /// Records written, of how many.
    Writing(u64, u64),
}
