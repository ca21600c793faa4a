//! Values by key prefix: the longest prefix of a key counts.

/// Values by key prefix. A search costs a binary search, and a step for each prefix that the found
/// one begins with.
#[derive(Debug, Clone)]
pub struct PrefixTable<T> {
    /// In the order of the prefixes, each once.
    rows: Box<[PrefixRow<T>]>,
}

#[derive(Debug, Clone)]
struct PrefixRow<T> {
    prefix: Box<[u8]>,
    value: T,
    /// The row of the longest other prefix that this prefix begins with.
    shorter: Option<usize>,
}

impl<T> Default for PrefixTable<T> {
    fn default() -> Self {
        PrefixTable { rows: Box::default() }
    }
}

impl<T> PrefixTable<T> {
    /// A table of these. Of equal prefixes the last counts.
    pub fn new<P: Into<Box<[u8]>>>(values: impl IntoIterator<Item = (P, T)>) -> PrefixTable<T> {
        let mut rows: Vec<PrefixRow<T>> = Vec::new();
        for (prefix, value) in values {
            let row = PrefixRow { prefix: prefix.into(), value, shorter: None };
            match rows.binary_search_by(|other| other.prefix.cmp(&row.prefix)) {
                Ok(at) => rows[at] = row,
                Err(at) => rows.insert(at, row),
            }
        }
        for at in 1..rows.len() {
            // Everything between a prefix and what begins with it begins with it as well.
            let mut candidate = Some(at - 1);
            while let Some(other) = candidate.filter(|other| !rows[at].prefix.starts_with(&rows[*other].prefix)) {
                candidate = rows[other].shorter;
            }
            rows[at].shorter = candidate;
        }
        PrefixTable { rows: rows.into() }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The value of the longest prefix of `key`.
    pub fn get(&self, key: &[u8]) -> Option<&T> {
        let after = self.rows.partition_point(|row| *row.prefix <= *key);
        let mut candidate = after.checked_sub(1);
        loop {
            let row = &self.rows[candidate?];
            if key.starts_with(&row.prefix) {
                return Some(&row.value);
            }
            candidate = row.shorter;
        }
    }

    /// The value of exactly this prefix.
    pub fn exact(&self, prefix: &[u8]) -> Option<&T> {
        let at = self.rows.binary_search_by(|row| (*row.prefix).cmp(prefix)).ok()?;
        Some(&self.rows[at].value)
    }

    /// All prefixes with their values, in the order of the prefixes.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &T)> {
        self.rows.iter().map(|row| (&*row.prefix, &row.value))
    }
}

#[cfg(test)]
mod tests {
    use super::PrefixTable;
    use proptest::prelude::*;

    #[test]
    fn the_longest_prefix_counts() {
        let table =
            PrefixTable::new([("a", 1), ("ab", 2), ("abd", 3), ("b", 4), ("a", 5)].map(|(p, n)| (p.as_bytes(), n)));
        for (key, value) in [
            ("a", Some(5)),
            ("ac", Some(5)),
            ("abc", Some(2)),
            ("abdz", Some(3)),
            ("b", Some(4)),
            ("c", None),
            ("", None),
        ] {
            assert_eq!(table.get(key.as_bytes()).copied(), value, "{key}");
        }
        assert_eq!(table.iter().count(), 4);
        assert_eq!(PrefixTable::<u8>::default().get(b"a"), None);
    }

    proptest! {
        #[test]
        fn it_finds_what_a_search_of_all_rows_finds(
            prefixes in proptest::collection::vec("[ab]{0,5}", 0..20),
            key in "[ab]{0,8}",
        ) {
            let rows = || prefixes.iter().enumerate();
            let table = PrefixTable::new(rows().map(|(at, prefix)| (prefix.as_bytes(), at)));
            let expected = rows().filter(|(_, prefix)| key.starts_with(*prefix)).max_by_key(|(at, p)| (p.len(), *at));
            prop_assert_eq!(table.get(key.as_bytes()).copied(), expected.map(|(at, _)| at));
        }
    }
}
