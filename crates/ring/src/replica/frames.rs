//! What primary and replica send each other once they have agreed: frames, each with its length
//! first.
//!
//! ```text
//!   frame:    length 4 (of what follows) | kind 1 | body                         integers are little-endian
//!   hello:    id 8 | resumes 1 | (length 2 | name)*                              names of groups; others number them from 0
//!   entry:    group 1 | an entry as in a snapshot                                larder_store::snapshot
//!   gone:     group 1 | key
//!   clear:    group 1 | what 1 | name
//!   mark:     time 8 | (record 8 for each stripe)*                               of all groups
//!   copy begins, copy ends, ack, leave: nothing; nothing; changes 8; nothing
//! ```
//!
//! Nothing that a frame says is believed before it is compared with what is there: lengths within a
//! frame with its length, and that with the longest frame that the reader takes.
use larder_engine::{Clear, Entry, Millis, PolicyState};
use larder_proto::output::Output;
use larder_store::snapshot::SavedEntry;

/// Length and kind.
const HEAD: usize = 5;
/// Values from this length on are sent by reference.
const SHARED: usize = 16 << 10;

const HELLO: u8 = 1;
const ENTRY: u8 = 2;
const GONE: u8 = 3;
const CLEAR: u8 = 4;
const MARK: u8 = 5;
const COPY_BEGINS: u8 = 6;
const COPY_ENDS: u8 = 7;
const ACK: u8 = 8;
const LEAVE: u8 = 9;

/// A frame that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame<'f> {
    /// The first frame.
    Hello {
        /// Of the primary's log.
        id: u64,
        /// Changes follow from where the replica was; or a full copy does.
        resumes: bool,
        /// Names of groups.
        groups: Texts<'f>,
    },
    /// What a key's entry is now.
    Entry(u8, SavedEntry<'f>),
    /// The key of a group has no entry now.
    Gone(u8, &'f [u8]),
    /// Entries of a group were cleared.
    Clear(u8, Clear<'f>),
    /// All changes before these places were sent.
    Mark {
        /// The primary's clock, ms since the Unix epoch.
        time: Millis,
        /// The next record of each stripe of each group.
        records: Records<'f>,
    },
    /// All entries follow, among changes.
    CopyBegins,
    /// They were sent: what the replica has besides is not at the primary.
    CopyEnds,
    /// The replica has what was sent up to the mark of so many changes.
    Ack(u64),
    /// The replica ends the connection on purpose: it has pulled what there is, or has another primary.
    Leave,
}

/// Texts, each with its length before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Texts<'f>(&'f [u8]);
impl<'f> Texts<'f> {
    /// The texts, in order.
    pub fn iter(self) -> impl Iterator<Item = &'f [u8]> {
        let mut rest = Body(self.0);
        std::iter::from_fn(move || rest.text().ok())
    }
}

/// Numbers of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Records<'f>(&'f [[u8; 8]]);
impl<'f> Records<'f> {
    /// The numbers, in order.
    pub fn iter(self) -> impl ExactSizeIterator<Item = u64> + 'f {
        self.0.iter().map(|bytes| u64::from_le_bytes(*bytes))
    }
}

/// The result of a look at what has arrived.
#[derive(Debug, PartialEq, Eq)]
pub enum ParsedFrame<'f> {
    /// At least so many bytes are missing.
    Incomplete {
        /// At least 1.
        more: usize,
    },
    /// A frame of so many bytes.
    Frame(usize, Frame<'f>),
}

/// Why a frame cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadFrame {
    /// It is longer than the reader takes; so long.
    TooLong(usize),
    Malformed,
}

/// Reads the frame at the beginning of `bytes`; one of more than `longest` bytes is refused before
/// it is there.
///
/// # Errors
/// See [`BadFrame`].
pub fn parse(bytes: &[u8], longest: usize) -> Result<ParsedFrame<'_>, BadFrame> {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else {
        return Ok(ParsedFrame::Incomplete { more: HEAD - bytes.len() });
    };
    let length = u32::from_le_bytes(*length) as usize;
    if length > longest {
        return Err(BadFrame::TooLong(length));
    }
    let Some(body) = rest.get(..length) else {
        return Ok(ParsedFrame::Incomplete { more: length - rest.len() });
    };
    let (kind, body) = body.split_first().ok_or(BadFrame::Malformed)?;
    let frame = frame(*kind, Body(body)).map_err(|Short| BadFrame::Malformed)?;
    Ok(ParsedFrame::Frame(4 + length, frame))
}

fn frame(kind: u8, mut body: Body<'_>) -> Result<Frame<'_>, Short> {
    Ok(match kind {
        HELLO => {
            let (id, resumes) = (body.number()?, body.byte()? != 0);
            Frame::Hello { id, resumes, groups: body.texts_to_the_end()? }
        }
        ENTRY => {
            let group = body.byte()?;
            match SavedEntry::decode(body.0) {
                Ok((entry, length)) if length == body.0.len() => Frame::Entry(group, entry),
                _ => return Err(Short),
            }
        }
        GONE => Frame::Gone(body.byte()?, body.0),
        CLEAR => Frame::Clear(body.byte()?, read_clear(body.0).ok_or(Short)?),
        MARK => {
            let time = body.number()?;
            let (records, []) = body.0.as_chunks() else { return Err(Short) };
            Frame::Mark { time, records: Records(records) }
        }
        COPY_BEGINS => Frame::CopyBegins,
        COPY_ENDS => Frame::CopyEnds,
        ACK => Frame::Ack(body.number()?),
        LEAVE => Frame::Leave,
        _ => return Err(Short),
    })
}

/// The body is shorter than it says, or says something unknown.
struct Short;

/// What is left of a frame's body.
struct Body<'f>(&'f [u8]);
impl<'f> Body<'f> {
    fn take(&mut self, length: usize) -> Result<&'f [u8], Short> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Short)?;
        self.0 = rest;
        Ok(taken)
    }
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Short> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Short)?;
        self.0 = rest;
        Ok(*taken)
    }
    fn byte(&mut self) -> Result<u8, Short> {
        self.array().map(|[byte]| byte)
    }
    fn number(&mut self) -> Result<u64, Short> {
        self.array().map(u64::from_le_bytes)
    }
    fn text(&mut self) -> Result<&'f [u8], Short> {
        let length = self.array().map(u16::from_le_bytes)?;
        self.take(usize::from(length))
    }
    fn texts_to_the_end(&mut self) -> Result<Texts<'f>, Short> {
        let texts = Texts(self.0);
        while !self.0.is_empty() {
            self.text()?;
        }
        Ok(texts)
    }
}

/// Writes a clear as it stands in a log and in a frame.
pub(super) fn write_clear(what: Clear<'_>, to: &mut Vec<u8>) {
    let (code, name) = match what {
        Clear::All => (0, &[][..]),
        Clear::Prefix(prefix, is_final) => (1 + u8::from(is_final), prefix),
        Clear::Tag(tag, soft) => (3 + u8::from(soft), tag),
    };
    to.push(code);
    to.extend_from_slice(name);
}

fn read_clear(bytes: &[u8]) -> Option<Clear<'_>> {
    let (code, name) = bytes.split_first()?;
    match code {
        0 if name.is_empty() => Some(Clear::All),
        1 | 2 => Some(Clear::Prefix(name, *code == 2)),
        3 | 4 => Some(Clear::Tag(name, *code == 4)),
        _ => None,
    }
}

fn head(kind: u8, body: usize) -> [u8; HEAD] {
    let [a, b, c, d] = ((1 + body) as u32).to_le_bytes();
    [a, b, c, d, kind]
}

fn put_head(out: &mut Output, kind: u8, body: usize) {
    out.put(&head(kind, body));
}

/// Writes the first frame.
pub(super) fn put_hello<'n>(out: &mut Output, id: u64, resumes: bool, groups: impl Iterator<Item = &'n str> + Clone) {
    let names: usize = groups.clone().map(|name| 2 + name.len()).sum();
    put_head(out, HELLO, 9 + names);
    out.put(&id.to_le_bytes());
    out.put(&[u8::from(resumes)]);
    for name in groups {
        out.put(&(name.len() as u16).to_le_bytes());
        out.put(name.as_bytes());
    }
}

/// Writes an entry, with `head` as scratch. A large value is not copied.
pub(super) fn put_entry(out: &mut Output, head: &mut Vec<u8>, group: u8, entry: &Entry<'_>, policy: PolicyState) {
    let value = entry.value.as_bytes();
    head.clear();
    head.extend_from_slice(&[0, 0, 0, 0, ENTRY, group]);
    SavedEntry::of(entry, policy).encode_head(head);
    let length = (head.len() - 4 + value.len()) as u32;
    head[..4].copy_from_slice(&length.to_le_bytes());
    out.put(head);
    if value.len() < SHARED { out.put(value) } else { out.put_bytes(entry.value.to_bytes()) }
}

/// Says that a key has no entry.
pub(super) fn put_gone(out: &mut Output, group: u8, key: &[u8]) {
    put_head(out, GONE, 1 + key.len());
    out.put(&[group]);
    out.put(key);
}

/// Writes a clear; `what` as [`write_clear`] writes it.
pub(super) fn put_clear(out: &mut Output, group: u8, what: &[u8]) {
    put_head(out, CLEAR, 1 + what.len());
    out.put(&[group]);
    out.put(what);
}

/// Says that all changes before these records were sent.
pub(super) fn put_mark(out: &mut Output, time: Millis, records: &[u64]) {
    put_head(out, MARK, 8 + 8 * records.len());
    out.put(&time.to_le_bytes());
    records.iter().for_each(|record| out.put(&record.to_le_bytes()));
}

/// Says that a full copy begins.
pub(super) fn put_copy_begins(out: &mut Output) {
    put_head(out, COPY_BEGINS, 0);
}

/// Says that it is complete.
pub(super) fn put_copy_ends(out: &mut Output) {
    put_head(out, COPY_ENDS, 0);
}

/// Acknowledges so many changes.
pub(super) fn ack(changes: u64) -> [u8; HEAD + 8] {
    let mut frame = [0; HEAD + 8];
    frame[..HEAD].copy_from_slice(&head(ACK, 8));
    frame[HEAD..].copy_from_slice(&changes.to_le_bytes());
    frame
}

/// Announces the end of the connection.
pub(super) fn leave() -> [u8; HEAD] {
    head(LEAVE, 0)
}
