//! The change stream of one database: one for the process, whichever groups read from it.
//!
//! The core that opens the first group runs it. The invalidations of a group go to its tier, which
//! all cores share. While it is not connected, or falls behind, nothing counts as fresh.
use super::{announced::Announced, session::Session, watches::Watch};
use crate::{
    invalidation::Invalidations,
    jittered_wait::jittered,
    postgres::postgres_settings::PostgresSettings,
    source_health::{SourceHealth, TrackingGuard},
};
use larder_config::PostgresUrl;
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{sync::Notify, time::sleep};

/// Shortest and longest pause between attempts to connect.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// A group that hears of changes.
#[derive(Clone)]
pub(super) struct Follower {
    pub(super) group: usize,
    pub(super) health: Arc<SourceHealth>,
    pub(super) to: Arc<dyn Invalidations>,
    pub(super) watches: Arc<[Watch]>,
}

/// See the module.
pub(super) struct ChangeStream {
    pub(super) settings: Arc<PostgresSettings>,
    pub(super) announced: Arc<Announced>,
    followers: Mutex<Vec<Follower>>,
    is_run: AtomicBool,
    /// A group follows since.
    pub(super) has_new: Notify,
}

/// A group's part of it.
pub(in crate::postgres) struct GroupChanges {
    stream: Arc<ChangeStream>,
    /// Its number among the groups of the stream.
    pub(in crate::postgres) group: usize,
    watches: Arc<[Watch]>,
    is_followed: AtomicBool,
}

/// The streams of this process, by what makes one differ from another.
static STREAMS: Mutex<BTreeMap<String, Weak<ChangeStream>>> = Mutex::new(BTreeMap::new());

impl ChangeStream {
    /// The stream of this database; a new one if no group has one.
    fn of(settings: &Arc<PostgresSettings>) -> Arc<ChangeStream> {
        let url = &settings.url;
        let same = PostgresUrl { table: None, key: None, columns: Vec::new(), options: Box::default(), ..url.clone() };
        let mut streams = STREAMS.lock();
        let stream = streams.entry(same.to_string()).or_default();
        stream.upgrade().unwrap_or_else(|| {
            let new = Arc::new(ChangeStream {
                settings: settings.clone(),
                announced: Arc::default(),
                followers: Mutex::default(),
                is_run: AtomicBool::new(false),
                has_new: Notify::new(),
            });
            *stream = Arc::downgrade(&new);
            new
        })
    }
    /// Whether a group still has it, besides the task that runs it and its session.
    pub(super) fn is_wanted(self: &Arc<ChangeStream>) -> bool {
        Arc::strong_count(self) > 2
    }
    pub(super) fn followers(&self) -> Vec<Follower> {
        self.followers.lock().clone()
    }
}

impl GroupChanges {
    /// What changes announce to the group of these settings.
    pub(in crate::postgres) fn new(settings: &Arc<PostgresSettings>) -> GroupChanges {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        GroupChanges {
            stream: ChangeStream::of(settings),
            group: NEXT.fetch_add(1, Relaxed),
            watches: Watch::all(&settings.url).into(),
            is_followed: AtomicBool::new(false),
        }
    }
    /// Fetches begin here: [`Announced::begin`].
    pub(in crate::postgres) fn announced(&self) -> &Arc<Announced> {
        &self.stream.announced
    }
    /// Connects, if no core has yet. Call it on each core; the stream runs on this one.
    pub(in crate::postgres) fn follow(&self, health: &Arc<SourceHealth>, to: Arc<dyn Invalidations>) {
        if self.is_followed.swap(true, Relaxed) || self.watches.is_empty() {
            return;
        }
        let (group, watches) = (self.group, self.watches.clone());
        self.stream.followers.lock().push(Follower { group, health: health.clone(), to, watches });
        match self.stream.is_run.swap(true, Relaxed) {
            true => self.stream.has_new.notify_one(),
            false => drop(tokio::task::spawn_local(run(self.stream.clone()))),
        }
    }
}

/// Follows the changes for as long as a group wants them.
async fn run(stream: Arc<ChangeStream>) {
    let (mut pause, mut last) = (PAUSES.0, String::new());
    loop {
        // Until it works, it counts like a Redis that refuses to track: nothing is kept.
        let groups = stream.followers();
        let refused: Vec<_> = groups.iter().map(|of| TrackingGuard::new(of.health.clone(), None)).collect();
        let opened = Session::open(&stream).await;
        let source = stream.settings.url.origin();
        match opened {
            Ok(mut session) => {
                drop(refused);
                (pause, last) = (PAUSES.0, String::new());
                let Err(lost) = session.follow().await;
                tracing::warn!(%source, reason = %lost.text, "the change stream of PostgreSQL was lost: nothing counts as fresh");
            }
            Err(why) if why.text == last => {}
            Err(why) => {
                tracing::warn!(%source, reason = %why.text, "PostgreSQL does not announce changes: nothing is kept until it does");
                last = why.text;
            }
        }
        if Arc::strong_count(&stream) == 1 {
            return;
        }
        sleep(jittered(pause)).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}
