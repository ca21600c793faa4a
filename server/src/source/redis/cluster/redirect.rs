//! What a node of a cluster did not answer is asked elsewhere, or later: MOVED, ASK, TRYAGAIN, CLUSTERDOWN
//! (<https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#redirection-and-resharding>), and nodes that are gone until another takes
//! their place.
use super::{
    Core,
    key_slot::{SLOTS, slot},
    routing::{Part, To},
};
use crate::{
    config::RedisAddress,
    source::{
        FetchedReply, FetchedValue, KeyLife, LocalFuture, Relay, SourceError,
        redis::{
            refusal,
            request::{Answer, NO_EXPIRY, Waiting, timed_out, too_large},
            unexpected,
        },
    },
};
use bytes::Bytes;
use larder_engine::Millis;
use larder_proto::resp::{View, encode, view};
use larder_store::clock;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// First and longest pause before a node is asked again.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(100));
/// Nodes that send each other's clients to and fro are given time after so many turns.
const TURNS: usize = 3;
/// Fetches of one core that may be on detours; others fail at once, so that one node's absence does not use up what all others need.
const MAX_DETOURS: usize = 1024;

/// Takes over fetches that a node did not answer.
pub(in crate::source::redis) trait Elsewhere {
    /// `error` is why.
    fn take(&self, waiting: Waiting, error: SourceError);
}

/// Where to go instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Detour {
    /// The slot is there, from now on.
    Moved(u16, RedisAddress),
    /// Just this once.
    Ask(RedisAddress),
    /// Where the map says, a little later.
    Later,
}

impl Detour {
    pub(super) fn of(answer: &Answer) -> Option<Detour> {
        match answer {
            Err(error) => Detour::of_error(error),
            // A transaction tells it of a command that it would not queue; at its end it has then failed.
            Ok(replies) if replies.last().starts_with(b"-") => {
                replies.iter().find_map(|reply| Detour::of_text(&String::from_utf8_lossy(reply.strip_prefix(b"-")?)))
            }
            Ok(_) => None,
        }
    }
    fn of_error(error: &SourceError) -> Option<Detour> {
        match error {
            SourceError::Unavailable(_) => Some(Detour::Later),
            SourceError::Refused(text) => Detour::of_text(text),
            SourceError::Lost(_) | SourceError::ReadOnly => None,
        }
    }
    fn of_text(text: &str) -> Option<Detour> {
        let mut words = text.split_ascii_whitespace();
        let kind = words.next()?;
        let mut place = || {
            let slot: u16 = words.next()?.parse().ok().filter(|slot| usize::from(*slot) < SLOTS)?;
            let (host, port) = words.next()?.rsplit_once(':')?;
            let port = port.parse().ok().filter(|port| *port != 0)?;
            // A node that does not know another's name sends none.
            let known = !host.is_empty() && host != "?";
            known.then(|| (slot, RedisAddress::Tcp { host: host.to_owned(), port }))
        };
        match kind {
            "MOVED" => Some(place().map_or(Detour::Later, |(slot, address)| Detour::Moved(slot, address))),
            "ASK" => Some(place().map_or(Detour::Later, |(_, address)| Detour::Ask(address))),
            "TRYAGAIN" | "CLUSTERDOWN" => Some(Detour::Later),
            _ => None,
        }
    }
}

impl Core {
    /// Sends a part to a node; `asking`: though the slot is not its own yet. Queued when this returns.
    pub(super) fn send(
        &self,
        part: &Part,
        address: &RedisAddress,
        way: Way,
        asking: bool,
    ) -> impl Future<Output = Answer> + use<> {
        let commands = match asking {
            true => [&encode(&[b"ASKING"]), &part.commands[..]].concat().into(),
            false => part.commands.clone(),
        };
        let count = part.count + usize::from(asking);
        let answer: Result<LocalFuture<'static, Answer>, _> = self.node(address).map(|node| match way.lane {
            Lane::Shared => node.relay(commands, count, way.resp3),
            Lane::Slow => node.relay_slow(commands, count, way.resp3),
            Lane::Own => Box::pin(node.send_alone(commands, count, way.resp3)),
            Lane::Apart { clean } => Box::pin(node.send_apart(commands, count, way.resp3, clean)),
        });
        async move {
            let replies = answer?.await?;
            Ok(if asking { replies.part(1..count) } else { replies })
        }
    }

    /// Sends a part to where it belongs.
    pub(super) async fn ask(&self, part: &Part, way: Way) -> Answer {
        let address = self.address(&self.map(), &part.to)?;
        self.send(part, &address, way, false).await
    }

    /// Asks again where it is needed, until `deadline`.
    pub(super) async fn follow(&self, part: &Part, mut answer: Answer, way: Way, deadline: Instant) -> Answer {
        let mut pause = PAUSE.0;
        let mut turns = 0;
        while let Some(detour) = Detour::of(&answer).filter(|_| Instant::now() < deadline) {
            turns += 1;
            if detour == Detour::Later || turns > TURNS {
                self.setup.doubted.notify_one();
                if Instant::now() + pause >= deadline {
                    break;
                }
                sleep(pause).await;
                pause = (pause * 2).min(PAUSE.1);
            }
            let map = self.map();
            answer = match &detour {
                Detour::Moved(slot, address) => {
                    self.moved(*slot, address);
                    self.send(part, map.resolve(address), way, false).await
                }
                Detour::Ask(address) => self.send(part, map.resolve(address), way, true).await,
                Detour::Later => self.ask(part, way).await,
            };
        }
        answer
    }

    /// Fetches once more, wherever that leads.
    async fn fetch_elsewhere(&self, waiting: Waiting, error: SourceError) {
        let health = &self.setup.settings.health;
        let fetch = &waiting.fetch;
        let error = Err(error);
        // What comes back is of another connection than what went before.
        fetch.sent_through(self.setup.settings.queue());
        let sent_at = clock::now();
        // A read has no need to be seen to its end.
        let until = async |part: &Part, way| {
            let answer = timeout_at(waiting.deadline, self.follow(part, error, way, waiting.deadline)).await;
            let limits = &self.setup.settings.limits;
            answer.unwrap_or_else(|_| Err(SourceError::Unavailable(timed_out(limits.timeout, limits))))
        };
        if let Some(asked) = fetch.reply_name() {
            let way = Way { lane: Lane::Shared, resp3: asked.resp3 };
            let commands = encode(&asked.parts().collect::<Vec<_>>()).into();
            let part = Part { commands, count: 1, to: To::Slot(slot(fetch.key())) };
            let answer = until(&part, way).await;
            let now = clock::now();
            return match answer {
                // Not kept: nobody vouches for it.
                Ok(replies) => waiting.finish_reply(
                    FetchedReply { reply: replies.last(), key: KeyLife::Until(sent_at) },
                    now,
                    health,
                ),
                Err(error) => waiting.finish(Err(error), now, health),
            };
        }
        let transaction: [&[&[u8]]; 4] = [&[b"MULTI"], &[b"GET", fetch.key()], &[b"PTTL", fetch.key()], &[b"EXEC"]];
        let commands = transaction.map(encode).concat().into();
        let part = Part { commands, count: transaction.len(), to: To::Slot(slot(fetch.key())) };
        let answer = until(&part, Way { lane: Lane::Shared, resp3: false }).await;
        let max = self.setup.settings.limits.max_value;
        let answer = answer.and_then(|replies| found(&replies.last(), sent_at, max));
        waiting.finish(answer, clock::now(), health);
    }
}

/// Which connection of a node is used, and in which protocol.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    pub(super) lane: Lane,
    pub(super) resp3: bool,
}
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// The one that everybody uses.
    Shared,
    /// That for commands which may take long.
    Slow,
    /// One of its own, for as long as it takes.
    Own,
    /// See [`RedisServer::relay_isolated`](crate::source::RedisServer::relay_isolated).
    Apart { clean: bool },
}

/// What EXEC says of GET and PTTL.
fn found(reply: &Bytes, sent_at: Millis, max: usize) -> Result<Option<FetchedValue>, SourceError> {
    let mut parts = match view(reply) {
        Ok(View::Array(parts)) => parts,
        Ok(View::Error(text)) => return Err(refusal(text)),
        _ => return Err(unexpected()),
    };
    let value = match parts.next() {
        Some(View::Null) => return Ok(None),
        Some(View::Bulk(value)) if value.len() > max => return Err(too_large(value.len(), max)),
        Some(View::Bulk(value)) => reply.slice_ref(value),
        Some(View::Error(text)) => return Err(refusal(text)),
        _ => return Err(unexpected()),
    };
    let expiry = match parts.next() {
        Some(View::Integer(NO_EXPIRY)) => None,
        Some(View::Integer(left)) => Some(sent_at.saturating_add(u64::try_from(left).unwrap_or(0))),
        _ => return Err(unexpected()),
    };
    Ok(Some(FetchedValue { value, expiry }))
}

impl Elsewhere for Core {
    fn take(&self, waiting: Waiting, error: SourceError) {
        let core = self.me.upgrade().filter(|core| core.detours.get() < MAX_DETOURS);
        match (core, Detour::of_error(&error)) {
            (Some(core), Some(_)) if waiting.deadline > Instant::now() => {
                core.detours.set(core.detours.get() + 1);
                tokio::task::spawn_local(async move {
                    core.fetch_elsewhere(waiting, error).await;
                    core.detours.set(core.detours.get() - 1);
                });
            }
            _ => waiting.finish(Err(error), clock::now(), &self.setup.settings.health),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_errors_say() {
        let tcp = |host: &str| RedisAddress::Tcp { host: host.into(), port: 7000 };
        for (text, expected) in [
            ("MOVED 3999 127.0.0.1:7000", Some(Detour::Moved(3999, tcp("127.0.0.1")))),
            ("MOVED 3999 ::1:7000", Some(Detour::Moved(3999, tcp("::1")))),
            ("ASK 3999 node-a:7000", Some(Detour::Ask(tcp("node-a")))),
            ("MOVED 3999 :7000", Some(Detour::Later)),
            ("MOVED 3999 ?:7000", Some(Detour::Later)),
            ("MOVED 16384 h:7000", Some(Detour::Later)),
            ("TRYAGAIN Multiple keys request during rehashing of slot", Some(Detour::Later)),
            ("CLUSTERDOWN The cluster is down", Some(Detour::Later)),
            ("CROSSSLOT Keys in request don't hash to the same slot", None),
            ("ERR MOVED", None),
        ] {
            assert_eq!(Detour::of_text(text), expected, "{text}");
        }
        assert_eq!(Detour::of_error(&SourceError::Lost("it may have been done".into())), None);
    }
}
