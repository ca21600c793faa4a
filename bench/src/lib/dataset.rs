//! Keys and values, computed from a number: nothing has to be stored beside the cache whose memory
//! is measured.
use std::ops::RangeInclusive;

/// The key set of the memory and throughput figures.
#[derive(Debug, Clone)]
pub(crate) struct Dataset {
    /// Length of a key in bytes: 36 is a UUID's text; at least 16.
    pub(crate) key_size: usize,
    /// Length of a value in bytes, evenly spread over the range.
    pub(crate) value_size: RangeInclusive<usize>,
}

impl Dataset {
    /// Shortest key: 16 hexadecimal digits tell all 64-bit numbers apart.
    pub(crate) const MIN_KEY: usize = 16;

    /// UUID keys, values of 20 to 50 bytes.
    #[cfg(test)]
    pub(crate) fn uuid() -> Dataset {
        Dataset { key_size: 36, value_size: 20..=50 }
    }

    /// Replaces `out` by key number `number`: a version 4 UUID for 36 bytes, else hexadecimal
    /// digits.
    pub(crate) fn key(&self, number: u64, out: &mut Vec<u8>) {
        out.clear();
        let high = mix(number);
        if self.key_size == 36 {
            uuid_of(number, out);
            return;
        }
        let mut word = high;
        while out.len() < self.key_size {
            push_hex(word, 16.min(self.key_size - out.len()), out);
            word = mix(word);
        }
    }

    /// Replaces `out` by the value of key number `number` in its `generation`: bytes that do not
    /// compress.
    pub(crate) fn value(&self, number: u64, generation: u64, out: &mut Vec<u8>) {
        out.clear();
        let mut word = mix(number ^ mix(generation ^ VALUE));
        let (low, high) = (*self.value_size.start(), *self.value_size.end());
        let size = low + (word % (high - low + 1) as u64) as usize;
        while out.len() < size {
            word = mix(word);
            let take = 8.min(size - out.len());
            out.extend_from_slice(&word.to_le_bytes()[..take]);
        }
    }

    /// Mean bytes of key and value: what the data itself needs.
    pub(crate) fn raw_bytes(&self) -> f64 {
        self.key_size as f64 + (self.value_size.start() + self.value_size.end()) as f64 / 2.0
    }
}

// Streams of the generator: any two different odd constants.
const KEY: u64 = 0x5851_f42d_4c95_7f2d;
const VALUE: u64 = 0x1405_7b7e_f767_814f;

/// SplitMix64's output function (Steele, Lea, Flood 2014): a bijection on 64-bit numbers, so
/// distinct numbers give distinct keys.
pub(crate) fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn push_hex(word: u64, digits: usize, out: &mut Vec<u8>) {
    out.extend((0..digits).map(|i| b"0123456789abcdef"[(word >> (60 - 4 * i)) as usize & 15]));
}

/// Appends the UUID (version 4) that belongs to a number.
pub(crate) fn uuid_of(number: u64, out: &mut Vec<u8>) {
    let high = mix(number);
    let low = (mix(high ^ KEY) & !(3 << 62)) | (2 << 62);
    let high = (high & !0xf000) | 0x4000;
    push_hex(high, 8, out);
    out.push(b'-');
    push_hex(high << 32, 4, out);
    out.push(b'-');
    push_hex(high << 48, 4, out);
    out.push(b'-');
    push_hex(low, 4, out);
    out.push(b'-');
    push_hex(low << 16, 12, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn keys(key_size: usize, count: u64) -> Vec<Vec<u8>> {
        let set = Dataset { key_size, ..Dataset::uuid() };
        (0..count)
            .map(|number| {
                let mut key = Vec::new();
                set.key(number, &mut key);
                key
            })
            .collect()
    }

    #[test]
    fn keys_have_their_length_and_differ() {
        for size in [16, 17, 36, 40, 100] {
            let keys = keys(size, 10_000);
            assert!(keys.iter().all(|key| key.len() == size));
            assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
        }
    }

    #[test]
    fn keys_of_36_bytes_read_as_uuids() {
        for key in keys(36, 1000) {
            let key = String::from_utf8(key).expect("hexadecimal");
            let groups: Vec<&str> = key.split('-').collect();
            assert_eq!(groups.iter().map(|g| g.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
            assert!(groups[2].starts_with('4') && groups[3].starts_with(['8', '9', 'a', 'b']), "{key}");
        }
    }

    #[test]
    fn values_span_their_range_and_change_with_the_generation() {
        let set = Dataset::uuid();
        let (mut first, mut second, mut sizes) = (Vec::new(), Vec::new(), HashSet::new());
        for number in 0..2000 {
            set.value(number, 0, &mut first);
            set.value(number, 1, &mut second);
            assert_ne!(first, second);
            sizes.insert(first.len());
        }
        assert_eq!(sizes, (20..=50).collect());
        assert_eq!(set.raw_bytes(), 71.0);
    }
}
