//! Commands after which a client needs a connection to a Redis source of its own: SELECT of another database, CLIENT TRACKING, and
//! subscriptions (on a second one, which speaks RESP3, whatever the client does).
//!
//! While a client has one, everything that concerns data goes over it as it is, past the memory tier's copies. What the server says
//! unasked is passed on in its place among the replies. If the connection is lost, so is its state: the client's is closed, as
//! a Redis that goes away would, and clients subscribe or select anew.
use super::{
    Flow,
    command_context::CommandContext,
    command_error::{CommandError, DB_INDEX, NOT_IN_MULTI, int},
    commands::connection::{self, Hello},
    local_pubsub,
    session::Session,
    tracking::{self, Redirect},
    upstream,
    upstream_auth::User,
};
use crate::{
    clients::{Monitoring, Tracks},
    source::{ClientTracking, DedicatedConnection, RawReplies, RedisServer, SourceError, answers_ping},
    telemetry::Counters,
};
use larder_proto::{
    output::{Mark, Output},
    resp::{Args, View, encode, view},
};
use std::{
    sync::atomic::Ordering::Relaxed,
    task::{Context, Poll},
};

/// What a client's own connections are for.
#[derive(Default)]
pub(super) struct DedicatedState {
    /// The database that it has selected, if it is not the source's own.
    pub(super) database: Option<u32>,
    /// The user that it has logged in as, if that is not the one that Larder is.
    pub(super) user: Option<User>,
    /// CLIENT TRACKING ON.
    pub(super) tracking: bool,
    /// … REDIRECT.
    redirect: Option<Redirect>,
    /// The connection of its subscriptions, or of MONITOR.
    subscribed: Option<Subscribed>,
    /// Replies that came over the pinned connection and were passed on.
    passed: u64,
    /// What was said unasked while the reply of a command is not wanted (CLIENT REPLY): that is said all the same.
    aside: Output,
}

struct Subscribed {
    relay: Box<dyn DedicatedConnection>,
    /// Channels, patterns, shard channels.
    counts: [usize; 3],
    /// MONITOR.
    monitor: Option<Monitoring>,
}

/// SELECT, SUBSCRIBE, … on a Redis source: later, alone.
pub(super) fn later(call: &CommandContext<'_>) -> Result<Flow, CommandError> {
    match call.nested {
        true => Err(NOT_IN_MULTI),
        false => Ok(Flow::Alone),
    }
}

/// SUBSCRIBE and its like.
pub(super) fn subscribe(call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
    match call.group().source.as_redis() {
        Some(_) => later(call),
        None => local_pubsub::subscribe(call),
    }
}

/// MONITOR
pub(super) fn monitor(call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
    match call.group().source.as_redis() {
        Some(_) => later(call),
        None => Err(CommandError::Said("ERR MONITOR needs a Redis source (setting source)")),
    }
}

/// SELECT
pub(super) fn select(call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
    let index = int(call.arg(1))?;
    let home = call.group().source.as_redis().map(RedisServer::database);
    match (home, u32::try_from(index)) {
        (None, Ok(0)) => {}
        (Some(home), Ok(index)) if index == call.session.attached.database.unwrap_or(home) => {}
        (Some(_), Ok(_)) => return later(call),
        (_, Err(_)) | (None, Ok(_)) => return Err(DB_INDEX),
    }
    call.reply.ok();
    Ok(Flow::Done)
}

/// CLIENT TRACKING, CACHING, TRACKINGINFO, GETREDIR: a Redis tracks what a client reads on a connection of the client's own.
pub(super) fn tracking(call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
    let starts = starts_tracking(call);
    let waits = match call.group().source.as_redis() {
        Some(relay) if relay.client_tracking() == ClientTracking::Server => starts || call.session.attached.tracking,
        Some(relay) if starts && relay.client_tracking() == ClientTracking::Nobody => {
            return Err(CommandError::Said(
                "ERR CLIENT TRACKING in front of a cluster needs all changes announced (tracking-prefixes = *)",
            ));
        }
        // What forwarded commands read must be known from the first on.
        Some(relay) => starts && relay.known_commands().is_none(),
        None => false,
    };
    match waits {
        true => later(call),
        // It does not track, or not there: then the answers are the same everywhere.
        false => tracking::command(call),
    }
}

fn starts_tracking(call: &CommandContext<'_>) -> bool {
    call.command.name == "client|tracking" && call.arg(2).eq_ignore_ascii_case(b"on")
}

/// Runs one of these commands.
pub(super) async fn run(call: &mut CommandContext<'_>) -> Result<Flow, CommandError> {
    match call.command.name {
        "select" => selected(call).await?,
        "client|tracking" | "client|caching" | "client|trackinginfo" | "client|getredir" => tracked(call).await?,
        "hello" => greeted(call).await?,
        "auth" => {
            connection::login(call)?.log_in(call, call.session.resp3).await?;
            call.reply.ok();
        }
        _ => subscribed(call).await?,
    }
    call.session.settle();
    call.session.note_subscriptions();
    Ok(Flow::Done)
}

async fn selected(call: &mut CommandContext<'_>) -> Result<(), CommandError> {
    let replies = ask(call, upstream::encoded(call.args)).await?;
    note_database(call, call.args, &replies[0]);
    upstream::pass_on(call, &replies);
    call.session.unpin();
    Ok(())
}

/// After `SELECT index`, alone or in a transaction.
pub(super) fn note_database(call: &mut CommandContext<'_>, args: Args<'_>, reply: &[u8]) {
    if reply == b"+OK\r\n" {
        let home = call.group().source.as_redis().map(RedisServer::database);
        let index = args.get(1).and_then(|index| u32::try_from(int(index).ok()?).ok());
        call.session.attached.database = index.filter(|index| Some(*index) != home);
        call.session.client.about.lock().database = index.unwrap_or_default();
    }
}

/// HELLO that has to wait: for Redis to say who it is, to let a user in, or to change the protocol of a connection of the client's own.
async fn greeted(call: &mut CommandContext<'_>) -> Result<(), CommandError> {
    upstream::shared(call)?.wait_identity().await;
    let hello = Hello::parse(call)?;
    let resp3 = hello.resp3.unwrap_or(call.session.resp3);
    if let Some(login) = hello.login.filter(|login| login.is_for_redis(call)) {
        login.log_in(call, resp3).await?;
    }
    hello.set_name(call);
    if resp3 == call.session.resp3 || call.session.pinned.is_none() {
        connection::welcome(call, resp3);
        return Ok(());
    }
    let replies = ask(call, encode(&[b"HELLO", if resp3 { b"3" } else { b"2" }])).await?;
    if upstream::is_error(&replies[0]) {
        upstream::pass_on(call, &replies);
        return Ok(());
    }
    call.session.skip_replies(0, call.reply.output());
    if let Some(pinned) = &mut call.session.pinned {
        pinned.note_protocol(resp3);
    }
    connection::welcome(call, resp3);
    Ok(())
}

async fn tracked(call: &mut CommandContext<'_>) -> Result<(), CommandError> {
    let relay = upstream::shared(call)?;
    if relay.client_tracking() != ClientTracking::Server {
        relay.commands().await?;
        return tracking::command(call).map(drop);
    }
    let starts = starts_tracking(call);
    let (encoded, redirect) = match starts {
        true => tracking::prepare(call).await?,
        false => (tracking::without_redirect(call)?, None),
    };
    let replies = ask(call, encoded).await?;
    if call.command.name == "client|tracking" && replies[0] == *b"+OK\r\n" {
        call.session.client.about.lock().tracking = starts.then(|| Tracks {
            bcast: tracking::is_broadcast(call.args),
            redirect: redirect.as_ref().map_or(0, Redirect::target),
            broken: false,
        });
        call.session.attached.tracking = starts;
        call.session.attached.redirect = redirect;
    }
    match (&call.session.attached.redirect, call.command.name) {
        (Some(redirect), "client|getredir") => {
            let target = redirect.target();
            call.session.skip_replies(0, call.reply.output());
            call.reply.integer(target as i64);
        }
        (Some(redirect), "client|trackinginfo") => {
            let info = redirect.translated(&replies[0], call.session.client.is_redirection_broken());
            call.session.skip_replies(0, call.reply.output());
            call.reply.output().put(info.as_deref().unwrap_or(&replies[0]));
        }
        _ => upstream::pass_on(call, &replies),
    }
    call.session.unpin();
    Ok(())
}

async fn subscribed(call: &mut CommandContext<'_>) -> Result<(), CommandError> {
    let monitor = call.command.name == "monitor";
    if call.session.attached.subscribed.is_none() {
        let server = upstream::shared(call)?;
        let relay = match &call.session.attached.user {
            Some(user) => user.connect(server, true).await?,
            None => server.open_dedicated(call.args, true).await?,
        };
        call.session.attached.subscribed = Some(Subscribed { relay, counts: [0; 3], monitor: None });
    }
    let resp3 = call.session.resp3;
    let silent = call.session.is_silent();
    let Some(subscribed) = &mut call.session.attached.subscribed else { return Ok(()) };
    if monitor {
        subscribed.relay.pushes().expect_lines();
    }
    let sent = subscribed.relay.ask(upstream::encoded(call.args), !monitor).await;
    let out = call.reply.output();
    match sent {
        Ok(replies) => {
            let to = if silent { &mut call.session.attached.aside } else { &mut *out };
            subscribed.take(to, resp3, &call.session.counters);
            // Confirmations come unasked; what is left but the end's mark is an error, or MONITOR's OK.
            for reply in replies.iter().filter(|reply| monitor || !answers_ping(reply)) {
                if monitor && !upstream::is_error(reply) {
                    let clients = &call.worker.app.clients;
                    subscribed.monitor.get_or_insert_with(|| clients.monitor(call.session.client.clone()));
                }
                out.put(reply);
            }
        }
        Err(error) => {
            call.session.attached.subscribed = None;
            return Err(error.into());
        }
    }
    if subscribed.counts == [0; 3] && subscribed.monitor.is_none() {
        call.session.attached.subscribed = None;
    }
    Ok(())
}

/// Sends a command over the client's own connection.
async fn ask(call: &mut CommandContext<'_>, command: Vec<u8>) -> Result<RawReplies, CommandError> {
    upstream::pin(call).await?;
    let sent = upstream::send(call, command, 1).await;
    if sent.is_err() && !call.session.is_attached() && !call.session.watching {
        call.session.pinned = None;
    }
    Ok(sent?)
}

impl Subscribed {
    /// Moves what came to `out`. True if something did.
    fn take(&mut self, out: &mut Output, resp3: bool, counters: &Counters) -> bool {
        let mut came = false;
        while let Some(frame) = self.relay.pushes().next(u64::MAX) {
            came = true;
            let push = frame.first() == Some(&b'>');
            if !self.note(&frame) && push {
                counters.pubsub_messages.add(1);
            }
            if resp3 || !push {
                out.put(&frame);
                continue;
            }
            // To RESP2 a push is an array. The channel of an UNSUBSCRIBE from nothing is null.
            out.put(b"*");
            match frame.windows(3).position(|part| part == b"_\r\n").filter(|_| confirmed(&frame).is_some()) {
                Some(at) => {
                    out.put(&frame[1..at]);
                    out.put(b"$-1\r\n");
                    out.put(&frame[at + 3..]);
                }
                None => out.put(&frame[1..]),
            }
        }
        came
    }

    /// Takes in what a confirmation says; false if it is none.
    fn note(&mut self, frame: &[u8]) -> bool {
        let [channels, patterns, shards] = &mut self.counts;
        // Channels and patterns are counted together.
        match confirmed(frame) {
            Some((b"subscribe" | b"unsubscribe", count)) => *channels = count.saturating_sub(*patterns),
            Some((b"psubscribe" | b"punsubscribe", count)) => *patterns = count.saturating_sub(*channels),
            Some((_, count)) => *shards = count,
            None => return false,
        }
        true
    }
}

/// Of a confirmation: what it confirms, and how many subscriptions of the kind there are now.
fn confirmed(frame: &[u8]) -> Option<(&[u8], usize)> {
    let Ok(View::Push(mut parts)) = view(frame) else { return None };
    let (Some(View::Bulk(kind)), Some(_), Some(View::Integer(count))) = (parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    Some((kind, usize::try_from(count).ok()?)).filter(|_| kind.ends_with(b"subscribe"))
}

impl Session {
    /// Lets others see what messages it waits for.
    pub(super) fn note_subscriptions(&self) {
        self.client.subscribed.store(self.has_subscriptions(), Relaxed);
        self.client.about.lock().subscriptions = match (&self.subscriptions, &self.attached.subscribed) {
            (Some(subscriptions), _) => subscriptions.counts(),
            (None, Some(subscribed)) => subscribed.counts,
            (None, None) => [0; 3],
        };
    }

    /// Has the client connections of its own on which the server may speak unasked?
    pub fn is_attached(&self) -> bool {
        self.attached.tracking
            || self.attached.database.is_some()
            || self.attached.user.is_some()
            || self.attached.subscribed.is_some()
    }

    /// Only what concerns subscriptions, in RESP2.
    pub(super) fn is_subscriber(&self) -> bool {
        !self.resp3 && self.has_subscriptions()
    }

    /// To anything but MONITOR.
    pub(super) fn has_subscriptions(&self) -> bool {
        self.subscriptions.is_some()
            || self.attached.subscribed.as_ref().is_some_and(|subscribed| subscribed.monitor.is_none())
    }

    /// Passes on what the server has said unasked, unless there is no room for it.
    ///
    /// # Errors
    /// A connection of the client's own is lost, or too much was left lying there.
    pub fn poll_unasked(&mut self, cx: &mut Context<'_>, out: Option<&mut Output>) -> Poll<Result<(), SourceError>> {
        for own in self.own_connections() {
            own.pushes().wait(cx)?;
        }
        let Some(out) = out else { return Poll::Pending };
        let mut came = false;
        if let Some(subscribed) = &mut self.attached.subscribed {
            let before = subscribed.counts;
            came |= subscribed.take(out, self.resp3, &self.counters);
            if subscribed.counts != before {
                self.note_subscriptions();
            }
        }
        came |= self.pass_unasked(out);
        self.say_unasked(out);
        if came { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    /// Was a connection of the client's own given up because it left more than `max-backlog` lying there?
    pub fn left_too_much(&self) -> bool {
        self.own_connections().any(|own| own.pushes().is_too_much())
    }

    /// Bytes of memory that what came unasked occupies.
    pub(super) fn owned_unasked(&self) -> usize {
        self.attached.aside.owned() + self.own_connections().map(|own| own.pushes().bytes()).sum::<usize>()
    }

    fn own_connections(&self) -> impl Iterator<Item = &dyn DedicatedConnection> {
        let subscribed = self.attached.subscribed.as_ref().map(|subscribed| &*subscribed.relay);
        subscribed.into_iter().chain(self.pinned.as_deref())
    }

    /// What was said before the next reply of the pinned connection. True if there was something.
    fn pass_unasked(&mut self, out: &mut Output) -> bool {
        let silent = self.is_silent();
        let Some(unasked) = self.pinned.as_ref().map(|pinned| pinned.pushes()) else { return false };
        let out = if silent { &mut self.attached.aside } else { out };
        let mut came = false;
        while let Some(frame) = unasked.next(self.attached.passed) {
            out.put(&frame);
            self.counters.tracking_invalidations.add(1);
            came = true;
        }
        came
    }

    /// Keeps what a command has said since `mark` though its reply is not wanted.
    pub(super) fn say_aside(&mut self, out: &mut Output, mark: Mark) {
        self.attached.aside.append(&mut out.split_off(mark));
    }

    /// Says what was kept while a command's reply was not wanted.
    pub(super) fn say_unasked(&mut self, out: &mut Output) {
        out.append(&mut self.attached.aside);
    }

    /// Passes replies on, with what was said between them.
    pub(super) fn pass_replies(&mut self, replies: &RawReplies, out: &mut Output) {
        if self.pinned.is_none() || !self.attached.tracking {
            self.attached.passed += replies.iter().len() as u64;
            return out.put_bytes(replies.bytes().clone());
        }
        for reply in replies.iter() {
            self.pass_unasked(out);
            out.put(reply);
            self.attached.passed += 1;
        }
    }

    /// The last reply of a transaction is about to be passed on, those before it are not: what was said before it is.
    pub(super) fn skip_replies(&mut self, count: usize, out: &mut Output) {
        self.attached.passed += count as u64;
        self.pass_unasked(out);
        self.attached.passed += 1;
    }
    /// A reply of the pinned connection that nobody gets to see.
    pub(super) fn skip_reply(&mut self) {
        self.attached.passed += 1;
    }

    /// Takes over a connection of its own.
    pub(super) fn pin(&mut self, pinned: Box<dyn DedicatedConnection>) {
        self.attached.passed = pinned.pushes().requests();
        self.pinned = Some(pinned);
        self.settle();
    }
    /// Gives the pinned connection back if nothing needs it any more: it is as new then.
    pub(super) fn unpin(&mut self) {
        let attached = &self.attached;
        if !self.watching && !attached.tracking && attached.database.is_none() && attached.user.is_none() {
            self.pinned.take().into_iter().for_each(DedicatedConnection::release);
        }
        self.settle();
    }
}
