//! GETs of Redis over HTTP, answered from inside the engine's lookup: a session for each would cost
//! five times as much (decision 0226). All other commands, and a GET of which anything is unusual,
//! go to the general path. The answers are the same.
use super::fast_connection::{FastConnection, PendingAnswer, WaitingResponse};
use crate::{
    compat::{
        read_routes::ReadRoute,
        redis_json::{self, Strings},
        redis_rest::{self, TOKEN},
    },
    messages::{
        read_responses::end_head,
        response_writer::{ROOM, write_json},
    },
    routing::access_log,
};
use http::StatusCode;
use larder_base::{telemetry::HttpRoute, tls::ClientStream};
use larder_core::read::StartedRead;
use larder_engine::{Millis, Value};
use larder_proto::{
    http::{target, text::Date},
    output::Output,
};
use larder_redis::lone_gets;
use std::time::Instant;

/// Bytes of a body besides the key. With more, `max-value` may refuse it.
const AROUND: usize = 1024;

/// Where a GET has its key.
pub(super) enum RedisTarget<'t> {
    /// The body is the command.
    Body,
    /// The path has the key, still encoded.
    Path(&'t [u8]),
}

impl<S: ClientStream> FastConnection<'_, S> {
    /// What a target asks of Redis over HTTP, if it may be a GET.
    #[inline]
    pub(super) fn redis_target<'t>(&self, target: &'t [u8]) -> Option<RedisTarget<'t>> {
        let settings = &self.context.worker.app.settings;
        let prefix = settings.redis_http_prefix.as_deref()?;
        let (path, query) = target::split(target);
        let is_root = prefix == "/";
        let below = if is_root { path } else { path.strip_prefix(prefix.as_bytes())? };
        // The session looks at what is on, at the page that asks, and at a token in the query.
        let is_plain = self.special == 0
            && !self.heads.names_page()
            && (query.is_empty()
                || !self.user.is_known() && target::pairs(query).all(|(name, _)| name == TOKEN.as_bytes()));
        if !is_plain {
            return None;
        }
        if below.is_empty() || is_root && below == b"/" {
            return Some(RedisTarget::Body);
        }
        let (name, rest) = below.strip_prefix(b"/")?.split_at_checked(GET.len())?;
        let key = rest.strip_prefix(b"/").filter(|_| name.eq_ignore_ascii_case(GET))?;
        // At the root, other routes come first.
        let may_be_other = is_root
            && (key.is_empty()
                || key.iter().any(|byte| matches!(byte, b'%' | b'.'))
                || settings.item_prefix.as_deref().is_some_and(|items| below.starts_with(items.as_bytes())));
        (!key.contains(&b'/') && !may_be_other).then_some(RedisTarget::Path(key))
    }

    /// Answers a GET, or begins it. False if it is another command, or needs a session.
    pub(super) fn redis_get(
        &mut self,
        asked: &RedisTarget<'_>,
        (head, body): (&[u8], &[u8]),
        (now, begun): (Millis, Instant),
        date: &[u8; Date::LEN],
        output: &mut Output,
    ) -> bool {
        let (worker, http) = (&self.context.worker, &self.context.http);
        let key = match *asked {
            RedisTarget::Body => redis_json::key_of_get(body).filter(|key| body.len() <= key.len() + AROUND),
            RedisTarget::Path(key) if body.is_empty() => target::decode_path(key, &mut self.scratch).ok(),
            RedisTarget::Path(_) => None,
        };
        let Some(key) = key else { return false };
        let strings = if self.heads.wants_base64() { Strings::Base64 } else { Strings::Text };
        // Behind an answer that waits, this one waits too.
        let output = self.waiting.last_mut().map_or(output, |last| &mut last.after);
        let group = worker.groups.default();
        let mut of_other_group = Vec::new();
        let is_of_batch = group.number == worker.app.settings.http_group;
        let batch = if is_of_batch { &mut self.batch } else { &mut of_other_group };
        let client = (&**worker, &**http.redis.access(worker, false), self.user.user().map(|user| &**user));
        let found = lone_gets::begin(client, key, now, batch, |value| match value {
            Value::Inline(bytes) => {
                write_value(output, bytes, strings, date);
                None
            }
            // It is not encoded under the shard's lock.
            Value::Large(_) => Some(value.to_bytes()),
        });
        let Some(found) = found else { return false };
        if !of_other_group.is_empty() {
            worker.fetch(group, &mut of_other_group);
        }
        self.timed_with = HttpRoute::Redis;
        let got = match found {
            StartedRead::Hit(Ok(None)) => {
                self.of_routes[HttpRoute::Redis as usize].hits += 1;
                return true;
            }
            StartedRead::Absent => {
                write_json(output, StatusCode::OK, ABSENT, date);
                self.of_routes[HttpRoute::Redis as usize].hits += 1;
                return true;
            }
            StartedRead::Hit(Ok(large)) => Ok(large),
            StartedRead::Hit(Err(error)) => Err(error.into()),
            StartedRead::Wait(wait) => {
                let address = self.context.client(|name| access_log::fields_of(head, name));
                let client = (address.ip, address.port.unwrap_or(0)).into();
                return self.redis_waits(PendingAnswer::RedisGet(Box::new((wait, strings, client))), begun);
            }
        };
        lone_gets::note_took(worker, 1, begun.elapsed());
        let response = redis_rest::answer_get(worker, &got, strings);
        self.redis_waits(PendingAnswer::Ready(Box::new(response)), begun)
    }

    fn redis_waits(&mut self, answer: PendingAnswer, begun: Instant) -> bool {
        self.waiting.push(WaitingResponse::new((ReadRoute::Kv, 0, b""), answer, (begun, HttpRoute::Redis)));
        true
    }
}

const GET: &[u8] = b"get";
const BEFORE: &[u8] = b"{\"result\":";
const AFTER: &[u8] = b"}";
const ABSENT: &[u8] = b"{\"result\":null}";

/// Writes a whole response with a value.
#[inline]
fn write_value(out: &mut Output, value: &[u8], strings: Strings, date: &[u8; Date::LEN]) {
    let len = BEFORE.len() + strings.len(value) + AFTER.len();
    out.reserve(ROOM + len);
    out.put(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-content-type-options: nosniff");
    end_head(out, len, date);
    out.put(BEFORE);
    strings.write(out, value);
    out.put(AFTER);
}
