//! One connection of the Redis protocol, as others see it.
use super::{
    forwarded_name::Name,
    push_inbox::{Backlog, Posted, PushInbox, PushMessage},
};
use larder_config::Address;
use larder_engine::Millis;
use parking_lot::Mutex;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU64, Ordering::Relaxed},
    },
    task::Waker,
};

/// One connection of the Redis protocol.
#[derive(Debug)]
pub struct Client {
    /// Unique for the life of the process, from 1, in order of arrival.
    pub id: u64,
    /// The client's address.
    pub peer: Address,
    /// Our end of the connection.
    pub local: Address,
    /// The worker that serves it.
    pub worker: usize,
    /// When it was accepted.
    pub connected: Millis,
    /// Last command, as an index into the table of commands (`u16::MAX`: none yet). Written by the
    /// room `redis`.
    pub command: AtomicU16,
    pub forwarded: Name,
    /// Its command waits for something to happen at the source (BLPOP): when the client is gone or
    /// to go, so is the command.
    pub blocked: AtomicBool,
    /// It has subscribed to something, or sees every command (MONITOR): its silence says nothing.
    pub subscribed: AtomicBool,
    /// It is a replica, which gets the stream of changes.
    pub is_replica: AtomicBool,
    /// Queue of push messages.
    pub push_inbox: PushInbox,
    /// What the client said about itself.
    pub about: Mutex<About>,
    active: AtomicU64,
    login_ends: AtomicU64,
    closing: AtomicU8,
    waker: Waker,
}

/// What a client said about itself, and the state of its session that CLIENT LIST shows.
#[derive(Debug, Clone, Default)]
pub struct About {
    /// CLIENT SETNAME.
    pub name: Arc<str>,
    /// CLIENT SETINFO LIB-NAME.
    pub lib_name: Arc<str>,
    /// CLIENT SETINFO LIB-VER.
    pub lib_version: Arc<str>,
    /// The user it authenticated as.
    pub user: Arc<str>,
    /// SELECTed database.
    pub database: u32,
    /// 2 or 3.
    pub protocol: u8,
    /// Commands queued by MULTI; `None` outside of one.
    pub queued: Option<usize>,
    /// Channels, patterns and shard channels that it has subscribed to.
    pub subscriptions: [usize; 3],
    /// CLIENT TRACKING, while it is on.
    pub tracking: Option<Tracks>,
    /// CLIENT MAINT_NOTIFICATIONS.
    pub moves: Moves,
    /// What its command waits on at the source.
    pub waits: Option<Waits>,
}

#[derive(Debug, Clone, Copy)]
pub struct Tracks {
    pub bcast: bool,
    /// The client that is told instead; 0: none.
    pub redirect: u64,
    /// That client is gone.
    pub broken: bool,
}

/// A connection to the source that a client waits on.
#[derive(Debug, Clone, Copy)]
pub struct Waits {
    /// The source's number of it.
    pub connection: i64,
    /// The source has been asked, or will be, to end the wait (CLIENT UNBLOCK).
    pub unblocked: bool,
}

/// Whether, and in which words, a client wants to be told that it has to move to another
/// connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Moves {
    #[default]
    NotAsked,
    /// It connects again to where it was told to (`moving-endpoint`).
    Elsewhere,
    /// It connects again to the address that it has (`moving-endpoint-type none`).
    Back,
}

impl Client {
    /// A connection that just came in, whose task `waker` wakes. Outside of
    /// [`Clients`](super::Clients) only tests and commands of other nodes need one
    /// (`Waker::noop()`).
    pub fn new(id: u64, peer: Address, local: Address, worker: usize, now: Millis, waker: Waker) -> Client {
        Client {
            id,
            peer,
            local,
            worker,
            connected: now,
            command: AtomicU16::new(u16::MAX),
            forwarded: Name::default(),
            about: Mutex::new(About { protocol: 2, ..About::default() }),
            active: AtomicU64::new(now),
            login_ends: AtomicU64::new(Millis::MAX),
            blocked: AtomicBool::new(false),
            subscribed: AtomicBool::new(false),
            is_replica: AtomicBool::new(false),
            push_inbox: PushInbox::default(),
            closing: AtomicU8::new(0),
            waker,
        }
    }

    /// When the client last sent or took something.
    pub fn active(&self) -> Millis {
        self.active.load(Relaxed)
    }

    /// The client that was to hear of what it tracks is gone.
    pub fn note_broken_redirection(&self) {
        if let Some(tracks) = &mut self.about.lock().tracking {
            tracks.broken = true;
        }
    }
    /// Was that noted since it began to track?
    pub fn is_redirection_broken(&self) -> bool {
        self.about.lock().tracking.is_some_and(|tracks| tracks.broken)
    }

    /// The client's login counts until then (a token's `exp`).
    pub fn end_login_at(&self, ends: Millis) {
        self.login_ends.store(ends, Relaxed);
    }
    /// Whether its login counts no more.
    pub fn is_login_over(&self, now: Millis) -> bool {
        now >= self.login_ends.load(Relaxed)
    }

    /// Does it wait for something, for however long?
    pub fn waits(&self) -> bool {
        self.blocked.load(Relaxed) || self.subscribed.load(Relaxed)
    }

    /// Notes that the client is alive.
    pub fn touch(&self, now: Millis) {
        self.active.store(now, Relaxed);
    }

    /// Has its task deliver a message, from any thread; false if it is gone. A client that leaves
    /// more lying than `backlog` allows is cut off.
    pub fn post(&self, message: PushMessage, backlog: &Backlog) -> bool {
        match self.push_inbox.post(message, backlog) {
            Posted::Wake => self.waker.wake_by_ref(),
            Posted::Queued => {}
            Posted::TooMuch => self.close(),
            Posted::Gone => return false,
        }
        true
    }

    /// Ends the connection, from any thread: replies that are ready are still sent if the socket
    /// takes them (CLIENT KILL).
    pub fn close(&self) {
        self.ask(Closing::Now);
    }

    /// Has the connection tell its client that it is to move.
    pub fn tell_to_move(&self) {
        self.ask(Closing::Moving);
    }

    /// Ends the connection once what it has begun is answered (drain, idle time over).
    pub fn finish(&self) {
        self.ask(Closing::WhenIdle);
    }

    fn ask(&self, closing: Closing) {
        // Waking a task synchronises with its next poll, which therefore sees the flag.
        self.closing.fetch_max(closing as u8, Relaxed);
        self.waker.wake_by_ref();
    }

    /// Whether the connection must end.
    pub fn closing(&self) -> Option<Closing> {
        match self.closing.load(Relaxed) {
            0 => None,
            1 => Some(Closing::Moving),
            2 => Some(Closing::WhenIdle),
            _ => Some(Closing::Now),
        }
    }
}

/// How a connection is asked to end; the later wins over the earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// By the client, which is told that it has to move.
    Moving = 1,
    WhenIdle = 2,
    Now = 3,
}
