//! Changes of one value: read, computed and written back as one step for all other writers, with
//! every source that has such a step.
//!
//! - A store of this machine: under the lock of the key.
//! - A Redis server: under the lock of the key and WATCH, again if a client elsewhere was faster.
//! - Others (HTTP, PostgreSQL, other nodes): a write of another client between the read and the
//!   write goes unnoticed.
use super::group::Group;
use bytes::Bytes;
use larder_engine::{Key, Millis};
use larder_proto::resp::{Args, View, encode, view};
use larder_source::{DedicatedConnection, RedisServer, SourceError, SourceKind};
use larder_store::{StoredValue, ValueKind, clock};
use std::rc::Rc;

/// How often a change is computed while other clients change the key at a Redis source.
const TRIES: usize = 32;

/// What becomes of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueEdit {
    /// It stays.
    Keep,
    /// It is deleted.
    Delete,
    /// It is replaced.
    Put(StoredValue),
}

impl Group {
    /// Whether the tier of this node is the only store of its keys, and no other node has copies:
    /// what the tier does is the whole change.
    #[inline]
    pub fn is_tier_alone(&self) -> bool {
        matches!(self.source.kind(), SourceKind::Memory) && self.peers.is_none()
    }

    /// Whether values keep the flags of memcached clients: a source of other programs has values
    /// only.
    pub fn keeps_flags(&self) -> bool {
        self.is_tier_alone() || matches!(self.source.kind(), SourceKind::Store(_))
    }

    /// Changes the value of a key. `change` may be called several times.
    ///
    /// # Errors
    /// As [`put`](Group::put).
    pub async fn change_value<R>(
        self: &Rc<Self>,
        key: &[u8],
        mut change: impl FnMut(Option<&StoredValue>) -> (ValueEdit, R),
    ) -> Result<R, SourceError> {
        match self.source.kind() {
            SourceKind::Store(_) => {
                let held = self.hold([key]).await?;
                let owned = Bytes::copy_from_slice(key);
                let found = self.load(self.local()?, std::slice::from_ref(&owned)).await?.pop().flatten();
                let (edit, answer) = change(found.as_ref());
                let to = match edit {
                    ValueEdit::Keep => return Ok(answer),
                    ValueEdit::Delete => None,
                    ValueEdit::Put(value) => Some(value),
                };
                let events = self.events_of_change(&owned, found.as_ref(), to.as_ref());
                self.commit(&held, vec![(owned, to)], 0, events).await.map(|()| answer)
            }
            SourceKind::Redis(server) if self.owns(key) => self.change_at_redis(server, key, change).await,
            _ => {
                let found = self.read(key, clock::now()).await?;
                let found = found.map(|value| StoredValue::string(value, None));
                let (edit, answer) = change(found.as_ref());
                match edit {
                    ValueEdit::Keep => {}
                    ValueEdit::Delete => drop(self.delete(key).await?),
                    ValueEdit::Put(StoredValue { value, expiry, .. }) => drop(self.put(key, value, expiry).await?),
                }
                Ok(answer)
            }
        }
    }

    async fn change_at_redis<R>(
        self: &Rc<Self>,
        server: &dyn RedisServer,
        key: &[u8],
        mut change: impl FnMut(Option<&StoredValue>) -> (ValueEdit, R),
    ) -> Result<R, SourceError> {
        // Clients of this Larder wait for each other. Only those of others need more tries.
        let _held = self.hold([key]).await?;
        let watch = [b"WATCH", key].concat();
        let args = [0..5, 5..watch.len() as u32];
        let connection = server.open_dedicated(Args::new(&watch, &args), false).await?;
        for _ in 0..TRIES {
            let found = watched(&*connection, key).await?;
            let (edit, answer) = change(found.as_ref());
            let command = match edit {
                ValueEdit::Keep => {
                    connection.relay(encode(&[b"UNWATCH"]).into(), 1, false).await?;
                    connection.release();
                    return Ok(answer);
                }
                ValueEdit::Delete => encode(&[b"DEL", key]),
                ValueEdit::Put(value) => set_command(key, &value),
            };
            if self.exec(&*connection, self.cache.key(key), &command).await? {
                connection.release();
                return Ok(answer);
            }
        }
        Err(SourceError::Unavailable("other clients change this key all the time".into()))
    }

    /// Runs a write under the WATCH of its key. False if another client was faster.
    async fn exec(
        self: &Rc<Self>,
        connection: &dyn DedicatedConnection,
        key: Key<'_>,
        command: &[u8],
    ) -> Result<bool, SourceError> {
        let writing = self.writing(key);
        let commands = [&encode(&[b"MULTI"]), command, &encode(&[b"EXEC"])].concat();
        let replies = match connection.relay(commands.into(), 3, false).await {
            Ok(replies) => replies,
            Err(error) => {
                if !matches!(error, SourceError::Lost(_)) {
                    writing.refused();
                }
                return Err(error);
            }
        };
        match view(&replies.last()) {
            Ok(View::Array(mut done)) => {
                writing.forget();
                match done.next() {
                    Some(View::Error(text)) => Err(refused(text)),
                    _ => Ok(true),
                }
            }
            Ok(View::Null) => {
                writing.refused();
                Ok(false)
            }
            Ok(View::Error(text)) => {
                writing.refused();
                Err(refused(text))
            }
            _ => Err(SourceError::Lost("it did not answer like a Redis server".into())),
        }
    }
}

/// Watches a key and reads its value and expiry.
async fn watched(connection: &dyn DedicatedConnection, key: &[u8]) -> Result<Option<StoredValue>, SourceError> {
    let commands = [encode(&[b"WATCH", key]), encode(&[b"GET", key]), encode(&[b"PTTL", key])].concat();
    let replies = connection.relay(commands.into(), 3, false).await?;
    let mut views = replies.iter().map(view);
    let expiry = |left| u64::try_from(left).ok().map(|left| clock::now().saturating_add(left));
    match (views.next(), views.next(), views.next()) {
        (Some(Ok(View::Error(text))), ..) | (_, Some(Ok(View::Error(text))), _) => Err(refused(text)),
        (_, Some(Ok(View::Null)), _) => Ok(None),
        (_, Some(Ok(View::Bulk(value))), Some(Ok(View::Integer(left)))) => {
            Ok(Some(StoredValue::string(value.to_vec(), expiry(left))))
        }
        _ => Err(SourceError::Unavailable("it did not answer like a Redis server".into())),
    }
}

fn set_command(key: &[u8], StoredValue { value, expiry, kind }: &StoredValue) -> Vec<u8> {
    debug_assert!(*kind == ValueKind::String, "refused before: a Redis keeps no flags");
    let left = |at: &Millis| at.saturating_sub(clock::now());
    match expiry.as_ref().map(left) {
        None => encode(&[b"SET", key, value]),
        // Redis refuses such an expiry.
        Some(0) => encode(&[b"DEL", key]),
        Some(left) => encode(&[b"SET", key, value, b"PX", left.to_string().as_bytes()]),
    }
}

fn refused(text: &[u8]) -> SourceError {
    SourceError::Refused(String::from_utf8_lossy(text).into())
}
