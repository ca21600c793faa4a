//! Rate states of any number of clients in a table of fixed size.
//!
//! A map with an entry for each client grows with the clients, and who can choose addresses (an
//! IPv6 network, a header of a proxy) chooses its size. Here a client has two cells of a table, by
//! hash, and counts in both. It is refused only if both refuse: a busy client that shares one of
//! them does it no harm. Who shares both shares the limit. The idea is that of a counting Bloom
//! filter (Fan et al. 2000).
use governor::{
    nanos::Nanos,
    state::{InMemoryState, NotKeyed, StateStore},
};

/// The states of all clients of one limit. A key is a hash of the client, with good bits
/// everywhere.
#[derive(Debug)]
pub(super) struct SharedCells(Box<[InMemoryState]>);

impl SharedCells {
    /// A table of so many cells, of 8 bytes each; at least two.
    pub(super) fn new(cells: usize) -> SharedCells {
        SharedCells((0..cells.max(2)).map(|_| InMemoryState::default()).collect())
    }

    /// The cells of a client, which are never the same.
    fn of(&self, key: u64) -> [&InMemoryState; 2] {
        let len = self.0.len() as u64;
        let first = (key >> 32) % len;
        let other = 1 + (key & 0xffff_ffff) % (len - 1);
        [first, (first + other) % len].map(|at| &self.0[at as usize])
    }
}

impl StateStore for SharedCells {
    type Key = u64;

    fn measure_and_replace<T, F, E>(&self, key: &u64, f: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let [first, second] = self.of(*key).map(|cell| cell.measure_and_replace(&NotKeyed::NonKey, &f));
        match first {
            Ok(allowed) => Ok(allowed),
            Err(_) => second,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn two_different_cells(keys in proptest::collection::vec(any::<u64>(), 1..50), cells in 0..9usize) {
            let table = SharedCells::new(cells);
            for key in keys {
                let [first, second] = table.of(key);
                prop_assert!(!std::ptr::eq(first, second));
            }
        }
    }
}
