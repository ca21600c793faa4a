//! What `larder copy` reads from and writes to: stores, Redis servers, and snapshots.
use bytes::Bytes;
use larder_source::{EntryPage, HeldEntry, SourceError, StoredEntries, kind_of};
use larder_store::{
    StoredValue, clock,
    snapshot::{Scrutiny, SnapshotReader},
};
use std::{collections::BTreeMap, fs::File, io::BufReader};

/// Entries that the other side cannot keep, by what they are.
pub(super) type LeftOut = BTreeMap<String, u64>;

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
    fn page(&mut self, after: Option<&[u8]>) -> Result<EntryPage, String> {
        let skip = after.and_then(|after| std::str::from_utf8(after).ok()?.parse().ok()).unwrap_or(0_u64);
        loop {
            let now = clock::now();
            self.blocks += 1;
            let Some(block) = self.reader.next_block(Scrutiny::Entries).map_err(|error| error.to_string())? else {
                return Ok(EntryPage::default());
            };
            if self.blocks <= skip {
                continue;
            }
            let entries = block.entries().filter_map(|entry| {
                // The end of the freshness of a copy is none of an entry.
                let expiry = entry.end.filter(|end| !end.is_soft).map(|end| end.at);
                expiry.is_none_or(|at| at > now).then(|| {
                    let value = Bytes::copy_from_slice(entry.value);
                    let value = StoredValue { value, expiry, kind: kind_of(entry.metadata) };
                    (Bytes::copy_from_slice(entry.key), HeldEntry::Value(value))
                })
            });
            let entries = entries.collect();
            return Ok(EntryPage { entries, next: Some(self.blocks.to_string().into()), unreadable: 0 });
        }
    }
}

/// One side of a copy.
pub(super) enum CopyEnd {
    Snapshot(Box<Snapshot>),
    Source(StoredEntries),
}

impl CopyEnd {
    /// About how many entries there are; 0 if unknown.
    pub(super) async fn count(&self) -> Result<u64, SourceError> {
        match self {
            CopyEnd::Snapshot(snapshot) => Ok(snapshot.reader.totals().iter().map(|group| group.entries).sum()),
            CopyEnd::Source(source) => source.count().await,
        }
    }

    /// The entries after a cursor.
    pub(super) async fn page(&mut self, after: Option<Bytes>) -> Result<EntryPage, String> {
        match self {
            CopyEnd::Snapshot(snapshot) => snapshot.page(after.as_deref()),
            CopyEnd::Source(source) => source.page(after).await.map_err(|error| error.to_string()),
        }
    }
}
