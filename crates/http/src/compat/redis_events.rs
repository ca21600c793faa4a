//! `/redis/subscribe/CHANNEL`, `/redis/psubscribe/PATTERN` and `/redis/monitor`: what the session
//! gets, as `text/event-stream` (WHATWG HTML section 9.2), until the client is gone.
use super::{
    redis_json::Replies,
    redis_rest::{Failure, NO_REPLY, session},
};
use crate::{
    messages::response_body::{Pages, ResponseBody},
    observe::live_stream::event_stream,
    routing::route_request::RouteRequest,
};
use http::Response;
use larder_base::buffers::{BufferCharge, BufferKind};
use larder_proto::resp::{View, encode};
use larder_redis::connection::RequestSession;
use larder_source::SourceError;
use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Whether a command of the path is one whose replies do not end.
pub(super) fn is_stream(command: &[u8]) -> bool {
    [&b"subscribe"[..], b"psubscribe", b"monitor"].iter().any(|name| command.eq_ignore_ascii_case(name))
}

/// Begins the stream once the command has succeeded.
pub(super) async fn follow(request: &RouteRequest<'_>, parts: &[Vec<u8>]) -> Result<Response<ResponseBody>, Failure> {
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    let (mut session, login) = session(request)?;
    // Fails when the session has ended.
    let _ = session.pipe.write_all(&[login.clone(), encode(&parts)].concat()).await;
    let mut events = Events {
        session,
        input: Vec::new(),
        charge: request.worker.app.buffers.charge(BufferKind::HttpOutput),
        skips: usize::from(!login.is_empty()),
        watch: Box::pin(request.context.client_watch.clone().look()),
    };
    let first = poll_fn(|cx| events.poll_events(cx)).await.map_err(Failure::Command)?;
    let first = first.ok_or_else(|| Failure::Command(NO_REPLY.to_owned()))?;
    Ok(event_stream(ResponseBody::endless(ResponseBody::full(first), events)))
}

struct Events {
    session: RequestSession,
    /// The part of a message that has come.
    input: Vec<u8>,
    charge: BufferCharge,
    /// Replies of a login, which are no events.
    skips: usize,
    /// A client that goes away ends a stream that has no events.
    watch: Pin<Box<dyn Future<Output = ()>>>,
}

impl Events {
    /// The events of the messages that are here; `None` when the session has ended.
    ///
    /// # Errors
    /// The error reply.
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Vec<u8>>, String>> {
        loop {
            let mut events = Vec::new();
            let mut replies = Replies(&self.input);
            for reply in &mut replies {
                match reply {
                    View::Error(text) => return Poll::Ready(Err(String::from_utf8_lossy(text).into_owned())),
                    _ if self.skips > 0 => self.skips -= 1,
                    reply => put_event(&mut events, reply),
                }
            }
            let left = replies.0.len();
            self.input.drain(..self.input.len() - left);
            if !events.is_empty() {
                return Poll::Ready(Ok(Some(events)));
            }
            if !self.charge.try_resize(2 * self.input.len()) {
                return Poll::Ready(Ok(None));
            }
            self.input.reserve(4096);
            let read = ready!(pin!(self.session.pipe.read_buf(&mut self.input)).poll(cx));
            if !matches!(read, Ok(read) if read > 0) {
                return Poll::Ready(Ok(None));
            }
        }
    }
}

/// `message,CHANNEL,TEXT`, or a line of MONITOR. Each line of a text is a field of its own.
fn put_event(out: &mut Vec<u8>, reply: View<'_>) {
    let mut text = Vec::new();
    match reply {
        View::Simple(b"OK") => text.extend_from_slice(b"\"OK\""),
        View::Array(values) => {
            for (number, value) in values.enumerate() {
                if number > 0 {
                    text.push(b',');
                }
                put_text(&mut text, value);
            }
        }
        other => put_text(&mut text, other),
    }
    for line in String::from_utf8_lossy(&text).lines() {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(line.replace('\r', " ").as_bytes());
        out.push(b'\n');
    }
    out.push(b'\n');
}

fn put_text(out: &mut Vec<u8>, value: View<'_>) {
    match value {
        View::Simple(text) | View::Bulk(text) => out.extend_from_slice(text),
        View::Integer(number) => out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()),
        _ => {}
    }
}

impl Pages for Events {
    fn poll_page(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<ResponseBody>, SourceError>> {
        let _ = self.watch.as_mut().poll(cx);
        // An error ends it: the rules of the user have changed, or the source is gone.
        Poll::Ready(Ok(ready!(self.poll_events(cx)).ok().flatten().map(ResponseBody::full)))
    }
}
