//! What the policy needs of the entries' two queues, wherever they lie: in a shard's log, or in a
//! simulation ([`crate::what_if`]).

use crate::log::Queue;

/// The two FIFO queues of the policy. A position names an entry until it is relocated.
pub(crate) trait Queues {
    /// Entries in both.
    fn entries(&self) -> usize;
    /// Bytes of a queue's entries.
    fn live(&self, queue: Queue) -> usize;
    /// A queue's oldest entry.
    fn oldest(&mut self, queue: Queue) -> Option<u32>;
    /// An entry's policy bits.
    fn bits(&self, position: u32) -> u8;
    /// The hash of an entry's key.
    fn hash(&self, position: u32) -> u64;
    /// Bytes that an entry stands for.
    fn footprint(&self, position: u32) -> usize;
    /// Has the entry's lifetime ended, so that it goes whatever the policy says?
    fn has_ended(&self, position: u32) -> bool;
    /// The birth that [`relocate`](Queues::relocate) or an insertion gave main's oldest.
    fn oldest_birth(&mut self) -> u32;
    /// Puts an entry at a queue's tail, with other policy bits.
    fn relocate(&mut self, position: u32, hash: u64, queue: Queue, bits: u8, birth: u32);
    /// The entry being written: it is not evicted to make room for itself.
    fn newest(&self) -> u32;
    /// Is the cache still filling?
    fn has_room(&self) -> bool;
}
