//! Answers that had to wait for the source or the store, sent in the order of their requests.
use super::fast_connection::{ENOUGH, FastConnection, FastState, PendingAnswer, WaitingResponse};
use crate::{
    compat::{read_routes::ReadRoute, redis_rest},
    keys::key_routes::{self, Wanted},
    messages::{problem_json::Problem, read_responses::EntryMetadata},
};
use http::{Response, StatusCode};
use larder_base::tls::ClientStream;
use larder_core::read::Group;
use larder_redis::lone_gets;
use larder_source::{CopyMetadataView, SourceError};
use larder_store::clock;
use std::io;

impl<S: ClientStream> FastConnection<'_, S> {
    /// Sends the answers that wait, in order, each followed by those behind it.
    pub(super) async fn send_waiting(&mut self) -> io::Result<()> {
        let worker = self.context.worker.clone();
        self.behind = self.waiting.iter().map(|waiting| waiting.after.owned()).sum();
        for waiting in std::mem::take(&mut self.waiting) {
            let WaitingResponse {
                route,
                group,
                key,
                answer,
                begun,
                timed_with,
                mut after,
                mut logged_after,
                mut logged,
            } = waiting;
            let before = self.written + self.output.len() as u64;
            // The source keeps its own deadline.
            self.deadline.allow(None);
            let response = match answer {
                PendingAnswer::Large(value) => {
                    Some(route.found(&key, value, None, (&[], &CopyMetadataView::default()), worker.app.instance))
                }
                PendingAnswer::Ready(response) => Some(*response),
                PendingAnswer::RedisGet(get) => {
                    let (wait, strings, client) = *get;
                    let got = lone_gets::end(&worker, (client, wait, begun)).await;
                    Some(redis_rest::answer_get(&worker, &got, strings))
                }
                PendingAnswer::Wait(mut wait, accepted) => {
                    let ended = Group::ended((&mut wait).await);
                    if matches!(ended, Ok(Some(_))) && self.write_fetched(route, group, &key) {
                        None
                    } else {
                        let (group, said) = (worker.groups.at(group), wait.metadata());
                        let outcome = key_routes::finish_read(group, route, &key, ended, said, &accepted).await;
                        Some(key_routes::respond(route, &key, outcome, &Wanted::default(), worker.app.instance))
                    }
                }
                PendingAnswer::Write(task) => {
                    let lost = |_| Err(Problem::source(&SourceError::Lost("write abandoned".into())));
                    Some(task.await.unwrap_or_else(lost).unwrap_or_else(Problem::into_response))
                }
            };
            let status = response.as_ref().map_or(StatusCode::OK, Response::status);
            worker.counters.http_answered(timed_with, status.as_u16());
            if let Some(logged) = &mut logged {
                logged.answered(status.as_u16());
            }
            if let Some(response) = response {
                self.send(response).await?;
            }
            let sent = self.written + self.output.len() as u64 - before;
            worker.counters.http_routes[timed_with].sent.add(sent);
            // From here on, its answer ends in the output.
            self.unsent.extend(logged.map(|logged| *logged));
            self.unsent.append(&mut logged_after);
            worker.counters.http_times[timed_with].record(begun.elapsed());
            self.behind = self.behind.saturating_sub(after.owned());
            self.output.append(&mut after);
            if self.output.len() > ENOUGH {
                self.flush().await?;
            }
        }
        self.flush().await?;
        self.deadline.allow(match self.state {
            FastState::InHead => Some(worker.app.live.header_timeout()),
            _ => worker.app.live.idle_timeout(),
        });
        Ok(())
    }

    /// Writes the copy of a value that was fetched; false: there is none that could be written.
    fn write_fetched(&mut self, route: ReadRoute, group: usize, key: &[u8]) -> bool {
        let worker = &self.context.worker;
        let (group, instance, now) = (worker.groups.at(group), worker.app.instance, clock::now());
        if !group.policy.serves(key) {
            return false;
        }
        let mut buffers = self.context.http.turn_buffers.borrow_mut();
        let date = buffers.date.at(now);
        let written = group.cache.tier().peek(group.cache.key(key), now, |entry| {
            route
                .write_entry(&mut self.output, &entry, EntryMetadata::fetched(&entry, now, true), instance, date)
                .is_none()
        });
        written == Some(true)
    }
}
