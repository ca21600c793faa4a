//! Whether nodes that ask this one have its ring: what is said about it in the log, once for each
//! change.
use larder_engine::Millis;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Rings that are remembered; of more nothing is said.
const MOST: usize = 16;
/// After this time without another ring the nodes agree again, ms.
const QUIET: u64 = 10_000;

/// Another ring is told of for this time after its latest sign, ms.
const TOLD: u64 = 600_000;
/// A key is noted this often, ms.
const KEY_EVERY: u64 = 1000;
/// Bytes of a key that are told.
const LONGEST_KEY: usize = 100;

/// A ring that another node goes by.
#[derive(Debug, Clone)]
pub struct OtherRing {
    /// `None`: groupcache's nodes have none.
    pub epoch: Option<u64>,
    /// The latest key of another node that was asked for as this one's, and its owner by this
    /// node's ring. Of nodes without an epoch.
    pub key: Option<(Box<str>, Box<str>)>,
    /// When its latest sign came.
    pub latest: Millis,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct RingDisagreement {
    /// When a node with another ring asked last; 0: none did.
    latest: AtomicU64,
    /// When a key was noted last ([`note_key`](RingDisagreement::note_key)).
    key_noted: AtomicU64,
    /// The other rings, since the nodes agreed last.
    others: Mutex<Vec<OtherRing>>,
}

impl RingDisagreement {
    /// A node with a ring of the epoch `theirs` has asked this node, whose ring has the epoch
    /// `ours`. Whether the rings differ.
    pub(super) fn note(&self, theirs: u64, ours: u64, now: impl FnOnce() -> Millis) -> bool {
        if theirs == ours {
            if self.latest.load(Relaxed) != 0 {
                self.agree(now());
            }
            return false;
        }
        if self.is_new(Some(theirs), None, now()) {
            let epochs = (format_args!("{theirs:016x}"), format_args!("{ours:016x}"));
            tracing::warn!(
                theirs = epochs.0,
                ours = epochs.1,
                "a peer has another ring: compare `peers` and `peer-hash` of the nodes"
            );
        }
        true
    }

    /// A node that says nothing of its ring has asked this node for a key that belongs to `owner`.
    /// groupcache's nodes ask the owner of a key alone.
    pub(super) fn note_key(&self, key: &[u8], owner: &str, now: Millis) {
        // Most reads of such a node take no lock.
        if now < self.key_noted.load(Relaxed).saturating_add(KEY_EVERY) {
            return;
        }
        self.key_noted.store(now, Relaxed);
        let key = String::from_utf8_lossy(&key[..key.len().min(LONGEST_KEY)]);
        if self.is_new(None, Some((&*key, owner)), now) {
            tracing::warn!(
                key = &*key,
                owner,
                "a groupcache node takes this node for the owner of a key that has another owner: \
                 set `peer-hash` to that of its library, and compare the lists of nodes"
            );
        }
    }

    /// Notes a sign of another ring. True if it is the first since the nodes agreed.
    fn is_new(&self, epoch: Option<u64>, key: Option<(&str, &str)>, now: Millis) -> bool {
        self.latest.store(now.max(1), Relaxed);
        let key = key.map(|(key, owner)| (key.into(), owner.into()));
        let mut others = self.others.lock();
        if let Some(other) = others.iter_mut().find(|other| other.epoch == epoch) {
            let is_new = other.latest.saturating_add(TOLD) <= now;
            *other = OtherRing { epoch, key, latest: now };
            return is_new;
        }
        let has_room = others.len() < MOST;
        if has_room {
            others.push(OtherRing { epoch, key, latest: now });
        }
        has_room
    }

    /// The other rings of which there were signs lately.
    pub(super) fn others(&self, now: Millis) -> Vec<OtherRing> {
        let others = self.others.lock();
        others.iter().filter(|other| other.latest.saturating_add(TOLD) > now).cloned().collect()
    }

    #[cold]
    fn agree(&self, now: Millis) {
        let latest = self.latest.load(Relaxed);
        if latest + QUIET <= now && self.latest.compare_exchange(latest, 0, Relaxed, Relaxed).is_ok() {
            self.others.lock().clear();
            tracing::info!("the peers that ask have the same ring again");
        }
    }
}

/// What the head of a request of another node says of its ring. Larders write the name of the field
/// in lower case.
pub fn ring_of(head: &[u8]) -> Option<&[u8]> {
    const FIELD: &[u8] = b"\r\nlarder-ring: ";
    let after = head.windows(FIELD.len()).position(|window| window == FIELD)? + FIELD.len();
    head.get(after..after + 16)
}

/// The epoch in the header `larder-ring`.
pub(super) fn parse_epoch(text: &[u8]) -> Option<u64> {
    let is_epoch = text.len() == 16 && text.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(text).ok().filter(|_| is_epoch)?;
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_rings_are_remembered_until_all_agree() {
        let rings = RingDisagreement::default();
        assert!(!rings.note(1, 1, || panic!("no need to know the time")));
        assert!(rings.note(2, 1, || 1_000) && rings.note(2, 1, || 2_000) && rings.note(3, 1, || 3_000));
        let epochs = || rings.others(13_000).iter().map(|other| other.epoch).collect::<Vec<_>>();
        assert_eq!(epochs(), [Some(2), Some(3)]);
        assert!(!rings.note(1, 1, || 12_999));
        assert_eq!(epochs(), [Some(2), Some(3)], "too early to tell");
        assert!(!rings.note(1, 1, || 13_000));
        assert_eq!((rings.others.lock().len(), rings.latest.load(Relaxed)), (0, 0));
        rings.note_key(b"k", "b:1", 20_000);
        let told = rings.others(20_000);
        assert_eq!((told[0].epoch, told[0].key.clone()), (None, Some(("k".into(), "b:1".into()))));
        assert!(rings.others(20_000 + TOLD).is_empty(), "it was a long time ago");
        (10..100).for_each(|other| assert!(rings.note(other, 1, || 1)));
        assert_eq!(rings.others.lock().len(), MOST);
    }

    #[test]
    fn epochs_are_16_digits() {
        assert_eq!(parse_epoch(b"00000000000000ff"), Some(255));
        for text in [&b""[..], b"ff", b"+0000000000000ff", b"000000000000000g", b"00000000000000fff", b"\xff"] {
            assert_eq!(parse_epoch(text), None);
        }
    }
}
