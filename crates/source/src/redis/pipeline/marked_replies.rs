//! Replies that may break the protocol, and the marker that ends them.
//!
//! Redis puts text of the client into some lines without a check for line ends. Then a reply reads
//! like several, or swallows what follows it. So an `ECHO` of a random text follows commands with
//! such replies. Everything up to that text belongs to their client, whatever it looks like.
//!
//! A server that is busy with a script refuses the `ECHO` like all other commands (`-BUSY`). It still
//! answers an unknown command, with an error that names it. So an unknown command with a random name
//! shows which replies came before it.
use super::pipeline_state::{Pipeline, PipelinedRequest, Scanned};
use crate::{
    raw_replies::RawReplies,
    redis::queued_request::{QueuedRelay, RelayResult},
};
use bytes::{Buf, Bytes, BytesMut};
use larder_base::buffers::BufferKind;
use larder_proto::{output::Output, resp::Malformed};
use memchr::{memmem, memrchr};
use std::hash::{BuildHasher, RandomState};
use tokio::time::Instant;

const COMMAND: &[u8] = b"*2\r\n$4\r\nECHO\r\n";
/// Digits of the random text.
const DIGITS: usize = 32;
/// The length of the encoded text.
const LEN: usize = "$32\r\n".len() + DIGITS + "\r\n".len();
/// How a server that is busy with a script refuses commands.
const BUSY: &[u8] = b"-BUSY ";
/// Bytes that are kept while it is unclear whether the marker was refused.
const MAX_UNCLEAR: usize = 64 * 1024;
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
        let text = format!("$32\r\n{}\r\n", self.text()).into_bytes();
        out.put(COMMAND);
        out.put(&text);
        Marker { text, searched: 0, found: Found::Replies, until: None, busy: None }
    }
    fn text(&mut self) -> String {
        self.count += 1;
        let half = |half: u8| self.key.hash_one((self.count, half));
        format!("{:016x}{:016x}", half(0), half(1))
    }
}

pub(super) struct Marker {
    text: Vec<u8>,
    /// Bytes of the input in which it does not begin.
    searched: usize,
    found: Found,
    /// The server seems to have refused the marker; it is waited for until then.
    until: Option<Instant>,
    busy: Option<RefusedAsBusy>,
}
/// All commands and the marker got the same error of a server that is busy.
struct RefusedAsBusy {
    /// The error, with its line end.
    line: Vec<u8>,
    /// The name of the unknown command that was sent since.
    probe: Option<String>,
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
            Found::Refusal => {
                Ok(RawReplies { bytes: replies.freeze(), ends, is_broken: false, may_be_forged: true, gate: None })
            }
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
        if marker.busy.is_some() && !is_marked {
            return Ok(self.step_busy(input));
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
        let Some(PipelinedRequest::Relay { relay, replies, ends, .. }) = self.in_flight.front() else { return };
        if ends.len() < relay.count {
            self.add_marked(&input[..len]);
        } else {
            let line = &input[..len];
            let is_busy =
                line.starts_with(BUSY) && is_repeated(line, &replies[..]) && ends.len() * len == replies.len();
            let busy = is_busy.then(|| RefusedAsBusy { line: line.to_vec(), probe: None });
            self.note_marked(if input[0] == b'-' { Found::Refusal } else { Found::Broken });
            if let Some(PipelinedRequest::Relay { marker: Some(marker), .. }) = self.in_flight.front_mut() {
                marker.busy = busy;
            }
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
        self.refused = None;
        self.reset_scanner();
        let Some(PipelinedRequest::Relay { relay, replies, ends, marker }) = self.in_flight.pop_front() else { return };
        let fits = marker.is_some_and(|marker| marker.found == Found::Replies);
        let is_broken = !(fits && is_whole && ends.len() == relay.count);
        if is_broken {
            tracing::debug!(source = %self.settings.name(), "a reply of the source broke the protocol: its client's connection ends");
        }
        let bytes = self.settings.buffers.count(BufferKind::Fetched, replies);
        self.slow -= usize::from(relay.is_slow(&self.settings.limits));
        relay.finish(Ok(RawReplies { bytes, ends, is_broken, may_be_forged: true, gate: None }));
    }

    /// Sends the unknown command that shows whether a busy server has refused the marker.
    pub(super) fn put_busy_probe(&mut self, out: &mut Output) {
        let Some(PipelinedRequest::Relay { marker: Some(Marker { busy: Some(busy), .. }), .. }) =
            self.in_flight.front_mut()
        else {
            return;
        };
        if busy.probe.is_none() {
            let name = self.markers.text();
            out.put(format!("*1\r\n${}\r\n{name}\r\n", name.len()).as_bytes());
            busy.probe = Some(name);
            let limit = self.settings.limits.timeout;
            let relay = QueuedRelay::probe(Bytes::new(), Instant::now() + limit, limit);
            let (replies, ends) = (BytesMut::new(), Vec::new());
            self.in_flight.push_back(PipelinedRequest::Relay { relay, replies, ends, marker: None });
        }
    }

    /// A busy server seems to have refused the marker; the input behind that error is kept until the
    /// probe is answered. If the marker did not come before that answer, it was refused. If there are
    /// nothing but refusals, as many as replies were to come, all requests were refused. Otherwise it is
    /// unclear whose replies they are, and the connection ends. False if the input is too short.
    fn step_busy(&mut self, input: &mut BytesMut) -> bool {
        // Not of the first request, nor of the probe.
        let behind = self.in_flight.len().saturating_sub(2);
        let to_come: Option<usize> = self
            .in_flight
            .iter()
            .skip(1)
            .take(behind)
            .map(|behind| match behind {
                PipelinedRequest::Relay { relay, marker, .. } => relay.count.checked_add(usize::from(marker.is_some())),
                PipelinedRequest::Batch(_) => None,
            })
            .try_fold(0usize, |sum, count| sum.checked_add(count?));
        let now = self.read_at;
        let Some(PipelinedRequest::Relay { marker: Some(marker), .. }) = self.in_flight.front_mut() else {
            return false;
        };
        let Some(RefusedAsBusy { line, probe }) = &marker.busy else { return false };
        let answered = probe.as_ref().and_then(|probe| {
            let at = memmem::find(input, probe.as_bytes())?;
            let begin = memrchr(b'\n', &input[..at]).map_or(0, |end| end + 1);
            Some((begin, at + memmem::find(&input[at..], b"\r\n")? + 2))
        });
        match answered {
            Some((begin, end))
                if input[begin..].starts_with(b"-ERR ")
                    && to_come.and_then(|count| count.checked_mul(line.len())) == Some(begin)
                    && is_repeated(line, &input[..begin]) =>
            {
                let line = line.clone();
                input.advance(end);
                self.refuse_all(&line);
                true
            }
            Some(_) => {
                (marker.until, marker.busy) = (Some(now), None);
                true
            }
            None if input.len() > MAX_UNCLEAR => {
                marker.busy = None;
                true
            }
            None => false,
        }
    }

    /// The server has refused all requests in flight with this line.
    fn refuse_all(&mut self, line: &[u8]) {
        self.reset_scanner();
        self.slow = 0;
        // The probe is answered.
        self.in_flight.pop_back();
        for in_flight in std::mem::take(&mut self.in_flight) {
            let PipelinedRequest::Relay { relay, ends, .. } = in_flight else { continue };
            (ends.len()..relay.count).for_each(|_| self.pushes.note_reply());
            let bytes = self.settings.buffers.count(BufferKind::Fetched, line.repeat(relay.count));
            let ends = (1..=relay.count).map(|count| count * line.len()).collect();
            relay.finish(Ok(RawReplies { bytes, ends, is_broken: false, may_be_forged: true, gate: None }));
        }
    }

    /// Whether the server seems to have refused a marker. Until it is clear, nothing more is sent.
    pub(crate) fn is_in_doubt(&self) -> bool {
        matches!(
            self.in_flight.front(),
            Some(PipelinedRequest::Relay { marker: Some(Marker { found: Found::Refusal, .. }), .. })
        )
    }
}

/// Whether the text is this line, any number of times.
fn is_repeated(line: &[u8], text: &[u8]) -> bool {
    text.chunks(line.len()).all(|chunk| chunk == line)
}

/// The line that begins a broken reply, if it is an error.
fn first_line(reply: &[u8]) -> Vec<u8> {
    let line = reply.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    match line.first() {
        Some(b'-') => [line, b"\r\n"].concat(),
        _ => NO_LINE.to_vec(),
    }
}
