//! Raw replies of a Redis server.
use bytes::Bytes;
use std::ops::Range;
use tokio::sync::OwnedRwLockReadGuard;

/// Raw replies, in the order of their commands.
#[derive(Debug, Default)]
pub struct RawReplies {
    pub(super) bytes: Bytes,
    /// Where each ends.
    pub(super) ends: Vec<usize>,
    /// See [`is_broken`](RawReplies::is_broken).
    pub(super) is_broken: bool,
    /// See [`may_be_forged`](RawReplies::may_be_forged).
    pub(super) may_be_forged: bool,
    /// Until this is dropped, source and mirror do not trade places.
    #[expect(dead_code, reason = "dropping it is the message")]
    pub(super) gate: Option<OwnedRwLockReadGuard<()>>,
}
impl RawReplies {
    /// Whether a reply broke the protocol: text in it reads like more replies. There may be fewer
    /// replies than commands, and the client's connection must end.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }
    /// Whether a reply may hold text of the client that reads like the replies behind it.
    pub fn may_be_forged(&self) -> bool {
        self.may_be_forged
    }
    /// All replies, unchanged.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }
    /// Each reply.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.ends.len()).map(|at| &self[at])
    }
    /// The last reply; empty if there is none.
    pub fn last(&self) -> Bytes {
        self.bytes.slice(self.begin(self.ends.len().saturating_sub(1))..)
    }
    /// A range of the replies. Those that are missing are left out.
    pub(crate) fn part(&self, which: Range<usize>) -> RawReplies {
        let which = which.start.min(self.ends.len())..which.end.min(self.ends.len());
        let (begin, end) = (self.begin(which.start), self.begin(which.end));
        RawReplies {
            bytes: self.bytes.slice(begin..end),
            ends: self.ends[which].iter().map(|end| end - begin).collect(),
            is_broken: self.is_broken,
            may_be_forged: self.may_be_forged,
            gate: None,
        }
    }
    fn begin(&self, at: usize) -> usize {
        at.checked_sub(1).map_or(0, |before| self.ends[before])
    }
}
impl FromIterator<Bytes> for RawReplies {
    fn from_iter<I: IntoIterator<Item = Bytes>>(replies: I) -> RawReplies {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for reply in replies {
            bytes.extend_from_slice(&reply);
            ends.push(bytes.len());
        }
        RawReplies { bytes: bytes.into(), ends, ..RawReplies::default() }
    }
}
impl std::ops::Index<usize> for RawReplies {
    type Output = [u8];
    fn index(&self, at: usize) -> &[u8] {
        &self.bytes[self.begin(at)..self.ends[at]]
    }
}
