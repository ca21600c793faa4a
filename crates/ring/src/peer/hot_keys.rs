//! Which keys of other nodes are worth a copy here: those that this core asks for again and again.
use larder_engine::Millis;

/// Keys that are watched at a time; a new key takes the place of another with the same slot.
const SLOTS: usize = 4096;
/// Within this time reads of a key count together, ms.
const WINDOW: u64 = 10_000;

/// Counts reads of keys, approximately.
#[derive(Debug)]
pub(super) struct HotKeys {
    slots: Box<[Slot]>,
    /// Reads within the window that make a key hot.
    after: u8,
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    fingerprint: u32,
    count: u8,
    since: Millis,
}

impl HotKeys {
    pub(super) fn new(after: u8) -> HotKeys {
        HotKeys { slots: vec![Slot::default(); SLOTS].into(), after }
    }

    /// Counts a read of the key with this hash. True if the key is hot.
    pub(super) fn is_hot(&mut self, hash: u64, now: Millis) -> bool {
        let slot = &mut self.slots[hash as usize % SLOTS];
        let fingerprint = (hash >> 32) as u32;
        if slot.fingerprint != fingerprint || slot.since + WINDOW <= now {
            *slot = Slot { fingerprint, count: 0, since: now };
        }
        slot.count = slot.count.saturating_add(1);
        slot.count >= self.after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_hot_when_it_is_read_often_enough_in_time() {
        let mut keys = HotKeys::new(3);
        let hash = 0x1234_5678_9abc_def0;
        let reads =
            |keys: &mut HotKeys, times: &[Millis]| times.iter().map(|now| keys.is_hot(hash, *now)).collect::<Vec<_>>();
        assert_eq!(reads(&mut keys, &[1, 2, 3, 4]), [false, false, true, true]);
        assert_eq!(reads(&mut keys, &[20_000, 30_000, 30_001, 30_002]), [false, false, false, true]);
        assert!(!keys.is_hot(hash ^ (1 << 40), 30_003), "another key in the same slot");
        assert!(!keys.is_hot(hash, 30_004), "which took its place");
        assert!(HotKeys::new(1).is_hot(hash, 1));
    }
}
