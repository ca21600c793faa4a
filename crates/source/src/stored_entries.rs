//! The entries of a source that can be scanned and written, as copies of them need them: stores and
//! Redis servers.
use super::{
    local_store::{LocalStore, Scan},
    raw_replies::RawReplies,
    redis_server_trait::RedisServer,
    source_error::SourceError,
    source_trait::Source,
};
use bytes::Bytes;
use larder_engine::Millis;
use larder_proto::resp::{View, encode, view, write_command};
use larder_store::{StoredValue, ValueKind, clock};
use std::{ops::Bound, rc::Rc};

/// Keys of a page: each page is read and written as one.
const PAGE: usize = 256;
const PAGE_BYTES: usize = 4 << 20;
/// A cursor of a Redis server that has no more keys.
const LAST: &[u8] = b"0";
/// How much two lifetimes may differ: a Redis server tells what is left, which takes time.
const SAME_EXPIRY: u64 = 1000;

/// What a key has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeldEntry {
    Absent,
    Value(StoredValue),
    /// A list, hash or another type of a Redis server, as `DUMP` gives it.
    Dump(Bytes, Option<Millis>),
}

impl HeldEntry {
    /// Whether both are known to be equal. Servers may dump equal values in different ways.
    pub fn is_same(&self, other: &HeldEntry) -> bool {
        let is_equal = match (self, other) {
            (HeldEntry::Value(one), HeldEntry::Value(other)) => one.value == other.value && one.kind == other.kind,
            (HeldEntry::Dump(one, _), HeldEntry::Dump(other, _)) => one == other,
            (HeldEntry::Absent, HeldEntry::Absent) => return true,
            // One that expires now may be gone at one of them.
            (one, HeldEntry::Absent) | (HeldEntry::Absent, one) => {
                return one.expiry().is_some_and(|at| at <= clock::now() + SAME_EXPIRY);
            }
            _ => false,
        };
        is_equal
            && match (self.expiry(), other.expiry()) {
                (Some(one), Some(other)) => one.abs_diff(other) <= SAME_EXPIRY,
                (one, other) => one == other,
            }
    }

    fn expiry(&self) -> Option<Millis> {
        match self {
            HeldEntry::Absent => None,
            HeldEntry::Value(value) => value.expiry,
            HeldEntry::Dump(_, expiry) => *expiry,
        }
    }

    /// Bytes of the value.
    pub fn size(&self) -> usize {
        match self {
            HeldEntry::Absent => 0,
            HeldEntry::Value(value) => value.value.len(),
            HeldEntry::Dump(dump, _) => dump.len(),
        }
    }
}

/// Some entries of a source.
#[derive(Debug, Default)]
pub struct EntryPage {
    pub entries: Vec<(Bytes, HeldEntry)>,
    /// Where the next page begins; `None`: this is the last.
    pub next: Option<Bytes>,
}

/// A store or Redis server whose entries are copied. All other sources refuse each call.
pub struct StoredEntries(Rc<dyn Source>);

impl StoredEntries {
    pub fn of(source: Rc<dyn Source>) -> StoredEntries {
        StoredEntries(source)
    }

    /// About how many entries there are.
    ///
    /// # Errors
    /// The source's error.
    pub async fn count(&self) -> Result<u64, SourceError> {
        match (self.0.as_local(), self.0.as_redis()) {
            (Some(store), _) => store.count().await,
            (None, Some(server)) => match view(&ask(server, encode(&[b"DBSIZE"]), 1).await?[0]) {
                Ok(View::Integer(count)) => Ok(count.try_into().unwrap_or(0)),
                _ => Ok(0),
            },
            (None, None) => Err(cannot()),
        }
    }

    /// A page of keys, and where the next page begins. A page may be empty although there are more
    /// keys. A key that exists all the time is in one of the pages.
    ///
    /// # Errors
    /// The source's error.
    pub async fn keys(&self, after: Option<Bytes>) -> Result<(Vec<Bytes>, Option<Bytes>), SourceError> {
        match (self.0.as_local(), self.0.as_redis()) {
            (Some(store), _) => {
                let page = store.scan(Scan { keys_only: true, ..scan(after) }).await?;
                Ok((page.entries.into_iter().map(|(key, _)| key).collect(), page.next))
            }
            (None, Some(server)) => redis_keys(server, after).await,
            (None, None) => Err(cannot()),
        }
    }

    /// A page of the keys after this one, with what they have.
    ///
    /// # Errors
    /// The source's error.
    pub async fn page(&self, after: Option<Bytes>) -> Result<EntryPage, SourceError> {
        if let Some(store) = self.0.as_local() {
            let page = store.scan(scan(after)).await?;
            let entries = page.entries.into_iter().map(|(key, value)| (key, HeldEntry::Value(value))).collect();
            return Ok(EntryPage { entries, next: page.next });
        }
        let (keys, next) = self.keys(after).await?;
        let held = self.read(&keys).await?;
        let entries = keys.into_iter().zip(held).filter(|(_, held)| *held != HeldEntry::Absent).collect();
        Ok(EntryPage { entries, next })
    }

    /// What these keys have, in their order.
    ///
    /// # Errors
    /// The source's error.
    pub async fn read(&self, keys: &[Bytes]) -> Result<Vec<HeldEntry>, SourceError> {
        match (self.0.as_local(), self.0.as_redis()) {
            (Some(store), _) => {
                let keys: Vec<&[u8]> = keys.iter().map(|key| &**key).collect();
                let found = store.get_many(&keys).await?;
                Ok(found.into_iter().map(|found| found.map_or(HeldEntry::Absent, HeldEntry::Value)).collect())
            }
            (None, Some(server)) => redis_entries(server, keys).await,
            (None, None) => Err(cannot()),
        }
    }

    /// Why the source cannot keep an entry; `None`: it can.
    pub fn leaves_out(&self, entry: &HeldEntry) -> Option<&'static str> {
        match (entry, self.0.as_redis().is_some()) {
            (HeldEntry::Dump(..), false) => Some("keys that are no strings"),
            (HeldEntry::Value(StoredValue { kind: ValueKind::Document, .. }), true) => Some("JSON documents"),
            (HeldEntry::Value(StoredValue { kind: ValueKind::Flagged(_), .. }), true) => {
                Some("values with memcached flags")
            }
            _ => None,
        }
    }

    /// Stores or deletes entries, whatever is there. For each the reason why it was left out, if it
    /// was: the source cannot keep it.
    ///
    /// # Errors
    /// The source's error. Some entries may be written.
    pub async fn write(&self, entries: &[(Bytes, HeldEntry)]) -> Result<Vec<Option<String>>, SourceError> {
        let mut left_out: Vec<_> = entries.iter().map(|(_, entry)| self.leaves_out(entry).map(str::to_owned)).collect();
        let kept = entries.iter().zip(&mut left_out).filter(|(_, left_out)| left_out.is_none()).collect();
        match (self.0.as_local(), self.0.as_redis()) {
            (Some(store), _) => write_to_store(store, kept).await?,
            (None, Some(server)) => write_to_redis(server, kept).await?,
            (None, None) => return Err(cannot()),
        }
        Ok(left_out)
    }
}

/// Entries, each with the place for the reason why it was left out.
type Kept<'e> = Vec<(&'e (Bytes, HeldEntry), &'e mut Option<String>)>;

fn scan(after: Option<Bytes>) -> Scan {
    let start = after.map_or(Bound::Unbounded, Bound::Excluded);
    let (end, reverse, keys_only) = (Bound::Unbounded, false, false);
    Scan { start, end, reverse, limit: PAGE, max_bytes: PAGE_BYTES, keys_only }
}

async fn write_to_store(store: &dyn LocalStore, kept: Kept<'_>) -> Result<(), SourceError> {
    let change = |(key, entry): &(Bytes, HeldEntry)| match entry {
        HeldEntry::Value(value) => (key.clone(), Some(value.clone())),
        HeldEntry::Absent | HeldEntry::Dump(..) => (key.clone(), None),
    };
    match store.apply(kept.iter().map(|(entry, _)| change(entry)).collect()).await {
        // One of them cannot be kept.
        Err(SourceError::Refused(_)) => {
            for (entry, left_out) in kept {
                match store.apply(vec![change(entry)]).await {
                    Err(SourceError::Refused(text)) => *left_out = Some(text.to_string()),
                    applied => applied?,
                }
            }
            Ok(())
        }
        applied => applied,
    }
}

/// The error of a source of another kind. It is refused before.
fn cannot() -> SourceError {
    SourceError::ReadOnly("of a kind")
}

async fn ask(server: &dyn RedisServer, commands: Vec<u8>, count: usize) -> Result<RawReplies, SourceError> {
    if count == 0 {
        return Ok(RawReplies::default());
    }
    let replies = server.relay(commands.into(), count, false).await?;
    if replies.iter().len() != count {
        return Err(SourceError::Refused("ERR the server broke the protocol".into()));
    }
    Ok(replies)
}

/// The error of a reply that is none of those that are expected.
fn refused(reply: &[u8]) -> SourceError {
    SourceError::Refused(match view(reply) {
        Ok(View::Error(text)) => String::from_utf8_lossy(text).into(),
        _ => "ERR the server broke the protocol".into(),
    })
}

async fn redis_keys(
    server: &dyn RedisServer,
    after: Option<Bytes>,
) -> Result<(Vec<Bytes>, Option<Bytes>), SourceError> {
    let cursor = after.unwrap_or_else(|| LAST.into());
    let replies = ask(server, encode(&[b"SCAN", &cursor, b"COUNT", PAGE.to_string().as_bytes()]), 1).await?;
    let Ok(View::Array(mut parts)) = view(&replies[0]) else { return Err(refused(&replies[0])) };
    let (mut next, mut keys) = (None, Vec::new());
    if let Some(Ok(View::Bulk(cursor))) = parts.next_raw().map(view) {
        next = Some(Bytes::copy_from_slice(cursor)).filter(|cursor| cursor != LAST);
    }
    if let Some(Ok(View::Array(mut found))) = parts.next_raw().map(view) {
        while let Some(Ok(View::Bulk(key))) = found.next_raw().map(view) {
            keys.push(Bytes::copy_from_slice(key));
        }
    }
    Ok((keys, next))
}

async fn redis_entries(server: &dyn RedisServer, keys: &[Bytes]) -> Result<Vec<HeldEntry>, SourceError> {
    let mut entries = values(server, b"GET", keys).await?;
    let others: Vec<usize> = (0..keys.len()).filter(|at| entries[*at].is_none()).collect();
    let names: Vec<Bytes> = others.iter().map(|at| keys[*at].clone()).collect();
    for (at, dump) in others.into_iter().zip(values(server, b"DUMP", &names).await?) {
        entries[at] = Some(match dump {
            Some(HeldEntry::Value(value)) => HeldEntry::Dump(value.value, value.expiry),
            _ => HeldEntry::Absent,
        });
    }
    Ok(entries.into_iter().flatten().collect())
}

/// The answers to a command that reads the value of a key, with lifetimes; `None` for those of another
/// type.
async fn values(
    server: &dyn RedisServer,
    command: &[u8],
    keys: &[Bytes],
) -> Result<Vec<Option<HeldEntry>>, SourceError> {
    let mut commands = Vec::new();
    for key in keys {
        write_command(&mut commands, [command, key].into_iter());
        write_command(&mut commands, [b"PTTL", &**key].into_iter());
    }
    let (replies, now) = (ask(server, commands, 2 * keys.len()).await?, clock::now());
    let entry = |(value, left): (&[u8], &[u8])| match (view(value), view(left)) {
        (Ok(View::Bulk(value)), Ok(View::Integer(left))) if left != -2 => {
            let expiry = u64::try_from(left).ok().map(|left| now + left);
            Ok(Some(HeldEntry::Value(StoredValue::string(Bytes::copy_from_slice(value), expiry))))
        }
        (Ok(View::Error(text)), _) if text.starts_with(b"WRONGTYPE ") => Ok(None),
        (Ok(View::Bulk(_) | View::Null), Ok(View::Integer(_))) => Ok(Some(HeldEntry::Absent)),
        (Ok(View::Bulk(_) | View::Null), _) => Err(refused(left)),
        _ => Err(refused(value)),
    };
    (0..keys.len()).map(|at| entry((&replies[2 * at], &replies[2 * at + 1]))).collect()
}

async fn write_to_redis(server: &dyn RedisServer, kept: Kept<'_>) -> Result<(), SourceError> {
    let now = clock::now();
    let left = |entry: &HeldEntry| entry.expiry().map(|at| at.saturating_sub(now).max(1).to_string());
    let lifetimes: Vec<_> = kept.iter().map(|((_, entry), _)| left(entry)).collect();
    let mut commands = Vec::new();
    for (((key, entry), _), left) in kept.iter().zip(&lifetimes) {
        let mut add = |parts: &[&[u8]]| write_command(&mut commands, parts.iter().copied());
        match (entry, left) {
            (HeldEntry::Absent, _) => add(&[b"DEL", key]),
            (HeldEntry::Value(StoredValue { value, .. }), None) => add(&[b"SET", key, value]),
            (HeldEntry::Value(StoredValue { value, .. }), Some(left)) => {
                add(&[b"SET", key, value, b"PX", left.as_bytes()]);
            }
            (HeldEntry::Dump(dump, _), left) => {
                add(&[b"RESTORE", key, left.as_deref().unwrap_or("0").as_bytes(), dump, b"REPLACE"]);
            }
        }
    }
    let replies = ask(server, commands, kept.len()).await?;
    for ((_, left_out), reply) in kept.into_iter().zip(replies.iter()) {
        match view(reply) {
            // Of this entry. Errors with other codes are those of the server as a whole.
            Ok(View::Error(text)) if text.starts_with(b"ERR ") => {
                *left_out = Some(String::from_utf8_lossy(text).into_owned());
            }
            Ok(View::Error(_)) | Err(_) => return Err(refused(reply)),
            Ok(_) => {}
        }
    }
    Ok(())
}
