//! Whether nodes that ask this one have its ring: what is said about it in the log, once for each
//! change.
use larder_engine::Millis;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Rings that are remembered; of more nothing is said.
const MOST: usize = 16;
/// After this time without another ring the nodes agree again, ms.
const QUIET: u64 = 10_000;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct RingDisagreement {
    /// When a node with another ring asked last; 0: none did.
    latest: AtomicU64,
    /// The epochs of the other rings, since the nodes agreed last.
    others: Mutex<Vec<u64>>,
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
        self.latest.store(now(), Relaxed);
        let mut others = self.others.lock();
        if !others.contains(&theirs) && others.len() < MOST {
            others.push(theirs);
            let epochs = (format_args!("{theirs:016x}"), format_args!("{ours:016x}"));
            tracing::warn!(
                theirs = epochs.0,
                ours = epochs.1,
                "a peer has another ring: compare `peers`, `peer-name` and `peer-hash` of the nodes"
            );
        }
        true
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
        assert_eq!(*rings.others.lock(), [2, 3]);
        assert!(!rings.note(1, 1, || 12_999));
        assert_eq!(*rings.others.lock(), [2, 3], "too early to tell");
        assert!(!rings.note(1, 1, || 13_000));
        assert_eq!((rings.others.lock().len(), rings.latest.load(Relaxed)), (0, 0));
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
