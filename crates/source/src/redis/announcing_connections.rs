//! The connections of all cores on which a server announces changes, and how to catch up with them.
//!
//! A script may change keys that it does not name. The server announces them before it answers, but
//! on other connections, so the reply may overtake the announcements. A `PING` that is sent on
//! those connections after the reply is answered behind them. Requests of one core's turn share it.
//!
//! The server does not announce that `SWAPDB` has exchanged databases. It counts the calls of each
//! command, those by scripts included, so Larder asks for that number: instead of one such `PING`,
//! and once a second.
use super::queued_request::RelayResult;
use crate::{
    invalidation::Invalidations,
    raw_replies::RawReplies,
    upstream_commands::reply_fields::{named, number},
};
use bytes::Bytes;
use larder_proto::resp::view;
use parking_lot::Mutex;
use std::{
    cell::RefCell,
    rc::{Rc, Weak},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};
use tokio::sync::{
    mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    oneshot,
};

const PING: Bytes = Bytes::from_static(b"*1\r\n$4\r\nPING\r\n");
/// How often has SWAPDB been called? Answered since version 7.
const SWAPS: Bytes = Bytes::from_static(b"*3\r\n$7\r\nLATENCY\r\n$9\r\nHISTOGRAM\r\n$6\r\nswapdb\r\n");
/// How often Larder asks for it; the second one as long as the first number is unknown.
const LOOK: (Duration, Duration) = (Duration::from_secs(1), Duration::from_millis(100));

/// A command to send on such a connection.
pub(super) struct CatchUp {
    pub(super) command: Bytes,
    pub(super) answer: oneshot::Sender<RelayResult>,
}

/// The connections that announce the changes of one server.
#[derive(Default)]
pub(super) struct AnnouncingConnections {
    connections: Mutex<Connections>,
    swaps: Mutex<Swaps>,
    is_watched: AtomicBool,
}
#[derive(Default)]
struct Connections {
    next: u64,
    all: Vec<(u64, UnboundedSender<CatchUp>)>,
}
#[derive(Default)]
struct Swaps {
    /// The number that the server named last.
    calls: Option<i64>,
    /// The server does not tell it.
    is_refused: bool,
}

/// One such connection, while it is connected.
pub(super) struct Announcing {
    all: Arc<AnnouncingConnections>,
    number: u64,
    requests: UnboundedReceiver<CatchUp>,
}
impl Announcing {
    /// The next command to send.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<CatchUp>> {
        self.requests.poll_recv(cx)
    }
}
impl Drop for Announcing {
    fn drop(&mut self) {
        self.all.connections.lock().all.retain(|(number, _)| *number != self.number);
    }
}

impl AnnouncingConnections {
    /// A connection has begun to announce changes.
    pub(super) fn add(self: &Arc<Self>) -> Announcing {
        let (sender, requests) = unbounded_channel();
        let mut connections = self.connections.lock();
        connections.next += 1;
        let number = connections.next;
        connections.all.push((number, sender));
        // It may be another server now.
        self.swaps.lock().is_refused = false;
        Announcing { all: self.clone(), number, requests }
    }

    /// Sends `commands`, one on each connection.
    fn send(&self, commands: impl Iterator<Item = Bytes>) -> Vec<oneshot::Receiver<RelayResult>> {
        let connections = self.connections.lock();
        let send = |((_, connection), command): (&(u64, UnboundedSender<CatchUp>), Bytes)| {
            let (answer, answered) = oneshot::channel();
            connection.send(CatchUp { command, answer }).ok().map(|()| answered)
        };
        connections.all.iter().zip(commands).filter_map(send).collect()
    }

    /// Ready when everything is applied that the server has announced until now. After the loss of
    /// a connection nothing that it announced counts as fresh.
    async fn catch_up(&self, may_swap: bool, to: &dyn Invalidations) {
        let asks = may_swap && !self.swaps.lock().is_refused;
        let first = if asks { SWAPS } else { PING };
        let mut answers = self.send(std::iter::once(first).chain(std::iter::repeat(PING))).into_iter();
        if asks && let Some(swaps) = answers.next() {
            self.note_swaps(swaps.await.ok(), to);
        }
        for answer in answers {
            let _ = answer.await;
        }
    }

    /// Notes the answer to [`SWAPS`]. If databases were swapped, any key may have changed.
    fn note_swaps(&self, answer: Option<RelayResult>, to: &dyn Invalidations) {
        let Some(Ok(replies)) = answer else { return };
        let mut swaps = self.swaps.lock();
        match calls(&replies) {
            Some(calls) => {
                // Copies may be older than the first answer. The number goes back to 0 by CONFIG RESETSTAT.
                if swaps.calls.unwrap_or(0) != calls {
                    // The lock is held meanwhile: who finds the new number finds no old copy.
                    to.all();
                }
                swaps.calls = Some(calls);
            }
            None => swaps.is_refused = is_refusal(&replies),
        }
    }

    /// Looks for swapped databases once a second, while `source` lives. One core does so for all.
    pub(super) async fn watch_swaps<T: ?Sized>(self: Arc<Self>, to: Arc<dyn Invalidations>, source: Weak<T>) {
        if self.is_watched.swap(true, Relaxed) {
            return;
        }
        while source.strong_count() > 0 {
            let (is_refused, is_known) = {
                let swaps = self.swaps.lock();
                (swaps.is_refused, swaps.calls.is_some())
            };
            if !is_refused {
                for answer in self.send(std::iter::once(SWAPS)) {
                    self.note_swaps(answer.await.ok(), &*to);
                }
            }
            tokio::time::sleep(if is_known || is_refused { LOOK.0 } else { LOOK.1 }).await;
        }
        self.is_watched.store(false, Relaxed);
    }
}

/// The number of calls in an answer to [`SWAPS`]; `None`: the server does not tell it.
fn calls(replies: &RawReplies) -> Option<i64> {
    let reply = view(replies.bytes()).ok()?;
    match &replies.bytes()[..] {
        [b'-' | b'!', ..] => None,
        _ => Some(number(named(Some(reply), b"swapdb"), b"calls")),
    }
}

/// Whether an error refuses [`SWAPS`] for good. A server that is busy or loading answers later.
fn is_refusal(replies: &RawReplies) -> bool {
    let passing: [&[u8]; 3] = [b"-BUSY ", b"-LOADING ", b"-MASTERDOWN "];
    !passing.iter().any(|begin| replies.bytes().starts_with(begin))
}

/// One core's requests to catch up.
#[derive(Default)]
pub(super) struct CatchUps(Rc<RefCell<Vec<oneshot::Sender<()>>>>);
impl CatchUps {
    /// See [`RedisServer::announced`](crate::RedisServer::announced). `may_swap`: the server has several
    /// databases.
    pub(super) fn catch_up(
        &self,
        all: &Arc<AnnouncingConnections>,
        may_swap: bool,
        to: &Arc<dyn Invalidations>,
    ) -> impl Future<Output = ()> + use<> {
        let (sender, caught_up) = oneshot::channel();
        let mut waiting = self.0.borrow_mut();
        waiting.push(sender);
        if waiting.len() == 1 {
            let (waiting, all, to) = (self.0.clone(), all.clone(), to.clone());
            // It runs behind the tasks that are ready now. Their requests join this one.
            tokio::task::spawn_local(async move {
                let together = waiting.take();
                all.catch_up(may_swap, &*to).await;
                drop(together);
            });
        }
        async move {
            let _ = caught_up.await;
        }
    }
}
