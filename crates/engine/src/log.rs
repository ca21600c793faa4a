//! The log of one shard: segments of equal size to which records are appended, and the large
//! entries beside them.
//!
//! A position is `segment << bits | offset`. Segments belong to a queue in the order in which they
//! were opened; a segment is freed whole, when its last live record has left or been copied on.
//! Bytes are never moved inside a segment.

use crate::{
    attributes,
    large::{Large, Lent},
    record::{self, Body, End, Meta, Parts, body},
};
use bytes::BytesMut;
use prefetch_index::prefetch_index;
use smallvec::SmallVec;
use std::collections::VecDeque;

const CACHE_LINE: usize = 64;
/// The two FIFO queues of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queue {
    Small,
    Main,
}

impl Queue {
    pub(crate) fn other(self) -> Queue {
        if self == Queue::Small { Queue::Main } else { Queue::Small }
    }
}

#[derive(Debug)]
struct Segment {
    data: Vec<u8>,
    /// Bytes of live records (large values not counted).
    live: usize,
    queue: Queue,
    /// Bytes that its queue had taken before this segment.
    base: u64,
}

/// One queue's segments, oldest first, and how far the oldest has been consumed.
#[derive(Debug, Default)]
struct Fifo {
    segments: VecDeque<u32>,
    head: usize,
    /// Bytes of live entries, large values included.
    live: usize,
    /// Bytes of records ever appended.
    appended: u64,
}

/// How many births of records are noted over the length of main.
const BIRTHS: usize = 32;

/// In this order for the sake of cache lines (see [`Shard`](crate::shard::Shard)): what every write
/// changes comes first.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Log {
    /// Bytes of records appended since this was last asked.
    written: usize,
    /// Bytes of live records in all segments (large values not counted).
    live_records: usize,
    small: Fifo,
    main: Fifo,
    segments: Vec<Option<Segment>>,
    bits: u32,
    /// There may be a sparse segment: something has changed since none was found.
    may_be_sparse: bool,
    /// The sparse segment that is being emptied, and how far that has come.
    emptied: Option<(u32, usize)>,
    free: Vec<u32>,
    /// Which birth the records of main had from some place on, oldest first.
    births: VecDeque<(u64, u32)>,
    large: Vec<Option<Large>>,
    free_large: Vec<u32>,
    large_bytes: usize,
    pub(crate) lent: Lent,
    /// Records ever copied on.
    moves: u64,
    #[cfg(test)]
    copied: usize,
}

impl Log {
    /// `segment` is a power of two.
    pub(crate) fn new(segment: usize, lent: Lent) -> Log {
        Log {
            bits: segment.ilog2(),
            segments: Vec::new(),
            free: Vec::new(),
            written: 0,
            emptied: None,
            may_be_sparse: false,
            live_records: 0,
            small: Fifo::default(),
            main: Fifo::default(),
            births: VecDeque::new(),
            large: Vec::new(),
            free_large: Vec::new(),
            large_bytes: 0,
            lent,
            moves: 0,
            #[cfg(test)]
            copied: 0,
        }
    }

    pub(crate) fn segment_size(&self) -> usize {
        1 << self.bits
    }

    /// Longest record that goes into a segment; what is longer is large. A quarter bounds what is
    /// lost at the end of segments.
    pub(crate) fn max_record(&self) -> usize {
        self.segment_size() / 4
    }

    fn open_segments(&self) -> usize {
        self.segments.len() - self.free.len()
    }

    /// Bytes of open segments.
    pub(crate) fn segment_bytes(&self) -> usize {
        self.open_segments() << self.bits
    }

    /// Bytes of large entries.
    pub(crate) fn large_bytes(&self) -> usize {
        self.large_bytes
    }

    /// Bytes of everything here.
    pub(crate) fn bytes(&self) -> usize {
        self.segment_bytes()
            + self.large_bytes
            + self.segments.capacity() * size_of::<Option<Segment>>()
            + self.large.capacity() * size_of::<Option<Large>>()
            + (self.free.capacity() + self.free_large.capacity()) * 4
            + self.births.capacity() * size_of::<(u64, u32)>()
    }

    /// Bytes of live records and large entries in a queue.
    pub(crate) fn live(&self, queue: Queue) -> usize {
        self.fifo(queue).live
    }

    /// Bytes of all live records and large entries.
    pub(crate) fn live_bytes(&self) -> usize {
        self.small.live + self.main.live
    }

    /// Records ever copied on.
    pub(crate) fn moves(&self) -> u64 {
        self.moves
    }

    fn fifo(&self, queue: Queue) -> &Fifo {
        match queue {
            Queue::Small => &self.small,
            Queue::Main => &self.main,
        }
    }

    fn fifo_mut(&mut self, queue: Queue) -> &mut Fifo {
        match queue {
            Queue::Small => &mut self.small,
            Queue::Main => &mut self.main,
        }
    }

    fn segment(&self, number: u32) -> &Segment {
        self.segments[number as usize].as_ref().expect("a position points into an open segment")
    }

    fn segment_mut(&mut self, number: u32) -> &mut Segment {
        self.segments[number as usize].as_mut().expect("a position points into an open segment")
    }

    fn split(&self, position: u32) -> (u32, usize) {
        (position >> self.bits, position as usize & (self.segment_size() - 1))
    }

    /// The record at a position (and what follows it in its segment).
    pub(crate) fn record(&self, position: u32) -> &[u8] {
        let (number, at) = self.split(position);
        let record = &self.segment(number).data[at..];
        // Its second cache line need not wait for the first, which says how long it is.
        prefetch_index(record, CACHE_LINE);
        record
    }

    /// Has the processor fetch where the first segments lie, which are all of a shard of a few MiB.
    #[inline]
    pub(crate) fn prefetch_segments(&self) {
        prefetch_index(&self.segments, 0);
        prefetch_index(&self.segments, 2);
    }

    /// Has the processor fetch the record at a position: its first two cache lines, which are all
    /// of a small one.
    pub(crate) fn prefetch(&self, position: u32) {
        let (number, at) = self.split(position);
        let data = &self.segment(number).data;
        prefetch_index(data, at);
        prefetch_index(data, at + CACHE_LINE);
    }

    pub(crate) fn record_mut(&mut self, position: u32) -> &mut [u8] {
        let (number, at) = self.split(position);
        &mut self.segment_mut(number).data[at..]
    }

    pub(crate) fn queue_of(&self, position: u32) -> Queue {
        self.segment(self.split(position).0).queue
    }

    /// The key of a record.
    pub(crate) fn key(&self, position: u32) -> &[u8] {
        let record = self.record(position);
        match body(record, Meta::read(record)) {
            Body::Small { key, .. } => key,
            Body::Large { slot } => self.large(slot).key(),
        }
    }

    /// What the attributes of a record are, and the attributes.
    pub(crate) fn attributes(&self, position: u32) -> (u32, &[u8]) {
        let record = self.record(position);
        self.attributes_of(record, Meta::read(record))
    }

    pub(crate) fn attributes_of<'a>(&'a self, record: &'a [u8], meta: Meta) -> (u32, &'a [u8]) {
        if !meta.has_attributes() {
            return (0, &[]);
        }
        let bytes = match body(record, meta) {
            Body::Small { attributes, .. } => attributes,
            Body::Large { slot } => self.large(slot).attributes(),
        };
        (record::word(record, meta), bytes)
    }

    /// The tags of a record.
    pub(crate) fn tag_ids(&self, position: u32) -> SmallVec<[u32; 16]> {
        let (word, bytes) = self.attributes(position);
        attributes::ids(word, bytes).collect()
    }

    pub(crate) fn large(&self, slot: u32) -> &Large {
        self.large[slot as usize].as_ref().expect("a record's slot is taken")
    }

    /// Bytes that a record stands for, large value included.
    fn weight(&self, record: &[u8], meta: Meta) -> usize {
        meta.len() + if let Body::Large { slot } = body(record, meta) { self.large(slot).bytes() } else { 0 }
    }

    /// Bytes that the entry at a position stands for.
    pub(crate) fn footprint(&self, position: u32) -> usize {
        let record = self.record(position);
        self.weight(record, Meta::read(record))
    }

    /// Stores a large entry's data and gives its slot.
    pub(crate) fn add_large(&mut self, large: Large) -> u32 {
        self.large_bytes += large.bytes();
        if let Some(slot) = self.free_large.pop() {
            self.large[slot as usize] = Some(large);
            return slot;
        }
        self.large.push(Some(large));
        (self.large.len() - 1) as u32
    }

    /// Edits a large value in place (the entry at `position` is large): `edit` is told where it
    /// begins.
    pub(crate) fn edit_large(&mut self, position: u32, slot: u32, edit: impl FnOnce(&mut BytesMut, usize)) {
        let large = self.large[slot as usize].as_mut().expect("a record's slot is taken");
        let before = large.bytes();
        large.edit(edit);
        let after = large.bytes();
        self.large_bytes = self.large_bytes + after - before;
        let fifo = self.fifo_mut(self.queue_of(position));
        fifo.live = fifo.live + after - before;
    }

    /// Leaves a note with a large value of this version.
    pub(crate) fn note_large(&mut self, slot: u32, version: u32, note: u64) {
        self.large[slot as usize].as_mut().expect("a record's slot is taken").set_note(version, note);
    }

    /// Appends a record, born at some moment of the policy's clock, at a queue's tail. A new
    /// segment is opened where the last one has no room.
    pub(crate) fn append(&mut self, queue: Queue, parts: &Parts<'_>, birth: u32) -> u32 {
        let meta = parts.meta();
        let (number, at) = self.room(queue, meta.len(), birth);
        parts.append_to(&mut self.segment_mut(number).data);
        self.segment_mut(number).live += meta.len();
        self.live_records += meta.len();
        self.written += meta.len();
        let position = number << self.bits | at as u32;
        self.fifo_mut(queue).live += self.footprint(position);
        position
    }

    /// Writes a live record again, with another end and version, and marks the old one dead.
    pub(crate) fn rewrite(&mut self, position: u32, end: Option<End>, version: u32, birth: u32) -> u32 {
        let record = self.record(position);
        let record = record[..Meta::read(record).len()].to_vec();
        let meta = Meta::read(&record);
        let weight = self.weight(&record, meta);
        let queue = self.queue_of(position);
        let parts = Parts {
            version,
            end,
            word: record::word(&record, meta),
            absent: meta.is_absent(),
            policy: meta.policy(),
            body: body(&record, meta),
        };
        let new = self.append(queue, &parts, birth);
        self.bury(position, weight);
        new
    }

    /// Copies a live record to a queue's tail with another policy state and marks the old one dead.
    pub(crate) fn relocate(&mut self, position: u32, queue: Queue, policy: u8, birth: u32) -> u32 {
        let record = self.record(position);
        let meta = Meta::read(record);
        let weight = self.weight(record, meta);
        let (number, at) = self.room(queue, meta.len(), birth);
        let (from, from_at) = self.split(position);
        if from == number {
            self.segment_mut(number).data.extend_from_within(from_at..from_at + meta.len());
        } else {
            // Taken out for the moment: the source lies in the same vector.
            let mut target = self.segments[number as usize].take().expect("room gives an open segment");
            target.data.extend_from_slice(&self.segment(from).data[from_at..from_at + meta.len()]);
            self.segments[number as usize] = Some(target);
        }
        let target = self.segment_mut(number);
        meta.with_policy(policy).write(&mut target.data[at..]);
        target.live += meta.len();
        self.live_records += meta.len();
        self.fifo_mut(queue).live += weight;
        self.bury(position, weight);
        self.moves += 1;
        #[cfg(test)]
        (self.copied += meta.len());
        number << self.bits | at as u32
    }

    /// The entry at a position is no more: its record dies, a large value is dropped, an emptied
    /// segment is freed.
    pub(crate) fn remove(&mut self, position: u32) {
        let record = self.record(position);
        let meta = Meta::read(record);
        let weight = self.weight(record, meta);
        if let Body::Large { slot } = body(record, meta) {
            let large = self.large[slot as usize].take().expect("a record's slot is taken");
            self.large_bytes -= large.bytes();
            self.free_large.push(slot);
        }
        self.bury(position, weight);
    }

    fn bury(&mut self, position: u32, weight: usize) {
        let record = self.record_mut(position);
        let meta = Meta::read(record);
        meta.dead().write(record);
        let (number, _) = self.split(position);
        let segment = self.segment_mut(number);
        segment.live -= meta.len();
        let (empty, queue) = (segment.live == 0, segment.queue);
        self.live_records -= meta.len();
        let fifo = self.fifo_mut(queue);
        fifo.live -= weight;
        if empty && fifo.segments.back() != Some(&number) {
            self.close(number, queue);
        }
    }

    fn close(&mut self, number: u32, queue: Queue) {
        let fifo = self.fifo_mut(queue);
        let place = fifo.segments.iter().position(|n| *n == number).expect("an open segment is in its queue");
        fifo.segments.remove(place);
        if place == 0 {
            fifo.head = 0;
        }
        self.segments[number as usize] = None;
        self.free.push(number);
        if self.emptied.is_some_and(|(emptied, _)| emptied == number) {
            (self.emptied, self.may_be_sparse) = (None, true);
        }
    }

    /// A segment at the queue's tail with `len` bytes of room, and where they begin.
    fn room(&mut self, queue: Queue, len: usize, birth: u32) -> (u32, usize) {
        if let Some(&tail) = self.fifo(queue).segments.back() {
            let at = self.segment(tail).data.len();
            if at + len <= self.segment_size() {
                self.note(queue, len, birth);
                return (tail, at);
            }
            if self.segment(tail).live == 0 {
                self.close(tail, queue);
            }
        }
        let segment =
            Segment { data: Vec::with_capacity(self.segment_size()), live: 0, queue, base: self.fifo(queue).appended };
        let number = if let Some(number) = self.free.pop() {
            self.segments[number as usize] = Some(segment);
            number
        } else {
            self.segments.push(Some(segment));
            (self.segments.len() - 1) as u32
        };
        self.fifo_mut(queue).segments.push_back(number);
        self.note(queue, len, birth);
        self.may_be_sparse = true;
        (number, 0)
    }

    fn note(&mut self, queue: Queue, len: usize, birth: u32) {
        let fifo = self.fifo_mut(queue);
        let (place, every) = (fifo.appended, (fifo.live / BIRTHS) as u64);
        fifo.appended += len as u64;
        if queue == Queue::Main && self.births.back().is_none_or(|last| place - last.0 > every) {
            if self.births.len() == 2 * BIRTHS {
                self.births.pop_front();
            }
            self.births.push_back((place, birth));
        }
    }

    /// Bytes ever copied inside the log.
    #[cfg(test)]
    pub(crate) fn copied(&self) -> usize {
        self.copied
    }

    /// Bytes of records appended since the last call.
    pub(crate) fn take_written(&mut self) -> usize {
        std::mem::take(&mut self.written)
    }

    /// The oldest live record of a queue. It stays the oldest until it is removed or relocated. A
    /// queue without one keeps its tail for the next records (`keep_tail`), or frees it.
    pub(crate) fn oldest(&mut self, queue: Queue, keep_tail: bool) -> Option<u32> {
        loop {
            let fifo = self.fifo(queue);
            let (number, mut at) = (*fifo.segments.front()?, fifo.head);
            let data = &self.segment(number).data;
            while at < data.len() {
                let meta = Meta::read(&data[at..]);
                if !meta.is_dead() {
                    self.fifo_mut(queue).head = at;
                    return Some(number << self.bits | at as u32);
                }
                at += meta.len();
            }
            // Only the tail can have been read to its end and still be open: it holds nothing that lives.
            if keep_tail {
                self.fifo_mut(queue).head = at;
                return None;
            }
            self.close(number, queue);
        }
    }

    /// Share of the open segments that nothing lives in.
    pub(crate) fn slack(&self) -> f32 {
        1.0 - self.live_records as f32 / self.segment_bytes().max(1) as f32
    }

    /// The birth of main's oldest record, as [`Log::oldest`] found it last.
    pub(crate) fn oldest_birth(&mut self) -> u32 {
        let Some(front) = self.main.segments.front() else { return 0 };
        let place = self.segment(*front).base + self.main.head as u64;
        while self.births.get(1).is_some_and(|next| next.0 <= place) {
            self.births.pop_front();
        }
        self.births.front().map_or(0, |b| b.1)
    }

    /// The next record to be copied on, and its queue, so that a sparse segment can be freed: the
    /// sparsest is emptied, a record a call, before another is looked for. `None` if less than
    /// `share` of each is dead.
    pub(crate) fn next_of_sparse(&mut self, share: f32) -> Option<(Queue, u32)> {
        if self.emptied.is_none() && std::mem::take(&mut self.may_be_sparse) {
            self.emptied = self.sparsest(share).map(|number| (number, 0));
        }
        let (number, mut at) = self.emptied.take()?;
        let segment = self.segment(number);
        let queue = segment.queue;
        while let Some(record) = segment.data.get(at..).filter(|rest| !rest.is_empty()) {
            let meta = Meta::read(record);
            if !meta.is_dead() {
                self.emptied = Some((number, at));
                return Some((queue, number << self.bits | at as u32));
            }
            at += meta.len();
        }
        None
    }

    /// The sparsest segment, if at least `share` of it is dead and as much of all that are neither
    /// their queue's oldest nor its last: those two are emptied and filled in the course of
    /// things.
    fn sparsest(&self, share: f32) -> Option<u32> {
        let inner = |fifo: &'_ Fifo| fifo.segments.len().saturating_sub(2);
        let closed = [&self.small, &self.main].into_iter().flat_map(|f| f.segments.iter().skip(1).take(inner(f)));
        let (mut segments, mut all_live, mut sparsest) = (0, 0, None);
        for number in closed {
            let live = self.segment(*number).live;
            segments += 1;
            all_live += live;
            sparsest = sparsest.min(Some((live, *number))).or(Some((live, *number)));
        }
        let (live, number) = sparsest?;
        let limit = self.segment_size() as f32 * (1.0 - share);
        (live as f32 <= limit && all_live as f32 <= limit * segments as f32).then_some(number)
    }

    #[cfg(test)]
    fn live_records(&self, number: u32) -> Vec<u32> {
        let data = &self.segment(number).data;
        let mut live = Vec::new();
        let mut at = 0;
        while at < data.len() {
            let meta = Meta::read(&data[at..]);
            if !meta.is_dead() {
                live.push(number << self.bits | at as u32);
            }
            at += meta.len();
        }
        live
    }

    /// Every indexed record lives, every live record is indexed, each open segment is in one queue,
    /// and the sums are right.
    #[cfg(test)]
    pub(crate) fn check(&self, indexed: &[u32]) {
        let mut indexed = indexed.to_vec();
        indexed.sort_unstable();
        let mut live = Vec::new();
        let mut open = 0;
        for (queue, fifo) in [(Queue::Small, &self.small), (Queue::Main, &self.main)] {
            let mut weight = 0;
            for (place, number) in fifo.segments.iter().enumerate() {
                let records = self.live_records(*number);
                assert_eq!(self.segment(*number).queue, queue);
                assert_eq!(
                    self.segment(*number).live,
                    records.iter().map(|p| Meta::read(self.record(*p)).len()).sum::<usize>()
                );
                assert!(
                    self.segment(*number).live > 0 || place + 1 == fifo.segments.len(),
                    "an empty segment is freed"
                );
                weight += records.iter().map(|p| self.footprint(*p)).sum::<usize>();
                live.extend(records);
                open += 1;
            }
            assert_eq!(fifo.live, weight);
        }
        live.sort_unstable();
        assert_eq!(live, indexed);
        assert_eq!(open, self.open_segments());
        assert_eq!(self.large_bytes, self.large.iter().flatten().map(Large::bytes).sum::<usize>());
        assert_eq!(self.live_records, live.iter().map(|p| Meta::read(self.record(*p)).len()).sum::<usize>());
    }
}
