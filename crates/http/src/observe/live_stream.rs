//! `GET /v1/live`: samples, metrics and events as they come, as `text/event-stream` (WHATWG HTML
//! section 9.2).
//!
//! The stream ends when the drain begins, when users change, when its token ends, and after
//! [`LONGEST`]: browsers ask again by themselves, and their credentials are looked at again.
use crate::{
    messages::{
        problem_json::Answer,
        response_body::{Pages, ResponseBody},
    },
    routing::route_request::RouteRequest,
};
use http::{HeaderName, HeaderValue, Response, header};
use larder_base::{lifecycle::drain_phase::Phase, telemetry::LiveMessage};
use larder_core::app::App;
use larder_engine::Millis;
use larder_source::SourceError;
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    sync::broadcast::{Receiver, error::RecvError},
    time::{Instant, sleep_until},
};

const LONGEST: Duration = Duration::from_secs(600);
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
/// nginx would collect the messages.
const UNBUFFERED: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));

pub(crate) fn live(request: &RouteRequest<'_>) -> Answer {
    let app = request.worker.app.clone();
    let users_seen = users(&app);
    let login_ends = request.user.login().map_or(Millis::MAX, |(_, ends)| *ends);
    let ends = Instant::now() + LONGEST.min(Duration::from_millis(login_ends.saturating_sub(request.now)));
    let follower = Follower { receiver: app.history.follow(), ends, users_seen, app };
    let stream = LiveStream { next: Some(Box::pin(follower.next())) };
    // A client that is told to ask again does so after a second.
    Ok(event_stream(ResponseBody::endless(ResponseBody::full("retry: 1000\n\n"), stream)))
}

/// A response of events.
pub(crate) fn event_stream(events: ResponseBody) -> Response<ResponseBody> {
    let mut response = Response::new(events);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, EVENT_STREAM);
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    headers.insert(UNBUFFERED.0, UNBUFFERED.1);
    response
}

struct Follower {
    app: Arc<App>,
    receiver: Receiver<LiveMessage>,
    ends: Instant,
    users_seen: (u64, u64),
}

/// Other numbers after each change of users, those of a Redis source included.
fn users(app: &App) -> (u64, u64) {
    (app.users.generation(), app.upstream_rights.as_ref().map_or(0, |rights| rights.changes()))
}

impl Follower {
    /// The next message; `None` if the stream ends.
    async fn next(mut self) -> Option<(LiveMessage, Follower)> {
        loop {
            let received = tokio::select! {
                biased;
                () = self.app.drain.reached(Phase::Draining) => return None,
                () = sleep_until(self.ends) => return None,
                received = self.receiver.recv() => received,
            };
            match received {
                Ok(message) if users(&self.app) == self.users_seen => return Some((message, self)),
                // What was missed is in the history.
                Err(RecvError::Lagged(_)) => {}
                Ok(_) | Err(RecvError::Closed) => return None,
            }
        }
    }
}

type Next = Pin<Box<dyn Future<Output = Option<(LiveMessage, Follower)>>>>;

struct LiveStream {
    next: Option<Next>,
}

impl Pages for LiveStream {
    fn poll_page(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<ResponseBody>, SourceError>> {
        let Some(next) = &mut self.next else { return Poll::Ready(Ok(None)) };
        let (message, next): (_, Option<Next>) = match ready!(next.as_mut().poll(cx)) {
            Some((message, follower)) => (Some(ResponseBody::full(message)), Some(Box::pin(follower.next()))),
            None => (None, None),
        };
        self.next = next;
        Poll::Ready(Ok(message))
    }
}
