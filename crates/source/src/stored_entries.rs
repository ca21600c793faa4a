//! The entries of a source that can be scanned and written, as copies of them need them: stores and
//! Redis servers.
use super::{
    local_store::{LocalStore, Scan},
    raw_replies::RawReplies,
    redis_server_trait::Relay,
    source_error::SourceError,
    source_trait::Source,
};
use bytes::Bytes;
use larder_engine::Millis;
use larder_proto::resp::{View, encode, view, write_command};
use larder_store::{StoredValue, ValueKind, clock};
use std::{cell::Cell, ops::Bound, rc::Rc};

/// Keys of a page: each page is read and written as one.
const PAGE: usize = 256;
/// Bytes of the values of a page, about.
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
    /// Values that are not among these, because another program wrote them.
    pub unreadable: u64,
}

/// A store or Redis server whose entries are copied. All other sources refuse each call.
pub struct StoredEntries {
    source: Rc<dyn Source>,
    /// Keys of the next page of a Redis server.
    page: Cell<usize>,
}

impl StoredEntries {
    pub fn of(source: Rc<dyn Source>) -> StoredEntries {
        StoredEntries { source, page: Cell::new(1) }
    }

    /// About how many entries there are.
    ///
    /// # Errors
    /// The source's error.
    pub async fn count(&self) -> Result<u64, SourceError> {
        match (self.source.as_local(), self.source.as_redis()) {
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
        match (self.source.as_local(), self.source.as_redis()) {
            (Some(store), _) => {
                let page = store.scan(Scan { keys_only: true, ..scan(after) }).await?;
                Ok((page.entries.into_iter().map(|(key, _)| key).collect(), page.next))
            }
            (None, Some(server)) => redis_keys(server, after, PAGE).await,
            (None, None) => Err(cannot()),
        }
    }

    /// A page of the keys after this one, with what they have.
    ///
    /// # Errors
    /// The source's error.
    pub async fn page(&self, after: Option<Bytes>) -> Result<EntryPage, SourceError> {
        if let Some(store) = self.source.as_local() {
            let page = store.scan(scan(after)).await?;
            let entries = page.entries.into_iter().map(|(key, value)| (key, HeldEntry::Value(value))).collect();
            return Ok(EntryPage { entries, next: page.next, unreadable: page.unreadable });
        }
        let server = self.source.as_redis().ok_or_else(cannot)?;
        let (keys, next) = redis_keys(server, after, self.page.get()).await?;
        let held = redis_entries(server, &keys).await?;
        self.page.set(next_batch(self.page.get(), keys.len(), held.iter().map(HeldEntry::size).sum(), PAGE));
        let entries = keys.into_iter().zip(held).filter(|(_, held)| *held != HeldEntry::Absent).collect();
        Ok(EntryPage { entries, next, unreadable: 0 })
    }

    /// What these keys have, in their order.
    ///
    /// # Errors
    /// The source's error.
    pub async fn read(&self, keys: &[Bytes]) -> Result<Vec<HeldEntry>, SourceError> {
        match (self.source.as_local(), self.source.as_redis()) {
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
        match (entry, self.source.as_redis().is_some()) {
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
        match (self.source.as_local(), self.source.as_redis()) {
            (Some(store), _) => write_to_store(store, kept).await?,
            (None, Some(server)) => write_to_redis(server, kept).await?,
            (None, None) => return Err(cannot()),
        }
        Ok(left_out)
    }
}

/// Entries, each with the place for the reason why it was left out.
type Kept<'e> = Vec<(&'e (Bytes, HeldEntry), &'e mut Option<String>)>;

/// How many keys to read together next, `most` at most. `before` were asked for last, and `read`
/// keys had this many bytes. Only sizes that were seen are known, so the number is doubled at most.
pub(super) fn next_batch(before: usize, read: usize, bytes: usize, most: usize) -> usize {
    let fit = PAGE_BYTES * read.max(1) / bytes.max(1);
    let next = if read < before { before } else { 2 * before };
    next.min(fit).clamp(1, most)
}

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
        // One of them cannot be kept. A cluster may have made the other changes, which is `Lost`.
        // To make them again changes nothing.
        Err(SourceError::Refused(_) | SourceError::Lost(_)) => {
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

async fn ask(server: &dyn Relay, commands: Vec<u8>, count: usize) -> Result<RawReplies, SourceError> {
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
    server: &dyn Relay,
    after: Option<Bytes>,
    count: usize,
) -> Result<(Vec<Bytes>, Option<Bytes>), SourceError> {
    let cursor = after.unwrap_or_else(|| LAST.into());
    let replies = ask(server, encode(&[b"SCAN", &cursor, b"COUNT", count.to_string().as_bytes()]), 1).await?;
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

async fn redis_entries(server: &dyn Relay, keys: &[Bytes]) -> Result<Vec<HeldEntry>, SourceError> {
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
async fn values(server: &dyn Relay, command: &[u8], keys: &[Bytes]) -> Result<Vec<Option<HeldEntry>>, SourceError> {
    let mut commands = Vec::new();
    for key in keys {
        write_command(&mut commands, [command, key].into_iter());
        write_command(&mut commands, [b"PTTL", &**key].into_iter());
    }
    // No copy lives longer than its entry, however long the reply takes.
    let now = clock::now();
    let replies = ask(server, commands, 2 * keys.len()).await?;
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

async fn write_to_redis(server: &dyn Relay, kept: Kept<'_>) -> Result<(), SourceError> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{local_future::LocalFuture, redis_server_trait::Pace};

    #[test]
    fn a_batch_grows_with_what_was_seen() {
        for (before, read, bytes, expected) in [
            (1, 1, 10, 2),
            (64, 64, 10, 128),
            (200, 200, 10, PAGE),
            // Fewer keys than were asked for tell less.
            (64, 3, 10, 64),
            (1, 0, 0, 1),
            // Values of a megabyte.
            (64, 64, 64 << 20, 4),
            (1, 1, 1 << 20, 2),
            (4, 4, 4 << 20, 4),
            (64, 1, 512 << 20, 1),
        ] {
            assert_eq!(next_batch(before, read, bytes, PAGE), expected, "{before} {read} {bytes}");
        }
    }

    /// A server that answers after a while.
    #[derive(Default)]
    struct Slow {
        asked: Cell<Millis>,
    }
    impl Relay for Slow {
        fn relay_at(
            &self,
            _: Pace,
            _: Bytes,
            _: usize,
            _: bool,
        ) -> LocalFuture<'static, Result<RawReplies, SourceError>> {
            let asked = clock::now();
            self.asked.set(asked);
            Box::pin(async move {
                while clock::now() < asked + 20 {
                    tokio::task::yield_now().await;
                }
                Ok([Bytes::from("$1\r\nv\r\n"), ":1000\r\n".into()].into_iter().collect())
            })
        }
    }

    #[tokio::test]
    async fn a_slow_reply_makes_no_lifetime_longer() {
        let slow = Slow::default();
        let found = values(&slow, b"GET", &["k".into()]).await.unwrap().remove(0).unwrap();
        let (expiry, asked) = (found.expiry().unwrap(), slow.asked.get());
        assert!(expiry <= asked + 1000, "{}", expiry - asked);
    }
}
