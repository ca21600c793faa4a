//! The classes of keyspace events, by the letters of `notify-keyspace-events`.
use std::fmt;

/// Which events are published, and on which channels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventClasses(pub(super) u32);

/// The letters, in the order in which Redis writes them. Larder has no lists, sets, hashes, sorted
/// sets and streams without a Redis behind it, but clients ask for them.
const LETTERS: [u8; 13] = *b"g$lshzxetdnKE";
/// The letters for which `A` stands.
const MOST: [u8; 10] = *b"g$lshzxetd";

/// Why letters are no classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadEventClass {
    /// A letter of no class.
    Unknown,
    /// `m`.
    Misses,
}

impl fmt::Display for BadEventClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadEventClass::Unknown => "Invalid event class character. Use 'Ag$lshzxeKEtdn'.",
            BadEventClass::Misses => "Larder publishes no event for a miss (m)",
        })
    }
}

impl EventClasses {
    pub(super) const GENERIC: EventClasses = EventClasses::of(b'g');
    pub(super) const STRING: EventClasses = EventClasses::of(b'$');
    pub(super) const EXPIRED: EventClasses = EventClasses::of(b'x');
    pub(super) const EVICTED: EventClasses = EventClasses::of(b'e');
    pub(super) const MODULE: EventClasses = EventClasses::of(b'd');
    pub(super) const NEW: EventClasses = EventClasses::of(b'n');
    /// Channels that are named for keys.
    pub(super) const BY_KEY: EventClasses = EventClasses::of(b'K');
    /// Channels that are named for events.
    pub(super) const BY_EVENT: EventClasses = EventClasses::of(b'E');
    const ALL: EventClasses = {
        let (mut all, mut at) = (0, 0);
        while at < MOST.len() {
            all |= EventClasses::of(MOST[at]).0;
            at += 1;
        }
        EventClasses(all)
    };

    const fn of(letter: u8) -> EventClasses {
        let mut at = 0;
        while at < LETTERS.len() {
            if LETTERS[at] == letter {
                return EventClasses(1 << at);
            }
            at += 1;
        }
        EventClasses(0)
    }

    /// Reads the letters.
    ///
    /// # Errors
    /// A letter of no class, or of one that Larder does not have.
    pub fn parse(letters: &[u8]) -> Result<EventClasses, BadEventClass> {
        let mut classes = 0;
        for letter in letters {
            classes |= match letter {
                b'A' => EventClasses::ALL.0,
                b'm' => return Err(BadEventClass::Misses),
                letter => EventClasses::of(*letter).0,
            };
            if *letter != b'A' && !LETTERS.contains(letter) {
                return Err(BadEventClass::Unknown);
            }
        }
        Ok(EventClasses(classes))
    }

    /// Whether all of these are among them.
    pub(super) fn has(self, others: EventClasses) -> bool {
        self.0 & others.0 == others.0
    }

    /// Whether some event goes to some channel.
    pub(super) fn are_published(self) -> bool {
        let channels = EventClasses::BY_KEY.0 | EventClasses::BY_EVENT.0;
        self.0 & channels != 0 && self.0 & !channels != 0
    }
}

impl fmt::Display for EventClasses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_all = self.has(EventClasses::ALL);
        if is_all {
            f.write_str("A")?;
        }
        let written = LETTERS.iter().filter(|letter| !(is_all && MOST.contains(letter)));
        for letter in written.filter(|letter| self.has(EventClasses::of(**letter))) {
            write!(f, "{}", char::from(*letter))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_read_and_written_as_redis_does() {
        for (letters, written) in [
            ("", ""),
            ("KEA", "AKE"),
            ("AKE", "AKE"),
            ("nAK", "AnK"),
            ("Ex", "xE"),
            ("E$gK", "g$KE"),
            ("g$lshzxetdK", "AK"),
            ("KK", "K"),
        ] {
            assert_eq!(EventClasses::parse(letters.as_bytes()).unwrap().to_string(), written, "{letters}");
        }
        assert_eq!(EventClasses::parse(b"KEq"), Err(BadEventClass::Unknown));
        assert_eq!(EventClasses::parse(b"KEm"), Err(BadEventClass::Misses));
        let published = |letters: &[u8]| EventClasses::parse(letters).unwrap().are_published();
        assert!(published(b"Kg") && published(b"En") && published(b"KA"));
        assert!(!published(b"") && !published(b"A") && !published(b"KE"));
    }
}
