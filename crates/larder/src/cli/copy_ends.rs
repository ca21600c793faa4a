//! What `larder copy` reads from and writes to: stores, Redis servers, and snapshots.
use bytes::Bytes;
use larder_proto::resp::{View, encode, view};
use larder_source::{Page, RawReplies, RedisServer, Scan, Source, SourceError, SourceKind, kind_of};
use larder_store::{
    StoredValue, ValueKind, clock,
    snapshot::{Scrutiny, SnapshotReader},
};
use std::{collections::BTreeMap, fs::File, io::BufReader, ops::Bound, rc::Rc};

/// Entries of a page: each page is written as one, and resumed after.
const PAGE: usize = 256;
const PAGE_BYTES: usize = 4 << 20;
/// A cursor of a Redis server that has no more keys.
const LAST: &[u8] = b"0";

/// Entries that the other side cannot keep, by what they are.
pub(super) type LeftOut = BTreeMap<&'static str, u64>;

/// A snapshot, read from its beginning.
pub(super) struct Snapshot {
    reader: SnapshotReader<BufReader<File>>,
    blocks: u64,
}

impl Snapshot {
    pub(super) fn new(reader: SnapshotReader<BufReader<File>>) -> Snapshot {
        Snapshot { reader, blocks: 0 }
    }
    /// The next block. Its cursor is its number.
    fn page(&mut self, after: Option<&[u8]>) -> Result<Page, String> {
        let skip = after.and_then(|after| std::str::from_utf8(after).ok()?.parse().ok()).unwrap_or(0_u64);
        loop {
            let now = clock::now();
            self.blocks += 1;
            let Some(block) = self.reader.next_block(Scrutiny::Entries).map_err(|error| error.to_string())? else {
                return Ok(Page::default());
            };
            if self.blocks <= skip {
                continue;
            }
            let entries = block.entries().filter_map(|entry| {
                // The end of the freshness of a copy is none of an entry.
                let expiry = entry.end.filter(|end| !end.is_soft).map(|end| end.at);
                expiry.is_none_or(|at| at > now).then(|| {
                    let value = Bytes::copy_from_slice(entry.value);
                    (Bytes::copy_from_slice(entry.key), StoredValue { value, expiry, kind: kind_of(entry.metadata) })
                })
            });
            let entries = entries.collect();
            return Ok(Page { entries, next: Some(self.blocks.to_string().into()) });
        }
    }
}

/// One side of a copy.
pub(super) enum CopyEnd {
    Snapshot(Box<Snapshot>),
    Source(Rc<dyn Source>),
}

impl CopyEnd {
    /// About how many entries there are; 0 if unknown.
    pub(super) async fn count(&self) -> Result<u64, SourceError> {
        match self {
            CopyEnd::Snapshot(snapshot) => Ok(snapshot.reader.totals().iter().map(|group| group.entries).sum()),
            CopyEnd::Source(source) => match (source.as_local(), source.as_redis()) {
                (Some(store), _) => store.count().await,
                (None, Some(server)) => {
                    let replies = ask(server, &[vec![b"DBSIZE"]]).await?;
                    Ok(match view(&replies[0]) {
                        Ok(View::Integer(count)) => count.try_into().unwrap_or(0),
                        _ => 0,
                    })
                }
                (None, None) => Ok(0),
            },
        }
    }

    /// The entries after a cursor.
    pub(super) async fn page(&mut self, after: Option<Bytes>, left_out: &mut LeftOut) -> Result<Page, String> {
        let source = match self {
            CopyEnd::Snapshot(snapshot) => return snapshot.page(after.as_deref()),
            CopyEnd::Source(source) => source,
        };
        let page = match (source.as_local(), source.as_redis()) {
            (Some(store), _) => {
                let start = after.map_or(Bound::Unbounded, Bound::Excluded);
                let (end, reverse, keys_only) = (Bound::Unbounded, false, false);
                store.scan(Scan { start, end, reverse, limit: PAGE, max_bytes: PAGE_BYTES, keys_only }).await
            }
            (None, Some(server)) => redis_page(server, after, left_out).await,
            (None, None) => Err(cannot()),
        };
        page.map_err(|error| error.to_string())
    }

    /// Stores entries, whatever is there. What this side cannot keep is taken out and counted.
    pub(super) async fn write(
        &self,
        entries: &mut Vec<(Bytes, StoredValue)>,
        left_out: &mut LeftOut,
    ) -> Result<(), SourceError> {
        let CopyEnd::Source(source) = self else { return Err(cannot()) };
        match source.kind() {
            SourceKind::Store(store) => {
                let changes = entries.iter().map(|(key, entry)| (key.clone(), Some(entry.clone())));
                store.apply(changes.collect()).await
            }
            SourceKind::Redis(server) => {
                entries.retain(|(_, entry)| match unknown_to_redis(entry.kind) {
                    Some(what) => {
                        *left_out.entry(what).or_default() += 1;
                        false
                    }
                    None => true,
                });
                let now = clock::now();
                let expiries: Vec<_> =
                    entries.iter().map(|(_, entry)| entry.expiry.map(|at| at.saturating_sub(now).max(1))).collect();
                let expiries: Vec<_> = expiries.iter().map(|expiry| expiry.map(|left| left.to_string())).collect();
                let commands: Vec<_> = entries
                    .iter()
                    .zip(&expiries)
                    .map(|((key, entry), expiry)| match expiry {
                        Some(left) => vec![&b"SET"[..], key, &entry.value, b"PX", left.as_bytes()],
                        None => vec![&b"SET"[..], key, &entry.value],
                    })
                    .collect();
                let replies = ask(server, &commands).await?;
                let refused = replies.iter().find_map(refusal);
                refused.map_or(Ok(()), |text| Err(SourceError::Refused(text.into())))
            }
            _ => Err(cannot()),
        }
    }

    /// What this side has under these keys.
    pub(super) async fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<StoredValue>>, SourceError> {
        let CopyEnd::Source(source) = self else { return Err(cannot()) };
        match (source.as_local(), source.as_redis()) {
            (Some(store), _) => store.get_many(keys).await,
            (None, Some(server)) => redis_entries(server, keys, &mut LeftOut::new()).await,
            (None, None) => Err(cannot()),
        }
    }
}

/// Whether an entry is compared when it is verified: a Redis server has not got some.
pub(super) fn is_kept(to: &CopyEnd, entry: &StoredValue) -> bool {
    let CopyEnd::Source(source) = to else { return true };
    source.as_redis().is_none() || unknown_to_redis(entry.kind).is_none()
}

/// The error of a source of another kind. `larder copy` refuses it before.
fn cannot() -> SourceError {
    SourceError::ReadOnly("of a kind")
}

fn unknown_to_redis(kind: ValueKind) -> Option<&'static str> {
    match kind {
        ValueKind::String => None,
        ValueKind::Document => Some("JSON documents"),
        ValueKind::Flagged(_) => Some("values with memcached flags"),
    }
}

async fn ask(server: &dyn RedisServer, commands: &[Vec<&[u8]>]) -> Result<RawReplies, SourceError> {
    let encoded: Vec<u8> = commands.iter().flat_map(|command| encode(command)).collect();
    if commands.is_empty() {
        return Ok(RawReplies::default());
    }
    let replies = server.relay(encoded.into(), commands.len(), false).await?;
    if replies.iter().len() != commands.len() {
        return Err(SourceError::Refused("ERR the server broke the protocol".into()));
    }
    Ok(replies)
}

fn refusal(reply: &[u8]) -> Option<String> {
    match view(reply) {
        Ok(View::Error(text)) => Some(String::from_utf8_lossy(text).into_owned()),
        Ok(_) => None,
        Err(_) => Some("ERR the server broke the protocol".to_owned()),
    }
}

/// A page of SCAN. It may be empty although there are more.
async fn redis_page(
    server: &dyn RedisServer,
    after: Option<Bytes>,
    left_out: &mut LeftOut,
) -> Result<Page, SourceError> {
    let cursor = after.unwrap_or_else(|| LAST.into());
    let replies = ask(server, &[vec![b"SCAN", &cursor, b"COUNT", PAGE.to_string().as_bytes()]]).await?;
    if let Some(text) = refusal(&replies[0]) {
        return Err(SourceError::Refused(text.into()));
    }
    let (mut next, mut keys) = (None, Vec::new());
    if let Ok(View::Array(mut parts)) = view(&replies[0]) {
        if let Some(Ok(View::Bulk(cursor))) = parts.next_raw().map(view) {
            next = Some(Bytes::copy_from_slice(cursor)).filter(|cursor| cursor != LAST);
        }
        if let Some(Ok(View::Array(mut found))) = parts.next_raw().map(view) {
            while let Some(Ok(View::Bulk(key))) = found.next_raw().map(view) {
                keys.push(key);
            }
        }
    }
    let found = redis_entries(server, &keys, left_out).await?;
    let entries = keys.iter().zip(found).filter_map(|(key, entry)| Some((Bytes::copy_from_slice(key), entry?)));
    Ok(Page { entries: entries.collect(), next })
}

/// The strings of a Redis server, with their lifetimes.
async fn redis_entries(
    server: &dyn RedisServer,
    keys: &[&[u8]],
    left_out: &mut LeftOut,
) -> Result<Vec<Option<StoredValue>>, SourceError> {
    let commands: Vec<_> = keys.iter().flat_map(|key| [vec![&b"GET"[..], key], vec![b"PTTL", key]]).collect();
    let (replies, now) = (ask(server, &commands).await?, clock::now());
    let mut entries = Vec::with_capacity(keys.len());
    for at in 0..keys.len() {
        entries.push(match (view(&replies[2 * at]), view(&replies[2 * at + 1])) {
            (Ok(View::Bulk(value)), Ok(View::Integer(left))) if left != -2 => {
                let expiry = u64::try_from(left).ok().map(|left| now + left);
                Some(StoredValue::string(Bytes::copy_from_slice(value), expiry))
            }
            (Ok(View::Error(text)), _) if text.starts_with(b"WRONGTYPE ") => {
                *left_out.entry("keys that are no strings").or_default() += 1;
                None
            }
            (Ok(View::Bulk(_) | View::Null), Ok(View::Integer(_))) => None,
            _ => {
                let reply = refusal(&replies[2 * at]).or_else(|| refusal(&replies[2 * at + 1]));
                return Err(SourceError::Refused(reply.unwrap_or_default().into()));
            }
        });
    }
    Ok(entries)
}
