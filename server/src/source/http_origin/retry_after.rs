//! `Retry-After` (RFC 9110, 10.2.3): how long an origin asks not to be asked again, and the keys that wait for that.
use foldhash::fast::RandomState;
use http::{HeaderMap, header};
use larder_engine::Millis;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    hash::BuildHasher,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::{Duration, UNIX_EPOCH},
};

/// The longest wait that is honoured: a mistake at the origin must not shut it off for a day.
const LONGEST: Duration = Duration::from_secs(60);
/// Keys that may wait at the same time. Beyond it a key is asked for at once, as if the origin had not said when.
const MOST_KEYS: usize = 10_000;

/// How long the response asks to wait, from `now`; `None` if it does not say.
pub(super) fn retry_after(headers: &HeaderMap, now: Millis) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => Duration::from_secs(text.parse().unwrap_or(u64::MAX)),
        false => {
            let at = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
            at.saturating_sub(Duration::from_millis(now))
        }
    };
    (!wait.is_zero()).then_some(wait.min(LONGEST))
}

/// The keys that the origin asked not to be asked for until a moment.
#[derive(Debug, Default)]
pub(super) struct WaitingKeys {
    /// Hashes of keys: that two of them have one hash costs a key a wait, and nothing else.
    until: Mutex<HashMap<u64, Millis>>,
    /// So that a fetch takes no lock while no key waits.
    count: AtomicUsize,
    hasher: RandomState,
}
impl WaitingKeys {
    pub(super) fn add(&self, key: &[u8], until: Millis, now: Millis) {
        let mut keys = self.until.lock();
        if keys.len() >= MOST_KEYS {
            keys.retain(|_, until| *until > now);
        }
        if keys.len() < MOST_KEYS {
            keys.insert(self.hasher.hash_one(key), until);
        }
        self.count.store(keys.len(), Relaxed);
    }
    /// Until when the key waits, if it does.
    pub(super) fn until(&self, key: &[u8], now: Millis) -> Option<Millis> {
        if self.count.load(Relaxed) == 0 {
            return None;
        }
        let mut keys = self.until.lock();
        let hash = self.hasher.hash_one(key);
        let until = *keys.get(&hash)?;
        if until > now {
            return Some(until);
        }
        keys.remove(&hash);
        self.count.store(keys.len(), Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_or_a_date_and_never_too_long() {
        // Sun, 06 Nov 1994 08:49:37 GMT.
        let now = 784_111_777_000;
        for (text, expected) in [
            ("5", Some(5)),
            (" 59 ", Some(59)),
            ("3600", Some(60)),
            ("99999999999999999999999999", Some(60)),
            ("0", None),
            ("-1", None),
            ("soon", None),
            ("", None),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", None),
            ("Sun, 06 Nov 1994 08:00:00 GMT", None),
            ("Sat, 06 Nov 1999 08:49:37 GMT", Some(60)),
        ] {
            let headers = HeaderMap::from_iter([(header::RETRY_AFTER, text.parse().expect("a value"))]);
            assert_eq!(retry_after(&headers, now), expected.map(Duration::from_secs), "{text}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }

    #[test]
    fn keys_wait_until_their_moment_and_are_bounded() {
        let keys = WaitingKeys::default();
        assert_eq!(keys.until(b"a", 0), None);
        keys.add(b"a", 10, 0);
        assert_eq!((keys.until(b"a", 9), keys.until(b"b", 9)), (Some(10), None));
        assert_eq!((keys.until(b"a", 10), keys.count.load(Relaxed)), (None, 0));
        for number in 0..2 * MOST_KEYS {
            keys.add(&number.to_le_bytes(), 100, 50);
        }
        assert_eq!(keys.count.load(Relaxed), MOST_KEYS);
        keys.add(b"later", 200, 100);
        assert_eq!(keys.count.load(Relaxed), 1, "those whose wait is over made room");
    }
}
