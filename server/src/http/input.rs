//! Request bodies: whole, bounded in size and in time.
use super::problem::{Kind, Problem};
use bytes::Bytes;
use http_body::Body;
use std::{future::poll_fn, pin::pin, time::Duration};
use tokio::time::{Instant, timeout_at};

/// Bound on a body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    /// Bytes.
    pub(super) bytes: usize,
    /// The setting that says so.
    pub(super) setting: &'static str,
    /// What a larger one is.
    pub(super) kind: Kind,
    /// Time for the first bytes; the rest must keep up [`SLOWEST`] on average. A client that sends a byte now and then
    /// would otherwise hold what it has sent so far for as long as it likes.
    pub(super) patience: Duration,
}

/// Bytes per second.
const SLOWEST: u64 = 1024;
/// A `Content-Length` is believed up to here; beyond, room is made for what has come.
const BELIEVED: usize = 1 << 20;

/// Reads a body to its end.
///
/// # Errors
/// `limit.kind` if it is too large (told before anything is read if the client announced it), `BodyTimeout`, `BadBody` if
/// the client broke off.
pub(super) async fn read<B>(body: B, limit: Limit) -> Result<Bytes, Problem>
where
    B: Body<Data = Bytes>,
{
    let too_large = || Problem::over(limit.kind, "the body", limit.setting, limit.bytes);
    let announced = body.size_hint().lower();
    if announced > limit.bytes as u64 {
        return Err(too_large());
    }
    let mut body = pin!(body);
    let begun = Instant::now();
    let mut first = Bytes::new();
    let mut all = Vec::new();
    let mut len = 0;
    loop {
        let deadline = begun + limit.patience + Duration::from_secs(len as u64 / SLOWEST);
        let frame = timeout_at(deadline, poll_fn(|cx| body.as_mut().poll_frame(cx))).await;
        let data = match frame {
            Err(_) => {
                return Err(Problem::of(
                    Kind::BodyTimeout,
                    format!(
                        "less than {SLOWEST} bytes a second came in after the first {} (setting `header-timeout`)",
                        larder_units::show_duration(limit.patience)
                    ),
                ));
            }
            Ok(Some(Err(_))) => return Err(Problem::of(Kind::BadBody, "the body broke off")),
            Ok(None) if all.is_empty() => return Ok(first),
            Ok(None) => return Ok(all.into()),
            // Trailers mean nothing here.
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => data,
                Err(_) => continue,
            },
        };
        len += data.len();
        if len > limit.bytes {
            return Err(too_large());
        }
        if len == data.len() {
            // Most bodies come in one piece and need not be copied.
            first = data;
            continue;
        }
        if all.is_empty() {
            all.reserve((announced as usize).clamp(len, len.max(BELIEVED)));
            all.extend_from_slice(&first);
        }
        all.extend_from_slice(&data);
    }
}
