//! A batch of fetches: which commands it has, and how far its replies have come.
use crate::source_error::SourceError;
use bytes::Bytes;
use larder_engine::Millis;

/// A batch whose fetches are the next `left` of the pipeline's `sent`.
pub(super) struct FetchBatch {
    pub(super) left: usize,
    /// When it was sent. Expiries count from here, so that a slow reply never lengthens a life.
    pub(super) sent_at: Millis,
    pub(super) stage: Stage,
    /// Commands that the server would not queue: index of the fetch and the error's text.
    pub(super) refused: Vec<(usize, SourceError)>,
    /// The replies come one by one, without a transaction: `MULTI` was refused or not sent.
    pub(super) direct: bool,
    /// No `MULTI` was sent: the keys have several slots of a cluster, or the server announces
    /// changes. A change between a key's `GET` and its `PTTL` is announced between the two replies
    /// or after them. It fences the fetch, or ends the copy, so no copy lives by the lifetime of
    /// another value.
    pub(super) plain: bool,
    /// The fetches are of whole replies.
    pub(super) whole: bool,
    /// The replies need the other protocol: HELLO is sent before and after them inside the
    /// transaction, where no push message can come between.
    pub(super) switched: bool,
    /// The replies are cacheable only if no hash fields expire: INFO is sent first.
    pub(super) guarded: bool,
    /// Hash fields expire, or may.
    pub(super) fields_expire: bool,
}
impl FetchBatch {
    /// Commands between MULTI and EXEC.
    pub(super) fn commands(&self) -> usize {
        2 * self.left + usize::from(self.guarded) + if self.switched { 2 } else { 0 }
    }
    /// The first element of EXEC's reply.
    pub(super) fn first_stage(&self) -> Stage {
        match (self.guarded, self.switched) {
            (true, _) => Stage::Guard,
            (false, true) => Stage::Switch(false),
            (false, false) => Stage::Value,
        }
    }
    /// The fetch of the queued command at this position; none for HELLO and INFO.
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
    /// A large value is being read (`Pipeline::body`).
    Body,
    /// The value is known, its expiry comes next; `true`: after the value's line end.
    Expiry(Result<Option<Bytes>, SourceError>, bool),
    /// Like `Expiry`, for a whole reply.
    ReplyExpiry(Bytes),
    /// Direct replies: EXEC's error.
    Trailer,
}

/// Whether hash fields may expire in this database, from `INFO keyspace`. Redis counts such hashes
/// as `subexpiry`, Valkey as `keys_with_volatile_items`. A database without keys is not listed.
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
