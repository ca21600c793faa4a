//! A key and its hash.

/// A key together with its hash, computed once per request by [`Cache::key`](crate::Cache::key).
#[derive(Debug, Clone, Copy)]
pub struct Key<'k> {
    pub(crate) bytes: &'k [u8],
    pub(crate) hash: u64,
}

impl<'k> Key<'k> {
    /// The key's bytes.
    pub fn bytes(&self) -> &'k [u8] {
        self.bytes
    }

    /// Its 64-bit hash under this cache's seed.
    pub fn hash(&self) -> u64 {
        self.hash
    }
}
