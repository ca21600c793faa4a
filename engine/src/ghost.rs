//! The ghost: fingerprints of what was evicted lately, so that a key that returns is known.
#[derive(Debug)]
pub(crate) struct Ghost {}
impl Ghost {
    pub(crate) fn new() -> Ghost {
        Ghost {}
    }
    pub(crate) fn bytes(&self) -> usize {
        0
    }
    pub(crate) fn insert(&mut self, _hash: u64, _entries: usize) {}
    pub(crate) fn take(&mut self, _hash: u64) -> bool {
        false
    }
}
