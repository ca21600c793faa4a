//! The primary's side of one replica's connection: sends a full copy if need be, then the changes.
//!
//! A round sends the changes before a cut. Of each changed key the present entry is read, under its
//! shard's lock, and sent; so a key that changed often is sent as it is now, and what waits to be
//! sent needs no memory but the keys in the logs.
use super::{
    change_log::STRIPES,
    change_logs::{Cut, changes_in},
    change_ring::{Forgotten, keys},
    connected_replicas::ConnectedReplica,
    frames::{self, Frame, ParsedFrame},
    replication::Replication,
};
use larder_base::tls::ClientStream;
use larder_config::Address;
use larder_engine::{Key, PolicyState};
use larder_proto::output::Output;
use larder_store::clock;
use smallvec::SmallVec;
use std::{
    future::Future,
    io::{self, IoSlice},
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::AsyncWriteExt as _,
    task::yield_now,
    time::{Instant, sleep_until, timeout},
};

/// Longest time between two marks. The link takes a primary for lost that is silent for several of
/// them.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(1);
/// A replica that takes nothing for this long is disconnected.
const STALLED: Duration = Duration::from_secs(30);
/// Output that is sent before more is written, bytes. What small entries add to it at once still
/// fits into the 64 KiB that an emptied [`Output`] keeps: a longer one is allocated again each time.
const CHUNK: usize = 48 << 10;
/// Bytes of keys that are read from a log at once.
const KEYS: usize = 1 << 10;
/// Entries of a full copy that are read under one lock.
const STEP: usize = 64;
const PIECES: usize = 64;
/// Bytes of acknowledgements that are read at once: several thousand.
const MOST_INPUT: usize = 64 << 10;
/// Entries that are fetched into the processor's cache at the same time.
const TOGETHER: usize = 16;

/// What a replica asks for when it connects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaRequest {
    /// Where it serves the Redis protocol itself; 0: nowhere.
    pub port: u16,
    /// The id of the logs that it followed; 0: none.
    pub id: u64,
    /// Up to where it followed them: the next record of each stripe of each group.
    pub records: Vec<u64>,
}

/// Serves a replica until its connection ends, which `end` may ask for.
pub async fn serve_replica<S: ClientStream>(
    replication: &Replication,
    stream: &mut S,
    address: Address,
    request: ReplicaRequest,
    heard: impl Fn(),
    end: impl Future<Output = ()>,
) {
    let id = replication.logs.attach();
    let replica = Arc::new(ConnectedReplica::new(address.ip(), request.port, clock::now()));
    let listed = replication.replicas.list_one(&replica);
    let resumed = if request.id == id { replication.logs.find(&request.records) } else { None };
    tracing::info!(replica = %address, resumes = resumed.is_some(), "replica connected");
    let mut sender = Sender {
        replication,
        stream,
        replica,
        copy: None,
        sent: Vec::new(),
        out: Output::default(),
        input: Vec::new(),
        records: Vec::new(),
        head: Vec::new(),
        heard,
    };
    let ended = tokio::select! {
        biased;
        () = end => Ok(()),
        ended = sender.run(id, resumed) => ended,
    };
    drop(listed);
    replication.logs.detach(clock::now());
    match ended {
        Ok(()) => tracing::info!(replica = %address, "replica disconnected"),
        Err(error) => tracing::warn!(replica = %address, %error, "replica disconnected"),
    }
}

/// How far the changes of a group were sent.
enum Sent {
    All,
    /// Up to a clear and with it; there may be more.
    UntilClear,
}

struct Sender<'s, S, H> {
    replication: &'s Replication,
    stream: &'s mut S,
    replica: Arc<ConnectedReplica>,
    /// Where the full copy goes on: a group and a cursor of its tier.
    copy: Option<(usize, u64)>,
    /// All changes before this were sent.
    sent: Cut,
    out: Output,
    input: Vec<u8>,
    /// Keys from a log.
    records: Vec<u8>,
    /// Scratch for the heads of entries.
    head: Vec<u8>,
    heard: H,
}

impl<S: ClientStream, H: Fn()> Sender<'_, S, H> {
    async fn run(&mut self, id: u64, resumed: Option<Cut>) -> io::Result<()> {
        let names = self.replication.logs.groups.iter().map(|group| group.name.as_str());
        frames::put_hello(&mut self.out, id, resumed.is_some(), names);
        match resumed {
            Some(cut) => {
                self.sent = cut;
                self.replica.set_copying(false);
            }
            None => self.begin_copy(),
        }
        let mut marked = Instant::now();
        let mut is_due = true;
        // Sends until the process has a primary itself: it has no replicas then.
        while !self.replication.is_read_only() {
            let armed = self.replication.logs.wake.armed();
            let changes = match self.send_changes().await? {
                Ok(changes) => changes,
                Err(Forgotten) => {
                    tracing::warn!(
                        replica = %self.replica.ip,
                        "replica is further behind than replication-backlog reaches: it gets a full copy"
                    );
                    self.begin_copy();
                    continue;
                }
            };
            let was_copying = self.copy.is_some();
            self.go_on_copying();
            is_due |= was_copying && self.copy.is_none();
            if changes > 0 || is_due || marked.elapsed() >= HEARTBEAT {
                let records: Vec<u64> = self.sent.iter().flatten().map(|cursor| cursor.record).collect();
                frames::put_mark(&mut self.out, clock::wall(), &records);
                marked = Instant::now();
                is_due = false;
            }
            self.flush().await?;
            if self.take_acknowledgements()? {
                break;
            }
            if self.copy.is_some() {
                yield_now().await;
                continue;
            }
            // A round that sent something waits a little for more to send; one that did not, for the next
            // change.
            tokio::select! {
                () = self.replication.rounds.next(), if changes > 0 => {}
                () = self.replication.replicas.hurry.notified(), if changes > 0 => {}
                () = armed, if changes == 0 => {}
                () = sleep_until(marked + HEARTBEAT) => {}
                // What is acknowledged is read with the next round, unless that may be long in coming.
                ready = self.stream.readable(), if changes == 0 => ready?,
            }
        }
        Ok(())
    }

    /// Begins a full copy: every change from now on is sent, and all entries among them.
    fn begin_copy(&mut self) {
        self.sent = self.replication.logs.begin_at_end();
        self.copy = Some((0, 0));
        self.replica.set_copying(true);
        frames::put_copy_begins(&mut self.out);
    }

    /// Writes some more entries of a full copy.
    fn go_on_copying(&mut self) {
        let Some((group, mut cursor)) = self.copy else { return };
        let Some(of) = self.replication.logs.groups.get(group) else {
            frames::put_copy_ends(&mut self.out);
            self.copy = None;
            self.replica.set_copying(false);
            return;
        };
        let (mut tier, now) = (of.cache.tier(), clock::now());
        while self.out.len() < CHUNK {
            cursor = tier.export(cursor, STEP, now, |entry, policy| {
                frames::put_entry(&mut self.out, &mut self.head, group as u8, &entry, policy);
            });
            if cursor == 0 {
                self.copy = Some((group + 1, 0));
                return;
            }
        }
        self.copy = Some((group, cursor));
    }

    /// Sends all changes made before this call. Gives their number.
    async fn send_changes(&mut self) -> io::Result<Result<u64, Forgotten>> {
        let cut = self.replication.logs.cut();
        let changes = changes_in(&cut) - changes_in(&self.sent);
        if changes > 0 {
            for group in 0..cut.len() {
                loop {
                    match self.send_until_clear(group, &cut).await? {
                        Err(Forgotten) => return Ok(Err(Forgotten)),
                        Ok(Sent::UntilClear) => {}
                        Ok(Sent::All) => break,
                    }
                }
            }
        }
        Ok(Ok(changes))
    }

    /// Sends the changes of a group up to the next clear, and that.
    async fn send_until_clear(&mut self, group: usize, cut: &Cut) -> io::Result<Result<Sent, Forgotten>> {
        for (stripe, until) in cut[group].iter().enumerate() {
            loop {
                let cursor = &mut self.sent[group][stripe];
                let before = cursor.record;
                self.records.clear();
                let log = &self.replication.logs.groups[group].log;
                if log.read_keys(stripe, cursor, until.record, KEYS, &mut self.records).is_err() {
                    return Ok(Err(Forgotten));
                }
                if cursor.record == before {
                    break;
                }
                self.put_keys(group);
                if self.out.len() >= CHUNK {
                    self.flush().await?;
                }
            }
        }
        // A clear stands between the same changes in all stripes, and so does the cut: all stripes are now
        // at the end, or all at one clear.
        if self.sent[group] == cut[group] {
            return Ok(Ok(Sent::All));
        }
        for stripe in 0..STRIPES {
            self.records.clear();
            let cursor = &mut self.sent[group][stripe];
            let log = &self.replication.logs.groups[group].log;
            if log.read_clear(stripe, cursor, &mut self.records).is_err() {
                return Ok(Err(Forgotten));
            }
        }
        frames::put_clear(&mut self.out, group as u8, &self.records);
        Ok(Ok(Sent::UntilClear))
    }

    /// Writes the present entries of the keys that were read from a log.
    fn put_keys(&mut self, group: usize) {
        let cache = &self.replication.logs.groups[group].cache;
        let (now, number) = (clock::now(), group as u8);
        let mut keys = keys(&self.records).map(|key| cache.key(key));
        loop {
            let together: SmallVec<[Key<'_>; TOGETHER]> = keys.by_ref().take(TOGETHER).collect();
            if together.is_empty() {
                return;
            }
            // Of one stripe, so mostly of one shard: one lock for all.
            let mut tier = cache.exclusive(together.iter().copied());
            // They lie anywhere in memory: waited for one after the other, they would be most of what a replica
            // costs. Through the locks that are held, since each look would take one.
            tier.prefetch(together.iter().copied());
            for key in together {
                let found = tier.peek(key, now, |entry| {
                    let policy = PolicyState { frequency: entry.frequency(), is_main: false };
                    frames::put_entry(&mut self.out, &mut self.head, number, &entry, policy);
                });
                if found.is_none() {
                    frames::put_gone(&mut self.out, number, key.bytes());
                }
            }
        }
    }

    /// Sends all output.
    async fn flush(&mut self) -> io::Result<()> {
        let stalled = || io::Error::new(io::ErrorKind::TimedOut, "it took nothing for 30s");
        while !self.out.is_empty() {
            let mut pieces = [IoSlice::new(&[]); PIECES];
            let used = self.out.io_slices(&mut pieces);
            let written = timeout(STALLED, self.stream.write_vectored(&pieces[..used])).await;
            match written.map_err(|_| stalled())?? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => self.out.advance(written),
            }
        }
        if self.stream.is_unflushed() {
            timeout(STALLED, self.stream.flush()).await.map_err(|_| stalled())??;
        }
        Ok(())
    }

    /// Reads what the replica has acknowledged. Returns whether it leaves, and needs nothing more.
    fn take_acknowledgements(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 1 << 10];
        // A replica that sends without end gets no further than this in a round.
        while self.input.len() < MOST_INPUT {
            match self.stream.try_read(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => self.input.extend_from_slice(&buffer[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        let (mut consumed, mut leaves) = (0, false);
        let malformed = || io::Error::new(io::ErrorKind::InvalidData, "it sent something other than acknowledgements");
        while let ParsedFrame::Frame(length, frame) =
            frames::parse(&self.input[consumed..], 64).map_err(|_| malformed())?
        {
            consumed += length;
            match frame {
                Frame::Ack(changes) => self.replica.acknowledge(changes, clock::now()),
                Frame::Leave => leaves = true,
                _ => return Err(malformed()),
            }
        }
        if consumed > 0 {
            self.input.drain(..consumed);
            (self.heard)();
            self.replication.replicas.acknowledged.notify_waiters();
        }
        Ok(leaves)
    }
}
