//! How far a primary's changes have come, as primary and replicas tell each other.
use std::{fmt, str};

/// A number of changes of a primary, by which a replica tells whether it has a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangesAt {
    /// Of the primary's logs; 0: it has none.
    pub id: u64,
    /// Changes before this moment.
    pub changes: u64,
}

impl fmt::Display for ChangesAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}:{}", self.id, self.changes)
    }
}
impl str::FromStr for ChangesAt {
    type Err = ();
    fn from_str(text: &str) -> Result<ChangesAt, ()> {
        let (id, changes) = text.split_once(':').ok_or(())?;
        Ok(ChangesAt { id: u64::from_str_radix(id, 16).map_err(drop)?, changes: changes.parse().map_err(drop)? })
    }
}
