//! A batch of fetches: how it is encoded, and how far its replies have come.
use super::{LINKED, Owed, Pipeline};
use crate::source::{
    SourceError,
    redis::{
        cluster::slot,
        request::{Request, Waiting},
    },
};
use bytes::{Bytes, BytesMut};
use larder_engine::Millis;
use larder_proto::{output::Output, resp::Reply};
use larder_store::clock;
use std::collections::VecDeque;

/// Fetches per transaction: enough to make MULTI and EXEC cheap, few enough that Redis serves others in between.
const BATCH: usize = 128;
/// No more is encoded ahead of the socket; what is queued costs less memory.
const OUTPUT: usize = 256 * 1024;

/// A transaction whose fetches are the next `left` of [`Pipeline::sent`].
pub(super) struct Batch {
    pub(super) left: usize,
    /// When it was sent: an expiry counts from here, so that a slow reply never lengthens a life.
    pub(super) sent_at: Millis,
    pub(super) stage: Stage,
    /// Commands that the server would not queue: index of the fetch and the error's text.
    pub(super) refused: Vec<(usize, SourceError)>,
    /// The replies come one by one, without a transaction: `MULTI` itself was refused, or not sent.
    pub(super) direct: bool,
    /// No transaction was asked for: the keys are of several slots of a cluster, and the server announces changes between the replies.
    pub(super) plain: bool,
    /// The fetches are of whole replies.
    pub(super) whole: bool,
    /// They are of the protocol that the connection does not speak: HELLO goes before them and after them, inside the transaction, where
    /// no announcement can fall between.
    pub(super) switched: bool,
    /// Their replies hold only where no fields of hashes expire: what the server says of that comes first.
    pub(super) guarded: bool,
    /// They do, or may.
    pub(super) fields_expire: bool,
}
impl Batch {
    /// Commands between MULTI and EXEC.
    pub(super) fn commands(&self) -> usize {
        2 * self.left + usize::from(self.guarded) + if self.switched { 2 } else { 0 }
    }
    /// The first thing in EXEC's reply.
    pub(super) fn first_stage(&self) -> Stage {
        match (self.guarded, self.switched) {
            (true, _) => Stage::Guard,
            (false, true) => Stage::Switch(false),
            (false, false) => Stage::Value,
        }
    }
    /// The fetch that the queued command with this position belongs to. HELLO and INFO are nobody's.
    pub(super) fn fetch_of(&self, command: usize) -> Option<usize> {
        let at = command.checked_sub(usize::from(self.guarded) + usize::from(self.switched))? / 2;
        (at < self.left).then_some(at)
    }
}
pub(super) enum Stage {
    Multi,
    /// This many commands are queued (two a fetch).
    Queued(usize),
    Exec,
    /// INFO's reply.
    Guard,
    /// HELLO's reply, before the first value or (`true`) after the last.
    Switch(bool),
    Value,
    /// A large value is being read: [`Pipeline::body`].
    Body,
    /// The value is known, its expiry comes next; `true`: after the value's line end.
    Expiry(Result<Option<Bytes>, SourceError>, bool),
    /// The same for a whole reply.
    ReplyExpiry(Bytes),
    /// Direct replies: EXEC's error.
    Trailer,
}

/// The protocol in which a whole reply is to be fetched, and whether under a guard; `None` for a value.
fn form(waiting: &Waiting) -> Option<(bool, bool)> {
    waiting.fetch.reply_name().map(|asked| (asked.resp3, asked.unless_fields_expire))
}

/// From `INFO keyspace`: may fields of hashes expire in this database? Redis counts such hashes as `subexpiry`, Valkey as
/// `keys_with_volatile_items`. A database without keys is not listed.
pub(super) fn fields_expire(info: &[u8], database: u32) -> bool {
    let info = String::from_utf8_lossy(info);
    let ours = format!("db{database}:");
    let Some(line) = info.lines().find_map(|line| line.strip_prefix(&*ours)) else {
        return !info.contains("# Keyspace");
    };
    let count = line.split(',').filter_map(|field| field.split_once('='));
    let mut count = count.filter(|(name, _)| matches!(*name, "subexpiry" | "keys_with_volatile_items"));
    count.next().is_none_or(|(_, count)| count != "0")
}

fn hello(resp3: bool) -> &'static [u8] {
    if resp3 { b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n" } else { b"*2\r\n$5\r\nHELLO\r\n$1\r\n2\r\n" }
}

impl Pipeline {
    /// Moves queued requests to `out`, as long as that is not full.
    pub(in super::super) fn send(&mut self, queue: &mut VecDeque<Request>, out: &mut Output) {
        while out.len() < OUTPUT {
            match queue.pop_front() {
                None => return,
                Some(Request::Fetch(first)) => self.send_batch(first, queue, out),
                Some(Request::Call(mut call)) => {
                    let commands = std::mem::take(&mut call.commands);
                    if commands.len() < LINKED {
                        out.put(&commands);
                    } else {
                        out.put_shared(commands);
                    }
                    let ends = Vec::with_capacity(call.count.min(BATCH));
                    self.slow += usize::from(call.is_slow(&self.settings.limits));
                    self.owed.push_back(Owed::Call { call, replies: BytesMut::new(), ends });
                }
            }
        }
    }

    /// Sends `first` and the fetches queued right behind it as one transaction; to a node of a cluster without one, or those of one slot.
    fn send_batch(&mut self, first: Waiting, queue: &mut VecDeque<Request>, out: &mut Output) {
        let form = form(&first);
        let switched = form.is_some_and(|(resp3, _)| resp3 != self.protocol.resp3);
        let guarded = form.is_some_and(|(_, guarded)| guarded);
        if switched && !self.protocol.switches {
            // It was handed over when another server was there.
            let error = SourceError::Unavailable("it does not speak the client's protocol".into());
            return first.finish(Err(error), clock::now(), &self.settings.health);
        }
        let plain = self.elsewhere.is_some() && form.is_none();
        let slot = (self.elsewhere.is_some() && !plain).then(|| slot(first.fetch.key()));
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
        while let Some(waiting) = next.take() {
            let key = waiting.fetch.key();
            match waiting.fetch.reply_name() {
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
            waiting.fetch.sent_through(waiting.queue);
            self.sent.push_back(waiting);
            left += 1;
            if left < BATCH
                && matches!(queue.front(), Some(Request::Fetch(other)) if self::form(other) == form
                    && slot.is_none_or(|slot| slot == self::slot(other.fetch.key())))
                && let Some(Request::Fetch(waiting)) = queue.pop_front()
            {
                next = Some(waiting);
            }
        }
        if switched {
            out.put(hello(self.protocol.resp3));
        }
        if !plain {
            out.put(b"*1\r\n$4\r\nEXEC\r\n");
        }
        self.owed.push_back(Owed::Batch(Batch {
            left,
            sent_at: clock::now(),
            stage: if plain { Stage::Value } else { Stage::Multi },
            refused: Vec::new(),
            direct: plain,
            plain,
            whole: form.is_some(),
            switched,
            guarded,
            // Without a transaction what INFO says may be over.
            fields_expire: false,
        }));
    }
}
