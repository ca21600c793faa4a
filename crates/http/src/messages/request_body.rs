//! Request bodies: whole, bounded in size and in time.
use super::problem_json::{Problem, ProblemKind};
use crate::connection::connection_context::{ConnectionContext, buffer_account};
use bytes::Bytes;
use hyper::body::{Body, Incoming};
use larder_base::buffers::{BufferAccount, BufferKind, GrowingBuffer, HeldBytes};
use larder_ring::peer::AT_OWNER;
use std::{future::poll_fn, pin::Pin, task::Poll, time::Duration};
use tokio::time::{Instant, timeout, timeout_at};

#[derive(Debug, Clone, Copy)]
pub(crate) enum BodyLimit {
    Unread,
    /// `max-body`.
    Small,
    /// `max-value`.
    Value,
    /// `max-value`, with the key and the rest of the message.
    Message,
    /// `max-value`, with the rest of the object, and the key's characters as escapes.
    Item,
    /// A message, or commands that another node sends together: twice `max-value`, or
    /// [`LONGEST_COMMANDS`] if that is more (as from a client of the Redis protocol). They have several
    /// values, and `max-buffers` bounds them.
    ForNode,
}

const LONGEST_COMMANDS: usize = 256 * 1024 * 1024;

/// The body of a request, on its way.
pub(crate) struct UnreadBody<'r> {
    /// The connection, on whose account the body is.
    pub(crate) context: &'r ConnectionContext,
    pub(crate) body: Pin<&'r mut Incoming>,
    pub(crate) limit: BodyLimit,
    /// The rest of the request's path.
    pub(crate) key: &'r [u8],
}

const SLOWEST: u64 = 1024;
/// A `Content-Length` is believed up to here; beyond, room is made for what has come.
const BELIEVED: usize = 1 << 20;

/// Bytes of an unread body that are taken all the same.
const DISCARDED: u64 = 64 << 10;
const DISCARDING: Duration = Duration::from_millis(100);

/// Takes a body that the route did not read, if it is short and comes at once.
///
/// HTTP/2 resets a stream whose response comes before the end of the request (RFC 9113 section
/// 8.1). Some clients (curl 7.88) lose the response then.
pub(crate) async fn discard(mut body: Pin<&mut Incoming>) {
    let mut left = DISCARDED;
    if body.size_hint().lower() > left {
        return;
    }
    let rest = async {
        while !body.is_end_stream() {
            let Some(Ok(frame)) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await else { return };
            let len = frame.data_ref().map_or(0, |data| data.len() as u64);
            let Some(less) = left.checked_sub(len) else { return };
            left = less;
        }
    };
    // What comes later is not waited for.
    let _ = timeout(DISCARDING, rest).await;
}

impl UnreadBody<'_> {
    /// Bytes at most, the setting that says so, and the problem that a larger body is.
    fn at_most(&self) -> (usize, &'static str, ProblemKind) {
        let settings = &self.context.worker.app.settings;
        let bytes = match self.limit {
            BodyLimit::Unread => 0,
            BodyLimit::Small => return (settings.max_body, "max-body", ProblemKind::BodyTooLarge),
            BodyLimit::Value => settings.max_value,
            BodyLimit::ForNode if self.key == AT_OWNER.as_bytes() => 2 * settings.max_value.max(LONGEST_COMMANDS / 2),
            BodyLimit::Message | BodyLimit::ForNode => settings.max_value + settings.max_key + 1024,
            BodyLimit::Item => settings.max_value + 6 * settings.max_key + 1024,
        };
        (bytes, "max-value", ProblemKind::ValueTooLarge)
    }

    /// Reads the body to its end. The first bytes may take `header-timeout`; the rest must keep up
    /// [`SLOWEST`] on average. A client that sends a byte now and then would otherwise hold what it
    /// has sent so far for as long as it likes.
    ///
    /// # Errors
    /// The body is too large (told before anything is read if the client announced it), too slow or
    /// broken.
    pub(crate) async fn read(self) -> Result<Bytes, Problem> {
        let (limit, setting, kind) = self.at_most();
        let patience = self.context.worker.app.live.header_timeout();
        let UnreadBody { context, mut body, .. } = self;
        let too_large = || Problem::over(kind, "the body", setting, limit);
        let announced = body.size_hint().lower();
        if announced > limit as u64 {
            return Err(too_large());
        }
        let ConnectionContext { worker, peer, .. } = context;
        let buffers = &worker.app.buffers;
        if announced > buffers.limit() as u64 {
            buffers.note_refused();
            return Err(Problem::over(ProblemKind::BodyTooLarge, "the body", "max-buffers", buffers.limit()));
        }
        // Of a body that does not come in one piece.
        let mut holder: Option<BufferAccount> = None;
        let begun = Instant::now();
        let mut first = Bytes::new();
        let mut all = GrowingBuffer::default();
        let mut len = 0;
        loop {
            let deadline = begun + patience + Duration::from_secs(len as u64 / SLOWEST);
            let next = poll_fn(|cx| {
                if let Some(holder) = &holder {
                    if holder.is_cut() {
                        return Poll::Ready(None);
                    }
                    if !holder.poll_room(cx) {
                        return Poll::Pending;
                    }
                }
                body.as_mut().poll_frame(cx).map(Some)
            });
            let frame = match timeout_at(deadline, next).await {
                Ok(Some(frame)) => Ok(frame),
                Ok(None) => {
                    holder.iter().for_each(|holder| holder.note_cut(peer));
                    return Err(Problem::buffers_full("the request held the most", buffers.limit()));
                }
                Err(late) => Err(late),
            };
            let data = match frame {
                Err(_) => {
                    return Err(Problem::of(
                        ProblemKind::BodyTimeout,
                        format!(
                            "less than {SLOWEST} bytes a second came in after the first {} (setting `header-timeout`)",
                            larder_units::show_duration(patience)
                        ),
                    ));
                }
                Ok(Some(Err(_))) => return Err(Problem::of(ProblemKind::BadBody, "the body broke off")),
                Ok(None) => {
                    drop(holder);
                    let whole = if all.is_empty() { first } else { all.into() };
                    return Ok(buffers.count(BufferKind::HttpInput, whole));
                }
                // Trailers mean nothing here.
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => data,
                    Err(_) => continue,
                },
            };
            len += data.len();
            if len > limit {
                return Err(too_large());
            }
            if len == data.len() {
                // Most bodies come in one piece and need not be copied.
                first = data;
                continue;
            }
            if all.is_empty() {
                all.reserve_exact((announced as usize).clamp(len, len.max(BELIEVED)));
                all.extend(&first, len);
            }
            // Without a length, as much again as has come.
            all.extend(&data, if announced > 0 { announced as usize } else { 2 * len });
            if holder.is_none() {
                holder = Some(buffer_account(worker).await);
            }
            // What is reserved beyond that has not been touched.
            holder.iter().for_each(|holder| holder.set(HeldBytes { input: all.len(), ..HeldBytes::default() }));
        }
    }
}
