//! Reads the dumps that GCache writes for its replicas and for its restart (`cache_file`).
//!
//! A dump is one value of Go's `encoding/gob`, behind the definitions of its types:
//!
//! ```text
//!   message:  length | number of the type (negative: a definition, which is skipped) | content
//!   content:  0 | number of shards | shard …
//!   shard:    1 | number of items | (key | value) …      field 1; an empty field may be missing
//!             1 | number of ends | end …                 field 2
//!             0
//!   end:      1 | key | 1 | nanoseconds since the Unix epoch | 0
//! ```
//! Before a field stands how much its number is larger than that of the field before. Lengths and
//! numbers are one byte below 128, else the negated number of bytes that follow, big-endian. Nothing
//! is allocated for a number that the file states.
/// An item: key, value, and its end in nanoseconds since the Unix epoch.
pub(super) type DumpItem<'a> = (&'a [u8], &'a [u8], Option<i64>);

/// Passes the items of a dump to `visit`. The error is the byte at which it cannot be read: then some
/// items may have been passed on.
pub(super) fn visit_items<'a>(dump: &'a [u8], visit: &mut dyn FnMut(DumpItem<'a>)) -> Result<(), usize> {
    let mut file = Gob { bytes: dump, at: 0 };
    loop {
        let len = file.unsigned().ok_or(file.at)?;
        let end = usize::try_from(len).ok().and_then(|len| file.at.checked_add(len)).filter(|end| *end <= dump.len());
        let mut message = Gob { bytes: &dump[..end.ok_or(file.at)?], at: file.at };
        file.at = message.bytes.len();
        if message.signed().ok_or(message.at)? < 0 {
            continue;
        }
        message.content(visit).ok_or(message.at)?;
        return if message.at == dump.len() { Ok(()) } else { Err(message.at) };
    }
}

/// A place in a dump.
#[derive(Clone, Copy)]
struct Gob<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Gob<'a> {
    fn content(&mut self, visit: &mut dyn FnMut(DumpItem<'a>)) -> Option<()> {
        if self.unsigned()? != 0 {
            return None;
        }
        for _ in 0..self.unsigned()? {
            self.shard(visit)?;
        }
        Some(())
    }

    /// The ends come behind the items, which are therefore walked through twice. An item may be two
    /// bytes long: a list of them would take many times the file.
    fn shard(&mut self, visit: &mut dyn FnMut(DumpItem<'a>)) -> Option<()> {
        let mut items = None;
        let mut ends = Vec::new();
        let mut field = 0;
        loop {
            field += match self.unsigned()? {
                0 => break,
                more => more.min(9),
            };
            let count = self.unsigned()?;
            match field {
                1 => {
                    items = Some((*self, count));
                    for _ in 0..count {
                        self.text()?;
                        self.text()?;
                    }
                }
                2 => {
                    for _ in 0..count {
                        let begin = self.at;
                        // No item has an empty key, and such an end may be one byte.
                        if !self.end()?.0.is_empty() {
                            ends.push(begin);
                        }
                    }
                }
                _ => return None,
            }
        }
        let bytes = self.bytes;
        let end_at = |at: usize| Gob { bytes, at }.end().unwrap_or_default();
        ends.sort_unstable_by_key(|at| (end_at(*at).0, *at));
        let Some((mut items, count)) = items else { return Some(()) };
        for _ in 0..count {
            let (key, value) = (items.text()?, items.text()?);
            // The last of several counts.
            let behind = ends.partition_point(|at| end_at(*at).0 <= key);
            let end = behind.checked_sub(1).map(|before| end_at(ends[before])).filter(|end| end.0 == key);
            visit((key, value, end.map(|end| end.1)));
        }
        Some(())
    }

    fn end(&mut self) -> Option<(&'a [u8], i64)> {
        let (mut key, mut end, mut field) = (&b""[..], 0, 0);
        loop {
            field += match self.unsigned()? {
                0 => return Some((key, end)),
                more => more.min(9),
            };
            match field {
                1 => key = self.text()?,
                2 => end = self.signed()?,
                _ => return None,
            }
        }
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.unsigned()?).ok()?;
        self.take(len)
    }

    fn signed(&mut self) -> Option<i64> {
        let bits = self.unsigned()?;
        let number = (bits >> 1) as i64;
        Some(if bits & 1 == 0 { number } else { !number })
    }

    fn unsigned(&mut self) -> Option<u64> {
        let first = self.take(1)?[0];
        if first < 128 {
            return Some(first.into());
        }
        let len = usize::from(!first) + 1;
        let bytes = self.take(len).filter(|_| len <= 8)?;
        Some(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let bytes = self.bytes.get(self.at..self.at.checked_add(len)?)?;
        self.at += len;
        Some(bytes)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::magic::is_gcache_dump;
    use proptest::prelude::*;

    /// What Go 1.26's encoding/gob writes for three shards of GCache's types: an item `a` that ends
    /// in 2100 and the end of an item that was removed; none; an item `old` that ended in 2017.
    pub(in super::super) const DUMP: &[u8] = include_bytes!("gcache.dump");

    #[test]
    fn items_have_the_ends_of_their_keys() {
        let dump = DUMP;
        assert!([dump, b"REDIS0011", b""].map(is_gcache_dump) == [true, false, false]);
        let expected: [DumpItem<'_>; 2] = [
            (b"a", b"{\"n\": [1, 2]}", Some(4_102_444_800_000_000_000)),
            (b"old", b"1", Some(1_500_000_000_000_000_000)),
        ];
        let items = |dump| {
            let mut items = Vec::new();
            visit_items(dump, &mut |item| items.push(item)).map(|()| items)
        };
        assert_eq!(items(dump), Ok(expected.to_vec()));
        for len in 0..dump.len() {
            assert!(visit_items(&dump[..len], &mut |_| ()).is_err(), "{len}");
        }
        assert_eq!(visit_items(&[dump, b"x"].concat(), &mut |_| ()), Err(dump.len()));
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_answer(at in 0..250usize, bytes in proptest::collection::vec(any::<u8>(), 1..12)) {
            let mut dump = DUMP.to_vec();
            let end = (at + bytes.len()).min(dump.len());
            dump[at..end].copy_from_slice(&bytes[..end - at]);
            let _ = visit_items(&dump, &mut |_| ());
        }
    }
}
