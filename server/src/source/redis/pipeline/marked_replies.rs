//! Replies that may break the protocol, and the marker that ends them.
//!
//! Redis puts text of the client into some lines without a check for line ends. Then a reply reads
//! like several, or swallows what follows it. So an `ECHO` of a random text follows commands with
//! such replies. Everything up to that text belongs to their client, whatever it looks like.
use super::pipeline_state::{Pipeline, PipelinedRequest, Scanned};
use crate::{
    buffers::BufferKind,
    source::{raw_replies::RawReplies, redis::queued_request::RelayResult},
};
use bytes::{Buf, BytesMut};
use larder_proto::{output::Output, resp::Malformed};
use memchr::{memmem, memrchr};
use std::hash::{BuildHasher, RandomState};
use tokio::time::Instant;

const COMMAND: &[u8] = b"*2\r\n$4\r\nECHO\r\n";
/// Digits of the random text.
const DIGITS: usize = 32;
/// The length of the encoded text.
const LEN: usize = "$32\r\n".len() + DIGITS + "\r\n".len();
/// The error of a reply that has no line of its own to pass on.
const NO_LINE: &[u8] = b"-ERR the source's reply breaks the protocol\r\n";

/// Makes the texts. A client that has seen some (in MONITOR or SLOWLOG) cannot guess the next one:
/// SipHash with a random key.
#[derive(Default)]
pub(super) struct Markers {
    key: RandomState,
    count: u64,
}
impl Markers {
    /// Appends the command to `out`.
    pub(super) fn put(&mut self, out: &mut Output) -> Marker {
        self.count += 1;
        let half = |half: u8| self.key.hash_one((self.count, half));
        let text = format!("$32\r\n{:016x}{:016x}\r\n", half(0), half(1)).into_bytes();
        out.put(COMMAND);
        out.put(&text);
        Marker { text, searched: 0, found: Found::Replies, until: None }
    }
}

/// The marker of one request.
pub(super) struct Marker {
    text: Vec<u8>,
    /// Bytes of the input in which it does not begin.
    searched: usize,
    found: Found,
    /// The server seems to have refused the marker; it is waited for until then.
    until: Option<Instant>,
}
/// What came before the marker so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// As many replies as there are commands, or fewer.
    Replies,
    /// An error more. The server may have refused the marker: it is busy with a script, or the
    /// user's rights have changed.
    Refusal,
    /// Something else.
    Broken,
}
impl Marker {
    /// How many bytes of the input come before the marker for certain, and whether it follows them.
    fn search(&mut self, input: &[u8]) -> (usize, bool) {
        let rest = input.get(self.searched..).unwrap_or_default();
        let found = memmem::find(rest, &self.text);
        // Of the marker, only the first byte is `$`: nothing else can be the first part of it.
        let begun = || memrchr(b'$', rest).filter(|at| self.text.starts_with(&rest[*at..])).unwrap_or(rest.len());
        self.searched += found.unwrap_or_else(begun);
        (self.searched, found.is_some())
    }
    /// Waits for the marker until then, if the server seems to have refused it.
    pub(super) fn until(&self) -> Option<Instant> {
        self.until
    }
    /// The answer if the connection ends before the marker came: a refused marker does no harm.
    pub(super) fn unseen(&self, replies: BytesMut, ends: Vec<usize>, or: RelayResult) -> RelayResult {
        match self.found {
            Found::Refusal => Ok(RawReplies { bytes: replies.freeze(), ends, is_broken: false, may_be_forged: true }),
            Found::Replies | Found::Broken => or,
        }
    }
}

impl Pipeline {
    /// Takes one reply of a marked request, or the marker; false if the input is too short.
    pub(super) fn step_marked(&mut self, input: &mut BytesMut) -> Result<bool, Malformed> {
        let Some(PipelinedRequest::Relay { marker: Some(marker), .. }) = self.in_flight.front_mut() else {
            return Ok(false);
        };
        let (visible, is_marked) = marker.search(input);
        if visible == 0 && !is_marked {
            return Ok(false);
        }
        if visible == 0 {
            input.advance(LEN);
            self.end_marked();
            return Ok(true);
        }
        if marker.found != Found::Replies {
            self.pass_over(input, visible);
            return Ok(true);
        }
        let is_push = !self.skipping && input[0] == b'>';
        let had = input.len();
        let scanned = match is_push && !self.pushes.is_of_client() {
            // No pushes come on a connection that clients share.
            true => Err(Malformed),
            false => self.scan(input, visible),
        };
        // Of a reply that is too long, parts may be gone already.
        let gone = had - input.len();
        self.searched_less(gone);
        let visible = visible - gone;
        match scanned {
            Ok(Scanned::Part) if !is_marked => return Ok(false),
            Ok(Scanned::Reply(len)) if is_push => {
                self.pushed(&input[..len])?;
                self.push_count += 1;
                self.pass_over(input, len);
            }
            Ok(Scanned::Reply(len)) => self.take_marked(input, len),
            Ok(Scanned::TooLong(error)) => self.add_marked(&error),
            Ok(Scanned::Part) | Err(Malformed) => {
                let line = first_line(&input[..visible]);
                self.add_marked(&line);
                self.note_marked(Found::Broken);
                self.pass_over(input, visible);
            }
        }
        Ok(true)
    }

    /// Takes a whole reply of `len` bytes.
    fn take_marked(&mut self, input: &mut BytesMut, len: usize) {
        let Some(PipelinedRequest::Relay { relay, ends, .. }) = self.in_flight.front() else { return };
        if ends.len() < relay.count {
            self.add_marked(&input[..len]);
        } else {
            self.note_marked(if input[0] == b'-' { Found::Refusal } else { Found::Broken });
        }
        self.pass_over(input, len);
    }

    /// Adds a reply, unless there are enough.
    fn add_marked(&mut self, reply: &[u8]) {
        let Some(PipelinedRequest::Relay { relay, replies, ends, .. }) = self.in_flight.front_mut() else { return };
        if ends.len() < relay.count {
            replies.extend_from_slice(reply);
            ends.push(replies.len());
            self.pushes.note_reply();
            self.note_auth(reply);
        }
    }

    fn note_marked(&mut self, found: Found) {
        let patience = self.settings.limits.timeout;
        let Some(PipelinedRequest::Relay { relay, marker: Some(marker), .. }) = self.in_flight.front_mut() else {
            return;
        };
        marker.found = found;
        // Behind several commands the marker may take as long as they do.
        let waits = found == Found::Refusal && relay.count == 1;
        marker.until = waits.then(|| self.read_at + patience);
    }

    /// Drops the first `len` bytes.
    fn pass_over(&mut self, input: &mut BytesMut, len: usize) {
        input.advance(len);
        self.searched_less(len);
    }
    fn searched_less(&mut self, len: usize) {
        if let Some(PipelinedRequest::Relay { marker: Some(marker), .. }) = self.in_flight.front_mut() {
            marker.searched = marker.searched.saturating_sub(len);
        }
    }

    /// The marker came: answers the request.
    fn end_marked(&mut self) {
        // The rest of a reply that the marker has cut off.
        let is_whole = !std::mem::take(&mut self.skipping);
        self.reset_scanner();
        let Some(PipelinedRequest::Relay { relay, replies, ends, marker }) = self.in_flight.pop_front() else { return };
        let fits = marker.is_some_and(|marker| marker.found == Found::Replies);
        let is_broken = !(fits && is_whole && ends.len() == relay.count);
        if is_broken {
            tracing::debug!(source = %self.settings.name(), "a reply of the source broke the protocol: its client's connection ends");
        }
        let bytes = self.settings.buffers.count(BufferKind::Fetched, replies);
        self.slow -= usize::from(relay.is_slow(&self.settings.limits));
        relay.finish(Ok(RawReplies { bytes, ends, is_broken, may_be_forged: true }));
    }

    /// Whether the server seems to have refused a marker. Until it is clear, nothing more is sent.
    pub(crate) fn is_in_doubt(&self) -> bool {
        matches!(
            self.in_flight.front(),
            Some(PipelinedRequest::Relay { marker: Some(Marker { found: Found::Refusal, .. }), .. })
        )
    }
}

/// The line that begins a broken reply, if it is an error.
fn first_line(reply: &[u8]) -> Vec<u8> {
    let line = reply.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    match line.first() {
        Some(b'-') => [line, b"\r\n"].concat(),
        _ => NO_LINE.to_vec(),
    }
}
