//! The fast routes: plain reads of one key, answered from inside the engine's lookup, and plain
//! writes to a store. Those of items and of Redis over HTTP have their own files.
use super::{
    fast_connection::{ENOUGH, FastConnection, FastState, PendingAnswer, WaitingResponse},
    redis_requests::RedisTarget,
};
use crate::{
    compat::{entity, read_routes::ReadRoute},
    connection::{
        connection_context::ConnectionContext,
        worker_state::{INPUT, TurnBuffers},
    },
    keys::key_routes,
    messages::{
        problem_json::Problem,
        read_responses::EntryMetadata,
        response_writer::{write_no_content, write_whole},
    },
    routing::{
        access_log::{self, LoggedRequest},
        request_user::RequestUser,
    },
};
use bytes::Bytes;
use http::{Method, StatusCode};
use larder_base::{
    identity::KeyAccess,
    lifecycle::throttle::{Caller, Scope},
    special::Special,
    telemetry::{HttpRoute, RecordedOperation},
    tls::ClientStream,
};
use larder_core::{
    gate::{self, Asked, Door},
    read::{Group, StartedRead},
};
use larder_engine::{Entry, Millis};
use larder_proto::{
    http::{
        forwarded::ClientAddress,
        head::{BodyMethod, Front},
        target,
        text::Date,
    },
    output::Output,
};
use larder_ring::peer::{BASE_PATH, ring_of};
use larder_store::{StoredValue, clock};
use std::{iter, net::IpAddr, rc::Rc, time::Instant};

/// Reads of one connection that wait at a time.
const MOST_WAITING: usize = 128;

/// The fast routes whose requests may have a body.
enum BodyRoute<'t> {
    /// A plain write to a store.
    Write,
    Item(BodyMethod),
    Redis(RedisTarget<'t>),
}

impl<S: ClientStream> FastConnection<'_, S> {
    /// Answers the complete requests in the first `filled` bytes of input; the number of bytes they
    /// take.
    pub(super) fn answer_all(&mut self, filled: usize, buffers: &mut TurnBuffers, begun: Instant) -> usize {
        let worker = &self.context.worker;
        if worker.is_on(Special::Faults) {
            // The general path waits for as long as a fault says.
            self.state = FastState::OtherRequest;
            return 0;
        }
        let max_head = self.context.worker.app.settings.max_headers.min(INPUT - 1);
        let is_open = self.context.users.is_open(&self.context.worker);
        if is_open && self.user.is_known() {
            self.user = Rc::default();
        }
        let now = clock::now();
        worker.begin_turn(now);
        self.special = worker.special(Door::Http);
        let date = buffers.date.at(now);
        let (input, output, text) = (&buffers.input[..filled], &mut buffers.output, &mut buffers.text);
        let mut at = 0;
        let mut due = output.len();
        self.state = loop {
            if at == filled {
                break FastState::Idle;
            }
            let (target, len, body) = match self.heads.front_for(&input[at..], |host| self.context.allows_host(host)) {
                Front::Plain { target, len } if len <= max_head => (target, len, None),
                Front::WithBody { method, target, head, len } => {
                    let Some(route) = self.body_route(method, target).filter(|_| head <= max_head && len < INPUT)
                    else {
                        break FastState::OtherRequest;
                    };
                    if filled - at < len {
                        break FastState::InBody;
                    }
                    (target, len, Some((route, &input[at + head..at + len])))
                }
                Front::Partial if filled - at <= max_head => break FastState::InHead,
                Front::Plain { .. } | Front::Partial | Front::Other => break FastState::OtherRequest,
            };
            if !is_open {
                match self.context.users.known(self.heads.authorization()) {
                    Some(user) => self.user = user,
                    // The general path knows the client behind a proxy.
                    None if self.context.forwarded.is_some() => break FastState::OtherRequest,
                    // A node may show a secret, which is no failed login.
                    None if target.starts_with(BASE_PATH.as_bytes()) => break FastState::OtherRequest,
                    None => break FastState::LogIn,
                }
            }
            // Writes of one connection are under way together, but what is read next comes after them, and they
            // after what was read.
            let writing = self.waiting.last().map(|last| matches!(last.answer, PendingAnswer::Write(_)));
            let writes = matches!(body, Some((BodyRoute::Write | BodyRoute::Item(_), _)));
            if writing.is_some_and(|writing| writing != writes) {
                break FastState::Backlog;
            }
            let (waiting, request) = (self.waiting.len(), &input[at..at + len]);
            let taken = match body {
                Some((BodyRoute::Write, body)) => self.write(target, body, begun, date, output),
                Some((BodyRoute::Item(method), body)) => {
                    self.item(method, (target, body), (now, begun), date, output, text)
                }
                Some((BodyRoute::Redis(asked), body)) => {
                    self.redis_get(&asked, (request, body), (now, begun), date, output)
                }
                None => self.answer(target, request, (now, begun), date, output, text),
            };
            if !taken {
                break FastState::OtherRequest;
            }
            let now_due = output.len() + self.waiting.iter().map(|waiting| waiting.after.len()).sum::<usize>();
            let route = &mut self.of_routes[self.timed_with as usize];
            route.answered += u32::from(waiting == self.waiting.len());
            route.received += len;
            route.sent += now_due - due;
            at += len;
            due = now_due;
            if self.waiting.len() == MOST_WAITING || due > ENOUGH {
                break FastState::Backlog;
            }
        };
        at
    }

    /// The fast route that a request with a body may be for.
    fn body_route<'t>(&self, method: BodyMethod, target: &'t [u8]) -> Option<BodyRoute<'t>> {
        match method {
            BodyMethod::Put => self.writes_here().then_some(BodyRoute::Write),
            _ if self.takes_item(method, target) => Some(BodyRoute::Item(method)),
            BodyMethod::Post => self.redis_target(target).map(BodyRoute::Redis),
            BodyMethod::Get | BodyMethod::Delete => None,
        }
    }

    /// Whether nothing is on that a request must be asked about, or logged for.
    fn is_plain(&self) -> bool {
        self.special & !(Special::Recorder as u32) == 0
    }

    /// Many writes of one connection are worth being under way at once where each waits for a disk.
    fn writes_here(&self) -> bool {
        let worker = &self.context.worker;
        self.is_plain() && worker.http_group().source.as_local().is_some()
    }

    /// Makes a plain write to a store, or begins it. False if the general path has to say what is
    /// wrong with it.
    fn write(
        &mut self,
        target: &[u8],
        body: &[u8],
        begun: Instant,
        date: &[u8; Date::LEN],
        output: &mut Output,
    ) -> bool {
        let worker = &self.context.worker;
        let settings = &worker.app.settings;
        let (is_entity, decoded) = if let Some(key) = target.strip_prefix(b"/v1/kv/") {
            // A query may have a lifetime.
            (false, (!key.contains(&b'?')).then(|| target::decode_path(key, &mut self.scratch)))
        } else if let Some(query) = target.strip_prefix(b"/v0/entity?").filter(|query| !query.contains(&b'&')) {
            let key = target::parameter(query, ReadRoute::Entity.parameter());
            (true, key.map(|key| target::decode_query(key, &mut self.scratch)))
        } else {
            return false;
        };
        let key = match decoded {
            // The empty key is an id that is missing.
            Some(Ok(key)) if key.len() <= settings.max_key && !(is_entity && key.is_empty()) => key,
            _ => return false,
        };
        if body.len() > settings.max_value {
            return false;
        }
        if !self.user.may((worker, worker.http_group()), "set", (key, KeyAccess::WRITE)) {
            return false;
        }
        gate::note(worker, RecordedOperation::Set(body.len()), key);
        worker.http_group().policy.key_counts.note_write(key, body.len());
        self.timed_with = if is_entity { HttpRoute::Entity } else { HttpRoute::Kv };
        let (group, instance) = (worker.http_group().clone(), worker.app.instance);
        // What waits may be a write of the same key.
        if self.waiting.is_empty()
            && let Some(status) = write_now(&group, is_entity, key, body, instance, date, output)
        {
            worker.counters.http_answered(self.timed_with, status.as_u16());
            return true;
        }
        let (owned, value) = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(body));
        // Tasks begin in the order in which they were made, and so do the writes.
        let task = tokio::task::spawn_local(async move {
            let failed = |error| Problem::source(&error);
            match is_entity {
                true => group.overwrite(&owned, Some(value)).await.map(|_| entity::stored()).map_err(failed),
                false => key_routes::put(group.put(&owned, value, None).await.map_err(failed)?, instance),
            }
        });
        let about = (ReadRoute::Kv, worker.app.settings.http_group, key);
        self.waiting.push(WaitingResponse::new(about, PendingAnswer::Write(task), (begun, self.timed_with)));
        true
    }

    /// Answers a read without a key. False if the request has to be counted or logged as well.
    fn refuse_without_key(&mut self, route: ReadRoute, date: &[u8; Date::LEN], output: &mut Output) -> bool {
        let worker = &self.context.worker;
        if !self.is_plain() {
            return false;
        }
        let response = route.failed(None, Problem::missing_key(route.parameter()));
        self.timed_with = route.timed_with();
        worker.counters.http_answered(self.timed_with, response.status().as_u16());
        write_whole(self.waiting.last_mut().map_or(output, |last| &mut last.after), response, date);
        true
    }

    /// Answers a plain request. False if it is not for a fast route, or if the general path has to
    /// say what is wrong with it.
    #[inline]
    fn answer(
        &mut self,
        target: &[u8],
        head: &[u8],
        (now, begun): (Millis, Instant),
        date: &[u8; Date::LEN],
        output: &mut Output,
        text: &mut Vec<u8>,
    ) -> bool {
        let worker = &self.context.worker;
        let (path, query) = target::split(target);
        let mut number = worker.app.settings.http_group;
        let (route, decoded) = if let Some(key) = path.strip_prefix(b"/v1/kv/") {
            // The general path finds parts of values.
            if target::parameter(query, "pointer").is_some() {
                return false;
            }
            (ReadRoute::Kv, target::decode_path(key, &mut self.scratch))
        } else if let Some(rest) = path.strip_prefix(BASE_PATH.as_bytes()) {
            // The general path looks at headers.
            let peers = &worker.app.settings.peers;
            if peers.secret.is_some() || peers.tls.is_some() && !self.context.is_node {
                return false;
            }
            // The general path says why.
            if worker.app.peers.as_ref().is_some_and(|peers| !peers.answers()) {
                return false;
            }
            let Some((name, key)) = rest.iter().position(|b| *b == b'/').map(|at| (&rest[..at], &rest[at + 1..]))
            else {
                return false;
            };
            match worker.groups.named(name).map(|group| group.number) {
                Some(group) => number = group,
                None => return false,
            }
            (ReadRoute::Peer, target::decode_path(key, &mut self.scratch))
        } else {
            match ReadRoute::of_target(path, query) {
                Some((ReadRoute::Data, Some(key))) => {
                    number = worker.app.settings.data_group;
                    (ReadRoute::Data, target::decode_path(key, &mut self.scratch))
                }
                Some((route, Some(key))) => (route, target::decode_query(key, &mut self.scratch)),
                Some((ReadRoute::Text, None)) => return false,
                Some((route, None)) => return self.refuse_without_key(route, date, output),
                None if self.takes_item(BodyMethod::Get, target) => {
                    return self.item(BodyMethod::Get, (target, b""), (now, begun), date, output, text);
                }
                None => {
                    return self
                        .redis_target(target)
                        .is_some_and(|asked| self.redis_get(&asked, (head, b""), (now, begun), date, output));
                }
            }
        };
        self.timed_with = route.timed_with();
        let key = match decoded {
            Ok(key)
                if key.len() <= worker.app.settings.max_key
                    && (!key.is_empty() || matches!(route, ReadRoute::Kv | ReadRoute::Peer)) =>
            {
                key
            }
            _ => return false,
        };
        if !self.user.may((worker, worker.groups.at(number)), "get", (key, KeyAccess::READ)) {
            return false;
        }
        // Behind an answer that waits, this one waits too.
        let output = self.waiting.last_mut().map_or(output, |last| &mut last.after);
        let mut logged = None;
        if self.special != 0 {
            let address = client(self.context, head).ip;
            match enter(self.context, &self.user, address) {
                Ok(true) => {}
                Ok(false) => return false,
                Err(refused) => {
                    let response = route.failed(Some(key), refused);
                    worker.counters.http_answered(self.timed_with, response.status().as_u16());
                    write_whole(output, response, date);
                    return true;
                }
            }
            gate::note(worker, RecordedOperation::Get, key);
            if self.special & access_log::IN_LOG != 0 {
                logged = logged_request(self.context, target, head);
            }
        }
        let group = worker.groups.at(number);
        let instance = worker.app.instance;
        let trace = logged.as_ref().map(|logged| &logged.trace);
        let write = |entry: Entry<'_>| {
            if let Some(trace) = trace
                && entry.stale_since().is_some()
            {
                trace.is_answered_stale();
            }
            route.write_entry(output, &entry, EntryMetadata::hit(&entry, now), instance, date)
        };
        // Those of the group that needs no name leave together.
        let mut of_other_group = Vec::new();
        let batch = if number == worker.app.settings.http_group { &mut self.batch } else { &mut of_other_group };
        let begun_before = batch.len();
        let found = match route {
            ReadRoute::Peer => {
                let ring = ring_of(head);
                if let Some(peers) = &group.peers {
                    peers.asked(ring, key);
                }
                group.begin_for_peer(group.cache.key(key), ring, now, batch, write)
            }
            _ => group.begin(group.cache.key(key), now, batch, write),
        };
        let batch = if number == worker.app.settings.http_group { &mut self.batch } else { &mut of_other_group };
        if let Some(fetch) = batch.get_mut(begun_before..).and_then(|begun| begun.last_mut()) {
            let field = |name: &str| access_log::field_of(head, name);
            let trace = logged.as_ref().map(|logged| logged.trace.clone()).or_else(|| access_log::trace_of(field));
            trace.into_iter().for_each(|trace| fetch.follow(trace));
        }
        if let Some(logged) = &mut logged
            && !matches!(found, StartedRead::Wait(_))
        {
            logged.trace.is_answered_by(|| group.tier_name(key).into());
        }
        if !of_other_group.is_empty() {
            worker.fetch(group, &mut of_other_group);
        }
        let answer = match found {
            StartedRead::Hit(None) => {
                if let Some(logged) = logged {
                    self.log_when_sent(*logged, 200);
                }
                self.of_routes[self.timed_with as usize].hits += 1;
                return true;
            }
            StartedRead::Absent => {
                let response = route.absent(key);
                let status = response.status().as_u16();
                worker.counters.http_answered(self.timed_with, status);
                write_whole(output, response, date);
                if let Some(logged) = logged {
                    self.log_when_sent(*logged, status);
                }
                return true;
            }
            StartedRead::Hit(Some(value)) => PendingAnswer::Large(value),
            StartedRead::Wait(wait) => {
                let accepted: Vec<&[u8]> = access_log::fields_of(head, "accept-encoding").collect();
                PendingAnswer::Wait(wait, accepted.join(&b","[..]).into())
            }
        };
        let waiting = WaitingResponse::new((route, number, key), answer, (begun, self.timed_with));
        self.waiting.push(WaitingResponse { logged, ..waiting });
        true
    }

    /// The answer to a request is at the end of the output.
    fn log_when_sent(&mut self, mut logged: LoggedRequest, status: u16) {
        logged.answered(status);
        self.waiting.last_mut().map_or(&mut self.unsent, |last| &mut last.logged_after).push(logged);
    }
}

/// Makes a plain write, and answers it, if the store need not wait; the status of the answer.
fn write_now(
    group: &Group,
    is_entity: bool,
    key: &[u8],
    body: &[u8],
    instance: u64,
    date: &[u8; Date::LEN],
    output: &mut Output,
) -> Option<StatusCode> {
    let value = Bytes::copy_from_slice(body);
    let done = match is_entity {
        true => group.commit_now(key, Some(StoredValue::string(value, None)), 0)?.map(|()| None),
        false => group.replace_now(key, value)?.map(Some),
    };
    let response = match done {
        Ok(Some(version)) => {
            write_no_content(output, (version != 0).then_some(version ^ instance), date);
            return Some(StatusCode::NO_CONTENT);
        }
        Ok(None) => entity::stored(),
        Err(error) => Problem::source(&error).into_response(),
    };
    let status = response.status();
    write_whole(output, response, date);
    Some(status)
}

/// Asks the gate whether a request may go on. False: the general path has to ask, which looks at more
/// of a request.
#[cold]
pub(super) fn enter(context: &ConnectionContext, user: &RequestUser, address: IpAddr) -> Result<bool, Problem> {
    let worker = &context.worker;
    if worker.app.gate.throttle.looks_at_requests() {
        return Ok(false);
    }
    let asked = Asked {
        door: Door::Http,
        scope: Scope::Data,
        caller: Caller { address, user: user.name() },
        class: None,
        keys: &mut iter::empty(),
        is_for_entries: true,
    };
    gate::enter(worker, asked).map(|_| true).map_err(Problem::refused)
}

fn client(context: &ConnectionContext, head: &[u8]) -> ClientAddress {
    context.client(|name| access_log::fields_of(head, name))
}

#[cold]
fn logged_request(context: &ConnectionContext, target: &[u8], head: &[u8]) -> Option<Box<LoggedRequest>> {
    let target = String::from_utf8_lossy(target);
    let field = |name: &str| access_log::field_of(head, name);
    let mut logged = LoggedRequest::begin(&context.worker.app, client(context, head), (Method::GET, &target), field)?;
    logged.is_read = true;
    Some(Box::new(logged))
}
