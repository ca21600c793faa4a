//! Expiry times as memcached clients say them.
use larder_engine::{Expiry, Millis};
use larder_store::clock;

/// From here on a number of seconds is a moment since the Unix epoch.
const LONGEST_RELATIVE: i64 = 30 * 86_400;

/// When a value expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expires {
    /// The client says 0: as the group has it.
    Default,
    At(Millis),
    /// It has expired already.
    Past,
}

impl Expires {
    /// What `exptime` means: 0 never, up to 30 days from now, a moment, or (negative) at once.
    pub(crate) fn of(exptime: i64, now: Millis) -> Expires {
        let millis = |seconds: i64| u64::try_from(seconds).unwrap_or(0).saturating_mul(1000);
        match exptime {
            0 => Expires::Default,
            i64::MIN..0 => Expires::Past,
            1..=LONGEST_RELATIVE => Expires::At(now + millis(exptime)),
            moment => match clock::of_wall(millis(moment)) {
                at if at <= now => Expires::Past,
                at => Expires::At(at),
            },
        }
    }

    /// For the memory tier, whose group has this lifetime.
    pub(crate) fn in_tier(self, lifetime: impl FnOnce() -> Expiry) -> Expiry {
        match self {
            Expires::Default => lifetime(),
            Expires::At(at) => Expiry::At(at),
            // The tier then stores nothing and deletes what was there.
            Expires::Past => Expiry::At(0),
        }
    }
}

/// Whole seconds until `at`, as memcached counts them: `-1` for never.
pub(crate) fn seconds_left(at: Option<Millis>, now: Millis) -> i64 {
    at.map_or(-1, |at| at.saturating_sub(now).div_ceil(1000) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exptimes_mean_what_they_mean_to_memcached() {
        let now = clock::now();
        let wall = (clock::to_wall(now) / 1000) as i64;
        for (exptime, expected) in [
            (0, Expires::Default),
            (-1, Expires::Past),
            (i64::MIN, Expires::Past),
            (1, Expires::At(now + 1000)),
            (LONGEST_RELATIVE, Expires::At(now + 2_592_000_000)),
            (LONGEST_RELATIVE + 1, Expires::Past),
            (wall - 1, Expires::Past),
            (wall + 100, Expires::At(clock::of_wall((wall as u64 + 100) * 1000))),
            (i64::MAX, Expires::At(u64::MAX)),
        ] {
            let read = Expires::of(exptime, now);
            let far = exptime == i64::MAX && matches!(read, Expires::At(_));
            assert!(read == expected || far, "{exptime}: {read:?}");
        }
        assert_eq!((seconds_left(None, 5), seconds_left(Some(5), 5), seconds_left(Some(1005), 4)), (-1, 0, 2));
    }
}
