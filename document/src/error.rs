//! What can be wrong with a text, a path, or an edit.
use std::fmt;

/// Why a text is not taken as a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonError {
    /// It is no JSON.
    Syntax {
        /// Where, in bytes from its begin.
        at: usize,
        /// What was found or is lacking there.
        what: &'static str,
    },
    /// It is nested deeper than [`MAX_DEPTH`](crate::MAX_DEPTH).
    TooDeep,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JsonError::Syntax { at, what } => write!(f, "{what} at byte {at}"),
            JsonError::TooDeep => {
                write!(f, "arrays and objects are nested deeper than {}", crate::MAX_DEPTH)
            }
        }
    }
}

impl std::error::Error for JsonError {}
