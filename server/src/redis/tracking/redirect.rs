//! CLIENT TRACKING … REDIRECT in front of a Redis that tracks for its clients.
//!
//! A client knows the others by the numbers that Larder gives; Redis knows only Larder's connections. So Redis is asked to redirect to a
//! connection that is there for nothing else, and what comes over it goes on to the client that was meant:
//!
//! ```text
//! tracking client ─► its own connection ── CLIENT TRACKING ON REDIRECT n ─► Redis ─► connection n (RESP3) ─► inbox of the target
//! ```
//!
//! As with Redis itself, the invalidation and the reply of what it concerns travel on two connections: a client must expect either first.
use crate::{
    clients::{
        Client,
        push_inbox::{Backlog, PushMessage},
    },
    redis::{command_context::CommandContext, command_error::CommandError, upstream},
    source::DedicatedConnection,
};
use bytes::Bytes;
use larder_proto::resp::{Args, View, encode, view};
use std::{future::poll_fn, sync::Arc, task::Poll};
use tokio::task::AbortHandle;

/// A redirection, until it is dropped.
pub(in crate::redis) struct Redirect {
    target: u64,
    task: AbortHandle,
}
impl Drop for Redirect {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The options of CLIENT TRACKING with their places, without what is said behind them.
fn options(args: Args<'_>) -> impl Iterator<Item = (usize, &[u8])> {
    let mut next = 3;
    std::iter::from_fn(move || {
        let (at, option) = (next, args.get(next)?);
        let valued = option.eq_ignore_ascii_case(b"redirect") || option.eq_ignore_ascii_case(b"prefix");
        next += if valued { 2 } else { 1 };
        Some((at, option))
    })
}

/// Where among the parts of CLIENT TRACKING the client is named that it redirects to; the last, if there are several, of which Redis
/// will complain.
fn place(args: Args<'_>) -> Option<usize> {
    let redirects = options(args).filter(|(_, option)| option.eq_ignore_ascii_case(b"redirect"));
    redirects.map(|(at, _)| at + 1).filter(|at| *at < args.len()).last()
}

/// Is CLIENT TRACKING told to broadcast?
pub(in crate::redis) fn is_broadcast(args: Args<'_>) -> bool {
    options(args).any(|(_, option)| option.eq_ignore_ascii_case(b"bcast"))
}

/// Prepares CLIENT TRACKING ON: what is to be sent to Redis, and the redirection that it begins, if it is taken.
pub(in crate::redis) async fn prepare(call: &CommandContext<'_>) -> Result<(Vec<u8>, Option<Redirect>), CommandError> {
    let Some(place) = place(call.args) else { return Ok((upstream::encoded(call.args), None)) };
    let target = super::target(call, call.arg(place))?;
    let carrier = upstream::shared(call)?.pin(call.args, true).await?;
    let replies = carrier.relay(encode(&[b"CLIENT", b"ID"]).into(), 1, true).await?;
    let Ok(View::Integer(number)) = view(&replies[0]) else {
        return Err(CommandError::Told(
            replies[0].strip_prefix(b"-").unwrap_or(b"ERR no CLIENT ID").trim_ascii().to_vec(),
        ));
    };
    let number = number.to_string();
    let mut parts: Vec<&[u8]> = call.args.from(0).collect();
    parts[place] = number.as_bytes();
    let (client, backlog) = (call.session.client.clone(), call.worker.app.backlog.clone());
    let carry = Carry { carrier, client, backlog, target };
    let redirect = Redirect { target: carry.target.id, task: tokio::task::spawn_local(carry.run()).abort_handle() };
    Ok((encode(&parts), Some(redirect)))
}

/// What is to be sent for CLIENT TRACKING OFF, where REDIRECT has only to name a client that there is.
pub(in crate::redis) fn without_redirect(call: &CommandContext<'_>) -> Result<Vec<u8>, CommandError> {
    let Some(place) = place(call.args).filter(|_| call.command.name == "client|tracking") else {
        return Ok(upstream::encoded(call.args));
    };
    super::target(call, call.arg(place))?;
    let mut parts: Vec<&[u8]> = call.args.from(0).collect();
    parts.drain(place - 1..=place);
    Ok(encode(&parts))
}

struct Carry {
    carrier: Box<dyn DedicatedConnection>,
    client: Arc<Client>,
    target: Arc<Client>,
    backlog: Arc<Backlog>,
}
impl Carry {
    async fn run(self) {
        // Without an end but that of the connection: Redis tracks no more then, and the client begins anew.
        poll_fn(|cx| {
            let unasked = self.carrier.unasked();
            let lost = unasked.wait(cx).is_err();
            while let Some(frame) = unasked.next(u64::MAX) {
                self.pass_on(&frame);
            }
            if lost { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        self.client.close();
    }

    fn pass_on(&self, frame: &Bytes) {
        let Ok(View::Push(mut parts)) = view(frame) else { return };
        let kind = parts.next();
        let (Some(View::Bulk(b"invalidate")), Some(keys)) = (kind, parts.next_raw()) else { return };
        let keys = (keys != b"_\r\n").then(|| frame.slice_ref(keys));
        if !self.target.post(PushMessage::Invalidated { keys, redirected: true }, &self.backlog) {
            self.client.note_broken_redirection();
            self.client.post(PushMessage::RedirectionBroken(self.target.id), &self.backlog);
        }
    }
}

impl Redirect {
    /// The client that is told.
    pub(in crate::redis) fn target(&self) -> u64 {
        self.target
    }

    /// The reply to CLIENT TRACKINGINFO, in the client's terms; `None` if it is none.
    pub(in crate::redis) fn translated(&self, info: &[u8], broken: bool) -> Option<Vec<u8>> {
        let Ok(View::Map(mut parts) | View::Array(mut parts)) = view(info) else { return None };
        let [flags_name, flags, redirect, _, prefixes_name, prefixes] = std::array::from_fn(|_| parts.next_raw());
        let mut text = info.split_inclusive(|b| *b == b'\n').next()?.to_vec();
        text.extend_from_slice(flags_name?);
        match view(flags?) {
            Ok(View::Set(mut each) | View::Array(mut each)) if broken => {
                text.extend_from_slice(format!("{}{}\r\n", char::from(flags?[0]), each.len() + 1).as_bytes());
                while let Some(flag) = each.next_raw() {
                    text.extend_from_slice(flag);
                }
                text.extend_from_slice(b"$15\r\nbroken_redirect\r\n");
            }
            _ => text.extend_from_slice(flags?),
        }
        text.extend_from_slice(redirect?);
        text.extend_from_slice(format!(":{}\r\n", self.target).as_bytes());
        text.extend_from_slice(prefixes_name?);
        text.extend_from_slice(prefixes?);
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_source_s_numbers_are_not_shown() {
        let task = tokio::spawn(async {}).abort_handle();
        let redirect = Redirect { target: 7, task };
        let info = b"%3\r\n$5\r\nflags\r\n~2\r\n$2\r\non\r\n$6\r\nnoloop\r\n$8\r\nredirect\r\n:123\r\n$8\r\nprefixes\r\n*0\r\n";
        let told = redirect.translated(info, false).expect("a map");
        assert_eq!(String::from_utf8_lossy(&told), String::from_utf8_lossy(info).replace(":123", ":7"));
        let told = redirect.translated(info, true).expect("a map");
        let broken = b"~3\r\n$2\r\non\r\n$6\r\nnoloop\r\n$15\r\nbroken_redirect\r\n$8\r\nredirect\r\n:7\r\n";
        assert!(told.windows(broken.len()).any(|part| part == broken), "{}", String::from_utf8_lossy(&told));
        assert_eq!(redirect.translated(b"-ERR no\r\n", false), None);
    }
}
