//! Raw replies of a Redis server.
use bytes::Bytes;
use std::ops::Range;

/// Raw replies, in the order of their commands.
#[derive(Debug, Default)]
pub struct RawReplies {
    pub(super) bytes: Bytes,
    /// Where each ends.
    pub(super) ends: Vec<usize>,
}
impl RawReplies {
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
    /// A range of the replies.
    pub(crate) fn part(&self, which: Range<usize>) -> RawReplies {
        let (begin, end) = (self.begin(which.start), self.begin(which.end));
        RawReplies {
            bytes: self.bytes.slice(begin..end),
            ends: self.ends[which].iter().map(|end| end - begin).collect(),
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
        RawReplies { bytes: bytes.into(), ends }
    }
}
impl std::ops::Index<usize> for RawReplies {
    type Output = [u8];
    fn index(&self, at: usize) -> &[u8] {
        &self.bytes[self.begin(at)..self.ends[at]]
    }
}
