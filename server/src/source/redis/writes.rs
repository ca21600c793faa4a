//! Our own writes, as Redis commands.
use super::{positive, refusal, unexpected};
use crate::{
    clock,
    proto::resp::encode,
    source::{Local, Relay, SourceError},
};
use bytes::Bytes;
use larder_engine::Millis;

/// See [`Source::put`](crate::source::Source::put).
pub(super) fn put<'a>(
    relay: &'a dyn Relay,
    key: &'a [u8],
    value: &'a [u8],
    expiry: Option<Millis>,
) -> Local<'a, Result<bool, SourceError>> {
    let mut commands = encode(&[b"EXISTS", key]);
    commands.extend(match expiry.map(remaining) {
        None => encode(&[b"SET", key, value]),
        Some(Some(left)) => encode(&[b"SET", key, value, b"PX", left.to_string().as_bytes()]),
        // Stored for no time at all: Redis refuses such a SET.
        Some(None) => encode(&[b"DEL", key]),
    });
    Box::pin(async move {
        let replies = relay.relay(commands.into(), 2, false).await?;
        let mut replies = replies.iter();
        let (Some(existed), Some(taken)) = (replies.next(), replies.next()) else { return Err(unexpected()) };
        match taken.split_first() {
            Some((b'+' | b':', _)) => positive(existed),
            Some((b'-', text)) => Err(refusal(text)),
            _ => Err(unexpected()),
        }
    })
}

/// See [`Source::delete`](crate::source::Source::delete).
pub(super) fn delete<'a>(relay: &'a dyn Relay, key: &'a [u8]) -> Local<'a, Result<bool, SourceError>> {
    let command = encode(&[b"DEL", key]);
    Box::pin(async move { positive(&ask(relay, command, 1).await?) })
}

/// See [`Source::expire`](crate::source::Source::expire).
pub(super) fn expire<'a>(
    relay: &'a dyn Relay,
    key: &'a [u8],
    expiry: Option<Millis>,
) -> Local<'a, Result<bool, SourceError>> {
    let (commands, count) = match expiry {
        Some(at) => {
            // A time of 0 deletes, as a moment in the past should.
            let left = remaining(at).unwrap_or(0).to_string();
            (encode(&[b"PEXPIRE", key, left.as_bytes()]), 1)
        }
        None => {
            // PERSIST does not tell a key without expiry from no key.
            let mut commands = encode(&[b"PERSIST", key]);
            commands.extend(encode(&[b"EXISTS", key]));
            (commands, 2)
        }
    };
    Box::pin(async move { positive(&ask(relay, commands, count).await?) })
}

/// See [`Source::ping`](crate::source::Source::ping).
pub(super) fn ping(relay: &dyn Relay) -> Local<'_, Result<(), SourceError>> {
    Box::pin(async move { ask(relay, encode(&[b"PING"]), 1).await.map(drop) })
}

/// Sends commands of ours and returns the last reply, unless it is an error.
pub(super) async fn ask(relay: &dyn Relay, commands: Vec<u8>, count: usize) -> Result<Bytes, SourceError> {
    let last = relay.relay(commands.into(), count, false).await?.last();
    match last.strip_prefix(b"-") {
        Some(text) => Err(refusal(text)),
        None => Ok(last),
    }
}

/// Milliseconds from now until `at`, for Redis: relative, so that the two clocks need not agree.
fn remaining(at: Millis) -> Option<Millis> {
    at.checked_sub(clock::now()).filter(|&left| left > 0)
}
