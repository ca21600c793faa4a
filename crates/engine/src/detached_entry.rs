//! Entries that lie outside of the cache, for readers that know how to answer with one that lies
//! within.

use crate::{
    entry::{Entry, LargeValue, Value},
    large::Large,
    record::{self, Meta},
    time::Millis,
    version_clock::Clock,
};
use bytes::Bytes;

/// What entries from outside have in common: when they came, and as which version. They do not
/// expire and have no attributes.
#[derive(Debug)]
pub struct Outside {
    record: [u8; record::FIXED],
    clock: Clock,
}

impl Outside {
    /// `version` is not 0.
    pub fn new(version: u64, stored: Millis) -> Outside {
        let mut record = [0; record::FIXED];
        record::set_version(&mut record, version as u32);
        Outside { record, clock: Clock::at(version, stored) }
    }

    /// Shows an entry whose value must be copied.
    #[inline]
    pub fn inline<R>(&self, key: &[u8], value: &[u8], read: impl FnOnce(Entry<'_>) -> R) -> R {
        read(self.entry(key, Value::Inline(value)))
    }

    /// Shows an entry whose value may be kept by reference.
    pub fn large<R>(&self, key: &[u8], value: Bytes, read: impl FnOnce(Entry<'_>) -> R) -> R {
        read(self.entry(key, Value::Large(LargeValue(&Large::outside(value)))))
    }

    #[inline]
    fn entry<'a>(&'a self, key: &'a [u8], value: Value<'a>) -> Entry<'a> {
        Entry {
            key,
            value,
            record: &self.record,
            meta: Meta::read(&self.record),
            clock: &self.clock,
            tags: None,
            stale_since: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_like_an_entry_of_the_cache() {
        let outside = Outside::new(7, 1000);
        let about = |entry: Entry<'_>| {
            let value = entry.value.to_bytes();
            (entry.key.to_vec(), value, entry.version(), entry.stored(), entry.expiry(), entry.metadata().len())
        };
        let same = (b"k".to_vec(), Bytes::from("value"), 7, 1000, None, 0);
        assert_eq!(outside.inline(b"k", b"value", about), same);
        let value = Bytes::from("value");
        assert_eq!(outside.large(b"k", value.clone(), about), same);
        let kept = outside.large(b"k", value.clone(), |entry| entry.value.to_bytes());
        assert_eq!(kept.as_ptr(), value.as_ptr(), "by reference");
    }
}
