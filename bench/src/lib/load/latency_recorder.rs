//! A thread's book: what happened since the end of the warm-up.
use super::{
    measure::{ErrorKind, Phases, Slice},
    ops::DrawnOperation,
    reply_kinds::ReplyKinds,
    wire::ScannedReply,
};
use std::sync::mpsc::Sender;

/// A request from its writing to its reply.
#[derive(Debug, Clone, Copy)]
pub(super) struct InFlight {
    pub(super) intended: u64,
    /// When it was handed to the kernel; 0 as long as it was not.
    pub(super) written: u64,
    /// How long that took.
    pub(super) write: u64,
    pub(super) bytes: u32,
    /// Keys that it reads.
    pub(super) asked: u32,
    pub(super) op: DrawnOperation,
    /// It is the second request of an operation that has two.
    pub(super) second: bool,
}

/// See the module. A request counts if it was meant to start after the warm-up.
pub(super) struct LatencyRecorder {
    warm_up: u64,
    length: u64,
    slice: Slice,
    /// When the slice ends.
    end: u64,
    thread: usize,
    out: Sender<(usize, Slice)>,
    pub(super) phases: Phases,
    pub(super) replies: ReplyKinds,
    /// The end of the last request, ns since the start.
    pub(super) last: u64,
    /// The first reply that was none of the protocol.
    pub(super) bad: Option<&'static str>,
}

impl LatencyRecorder {
    /// The recorder of a thread, which hands out a slice each `length` nanoseconds from `warm_up`
    /// on.
    pub(super) fn new(warm_up: u64, length: u64, thread: usize, out: Sender<(usize, Slice)>) -> LatencyRecorder {
        LatencyRecorder {
            warm_up,
            length,
            slice: Slice::new(0),
            end: warm_up + length,
            thread,
            out,
            phases: Phases::new(),
            replies: ReplyKinds::default(),
            last: 0,
            bad: None,
        }
    }

    /// Closes the slice if its time is over.
    pub(super) fn roll(&mut self, now: u64) {
        if now >= self.end {
            let index = (now - self.warm_up) / self.length;
            self.hand_out(index);
            self.end = self.warm_up + (index + 1) * self.length;
        }
    }

    /// Hands out the slice and begins another.
    pub(super) fn hand_out(&mut self, index: u64) {
        let full = std::mem::replace(&mut self.slice, Slice::new(index));
        // Fails only if the receiver is gone.
        let _ = self.out.send((self.thread, full));
    }

    /// A request was answered.
    pub(super) fn done(&mut self, request: &InFlight, first_byte: u64, now: u64, reply: &ScannedReply) {
        if request.intended < self.warm_up {
            return;
        }
        self.last = now;
        let slice = &mut self.slice;
        slice.counts.requests += 1;
        slice.counts.bytes_out += u64::from(request.bytes);
        slice.counts.bytes_in += reply.len as u64;
        slice.counts.found += u64::from(reply.found);
        slice.counts.missing += u64::from(reply.missing);
        self.replies.count(reply.kind, 1);
        match reply.cache_hit {
            Some(true) => slice.counts.cache_hits += 1,
            Some(false) => slice.counts.cache_misses += 1,
            None => {}
        }
        if let Some(kind) = reply.error {
            slice.counts.error(kind);
        }
        slice.latency.saturating_record(now.saturating_sub(request.intended));
        slice.service.saturating_record(now.saturating_sub(request.written));
        let written = request.written + request.write;
        self.phases.queue.saturating_record(request.written.saturating_sub(request.intended));
        self.phases.write.saturating_record(request.write);
        self.phases.wait.saturating_record(first_byte.saturating_sub(written));
        self.phases.read.saturating_record(now - first_byte);
    }

    /// A request will not be answered.
    pub(super) fn lost(&mut self, kind: ErrorKind, intended: u64, written: Option<u64>, now: u64) {
        if intended < self.warm_up {
            return;
        }
        self.last = now;
        self.slice.counts.error(kind);
        if kind == ErrorKind::Timeout {
            self.slice.latency.saturating_record(now.saturating_sub(intended));
            if let Some(written) = written {
                self.slice.service.saturating_record(now.saturating_sub(written));
            }
        }
    }

    /// Something else went wrong.
    pub(super) fn error(&mut self, kind: ErrorKind, now: u64) {
        if now >= self.warm_up {
            self.slice.counts.error(kind);
        }
    }

    pub(super) fn bad(&mut self, why: &'static str) {
        self.bad.get_or_insert(why);
    }

    pub(super) fn connected(&mut self, took: u64) {
        self.phases.connect.saturating_record(took);
    }
}
