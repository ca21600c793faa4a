//! Applies what a primary sends to the memory tiers of this process.
use super::{
    frames::{BadFrame, Frame, Texts},
    link_status::LinkState,
    replication::{Replication, Turn},
};
use larder_engine::{Cache, Clear, Millis, Moment};
use larder_store::{clock, snapshot::SavedEntry};
use larder_units::{show_duration, show_size};
use std::{fmt, io, sync::Arc, sync::atomic::Ordering::Relaxed, time::Duration};
use tokio::task::yield_now;

/// Entries that are looked at in one go after a full copy.
const STEP: usize = 512;

/// Why a connection to a primary ended, or could not be made.
#[derive(Debug)]
pub(super) enum LinkError {
    Io(io::Error),
    /// A file of its TLS cannot be used.
    Tls(String),
    /// The primary closed it.
    Closed,
    /// Nothing came for this long.
    Silent(Duration),
    /// The primary's error reply.
    Refused(String),
    /// It sent something else than frames.
    Malformed,
    TooLong(usize),
    /// Its groups are not those of this process.
    OtherGroups(String),
    /// This process does not follow it any more.
    Superseded,
}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> LinkError {
        LinkError::Io(error)
    }
}
impl From<BadFrame> for LinkError {
    fn from(bad: BadFrame) -> LinkError {
        match bad {
            BadFrame::TooLong(length) => LinkError::TooLong(length),
            BadFrame::Malformed => LinkError::Malformed,
        }
    }
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkError::Io(error) => error.fmt(f),
            LinkError::Tls(error) => f.write_str(error),
            LinkError::Closed => f.write_str("the primary closed the connection"),
            LinkError::Silent(limit) => write!(f, "the primary sent nothing for {}", show_duration(*limit)),
            LinkError::Refused(error) => write!(f, "the primary refused: {error}"),
            LinkError::Malformed => f.write_str("the primary sent something that is not a replication stream"),
            LinkError::TooLong(length) => write!(
                f,
                "the primary sent an entry of {}: larger than max-key and max-value allow here",
                show_size(*length as u64)
            ),
            LinkError::OtherGroups(theirs) => write!(
                f,
                "the groups without a source are not the same: the primary has {theirs}; give both processes the same groups"
            ),
            LinkError::Superseded => f.write_str("another primary is followed now"),
        }
    }
}

/// Applies frames, in their order.
pub(super) struct Apply<'r> {
    replication: &'r Replication,
    number: u64,
    /// Held while frames are applied that arrived together.
    turn: Option<Turn<'r>>,
    now: Millis,
    /// A full copy is under way, which began when the tiers were at these moments.
    copying: Option<Vec<Moment>>,
}

impl<'r> Apply<'r> {
    /// Applies as long as this process follows the primary that it followed at turn `number`.
    pub(super) fn new(replication: &'r Replication, number: u64) -> Apply<'r> {
        Apply { replication, number, turn: None, now: 0, copying: None }
    }

    fn resume(&mut self) -> Result<(), LinkError> {
        if self.turn.is_none() {
            self.turn = Some(self.replication.take_turn(self.number).ok_or(LinkError::Superseded)?);
            self.now = clock::now();
        }
        Ok(())
    }

    /// Lets others change the role: nothing is being applied.
    pub(super) fn pause(&mut self) {
        self.turn = None;
    }

    /// Compares the primary's groups with those of this process.
    pub(super) fn hello(&self, theirs: Texts<'_>) -> Result<(), LinkError> {
        let ours = self.replication.logs.groups.iter().map(|group| group.name.as_bytes());
        match theirs.iter().eq(ours) {
            true => Ok(()),
            false => {
                let names: Vec<_> = theirs.iter().map(String::from_utf8_lossy).collect();
                Err(LinkError::OtherGroups(names.join(", ")))
            }
        }
    }

    fn cache(&self, group: u8) -> Result<&'r Arc<Cache>, LinkError> {
        let group = self.replication.logs.groups.get(usize::from(group));
        group.map(|group| &group.cache).ok_or(LinkError::Malformed)
    }

    /// Applies a change of one or several entries.
    pub(super) fn change(&mut self, frame: Frame<'_>) -> Result<(), LinkError> {
        self.resume()?;
        match frame {
            Frame::Entry(group, entry) => self.store(self.cache(group)?, &entry),
            Frame::Gone(group, key) => {
                let cache = self.cache(group)?;
                cache.tier().delete(cache.key(key), self.now);
            }
            Frame::Clear(group, what) => {
                let cache = self.cache(group)?;
                match what {
                    Clear::All => cache.tier().clear(),
                    Clear::Prefix(prefix, is_final) => drop(cache.mark_prefix(prefix, is_final, self.now)),
                    Clear::Tag(tag, soft) => drop(cache.tier().clear_tag(tag, soft, self.now)),
                }
            }
            _ => return Err(LinkError::Malformed),
        }
        self.replication.link.applied.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Stores an entry as it is at the primary.
    fn store(&self, cache: &Cache, entry: &SavedEntry<'_>) {
        let key = cache.key(entry.key);
        if cache.tier().restore(key, &entry.restored(), self.now).is_err() {
            // What is here is older.
            cache.tier().delete(key, self.now);
            if self.replication.link.refused.fetch_add(1, Relaxed) == 0 {
                tracing::warn!("an entry of the primary is larger than the memory tier here takes (max-memory)");
            }
        }
    }

    /// Notes the moment of each tier: what is older at the end of the copy is not at the primary.
    pub(super) fn begin_copy(&mut self) {
        self.replication.link.set_state(LinkState::Copying);
        self.copying = Some(self.replication.logs.groups.iter().map(|group| group.cache.moment()).collect());
    }

    /// Deletes what the copy has not brought.
    pub(super) async fn end_copy(&mut self) -> Result<(), LinkError> {
        let moments = self.copying.take().ok_or(LinkError::Malformed)?;
        for (group, moment) in self.replication.logs.groups.iter().zip(&moments) {
            let mut cursor = 0;
            loop {
                self.resume()?;
                let (cache, now) = (&group.cache, self.now);
                let mut older: Vec<Box<[u8]>> = Vec::new();
                cursor = cache.tier().scan(cursor, STEP, now, |entry| {
                    if moment.covers(cache, &entry) {
                        older.push(entry.key.into());
                    }
                });
                let mut tier = cache.tier();
                for key in &older {
                    tier.delete_older(cache.key(key), moment, now);
                }
                drop(tier);
                self.pause();
                if cursor == 0 {
                    break;
                }
                yield_now().await;
            }
        }
        self.replication.link.set_state(LinkState::Connected);
        Ok(())
    }

    /// The primary has sent all changes before a place. False while a copy is under way: then it
    /// says only that the primary lives.
    pub(super) fn mark(&self, time: Millis) -> bool {
        let (link, now) = (&self.replication.link, clock::now());
        if self.copying.is_some() {
            return false;
        }
        link.clock_difference.store(time as i64 - clock::wall() as i64, Relaxed);
        link.marked_at.store(now, Relaxed);
        true
    }
}
