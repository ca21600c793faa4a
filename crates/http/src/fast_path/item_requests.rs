//! Items in memory: answered without the general path, by the functions that it calls.
use super::{
    fast_connection::{FastConnection, PendingAnswer, WaitingResponse},
    plain_requests::enter,
};
use crate::{
    compat::read_routes::ReadRoute,
    item_api::{self, DirectAnswer},
    messages::response_writer::{write_json, write_no_content, write_whole},
    routing::{access_log, route_request::GroupRequest},
};
use http::StatusCode;
use larder_base::{special::Special, telemetry::HttpRoute, tls::ClientStream};
use larder_engine::Millis;
use larder_proto::{
    http::{head::BodyMethod, target, text::Date},
    output::Output,
};
use std::time::Instant;

impl<S: ClientStream> FastConnection<'_, S> {
    /// Whether this is the path of items, and nothing stands between it and the memory of this
    /// node.
    pub(super) fn takes_item(&self, method: BodyMethod, target: &[u8]) -> bool {
        let worker = &self.context.worker;
        let (path, _) = target::split(target);
        let is_item = worker
            .app
            .settings
            .item_prefix
            .as_ref()
            .is_some_and(|prefix| path.strip_prefix(prefix.as_bytes()).is_some_and(|rest| rest == b"/item"));
        let group = worker.http_group();
        let is_read = method == BodyMethod::Get;
        is_item
            && method != BodyMethod::Put
            && !group.source.reads_through()
            && group.peers.is_none()
            && (is_read || !worker.app.replication.refuses_writes(worker.app.settings.http_group))
            && self.special & access_log::IN_LOG == 0
            // The general path looks at headers.
            && !(worker.is_on(Special::Throttle)
                && (self.context.forwarded.is_some() || worker.app.gate.throttle.looks_at_requests()))
    }

    /// Answers a request for an item. False if the general path has to say what is wrong with it.
    pub(super) fn item(
        &mut self,
        method: BodyMethod,
        (target, body): (&[u8], &[u8]),
        (now, begun): (Millis, Instant),
        date: &[u8; Date::LEN],
        output: &mut Output,
        text: &mut Vec<u8>,
    ) -> bool {
        self.timed_with = HttpRoute::Item;
        let worker = &self.context.worker;
        if !item_api::is_within_limits(&worker.app.settings, method, body) {
            return false;
        }
        // Behind an answer that waits, this one waits too.
        let output = self.waiting.last_mut().map_or(output, |last| &mut last.after);
        text.clear();
        let entered = match self.special {
            0 => Ok(true),
            _ => enter(self.context, &self.user, self.context.peer.ip()),
        };
        let answer = match entered {
            Ok(false) => return false,
            Err(refused) => DirectAnswer::Error(item_api::refused(method, refused)),
            Ok(true) => {
                let (group, (_, query)) = (worker.http_group(), target::split(target));
                let asked = GroupRequest { worker, group, query, now, user: self.user.clone(), trace: None };
                item_api::answer_from_memory(&asked, method, body, text)
            }
        };
        let status = match answer {
            DirectAnswer::Written(status) => {
                write_json(output, status, text, date);
                status
            }
            DirectAnswer::Deleted => {
                write_no_content(output, None, date);
                StatusCode::NO_CONTENT
            }
            DirectAnswer::Error(response) => {
                let status = response.status();
                write_whole(output, response, date);
                status
            }
            DirectAnswer::Long(response) => {
                let answer = PendingAnswer::Ready(Box::new(response));
                self.waiting.push(WaitingResponse::new((ReadRoute::Kv, 0, b""), answer, (begun, HttpRoute::Item)));
                return true;
            }
        };
        match status == StatusCode::OK {
            true => self.of_routes[HttpRoute::Item as usize].hits += 1,
            false => worker.counters.http_answered(HttpRoute::Item, status.as_u16()),
        }
        true
    }
}
