//! The counts of one worker in a session of HOTKEYS: they are not halved, and writes count as well.
use super::top_keys::TopKeys;
use larder_engine::Millis;

/// Slots of each list, which has at most 64 rows.
const SLOTS: usize = 2048;

#[derive(Debug)]
pub(super) struct SessionCounts {
    /// When it ends by itself.
    pub(super) until: Millis,
    /// One command in so many is counted, at random.
    sample: u64,
    /// Commands on keys.
    pub(super) commands: u64,
    /// Bytes of their keys and values.
    pub(super) bytes: u64,
    pub(super) by_commands: TopKeys,
    pub(super) by_bytes: TopKeys,
}

impl SessionCounts {
    pub(super) fn new(until: Millis, sample: u64) -> SessionCounts {
        let top = || TopKeys::new(SLOTS);
        SessionCounts { until, sample, commands: 0, bytes: 0, by_commands: top(), by_bytes: top() }
    }

    /// Adds what stands for `weight` commands, each with so many bytes of value.
    pub(super) fn add(&mut self, (hash, key): (u64, &[u8]), weight: u64, bytes: usize, now: Millis, random: u64) {
        if now >= self.until {
            return;
        }
        let bytes = (key.len() + bytes) as u64 * weight;
        self.commands += weight;
        self.bytes += bytes;
        // Other bits than those that decide about slots.
        if random.rotate_left(24).is_multiple_of(self.sample) {
            self.by_commands.add(hash, key, weight * self.sample, random);
            self.by_bytes.add(hash, key, bytes * self.sample, random.rotate_left(32));
        }
    }
}
