//! Versions and the moments at which they were given out.
//!
//! A shard numbers its writes. A record keeps the low 32 bits; the rest follows from the shard's
//! own count, as long as fewer than 2^32 writes lie between. The numbers also tell the age of an
//! entry: a shard notes once a second which number it had reached, and thins the notes out as they
//! get older, so that an entry needs no bytes for the moment when it was stored.

use crate::time::Millis;

/// Notes kept before they are thinned; enough for a year.
const NOTES: usize = 192;
const NOTE_EVERY: Millis = 1000;
/// Thinning leaves gaps of at most this part of a note's age.
const PRECISION: Millis = 8;

#[derive(Debug, Default)]
pub(crate) struct Clock {
    version: u64,
    /// Version reached at a moment, both ascending.
    notes: Vec<(u64, Millis)>,
}

impl Clock {
    /// One that gave out its latest number at that moment.
    pub(crate) fn at(version: u64, when: Millis) -> Clock {
        Clock { version, notes: vec![(version, when)] }
    }

    /// The number of a new write.
    pub(crate) fn next(&mut self, now: Millis) -> u32 {
        if self.notes.last().is_none_or(|(_, at)| now >= at + NOTE_EVERY) {
            if self.notes.len() == NOTES {
                self.thin(now);
            }
            self.notes.push((self.version + 1, now));
        }
        self.version += 1;
        self.version as u32
    }

    /// Drops a note where those beside it stand close enough for their age.
    fn thin(&mut self, now: Millis) {
        let mut kept: Vec<(u64, Millis)> = Vec::with_capacity(NOTES);
        for (place, note) in self.notes.iter().enumerate() {
            let Some((_, after)) = self.notes.get(place + 1) else {
                kept.push(*note);
                break;
            };
            if kept.last().is_none_or(|before| (after - before.1) * PRECISION > now - after) {
                kept.push(*note);
            }
        }
        if kept.len() == NOTES {
            kept.remove(0);
        }
        self.notes = kept;
    }

    /// The number of the latest write; 0 before the first.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// The whole number behind a record's low bits.
    pub(crate) fn widen(&self, low: u32) -> u64 {
        self.version - u64::from((self.version as u32).wrapping_sub(low))
    }

    /// When a version was given out: up to a second early, and for old ones up to an eighth of
    /// their age.
    pub(crate) fn when(&self, version: u64) -> Millis {
        let after = self.notes.partition_point(|(first, _)| *first <= version);
        self.notes.get(after.saturating_sub(1)).map_or(0, |note| note.1)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.notes.capacity() * size_of::<(u64, Millis)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_widen_across_the_32_bit_border() {
        let mut clock = Clock { version: u64::from(u32::MAX) - 1, notes: Vec::new() };
        let before = clock.next(0);
        let after = [clock.next(0), clock.next(0)];
        assert_eq!(clock.widen(before), u64::from(u32::MAX));
        assert_eq!(after.map(|v| clock.widen(v)), [1 << 32, (1 << 32) + 1]);
    }

    #[test]
    fn ages_are_right_within_an_eighth_after_a_day() {
        let mut clock = Clock::default();
        let mut given = Vec::new();
        let end = if cfg!(miri) { 1_000_000 } else { 86_400_000 };
        for now in (0..end).step_by(500) {
            given.push((clock.next(now), now));
        }
        for (low, at) in given {
            let (age, told) = (end - at, end - clock.when(clock.widen(low)));
            assert!(told >= age && told <= age + 1000 + age / 7, "age {age} told as {told}");
        }
    }
}
