//! The file's parts as bytes: header, heads of blocks, footer (docs/formats/snapshot.md).
use super::error::SnapshotError;
use larder_engine::Millis;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

pub(super) use crate::magic::SNAPSHOT as MAGIC;
pub(super) const VERSION: u32 = 1;
/// Bytes before the names of the groups.
pub(super) const FIXED_HEADER: usize = 32;
pub(super) const SUM: usize = 8;
/// Most groups of a file.
pub(super) const MAX_GROUPS: usize = 4096;
/// Longest name of a group, bytes.
pub(super) const MAX_NAME: usize = 255;

/// Bytes of entries that a block is filled to.
pub(super) const BLOCK: usize = 64 << 10;
/// The most that a reader accepts.
pub(super) const MAX_BLOCK: usize = 1 << 20;
pub(super) const BLOCK_HEAD: usize = 32;
/// Of a block's head: what the checksum covers besides the payload.
const SUMMED_HEAD: usize = BLOCK_HEAD - SUM;

/// How blocks are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SnapshotCompression {
    /// Not at all.
    None,
    /// LZ4 blocks.
    #[default]
    Lz4,
    /// Zstandard frames.
    Zstd,
}
impl SnapshotCompression {
    /// Their names, in the order of their numbers in the file.
    pub const NAMES: &'static [&'static str] = &["none", "lz4", "zstd"];
    const ALL: [SnapshotCompression; 3] =
        [SnapshotCompression::None, SnapshotCompression::Lz4, SnapshotCompression::Zstd];
    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
    /// The compression of that name; the default for any other.
    pub fn from_name(name: &str) -> SnapshotCompression {
        Self::NAMES.iter().position(|n| *n == name).map_or_else(Self::default, |at| Self::ALL[at])
    }
    pub(super) fn from_number(number: u32) -> Option<SnapshotCompression> {
        Self::ALL.get(number as usize).copied()
    }
}

/// The beginning of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// When the snapshot was begun.
    pub created: Millis,
    /// The compression that was asked for. Blocks that it does not make shorter are not compressed.
    pub compression: SnapshotCompression,
    /// The names of the groups; blocks name a group by its place here.
    pub groups: Vec<String>,
}

impl Header {
    /// The bytes, and the seed of the blocks' checksums.
    pub(super) fn encode(&self) -> (Vec<u8>, u64) {
        let names: usize = self.groups.iter().map(|name| 2 + name.len()).sum();
        let mut out = Vec::with_capacity(FIXED_HEADER + names + SUM);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&(self.compression as u32).to_le_bytes());
        out.extend_from_slice(&self.created.to_le_bytes());
        out.extend_from_slice(&(self.groups.len() as u32).to_le_bytes());
        out.extend_from_slice(&(names as u32).to_le_bytes());
        for name in &self.groups {
            out.extend_from_slice(&(name.len() as u16).to_le_bytes());
            out.extend_from_slice(name.as_bytes());
        }
        let sum = xxh3_64(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        (out, sum)
    }

    /// How many bytes follow the fixed ones, the checksum included.
    pub(super) fn rest_len(fixed: &[u8; FIXED_HEADER]) -> Result<usize, SnapshotError> {
        if fixed[..8] != MAGIC {
            return Err(SnapshotError::foreign("is not a snapshot: it does not begin like one"));
        }
        let version = u32_at(fixed, 8);
        if version != VERSION {
            let what = format!("is a snapshot of format {version}, and this program reads format {VERSION} only");
            return Err(SnapshotError::foreign(what));
        }
        let (groups, names) = (u32_at(fixed, 24) as usize, u32_at(fixed, 28) as usize);
        if groups > MAX_GROUPS || names > groups * (2 + MAX_NAME) {
            return Err(SnapshotError::damaged("header", 0, "more groups than there can be"));
        }
        Ok(names + SUM)
    }

    /// Reads the whole header, the checksum included. Gives the seed of the blocks' checksums as
    /// well.
    pub(super) fn decode(bytes: &[u8]) -> Result<(Header, u64), SnapshotError> {
        let damaged = |what: &str| SnapshotError::damaged("header", 0, what);
        let (summed, sum) = bytes.split_last_chunk().ok_or_else(|| damaged("it is cut off"))?;
        let sum = u64::from_le_bytes(*sum);
        if summed.len() < FIXED_HEADER || xxh3_64(summed) != sum {
            return Err(damaged("its checksum is another"));
        }
        let compression = SnapshotCompression::from_number(u32_at(summed, 12));
        let compression = compression.ok_or_else(|| damaged("an unknown compression"))?;
        let mut groups = Vec::new();
        let mut rest = &summed[FIXED_HEADER..];
        while let Some((len, after)) = rest.split_first_chunk() {
            let name = after.split_at_checked(u16::from_le_bytes(*len).into());
            let (name, after) = name.ok_or_else(|| damaged("a name of a group is cut off"))?;
            groups.push(std::str::from_utf8(name).map_err(|_| damaged("a name of a group is not UTF-8"))?.to_owned());
            rest = after;
        }
        if !rest.is_empty() || groups.len() != u32_at(summed, 24) as usize {
            return Err(damaged("its groups are not as many as it says"));
        }
        Ok((Header { created: u64_at(summed, 16), compression, groups }, sum))
    }
}

/// What a block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockKind {
    /// Whole entries.
    Entries,
    /// A piece of an entry that goes on in the next block.
    Piece,
    /// The totals; the last block.
    Footer,
}

/// The head of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockHead {
    pub(super) kind: BlockKind,
    pub(super) compression: SnapshotCompression,
    pub(super) group: u32,
    /// Entries that end in this block.
    pub(super) entries: u32,
    /// Bytes of the payload, decompressed.
    pub(super) raw: u32,
    /// Bytes of the payload in the file.
    pub(super) stored: u32,
    /// From 0.
    pub(super) number: u32,
}

impl BlockHead {
    /// The bytes, with the checksum of head and payload.
    pub(super) fn encode(&self, payload: &[u8], seed: u64) -> ([u8; BLOCK_HEAD], u64) {
        let mut out = [0; BLOCK_HEAD];
        out[0] = self.kind as u8;
        out[1] = self.compression as u8;
        for (place, number) in [self.group, self.entries, self.raw, self.stored, self.number].into_iter().enumerate() {
            out[4 * place + 4..4 * place + 8].copy_from_slice(&number.to_le_bytes());
        }
        let sum = block_sum(&out, payload, seed);
        out[SUMMED_HEAD..].copy_from_slice(&sum.to_le_bytes());
        (out, sum)
    }

    /// Reads a head, which may be anything, and checks its lengths.
    pub(super) fn decode(bytes: &[u8; BLOCK_HEAD], expected: u32, groups: usize) -> Result<BlockHead, &'static str> {
        let kind = match bytes[0] {
            0 => BlockKind::Entries,
            1 => BlockKind::Piece,
            2 => BlockKind::Footer,
            _ => return Err("it is of no known kind"),
        };
        let compression = SnapshotCompression::from_number(bytes[1].into()).ok_or("an unknown compression")?;
        let [group, entries, raw, stored, number] = [4, 8, 12, 16, 20].map(|at| u32_at(bytes, at));
        let head = BlockHead { kind, compression, group, entries, raw, stored, number };
        if raw as usize > MAX_BLOCK {
            return Err("it is longer than 1 MiB");
        }
        if stored > raw || compression == SnapshotCompression::None && stored != raw {
            return Err("its two lengths contradict each other");
        }
        if bytes[2..4] != [0, 0] {
            return Err("bytes of its head that must be 0 are not");
        }
        if number != expected {
            return Err("it has the number of another block");
        }
        if kind != BlockKind::Footer && group as usize >= groups {
            return Err("it is of a group that the header does not name");
        }
        Ok(head)
    }
}

/// The checksum of a block. The seed is the checksum of the file's header, so that a block of
/// another file is not taken for one of this.
pub(super) fn block_sum(head: &[u8; BLOCK_HEAD], payload: &[u8], seed: u64) -> u64 {
    let mut summed = [0; BLOCK_HEAD];
    summed[..SUMMED_HEAD].copy_from_slice(&head[..SUMMED_HEAD]);
    summed[SUMMED_HEAD..].copy_from_slice(&xxh3_64(payload).to_le_bytes());
    xxh3_64_with_seed(&summed, seed)
}

/// The checksum that a block's head says.
pub(super) fn said_sum(head: &[u8; BLOCK_HEAD]) -> u64 {
    u64_at(head, SUMMED_HEAD)
}

/// What one group has in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupTotals {
    /// Entries. One that was written while the snapshot was may count twice.
    pub entries: u64,
    /// Their bytes before compression.
    pub bytes: u64,
}

/// The end of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Footer {
    /// Blocks, without the footer.
    pub(super) blocks: u64,
    /// XXH3 of the checksums of the header and of all blocks, in order.
    pub(super) sums: u64,
    /// In the order of the header.
    pub(super) groups: Vec<GroupTotals>,
}

impl Footer {
    pub(super) fn encode(&self) -> Vec<u8> {
        let totals = self.groups.iter().flat_map(|group| [group.entries, group.bytes]);
        [self.blocks, self.sums].into_iter().chain(totals).flat_map(u64::to_le_bytes).collect()
    }

    pub(super) fn len(groups: usize) -> usize {
        16 + 16 * groups
    }

    /// `None`: the length is not that of so many groups.
    pub(super) fn decode(bytes: &[u8], groups: usize) -> Option<Footer> {
        if bytes.len() != Footer::len(groups) {
            return None;
        }
        let totals = |group| {
            let at = 16 + 16 * group;
            GroupTotals { entries: u64_at(bytes, at), bytes: u64_at(bytes, at + 8) }
        };
        Some(Footer { blocks: u64_at(bytes, 0), sums: u64_at(bytes, 8), groups: (0..groups).map(totals).collect() })
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
