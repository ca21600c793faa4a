//! Larder's own writes, as Redis commands.
use super::reply_errors::{accepted, positive};
use crate::{
    local_future::LocalFuture,
    redis_server_trait::{RedisServer, Relay},
    source_error::SourceError,
    source_limits::LARGE,
};
use bytes::Bytes;
use larder_engine::Millis;
use larder_proto::resp::encode;
use larder_store::clock;

/// See [`Source::put`](crate::Source::put).
pub(super) fn put<'a>(
    server: &'a dyn RedisServer,
    key: &'a [u8],
    value: &'a [u8],
    expiry: Option<Millis>,
) -> LocalFuture<'a, Result<bool, SourceError>> {
    let mut commands = encode(&[b"EXISTS", key]);
    commands.extend(match expiry.map(remaining) {
        None => encode(&[b"SET", key, value]),
        Some(Some(left)) => encode(&[b"SET", key, value, b"PX", left.to_string().as_bytes()]),
        // Already expired: Redis refuses a SET with such an expiry.
        Some(None) => encode(&[b"DEL", key]),
    });
    Box::pin(async move {
        let replies = match commands.len() > LARGE {
            true => server.relay_isolated(commands.into(), 2, false, true, None).await?,
            false => server.relay(commands.into(), 2, false).await?,
        };
        // Without permission for EXISTS the write has succeeded all the same.
        accepted(&replies[1]).map(|_| positive(&replies[0]).unwrap_or(false))
    })
}

/// See [`Source::delete`](crate::Source::delete).
pub(super) fn delete<'a>(relay: &'a dyn Relay, key: &'a [u8]) -> LocalFuture<'a, Result<bool, SourceError>> {
    let command = encode(&[b"DEL", key]);
    Box::pin(async move { positive(&ask(relay, command).await?) })
}

/// See [`Source::expire`](crate::Source::expire).
pub(super) fn expire<'a>(
    relay: &'a dyn Relay,
    key: &'a [u8],
    expiry: Option<Millis>,
) -> LocalFuture<'a, Result<bool, SourceError>> {
    let Some(at) = expiry else {
        // PERSIST replies 0 both for a key without expiry and for no key, so EXISTS follows. Without
        // permission for it the change has still succeeded.
        let mut commands = encode(&[b"PERSIST", key]);
        commands.extend(encode(&[b"EXISTS", key]));
        return Box::pin(async move {
            let replies = relay.relay(commands.into(), 2, false).await?;
            let changed = accepted(&replies[0]).and_then(positive)?;
            Ok(changed || positive(&replies[1]).unwrap_or(false))
        });
    };
    // A time of 0 deletes the key, as an expiry in the past should.
    let left = remaining(at).unwrap_or(0).to_string();
    let command = encode(&[b"PEXPIRE", key, left.as_bytes()]);
    Box::pin(async move { positive(&ask(relay, command).await?) })
}

/// See [`Source::ping`](crate::Source::ping).
pub(super) fn ping(relay: &dyn Relay) -> LocalFuture<'_, Result<(), SourceError>> {
    Box::pin(async move { ask(relay, encode(&[b"PING"])).await.map(drop) })
}

/// Sends one of Larder's own commands and returns the reply, unless it is an error.
pub(super) async fn ask(relay: &dyn Relay, command: Vec<u8>) -> Result<Bytes, SourceError> {
    let replies = relay.relay(command.into(), 1, false).await?;
    accepted(&replies[0]).map(|reply| replies.bytes().slice_ref(reply))
}

/// Milliseconds from now until `at`. Relative, so that the clocks of Larder and Redis need not
/// agree.
fn remaining(at: Millis) -> Option<Millis> {
    at.checked_sub(clock::now()).filter(|&left| left > 0)
}
