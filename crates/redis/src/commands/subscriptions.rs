//! SUBSCRIBE, MONITOR and related commands: at an upstream Redis on a second dedicated connection,
//! or among the clients of this process.
use crate::{
    command::Command,
    command_context::CommandContext,
    command_outcome::{CommandError, Done, Flow},
    session::Session,
    subscribed_topics::SubscribedTopics,
    upstream::{client_state::UpstreamSubscriptions, replies::is_error, requests},
};
use larder_core::{app::Worker, clients::SubscriptionKind};
use larder_source::answers_ping;

/// SUBSCRIBE, PSUBSCRIBE, SSUBSCRIBE
pub(crate) fn subscribe(call: &mut CommandContext<'_>, kind: SubscriptionKind) -> Done {
    if call.redis().is_some() {
        note_subscribing(call.worker, call.session);
    }
    begin(call, |call| add(call, kind))
}
/// UNSUBSCRIBE, PUNSUBSCRIBE, SUNSUBSCRIBE
pub(crate) fn unsubscribe(call: &mut CommandContext<'_>, kind: SubscriptionKind) -> Done {
    begin(call, |call| remove(call, kind))
}

/// Notes that the client's next command subscribes at the upstream. PUBLISH of other clients waits
/// for it.
fn note_subscribing(worker: &Worker, session: &mut Session) {
    session.change().upstream.subscribing.get_or_insert_with(|| worker.app.tables.subscribes.begin());
}
/// Notes a command that has to wait for others of its client, if it subscribes at the upstream.
pub(crate) fn note_behind(worker: &Worker, session: &mut Session, command: &Command) {
    let subscribes = matches!(command.name, "subscribe" | "psubscribe" | "ssubscribe");
    if subscribes && worker.groups.default().source.as_redis().is_some() {
        note_subscribing(worker, session);
    }
}

fn begin(call: &mut CommandContext<'_>, local: impl FnOnce(&mut CommandContext<'_>)) -> Done {
    match call.redis() {
        Some(_) => call.alone(),
        None => {
            call.args.from(1).try_for_each(|topic| check_name(call, "a channel or pattern", topic))?;
            Ok(locally(call, local))
        }
    }
}

/// Refuses names of channels, patterns and prefixes that no key could have.
pub(super) fn check_name(call: &CommandContext<'_>, what: &str, name: &[u8]) -> Result<(), CommandError> {
    let limit = call.worker.app.settings.max_key;
    match name.len() > limit {
        true => Err(CommandError::from(format!("ERR {what} has at most {limit} bytes (max-key)"))),
        false => Ok(()),
    }
}

pub(crate) fn monitor(call: &mut CommandContext<'_>) -> Done {
    match call.redis() {
        Some(_) => call.alone(),
        None => Err(CommandError::Static("ERR MONITOR needs a Redis source (setting source)")),
    }
}

/// SUBSCRIBE and related commands at an upstream Redis, and MONITOR.
pub(crate) async fn at_upstream(call: &mut CommandContext<'_>) -> Done {
    let monitor = call.command.name == "monitor";
    // A node of a cluster has only the shard channels of its own slots. All nodes have the others.
    let is_of_slot = matches!(call.command.name, "ssubscribe" | "sunsubscribe");
    let is_apart = is_of_slot && !requests::own_server(call)?.is_single();
    if call.session.change().upstream.subscriptions_of(is_apart).is_none() {
        let relay = requests::server(call)?.get().open_dedicated(call.args, true).await?;
        let subscribed = UpstreamSubscriptions { relay, counts: [0; 3], monitor: None };
        *call.session.change().upstream.subscriptions_of(is_apart) = Some(subscribed);
    }
    let resp3 = call.session.resp3;
    let silent = call.session.is_silent();
    let mut taken = call.session.change().upstream.subscriptions_of(is_apart).take();
    let Some(subscribed) = &mut taken else { return Ok(Flow::Done) };
    if monitor {
        subscribed.relay.pushes().expect_lines();
    }
    let sent = subscribed.relay.ask(requests::encoded(call.args), !monitor).await;
    let out = call.reply.output();
    match sent {
        Ok(replies) => {
            // Lines of MONITOR may have come with its OK. They stand behind it.
            let first = subscribed.relay.pushes().replies() - replies.iter().len() as u64;
            for (before, reply) in (first..).zip(replies.iter()) {
                let counters = call.session.counters.clone();
                let mut state = call.session.change();
                let to = if silent { &mut state.upstream.held_pushes } else { &mut *out };
                subscribed.take(before, to, resp3, &counters);
                drop(state);
                // Confirmations come as pushes. Any other reply, except that of the final PING, is an error or
                // MONITOR's OK.
                if !monitor && answers_ping(reply) {
                    continue;
                }
                if monitor && !is_error(reply) {
                    let clients = &call.worker.app.clients;
                    subscribed.monitor.get_or_insert_with(|| clients.monitor(call.session.client.clone()));
                }
                out.put(reply);
            }
        }
        Err(error) => return Err(error.into()),
    }
    let is_used = |subscribed: &UpstreamSubscriptions| subscribed.counts != [0; 3] || subscribed.monitor.is_some();
    *call.session.change().upstream.subscriptions_of(is_apart) = taken.filter(is_used);
    call.session.note_subscriptions();
    Ok(Flow::Done)
}

/// Runs `change` without an upstream.
fn locally(call: &mut CommandContext<'_>, change: impl FnOnce(&mut CommandContext<'_>)) -> Flow {
    let mark = call.reply.output().mark();
    change(call);
    let session = &mut *call.session;
    if session.is_silent() {
        // Confirmations are pushes, so they are not suppressed.
        session.hold_pushes(call.reply.output(), mark);
    }
    session.change().subscriptions.take_if(|subscriptions| subscriptions.is_empty());
    session.note_subscriptions();
    Flow::Done
}

fn add(call: &mut CommandContext<'_>, kind: SubscriptionKind) {
    for topic in call.args.from(1) {
        let client = call.session.client.clone();
        let mut state = call.session.change();
        let subscriptions = state.subscriptions.get_or_insert_with(|| {
            let pubsub = call.worker.app.tables.pubsub.clone();
            Box::new(SubscribedTopics { pubsub, client, topics: Default::default(), bytes: 0 })
        });
        subscriptions.insert(kind, topic);
        drop(state);
        confirm(call, Some(topic), kind);
    }
}

fn remove(call: &mut CommandContext<'_>, kind: SubscriptionKind) {
    let subscriptions = call.session.subscriptions.as_ref();
    let topics: Vec<Box<[u8]>> = match (call.args.len(), subscriptions) {
        (1, None) => Vec::new(),
        (1, Some(subscriptions)) => subscriptions.topics[kind as usize].iter().cloned().collect(),
        _ => call.args.from(1).map(Into::into).collect(),
    };
    if topics.is_empty() {
        return confirm(call, None, kind);
    }
    if let Some(subscriptions) = &call.session.subscriptions {
        subscriptions.pubsub.unsubscribe(kind, topics.iter().map(|topic| &**topic), subscriptions.client.id);
    }
    if !call.nested {
        // A RESP2 client would take a message after the last confirmation for a reply.
        call.session.deliver_all(call.reply.output());
    }
    for topic in topics {
        if let Some(subscriptions) = &mut call.session.change().subscriptions {
            subscriptions.remove(kind, &topic);
        }
        confirm(call, Some(&topic), kind);
    }
}

fn confirm(call: &mut CommandContext<'_>, topic: Option<&[u8]>, kind: SubscriptionKind) {
    let count = call.session.subscriptions.as_ref().map_or(0, |subscriptions| subscriptions.count(kind));
    let reply = &mut call.reply;
    reply.push(3);
    reply.bulk(call.command.name.as_bytes());
    match topic {
        Some(topic) => reply.bulk(topic),
        None => reply.null(),
    }
    reply.integer(count as i64);
}
