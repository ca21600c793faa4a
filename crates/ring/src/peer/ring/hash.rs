//! The hashes of a ring: of keys, and of the points of a member. One is Larder's; the others are those
//! of the groupcache libraries.
use crc::{CRC_32_ISO_HDLC, Crc, Table};
use md5::{Digest, Md5};
use xxhash_rust::xxh3::xxh3_64;

/// Sixteen bytes of the key a step.
static CRC: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISO_HDLC);

/// How a ring hashes keys and members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingHash {
    /// Larder's own: XXH3 (64 bits, no seed), of members over number and name. Every bit of a key
    /// changes all of its point; FNV-1 leaves keys that differ in their last letters side by side.
    Xxh3,
    /// groupcache-go v3 and mailgun's groupcache from v2.2.1: 64-bit FNV-1, of members over the hexadecimal MD5
    /// of number and name.
    Fnv1,
    /// The original groupcache and mailgun's up to v2.2.0: CRC-32 (IEEE), of members over number and name.
    Crc32,
}

impl RingHash {
    /// As the setting `peer-hash` names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            RingHash::Xxh3 => "xxh3",
            RingHash::Fnv1 => "fnv1",
            RingHash::Crc32 => "crc32",
        }
    }

    pub(super) fn of_key(self, key: &[u8]) -> u64 {
        match self {
            RingHash::Xxh3 => xxh3_64(key),
            // The libraries compare points as signed numbers. On a circle that is the same order, begun elsewhere.
            RingHash::Fnv1 => fnv1(key),
            // In the upper half, so that the ring is 2⁶⁴ long for all.
            RingHash::Crc32 => u64::from(CRC.checksum(key)) << 32,
        }
    }

    /// The point of a member's replica.
    pub(super) fn of_replica(self, replica: usize, name: &str) -> u64 {
        let numbered = format!("{replica}{name}");
        match self {
            RingHash::Fnv1 => {
                let hexadecimal: String = Md5::digest(numbered).iter().map(|byte| format!("{byte:02x}")).collect();
                self.of_key(hexadecimal.as_bytes())
            }
            RingHash::Xxh3 | RingHash::Crc32 => self.of_key(numbered.as_bytes()),
        }
    }
}

/// FNV-1: multiply, then xor. FNV-1a does it the other way round.
fn fnv1(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| hash.wrapping_mul(0x0000_0100_0000_01b3) ^ u64::from(*byte))
}
