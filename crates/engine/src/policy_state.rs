//! What the policy ([`crate::policy`]) knows of an entry, outside of a record.

use crate::log::Queue;

/// What the eviction policy knows of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PolicyState {
    /// The access count and its flag, 0 to 7 (`Entry::frequency`); higher bits are ignored.
    pub frequency: u8,
    /// It is in the main queue; else in the small one.
    pub is_main: bool,
}

impl PolicyState {
    pub(crate) fn place(self) -> (Queue, u8) {
        (if self.is_main { Queue::Main } else { Queue::Small }, self.frequency & 7)
    }
}
