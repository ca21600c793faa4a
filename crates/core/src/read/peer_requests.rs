//! What another node asks of a group, whatever carries it. It changes this node alone, and is never
//! sent on to a third node.
use super::group::{Group, StartedRead};
use bytes::Bytes;
use http::StatusCode;
use larder_engine::{Attributes, Condition, Entry, Expiry, Millis, Write};
use larder_proto::http::{etag, text::Sink};
use larder_ring::peer::{ClearScope, EncodedEntry, GetResponse, KeyAnswer, NodeReply, NodeRequest, PeerChange};
use larder_source::{Fetch, RequestTrace, SourceError};
use larder_store::clock;
use prost::Message;
use std::{cell::Cell, rc::Rc, sync::Arc};

/// Values that one answer carries, bytes; further keys must be asked for alone.
const LARGEST_ANSWER: usize = 1 << 20;

/// The status of a key, and the body: an encoded [`GetResponse`], or the text of an error.
type Answer = (StatusCode, Bytes);

/// A request of another node.
pub struct PeerRequest<'r> {
    /// What it is about.
    pub group: &'r Rc<Group>,
    /// When it came.
    pub now: Millis,
    /// This process, for the versions of entries.
    pub instance: u64,
    /// What the other node says of its ring: 16 hexadecimal digits.
    pub ring: Option<&'r [u8]>,
    /// The request of a client that it is made for.
    pub trace: Option<&'r Arc<RequestTrace>>,
}

impl PeerRequest<'_> {
    /// Whether this node answers what its peers read: it does not before it has taken its keys
    /// over, nor once it has handed them over.
    pub fn is_answered(&self) -> bool {
        self.group.peers.as_ref().is_none_or(|group| group.client().peers().answers())
    }

    /// Does what the node asks. An owner's work is not done here.
    pub async fn run(&self, request: NodeRequest) -> NodeReply {
        let mut reply = NodeReply::default();
        match request {
            NodeRequest::Get { key, .. } => {
                let (status, body) = match self.get(&key).await {
                    Ok(Some(body)) => (StatusCode::OK, body),
                    Ok(None) => (StatusCode::NOT_FOUND, Bytes::new()),
                    Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string().into()),
                };
                return NodeReply::of_key(status, body);
            }
            NodeRequest::GetMany { keys, held_only, .. } => reply.answers = self.get_many(&keys, held_only).await,
            NodeRequest::Tell(PeerChange::Set { key, value, expiry }) => self.set(&key, &value, expiry),
            NodeRequest::Tell(PeerChange::Remove(key)) => self.group.forget_here(&key),
            NodeRequest::Tell(PeerChange::Clear { scope, soft }) => self.clear(&scope, soft).await,
            NodeRequest::Hottest { of, max_bytes } => {
                if let Some(shared) = &self.group.peers {
                    reply.keys = shared.hottest_for(&of, max_bytes).await;
                }
            }
            NodeRequest::Announce { of, what, hash } => {
                if let Some(shared) = &self.group.peers {
                    reply.hash = shared.announced(of.as_bytes(), what, &hash).await.to_owned();
                }
            }
            NodeRequest::AtOwner(_) => {}
        }
        reply
    }

    /// A [`GetResponse`], encoded, from the tier or from the source; `None`: there is no such key.
    ///
    /// # Errors
    /// As [`Group::end`].
    pub async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, SourceError> {
        self.note_asked(key);
        let (mut batch, room) = (Vec::new(), Cell::new(usize::MAX));
        let begun = self.begin(key, &mut batch, &room);
        if let Some(trace) = self.trace {
            if !matches!(begun, StartedRead::Wait(_)) {
                trace.is_answered_by(|| self.group.tier_name(key).into());
            }
            batch.iter_mut().for_each(|fetch| fetch.follow(trace.clone()));
        }
        if !batch.is_empty() {
            self.group.source.fetch(&mut batch);
        }
        let (status, body) = self.end(key, begun, &room).await?;
        Ok((status == StatusCode::OK).then_some(body))
    }

    /// Like `get`, for several keys, in their order. `held_only`: nothing is fetched for it.
    async fn get_many(&self, keys: &[Bytes], held_only: bool) -> Vec<KeyAnswer> {
        let (mut batch, room) = (Vec::new(), Cell::new(LARGEST_ANSWER));
        // A store has nothing to fetch from: its answers are there at once.
        let is_held_only = held_only && self.group.source.reads_through();
        let begun: Vec<_> = match is_held_only {
            true => keys.iter().map(|key| StartedRead::Hit(self.held(key, &room))).collect(),
            false => keys.iter().map(|key| self.begin(key, &mut batch, &room)).collect(),
        };
        if !batch.is_empty() {
            self.group.source.fetch(&mut batch);
        }
        let mut answers = Vec::with_capacity(keys.len());
        for (key, begun) in keys.iter().zip(begun) {
            self.note_asked(key);
            let ended = self.end(key, begun, &room).await;
            let (status, body) =
                ended.unwrap_or_else(|error| (StatusCode::SERVICE_UNAVAILABLE, error.to_string().into()));
            answers.push(KeyAnswer { status: status.as_u16().into(), body });
        }
        answers
    }

    /// The key has this value from now on, until `expiry`. A node that neither owns the key nor is
    /// its only store forgets it: no node would tell it of the next value if that message were
    /// lost.
    fn set(&self, key: &[u8], value: &[u8], expiry: Option<Millis>) {
        let group = self.group;
        let end = match expiry {
            Some(at) => group.policy.cap(key, Some(at), self.now),
            None => group.policy.lifetime(key),
        };
        let metadata = group.policy.metadata_of_write(end, expiry, self.now);
        let attributes = Attributes { tags: &[], metadata: &metadata };
        let write = Write { value, expiry: end, attributes, condition: Condition::Always };
        let is_kept = group.peers.as_ref().is_none_or(|peers| peers.keeps(key));
        let is_past = matches!(write.expiry, Expiry::At(at) if at <= self.now);
        let kept = is_kept && !group.policy.denies(key) && !is_past;
        if !kept || group.cache.tier().set(group.cache.key(key), write, self.now).is_err() {
            group.cache.invalidate(group.cache.key(key));
        }
    }

    /// What a clear is about is out of date.
    async fn clear(&self, scope: &ClearScope, soft: bool) {
        match scope {
            ClearScope::Tag(tag) => drop(self.group.cache.tier().clear_tag(tag, soft, self.now)),
            ClearScope::Prefix(prefix) => {
                self.group.make_room_to_clear().await;
                self.group.clear_keys(prefix, soft, self.now);
            }
        }
    }

    /// Counts a key that the other node asks for.
    fn note_asked(&self, key: &[u8]) {
        if let Some(peers) = &self.group.peers {
            peers.asked(self.ring, key);
        }
    }

    fn begin(&self, key: &[u8], batch: &mut Vec<Fetch>, room: &Cell<usize>) -> StartedRead<Answer> {
        let message = |entry: Entry<'_>| encoded(&entry, self.instance, self.now, room);
        self.group.begin_for_peer(self.group.cache.key(key), self.ring, self.now, batch, message)
    }

    fn held(&self, key: &[u8], room: &Cell<usize>) -> Answer {
        let message = |entry: Entry<'_>| encoded(&entry, self.instance, self.now, room);
        let held = self.group.held_for_peer(self.group.cache.key(key), self.now, message);
        held.unwrap_or((StatusCode::ACCEPTED, Bytes::new()))
    }

    async fn end(&self, key: &[u8], begun: StartedRead<Answer>, room: &Cell<usize>) -> Result<Answer, SourceError> {
        const ABSENT: Answer = (StatusCode::NOT_FOUND, Bytes::new());
        let mut wait = match begun {
            StartedRead::Hit(answer) => return Ok(answer),
            StartedRead::Absent => return Ok(ABSENT),
            StartedRead::Wait(wait) => wait,
        };
        let Some(value) = Group::ended((&mut wait).await)? else { return Ok(ABSENT) };
        let (group, now) = (self.group, clock::now());
        let look =
            |entry: Entry<'_>| (entry.value.as_bytes() == value).then(|| encoded(&entry, self.instance, now, room));
        let held = match group.policy.serves(key) {
            true => group.cache.peek_stale(group.cache.key(key), now, look).flatten(),
            false => None,
        };
        let said = wait.metadata().unwrap_or_default();
        Ok(held.unwrap_or_else(|| {
            let message = GetResponse::not_held(value, &said, now);
            answer(message.encoded_len(), room, || message.encode_to_vec())
        }))
    }
}

impl Group {
    /// Removes what the tier of this node has of a key. A write of it that is under way stores no
    /// copy: the value of another node may be the later one.
    fn forget_here(&self, key: &[u8]) {
        let key = self.cache.key(key);
        self.writes.overlap(key.hash());
        self.cache.invalidate(key);
    }

    /// Removes what memory has of a key, on all nodes.
    ///
    /// # Errors
    /// `Lost` if the nodes are one store and the key's owner gave no answer.
    pub async fn forget(&self, key: &[u8]) -> Result<(), SourceError> {
        match &self.peers {
            Some(peers) => peers.removed(key, || self.forget_here(key)).await,
            None => {
                self.forget_here(key);
                Ok(())
            }
        }
    }

    /// Waits until one more prefix can be cleared in a time that does not depend on the number of
    /// entries. What earlier clears ended is removed in steps, and others have their turns.
    pub async fn make_room_to_clear(&self) {
        while self.cache.thin_marks(clock::now()) {
            tokio::task::yield_now().await;
        }
    }

    /// Clears the keys of this node that begin with a prefix (empty: all).
    pub fn clear_keys(&self, prefix: &[u8], soft: bool, now: Millis) {
        match (prefix.is_empty(), soft) {
            (true, true) => drop(self.cache.mark_stale(now)),
            (true, false) => self.cache.tier().clear(),
            (false, _) => drop(self.cache.mark_prefix(prefix, !soft, now)),
        }
    }
}

/// An entry as a message for another node. A version that its source gave no tag gets ours:
/// versions start again with each process, so `instance` is mixed in.
pub fn message_of(entry: &Entry<'_>, instance: u64, now: Millis) -> EncodedEntry {
    let tag = || {
        let mut text = Vec::with_capacity(18);
        etag::write(&mut text, entry.version() ^ instance);
        text.into()
    };
    EncodedEntry::new(entry, tag, now)
}

fn encoded(entry: &Entry<'_>, instance: u64, now: Millis, room: &Cell<usize>) -> Answer {
    let message = message_of(entry, instance, now);
    answer(message.encoded_len(), room, || {
        let mut body = Vec::with_capacity(message.encoded_len());
        message.put(&mut body, |body: &mut Vec<u8>| body.put(entry.value.as_bytes()));
        body
    })
}

/// The answer with a message of this length, which `room` must have left. A longer one is not encoded.
fn answer(length: usize, room: &Cell<usize>, encode: impl FnOnce() -> Vec<u8>) -> Answer {
    match room.get().checked_sub(length) {
        Some(left) => {
            room.set(left);
            (StatusCode::OK, encode().into())
        }
        None => (StatusCode::PAYLOAD_TOO_LARGE, Bytes::new()),
    }
}
