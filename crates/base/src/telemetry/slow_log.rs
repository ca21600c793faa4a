//! The slow log: the latest commands that took long.
use crate::buffers::TableShare;
use larder_config::Address;
use std::{collections::VecDeque, sync::Arc, time::Duration};

/// The most arguments of a command that an entry has, and the most bytes of each; as in Redis.
const MOST_ARGS: usize = 32;
const MOST_BYTES: usize = 128;

/// One command that took long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowEntry {
    /// Goes up with every entry, also after a reset.
    pub id: u64,
    /// When it was over, since the Unix epoch.
    pub at: Duration,
    /// From its beginning to its reply.
    pub took: Duration,
    /// What [`recorded_args`] has kept.
    pub args: Arc<[u8]>,
    /// The client's address.
    pub client: Address,
    /// The client's name (CLIENT SETNAME).
    pub name: Arc<str>,
}

/// The entries, the latest first.
#[derive(Debug, Default)]
pub(super) struct SlowLog {
    entries: VecDeque<SlowEntry>,
    /// What the entries occupy.
    bytes: usize,
    /// `None`: only their number is bounded.
    pub(super) share: Option<TableShare>,
    next: u64,
}

impl SlowEntry {
    fn owned(&self) -> usize {
        size_of::<SlowEntry>() + self.args.len() + self.name.len()
    }
}

impl SlowLog {
    /// Adds an entry, whose number it gives. The oldest above `most` go, or above the share.
    pub(super) fn add(&mut self, entry: SlowEntry, most: usize) {
        self.bytes += entry.owned();
        self.entries.push_front(SlowEntry { id: self.next, ..entry });
        self.next += 1;
        self.truncate(most);
    }
    pub(super) fn latest(&self, count: usize) -> Vec<SlowEntry> {
        self.entries.iter().take(count).cloned().collect()
    }
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
    /// Forgets all entries above `most`, and above the share.
    pub(super) fn truncate(&mut self, most: usize) {
        let max_bytes = self.share.as_ref().map_or(usize::MAX, TableShare::max);
        while self.entries.len() > most || self.bytes > max_bytes {
            let Some(oldest) = self.entries.pop_back() else { break };
            self.bytes -= oldest.owned();
        }
        if let Some(share) = &mut self.share {
            share.settle(self.bytes);
        }
    }
}

/// A command's arguments as an entry keeps them: an array of the Redis protocol with at most 32
/// arguments of at most 128 bytes each. What is left out is counted in the text.
pub fn recorded_args<'a>(args: impl ExactSizeIterator<Item = &'a [u8]>) -> Box<[u8]> {
    let mut kept = Vec::with_capacity(64);
    record_args(&mut kept, args);
    kept.into_boxed_slice()
}

/// Writes what [`recorded_args`] keeps to the end of `kept`.
pub fn record_args<'a>(kept: &mut Vec<u8>, args: impl ExactSizeIterator<Item = &'a [u8]>) {
    let count = args.len();
    head(kept, b'*', count.min(MOST_ARGS));
    let whole = if count > MOST_ARGS { MOST_ARGS - 1 } else { count };
    for arg in args.take(whole) {
        match arg.len().checked_sub(MOST_BYTES).filter(|left_out| *left_out > 0) {
            None => bulk(kept, arg, b""),
            Some(left_out) => {
                bulk(kept, &arg[..MOST_BYTES], format!("... ({left_out} more bytes)").as_bytes());
            }
        }
    }
    if whole < count {
        bulk(kept, format!("... ({} more arguments)", count - whole).as_bytes(), b"");
    }
}

fn head(to: &mut Vec<u8>, kind: u8, number: usize) {
    to.push(kind);
    to.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    to.extend_from_slice(b"\r\n");
}
fn bulk(to: &mut Vec<u8>, text: &[u8], more: &[u8]) {
    head(to, b'$', text.len() + more.len());
    to.extend_from_slice(text);
    to.extend_from_slice(more);
    to.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> SlowEntry {
        SlowEntry {
            id: 0,
            at: Duration::ZERO,
            took: Duration::ZERO,
            args: Arc::default(),
            client: ([127, 0, 0, 1], 1).into(),
            name: "".into(),
        }
    }

    #[test]
    fn the_latest_come_first_and_numbers_go_on() {
        let mut log = SlowLog::default();
        (0..5).for_each(|_| log.add(entry(), 3));
        let ids = |log: &SlowLog, count| log.latest(count).iter().map(|entry| entry.id).collect::<Vec<_>>();
        assert_eq!((ids(&log, 2), log.len()), (vec![4, 3], 3));
        log.truncate(0);
        log.add(entry(), 3);
        assert_eq!(ids(&log, usize::MAX), [5]);
        log.add(entry(), 0);
        assert_eq!(log.len(), 0);
    }

    #[test]
    fn the_entries_have_an_eighth_of_the_buffers() {
        let buffers = crate::buffers::Buffers::new(1 << 20, 1, Vec::new());
        let share = Some(buffers.table(crate::buffers::BufferKind::Logs));
        let mut log = SlowLog { share, ..SlowLog::default() };
        (0..1000).for_each(|_| log.add(SlowEntry { args: [0; 1000].into(), ..entry() }, 1000));
        assert!((100..128).contains(&log.len()), "{}", log.len());
        assert!((100 << 10..=128 << 10).contains(&buffers.used()), "{}", buffers.used());
        log.truncate(0);
        assert_eq!((log.bytes, buffers.used()), (0, 0));
    }

    #[test]
    fn long_arguments_and_many_are_cut() {
        let text = |args: Vec<&[u8]>| String::from_utf8(recorded_args(args.into_iter()).into()).expect("text");
        assert_eq!(text(vec![b"GET", b""]), "*2\r\n$3\r\nGET\r\n$0\r\n\r\n");
        let long = [b'x'; 130];
        let cut = format!("*1\r\n$146\r\n{}... (2 more bytes)\r\n", "x".repeat(128));
        assert_eq!(text(vec![&long]), cut);
        assert!(text(vec![&long[..128]]).starts_with("*1\r\n$128\r\n"));
        assert!(text(vec![b"a"; 32]).starts_with("*32\r\n"));
        let many = text(vec![b"a"; 33]);
        assert!(many.starts_with("*32\r\n") && many.ends_with("$22\r\n... (2 more arguments)\r\n"), "{many}");
    }
}
