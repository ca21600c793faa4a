//! What can be wrong with a text, a path, or an edit.
use std::fmt;

/// Why a text is not taken as a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonError {
    /// It is not JSON.
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

/// Why a path cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathError(pub(crate) String);

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PathError {}

/// Why no value was looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocateError {
    /// The path is not for documents of more than this many bytes.
    TooLarge(usize),
    /// The path finds more values than this.
    TooMany(usize),
    /// The path reads more bytes than this, the same ones repeatedly, or all paths of the command do.
    TooMuchWork(usize),
}

impl fmt::Display for LocateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LocateError::TooLarge(most) => {
                write!(
                    f,
                    "a path with filters, slices, several selectors or several `..` is for documents of up to {most} bytes"
                )
            }
            LocateError::TooMany(most) => {
                write!(f, "the path finds more than {most} values of this document")
            }
            LocateError::TooMuchWork(most) => {
                write!(
                    f,
                    "the path reads more than {most} bytes, the same ones repeatedly, or all paths of the command do"
                )
            }
        }
    }
}

impl std::error::Error for LocateError {}
