//! Encodes queued requests into the output of a connection.
use super::{
    fetch_batch::{FetchBatch, Stage},
    pipeline_state::{LINKED, Pipeline, PipelinedRequest},
};
use crate::{
    redis::{
        cluster::key_slot::slot,
        queued_request::{QueuedFetch, QueuedRequest},
    },
    source_error::SourceError,
};
use bytes::BytesMut;
use larder_proto::{output::Output, resp::Reply};
use larder_store::clock;
use std::collections::VecDeque;

/// Fetches per transaction: enough to make MULTI and EXEC cheap, few enough that Redis serves
/// others in between.
const BATCH: usize = 128;
/// Maximum bytes encoded ahead of the socket: queued requests use less memory.
const OUTPUT: usize = 256 * 1024;

/// The protocol of a whole reply, and whether it needs INFO first; `None` for a value.
fn form(queued: &QueuedFetch) -> Option<(bool, bool)> {
    queued.fetch.reply_name().map(|asked| (asked.resp3, asked.unless_fields_expire))
}

fn hello(resp3: bool) -> &'static [u8] {
    if resp3 { b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n" } else { b"*2\r\n$5\r\nHELLO\r\n$1\r\n2\r\n" }
}

impl Pipeline {
    /// Encodes queued requests into `out` until it is full.
    pub(crate) fn send(&mut self, queue: &mut VecDeque<QueuedRequest>, out: &mut Output) {
        self.put_busy_probe(out);
        while out.len() < OUTPUT && !self.is_in_doubt() {
            match queue.pop_front() {
                None => return,
                Some(QueuedRequest::Fetch(first)) => self.send_batch(first, queue, out),
                Some(QueuedRequest::Relay(mut relay)) => {
                    let commands = std::mem::take(&mut relay.commands);
                    if commands.len() < LINKED {
                        out.put(&commands);
                    } else {
                        out.put_shared(commands);
                    }
                    let marker = relay.may_break.then(|| self.markers.put(out));
                    let ends = Vec::with_capacity(relay.count.min(BATCH));
                    self.slow += usize::from(relay.is_slow(&self.settings.limits));
                    relay.running = relay.busy.map(|busy| self.settings.busy.begin(busy));
                    let replies = BytesMut::new();
                    self.in_flight.push_back(PipelinedRequest::Relay { relay, replies, ends, marker });
                }
            }
        }
    }

    /// Encodes `first` and the fetches queued behind it as one batch. Whole replies go in a
    /// transaction, to a node of a cluster in one for each slot. Values go in a transaction unless
    /// they are for a node of a cluster or the server announces changes (see [`FetchBatch::plain`]).
    fn send_batch(&mut self, first: QueuedFetch, queue: &mut VecDeque<QueuedRequest>, out: &mut Output) {
        let form = form(&first);
        let switched = form.is_some_and(|(resp3, _)| resp3 != self.protocol.resp3);
        let guarded = form.is_some_and(|(_, guarded)| guarded);
        if switched && !self.protocol.switches {
            // It was queued when another server was connected.
            let error = SourceError::Unavailable("it does not speak the client's protocol".into());
            return first.finish(Err(error), clock::now(), &self.settings.health);
        }
        let plain = form.is_none() && (self.redirector.is_some() || self.scope.is_some());
        let slot = (self.redirector.is_some() && !plain).then(|| slot(first.fetch.key()));
        if !plain {
            out.put(b"*1\r\n$5\r\nMULTI\r\n");
        }
        if guarded {
            out.put(b"*2\r\n$4\r\nINFO\r\n$8\r\nkeyspace\r\n");
        }
        if switched {
            out.put(hello(!self.protocol.resp3));
        }
        let mut left = 0;
        let mut next = Some(first);
        while let Some(queued) = next.take() {
            let key = queued.fetch.key();
            match queued.fetch.reply_name() {
                None => {
                    out.put(b"*2\r\n$3\r\nGET\r\n");
                    Reply::new(out, false).bulk(key);
                }
                Some(asked) => {
                    Reply::new(out, false).array(asked.parts().count());
                    asked.parts().for_each(|part| Reply::new(out, false).bulk(part));
                }
            }
            out.put(b"*2\r\n$4\r\nPTTL\r\n");
            Reply::new(out, false).bulk(key);
            queued.fetch.sent_through(queued.queue);
            self.sent.push_back(queued);
            left += 1;
            if left < BATCH
                && matches!(queue.front(), Some(QueuedRequest::Fetch(other)) if self::form(other) == form
                    && slot.is_none_or(|slot| slot == self::slot(other.fetch.key())))
                && let Some(QueuedRequest::Fetch(queued)) = queue.pop_front()
            {
                next = Some(queued);
            }
        }
        if switched {
            out.put(hello(self.protocol.resp3));
        }
        if !plain {
            out.put(b"*1\r\n$4\r\nEXEC\r\n");
        }
        self.in_flight.push_back(PipelinedRequest::Batch(FetchBatch {
            left,
            sent_at: clock::now(),
            stage: if plain { Stage::Value } else { Stage::Multi },
            refused: Vec::new(),
            direct: plain,
            plain,
            whole: form.is_some(),
            switched,
            guarded,
            // Decided by INFO's reply.
            fields_expire: false,
        }));
    }
}
