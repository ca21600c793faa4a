//! The slot of a key: CRC16 (XMODEM) of the key, or of its hash tag (the part between the first `{`
//! and the next `}`). <https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#key-distribution-model>
use crc::{CRC_16_XMODEM, Crc, Table};

/// Slots of a cluster.
pub const SLOTS: usize = 16384;

const CRC: Crc<u16, Table<1>> = Crc::<u16, Table<1>>::new(&CRC_16_XMODEM);

/// The slot of a key, below [`SLOTS`].
pub fn slot(key: &[u8]) -> u16 {
    CRC.checksum(tag(key)) % SLOTS as u16
}

/// The part of the key that is hashed.
fn tag(key: &[u8]) -> &[u8] {
    let position = |byte, of: &[u8]| of.iter().position(|&other| other == byte);
    let Some(open) = position(b'{', key) else { return key };
    match position(b'}', &key[open + 1..]) {
        Some(len @ 1..) => &key[open + 1..][..len],
        Some(0) | None => key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_redis_counts_them() {
        // By CLUSTER KEYSLOT of Redis 7.0.
        for (key, expected) in [
            ("", 0),
            ("123456789", 12739),
            ("foo", 12182),
            ("{foo}bar", 12182),
            ("foo{}{bar}", 8363),
            ("foo{{bar}}zap", 4015),
            ("foo{bar}{zap}", 5061),
            ("foo{bar", 15278),
        ] {
            assert_eq!(slot(key.as_bytes()), expected, "{key}");
        }
    }
}
