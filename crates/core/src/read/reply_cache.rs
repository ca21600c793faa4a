//! The reply cache: whole replies of commands that read one key, by exact arguments and protocol
//! version. A reply lives as long as a copy of the key's value would; see decision 0008.
//!
//! A reply is derived from its key ([`larder_engine::Derived`]): forgetting the key forgets all its
//! replies, and one fence stops all their fetches.
use super::group::{Group, StartedRead};
use larder_engine::{Derived, Key, Millis};
use larder_proto::resp::Args;
use larder_source::{
    CacheableReply, Fetch,
    reply_name::{RESP3, UNLESS_FIELDS_EXPIRE, name_len, write_name},
};

/// Names up to this length are built without an allocation.
const SHORT: usize = 256;
impl Group {
    /// Whether a cacheable reply to a command with these arguments is cached in this group.
    pub fn keeps_reply_to(&self, command: Args<'_>) -> bool {
        self.policy.keeps_replies() && name_len(command) <= self.policy.max_reply
    }

    /// Starts a read of the whole, cacheable reply to `command`; otherwise like
    /// [`begin`](Group::begin). [`StartedRead::Absent`]: the reply was not requested recently, and caching it costs the source more than answering: relay the command.
    pub fn begin_reply<R>(
        &self,
        command: Args<'_>,
        cacheable: CacheableReply,
        resp3: bool,
        now: Millis,
        batch: &mut Vec<Fetch>,
        read: impl FnOnce(Derived<'_>) -> R,
    ) -> StartedRead<R> {
        let len = name_len(command);
        let (mut short, mut long) = ([0; SHORT], Vec::new());
        let name = match short.get_mut(..len) {
            Some(name) => name,
            None => {
                long.resize(len, 0);
                &mut long[..]
            }
        };
        let how = if resp3 { RESP3 } else { 0 } | if cacheable.unless_fields_expire { UNLESS_FIELDS_EXPIRE } else { 0 };
        write_name(command, how, name);
        let (key, name) = (self.cache.key(command.get(cacheable.key).unwrap_or_default()), self.cache.key(name));
        if self.policy.modes.are_set() && !self.policy.serves(key.bytes()) {
            return self.begin_unserved_reply(key, name, now, batch);
        }
        let mut found = None;
        let lookup = self.cache.lookup_derived(key, name, now, |reply| {
            found = Some(reply.as_bytes().len());
            read(reply)
        });
        self.policy.key_counts.count(key.bytes(), found, now);
        self.start_read(lookup, batch)
    }

    /// As [`begin_reply`](Group::begin_reply), for a key that the tier does not serve.
    #[inline(never)]
    fn begin_unserved_reply<R>(
        &self,
        key: Key<'_>,
        name: Key<'_>,
        now: Millis,
        batch: &mut Vec<Fetch>,
    ) -> StartedRead<R> {
        let modes = &self.policy.modes;
        if self.policy.denies(key.bytes()) {
            modes.note_denied();
            return StartedRead::Absent;
        }
        let found = self.start_read(self.cache.lookup_derived(key, name, now, |reply| reply.as_bytes().len()), batch);
        modes.note_observed(match found {
            StartedRead::Hit(len) => Some(len),
            StartedRead::Absent | StartedRead::Wait(_) => None,
        });
        match found {
            StartedRead::Hit(_) => self.ask_source(key, name.bytes(), false, now, batch),
            StartedRead::Absent => StartedRead::Absent,
            StartedRead::Wait(wait) => StartedRead::Wait(wait),
        }
    }
}
