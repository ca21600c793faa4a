//! Reads the replies to a batch of fetches, step by step, and finishes each fetch.
use super::{
    fetch_batch::{FetchBatch, Stage, fields_expire},
    pipeline_state::{LINKED, LargeBody, NO_AUTH, Pipeline, PipelinedRequest, Scanned, take},
};
use crate::{
    fetch_refusals::{no_room, too_large},
    fetch_result::{FetchedReply, KeyLife},
    redis::{
        queued_request::{NO_EXPIRY, QueuedFetch},
        reply_errors::refusal,
    },
    source_error::SourceError,
};
use bytes::{Buf, Bytes, BytesMut};
use larder_base::buffers::BufferKind;
use larder_engine::Millis;
use larder_proto::resp::{Malformed, parse_i64};
use larder_store::{StoredValue, ValueKind};

pub(super) const QUEUED: &[u8] = b"+QUEUED\r\n";
/// Longest line: an error's text.
const MAX_LINE: usize = 64 * 1024;

/// A line without its end, and its length including the end.
fn line(input: &[u8]) -> Result<Option<(&[u8], usize)>, Malformed> {
    match input.iter().take(MAX_LINE).position(|&byte| byte == b'\n') {
        Some(at) if at > 0 && input[at - 1] == b'\r' => Ok(Some((&input[..at - 1], at + 1))),
        Some(_) => Err(Malformed),
        None if input.len() >= MAX_LINE => Err(Malformed),
        None => Ok(None),
    }
}

/// A number of few digits at the start of `input`, and what follows its line.
fn short_number(input: &[u8]) -> Option<(i64, &[u8])> {
    /// As many as no number overflows with.
    const DIGITS: usize = 15;
    let (sign, rest) = match input {
        [b'-', rest @ ..] => (-1, rest),
        rest => (1, rest),
    };
    let mut number = 0;
    for (at, byte) in rest.iter().take(DIGITS + 1).enumerate() {
        match byte {
            b'0'..=b'9' => number = 10 * number + i64::from(byte - b'0'),
            b'\r' if at > 0 && rest.get(at + 1) == Some(&b'\n') => return Some((sign * number, &rest[at + 2..])),
            _ => return None,
        }
    }
    None
}

/// A short value and the reply to `PTTL` behind it, if both are whole, and the length of both.
fn value_and_expiry(input: &[u8]) -> Option<(&[u8], i64, usize)> {
    let (size, rest) = short_number(input.strip_prefix(b"$")?)?;
    let size = usize::try_from(size).ok().filter(|size| *size < LINKED)?;
    let (value, rest) = rest.split_at_checked(size)?;
    let (left, rest) = short_number(rest.strip_prefix(b"\r\n:")?)?;
    Some((value, left, input.len() - rest.len()))
}

impl LargeBody {
    /// A value that is not kept.
    fn skipped(size: usize, why: SourceError) -> LargeBody {
        LargeBody { value: Vec::new(), missing: size, charge: None, refused: Some(why) }
    }
}

impl Pipeline {
    /// Finishes the next fetch if its replies are whole in the input and ordinary, as most are. All
    /// others are taken step by step.
    pub(super) fn take_fetch(&mut self, input: &mut BytesMut, now: Millis) -> bool {
        let Some(PipelinedRequest::Batch(FetchBatch { stage: Stage::Value, whole: false, .. })) =
            self.in_flight.front()
        else {
            return false;
        };
        let Some((value, left, len)) = value_and_expiry(input) else { return false };
        let size = value.len();
        if size > self.settings.limits.max_value || !self.settings.buffers.fits(size) {
            return false;
        }
        let value = self.settings.buffers.count(BufferKind::Fetched, Bytes::copy_from_slice(value));
        input.advance(len);
        self.finish_fetch(Ok(Some(value)), Ok(left), now);
        true
    }

    pub(super) fn step_batch(&mut self, input: &mut BytesMut, now: Millis) -> Result<bool, Malformed> {
        let Some(PipelinedRequest::Batch(batch)) = self.in_flight.front_mut() else {
            return Ok(false);
        };
        if let Some(body) = &mut self.body {
            let ready = body.missing.min(input.len());
            if body.refused.is_none() {
                body.value.extend_from_slice(&input[..ready]);
            }
            input.advance(ready);
            body.missing -= ready;
            if body.missing > 0 {
                return Ok(false);
            }
            if let Some(LargeBody { value, refused, charge, .. }) = self.body.take() {
                drop(charge);
                let value = || self.settings.buffers.count(BufferKind::Fetched, value);
                let answer = refused.map_or_else(|| Ok(Some(value())), Err);
                batch.stage = Stage::Expiry(answer, true);
            }
            return Ok(true);
        }
        let commands = batch.commands();
        if let Stage::Queued(done) = &mut batch.stage
            && input.starts_with(QUEUED)
        {
            input.advance(QUEUED.len());
            *done += 1;
            if *done == commands {
                batch.stage = Stage::Exec;
            }
            return Ok(true);
        }
        if batch.whole && matches!(batch.stage, Stage::Guard | Stage::Switch(_) | Stage::Value) {
            let reply = match self.scan(input, input.len())? {
                Scanned::Part => return Ok(false),
                Scanned::Reply(len) => take(input, len),
                Scanned::TooLong(error) => error,
            };
            let reply = self.settings.buffers.count(BufferKind::Fetched, reply);
            let Some(PipelinedRequest::Batch(batch)) = self.in_flight.front_mut() else { return Ok(false) };
            match batch.stage {
                Stage::Value => batch.stage = Stage::ReplyExpiry(reply),
                Stage::Guard => {
                    batch.fields_expire |= fields_expire(&reply, self.settings.url.database);
                    batch.stage = if batch.switched { Stage::Switch(false) } else { Stage::Value };
                }
                // The protocol of the connection is now unknown.
                _ if reply.starts_with(b"-") => return Err(Malformed),
                Stage::Switch(false) => batch.stage = Stage::Value,
                _ => drop(self.in_flight.pop_front()),
            }
            return Ok(true);
        }
        if let Stage::Expiry(_, line_end @ true) = &mut batch.stage {
            match input.get(..2) {
                None => return Ok(false),
                Some(b"\r\n") => *line_end = false,
                Some(_) => return Err(Malformed),
            }
            input.advance(2);
            // Without a transaction, a push message may come before the expiry.
            return Ok(true);
        }
        let Some((head, len)) = line(input)? else {
            return Ok(false);
        };
        let (&kind, text) = head.split_first().ok_or(Malformed)?;
        let error = (kind == b'-').then(|| refusal(text));
        self.auth_doubted |= head.starts_with(NO_AUTH);
        match (&mut batch.stage, error) {
            (Stage::Multi, None) => batch.stage = Stage::Queued(0),
            // Push messages would be lost while the other protocol is active.
            (Stage::Multi, Some(_)) if batch.switched => return Err(Malformed),
            (Stage::Multi, Some(_)) => {
                batch.direct = true;
                batch.fields_expire = batch.guarded;
                batch.stage = batch.first_stage();
            }
            (Stage::Queued(done), Some(error)) => {
                let refused = *done;
                *done += 1;
                if *done == commands {
                    batch.stage = Stage::Exec;
                }
                if let Some(at) = batch.fetch_of(refused) {
                    batch.refused.push((at, error));
                }
            }
            (Stage::Exec, None) => {
                let expected = i64::try_from(commands).ok();
                if kind != b'*' || parse_i64(text) != expected {
                    return Err(Malformed);
                }
                batch.stage = batch.first_stage();
            }
            (Stage::Exec, Some(error)) => {
                input.advance(len);
                self.abort_transaction(&error, now);
                return Ok(true);
            }
            (Stage::Value, Some(error)) => batch.stage = Stage::Expiry(Err(error), false),
            (Stage::Value, None) if kind == b'$' => {
                let size = parse_i64(text).ok_or(Malformed)?;
                input.advance(len);
                self.begin_value(size, input)?;
                return Ok(true);
            }
            // RESP3's null.
            (Stage::Value, None) if kind == b'_' => batch.stage = Stage::Expiry(Ok(None), false),
            (Stage::Expiry(value, _), error) => {
                let value = std::mem::replace(value, Ok(None));
                let expiry = match error {
                    Some(error) => Err(error),
                    None if kind == b':' => Ok(parse_i64(text).ok_or(Malformed)?),
                    None => return Err(Malformed),
                };
                input.advance(len);
                self.finish_fetch(value, expiry, now);
                return Ok(true);
            }
            (Stage::ReplyExpiry(reply), error) => {
                let reply = std::mem::take(reply);
                let left = match error {
                    Some(error) => Err(error),
                    None if kind == b':' => Ok(parse_i64(text).ok_or(Malformed)?),
                    None => return Err(Malformed),
                };
                input.advance(len);
                self.finish_reply(reply, left, now);
                return Ok(true);
            }
            (Stage::Trailer, _) => {
                self.in_flight.pop_front();
            }
            (Stage::Queued(_) | Stage::Guard | Stage::Switch(_) | Stage::Value | Stage::Body, _) => {
                return Err(Malformed);
            }
        }
        input.advance(len);
        Ok(true)
    }

    /// A value of `size` bytes begins (-1: there is none).
    fn begin_value(&mut self, size: i64, input: &mut BytesMut) -> Result<(), Malformed> {
        let Some(PipelinedRequest::Batch(batch)) = self.in_flight.front_mut() else {
            return Err(Malformed);
        };
        if size == -1 {
            batch.stage = Stage::Expiry(Ok(None), false);
            return Ok(());
        }
        let size = usize::try_from(size).map_err(|_| Malformed)?;
        let max = self.settings.limits.max_value;
        if size > max {
            self.body = Some(LargeBody::skipped(size, too_large(size, max)));
        } else if size <= input.len() {
            let value = self.settings.buffers.count(BufferKind::Fetched, Bytes::copy_from_slice(&input[..size]));
            input.advance(size);
            batch.stage = Stage::Expiry(Ok(Some(value)), true);
            return Ok(());
        } else {
            let mut charge = self.settings.buffers.charge(BufferKind::Fetched);
            self.body = Some(match charge.try_resize(size) {
                true => {
                    LargeBody { value: Vec::with_capacity(size), missing: size, charge: Some(charge), refused: None }
                }
                false => LargeBody::skipped(size, no_room(size, self.settings.buffers.limit())),
            });
        }
        batch.stage = Stage::Body;
        Ok(())
    }

    /// Value and expiry of the batch's next fetch are known.
    fn finish_fetch(
        &mut self,
        value: Result<Option<Bytes>, SourceError>,
        expiry: Result<i64, SourceError>,
        now: Millis,
    ) {
        let Some(PipelinedRequest::Batch(batch)) = self.in_flight.front_mut() else {
            return;
        };
        let answer = match (value, expiry) {
            (Err(error), _) | (Ok(Some(_)), Err(error)) => Err(error),
            (Ok(None), _) => Ok(None),
            (Ok(Some(value)), Ok(left)) => Ok(Some(StoredValue {
                kind: ValueKind::String,
                value,
                expiry: match u64::try_from(left) {
                    Ok(left) => Some(batch.sent_at.saturating_add(left)),
                    Err(_) if left == NO_EXPIRY => None,
                    // The key vanished between GET and PTTL, which happens only outside a transaction.
                    Err(_) => Some(batch.sent_at),
                },
            })),
        };
        if let Some(queued) = self.complete_next() {
            self.finish(queued, answer, now);
        }
    }

    /// A whole reply and its key's expiry are known.
    fn finish_reply(&mut self, reply: Bytes, left: Result<i64, SourceError>, now: Millis) {
        let Some(PipelinedRequest::Batch(FetchBatch { sent_at, direct, fields_expire, .. })) = self.in_flight.front()
        else {
            return;
        };
        let (sent_at, direct) = (*sent_at, *direct);
        let key = match left {
            _ if *fields_expire => KeyLife::Until(sent_at),
            Ok(left) => match u64::try_from(left) {
                Ok(left) => KeyLife::Until(sent_at.saturating_add(left)),
                Err(_) if left == NO_EXPIRY => KeyLife::Unbounded,
                // Outside a transaction the key may have vanished since.
                Err(_) if direct => KeyLife::Until(sent_at),
                Err(_) => KeyLife::Absent,
            },
            // For the waiters only; not cached.
            Err(_) => KeyLife::Until(sent_at),
        };
        if let Some(queued) = self.complete_next() {
            let found = FetchedReply { reply, key };
            queued.finish_reply(found, (now, self.read_at), &self.settings.health);
        }
    }

    /// Takes the fetch whose replies are complete, and vouches for it if the scope covers its key.
    fn complete_next(&mut self) -> Option<QueuedFetch> {
        let Some(PipelinedRequest::Batch(batch)) = self.in_flight.front_mut() else {
            return None;
        };
        batch.left -= 1;
        if batch.left > 0 {
            batch.stage = Stage::Value;
        } else if batch.switched {
            batch.stage = Stage::Switch(true);
        } else if batch.direct && !batch.plain {
            batch.stage = Stage::Trailer;
        } else {
            self.in_flight.pop_front();
        }
        let mut queued = self.sent.pop_front()?;
        if self.scope.as_ref().is_some_and(|watch| watch.covers(queued.fetch.key())) {
            queued.fetch.vouch();
        }
        Some(queued)
    }

    /// EXEC failed. Fetches whose own commands were refused get that error. The others are sent
    /// again, unless no command was refused: then all of them fail.
    fn abort_transaction(&mut self, error: &SourceError, now: Millis) {
        let Some(PipelinedRequest::Batch(batch)) = self.in_flight.pop_front() else {
            return;
        };
        let mut refused = batch.refused.into_iter().peekable();
        let blame_all = refused.peek().is_none();
        for index in 0..batch.left {
            let Some(queued) = self.sent.pop_front() else {
                return;
            };
            let mut own = None;
            while let Some((_, error)) = refused.next_if(|(at, _)| *at == index) {
                own.get_or_insert(error);
            }
            match own {
                Some(error) => self.finish(queued, Err(error), now),
                None if blame_all => self.finish(queued, Err(error.clone()), now),
                None => self.resend.push(queued),
            }
        }
    }
}
