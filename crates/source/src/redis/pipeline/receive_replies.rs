//! Takes replies and push messages out of the input of a connection.
use super::{
    fetch_batch::Stage,
    pipeline_state::{LINKED, NO_AUTH, Pipeline, PipelinedRequest, Scanned},
};
use crate::{raw_replies::RawReplies, redis::queued_request::UNTIL_PONG, redis_server_trait::answers_ping};
use bytes::{Buf, BytesMut};
use larder_base::buffers::BufferKind;
use larder_engine::Millis;
use larder_proto::resp::{Malformed, View, view};
use larder_store::clock;
use tokio::time::Instant;

impl Pipeline {
    /// Processes all complete input. Call [`requeue`](Pipeline::requeue) afterwards.
    pub(crate) fn receive(&mut self, input: &mut BytesMut) -> Result<(), Malformed> {
        let now = clock::now();
        self.read_at = Instant::now();
        let push_count = self.push_count;
        let mut steps = 0;
        let outcome = loop {
            match self.step(input, now) {
                Ok(true) => steps += 1,
                outcome => break outcome,
            }
        };
        self.count_answered();
        outcome?;
        // A push message is no progress.
        let part = self.body.is_some() || self.skipping || input.first().is_some_and(|&byte| byte != b'>');
        if part || steps > self.push_count - push_count {
            self.progress = Some(self.read_at);
        }
        Ok(())
    }

    /// Takes one reply, or one part of a batch's replies; false if the input is too short.
    fn step(&mut self, input: &mut BytesMut, now: Millis) -> Result<bool, Malformed> {
        if let Some(PipelinedRequest::Relay { marker: Some(_), .. }) = self.in_flight.front() {
            return self.step_marked(input);
        }
        let is_push = match input.first() {
            _ if self.skipping => false,
            Some(b'>') => self.is_between_replies(),
            Some(b'+') => self.pushes.are_lines_expected() && input.get(1).is_some_and(u8::is_ascii_digit),
            _ => false,
        };
        if is_push {
            let Some(len) = self.scanner.scan(input)? else {
                return Ok(false);
            };
            self.pushed(&input[..len])?;
            self.push_count += 1;
            input.advance(len);
            return Ok(true);
        }
        match self.in_flight.front_mut() {
            None if input.is_empty() => Ok(false),
            None => Err(Malformed),
            Some(PipelinedRequest::Relay { .. }) => {
                let scanned = self.scan(input, input.len())?;
                let Some(PipelinedRequest::Relay { relay, replies, ends, .. }) = self.in_flight.front_mut() else {
                    return Ok(false);
                };
                match scanned {
                    Scanned::Part => return Ok(false),
                    Scanned::TooLong(error) => replies.extend_from_slice(&error),
                    Scanned::Reply(len) if len >= LINKED && replies.is_empty() => *replies = input.split_to(len),
                    Scanned::Reply(len) => {
                        // Copied, so that small replies do not keep the buffer alive and the replies of one request are
                        // contiguous.
                        replies.extend_from_slice(&input[..len]);
                        input.advance(len);
                    }
                }
                ends.push(replies.len());
                let over = match relay.count {
                    UNTIL_PONG => {
                        let last = ends.iter().rev().nth(1).unwrap_or(&0);
                        answers_ping(&replies[*last..])
                    }
                    count => ends.len() == count,
                };
                let begin = ends.iter().rev().nth(1).copied().unwrap_or(0);
                let noauth = replies[begin..].starts_with(NO_AUTH);
                if relay.answer.is_some() {
                    self.pushes.note_reply();
                    self.auth_doubted |= noauth;
                } else if noauth {
                    self.auth_error = Some(String::from_utf8_lossy(replies[1..].trim_ascii_end()).into());
                }
                if over && let Some(PipelinedRequest::Relay { relay, replies, ends, .. }) = self.in_flight.pop_front() {
                    let bytes = self.settings.buffers.count(BufferKind::Fetched, replies);
                    self.slow -= usize::from(relay.is_slow(&self.settings.limits));
                    relay.finish(Ok(RawReplies { bytes, ends, ..RawReplies::default() }));
                }
                Ok(true)
            }
            Some(PipelinedRequest::Batch(_)) => Ok(self.take_fetch(input, now) || self.step_batch(input, now)?),
        }
    }

    /// Whether the next byte starts a reply, or an element of a transaction's reply.
    fn is_between_replies(&self) -> bool {
        match self.in_flight.front() {
            Some(PipelinedRequest::Batch(batch)) => {
                self.body.is_none() && !matches!(batch.stage, Stage::Expiry(_, true))
            }
            // Whole replies only.
            Some(PipelinedRequest::Relay { .. }) | None => true,
        }
    }

    /// Handles a RESP3 push message, which answers no command. It must be handled in order: it
    /// affects the fills of the replies before it, which are stored, and none behind it.
    pub(super) fn pushed(&self, message: &[u8]) -> Result<(), Malformed> {
        let (Some(scope), View::Push(mut parts)) = (&self.scope, view(message)?) else {
            return if self.pushes.push(message) { Ok(()) } else { Err(Malformed) };
        };
        let mut part = || parts.next_raw().map(view).transpose();
        if part()? != Some(View::Bulk(b"invalidate")) {
            return Ok(());
        }
        match part()?.ok_or(Malformed)? {
            View::Array(mut keys) => {
                self.settings.health.note_invalidations(keys.len() as u64);
                while let Some(key) = keys.next_raw() {
                    let View::Bulk(key) = view(key)? else {
                        return Err(Malformed);
                    };
                    scope.to.key(key);
                }
                Ok(())
            }
            // All keys: FLUSHALL, FLUSHDB.
            View::Null => {
                self.settings.health.note_invalidations(1);
                scope.to.all();
                Ok(())
            }
            // Unknown message: ending the connection also ends what it vouches for.
            _ => Err(Malformed),
        }
    }
}
