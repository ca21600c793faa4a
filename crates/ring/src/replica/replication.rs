//! The role of this process, and what all roles share.
use super::{
    change_logs::{ChangeLogs, changes_in},
    changes_at::ChangesAt,
    connected_replicas::ConnectedReplicas,
    link_status::LinkStatus,
    rounds::Rounds,
};
use larder_config::{PrimaryAddress, ReplicationSettings, Secret, Settings, SourceClass, SourceUrl};
use larder_engine::{Cache, Millis};
use larder_store::clock;
use parking_lot::{Mutex, MutexGuard};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};
use subtle::ConstantTimeEq as _;
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It takes writes, and no replica is connected.
    Standalone,
    /// It takes writes, and replicas are connected.
    Primary,
    /// It follows a primary.
    Replica,
}
impl Role {
    /// In lower case.
    pub fn name(self) -> &'static str {
        match self {
            Role::Standalone => "standalone",
            Role::Primary => "primary",
            Role::Replica => "replica",
        }
    }
}

/// Replication, as all threads see it.
#[derive(Debug)]
pub struct Replication {
    pub(super) settings: ReplicationSettings,
    /// What clients of the Redis protocol must show, and what this process shows its primary.
    pub(super) password: Option<Secret>,
    /// Of keys and values.
    pub(super) limits: (usize, usize),
    pub(super) logs: ChangeLogs,
    pub(super) rounds: Rounds,
    /// The replicas that are connected to this process.
    pub replicas: ConnectedReplicas,
    /// How this process stands to its primary, if it has one.
    pub link: LinkStatus,
    primary: watch::Sender<Option<PrimaryAddress>>,
    /// Whether clients' writes are refused. Changed under the lock of `turns`.
    is_read_only: AtomicBool,
    /// How often the role has changed. A link applies changes under this lock, and only if the
    /// number is still its own.
    turns: Mutex<u64>,
    /// Why this process cannot take part.
    hindrance: Option<&'static str>,
    /// In the order of the settings: is this group replicated?
    is_replicated: Vec<bool>,
}

/// The right to apply changes, while it is held.
pub(super) struct Turn<'r>(#[expect(dead_code, reason = "it is held, not read")] MutexGuard<'r, u64>);

impl Replication {
    /// For these groups' memory tiers, in the order of the settings.
    pub fn new(settings: &Settings, caches: &[Arc<Cache>]) -> Replication {
        let of_memory = |source: &SourceUrl| source.class() == SourceClass::Memory;
        let is_replicated: Vec<bool> = settings.groups.iter().map(|group| of_memory(&group.source)).collect();
        let groups = settings.groups.iter().zip(caches).filter(|(group, _)| of_memory(&group.source));
        let groups = groups.map(|(group, cache)| (group.name.clone(), cache.clone()));
        let hindrance = if !is_replicated.first().is_some_and(|is| *is) {
            Some("only memory is replicated, and the group default has a source")
        } else if settings.peers.are_set() {
            Some("nodes that share their caches (peers) have no replicas")
        } else if is_replicated.len() > usize::from(u8::MAX) {
            Some("at most 255 groups can be replicated")
        } else {
            None
        };
        let of = settings.replication.clone();
        Replication {
            password: settings.password.clone(),
            limits: (settings.max_key, settings.max_value),
            logs: ChangeLogs::new(groups, of.backlog),
            rounds: Rounds::default(),
            replicas: ConnectedReplicas::default(),
            link: LinkStatus::default(),
            is_read_only: AtomicBool::new(of.replica_of.is_some()),
            primary: watch::Sender::new(of.replica_of.clone()),
            turns: Mutex::new(0),
            hindrance,
            is_replicated,
            settings: of,
        }
    }

    /// Why this process can be neither primary nor replica; `None`: it can.
    pub fn hindrance(&self) -> Option<&'static str> {
        self.hindrance
    }

    /// Whether clients may not write to replicated groups.
    #[inline]
    pub fn is_read_only(&self) -> bool {
        self.is_read_only.load(Relaxed)
    }

    /// Like `is_read_only`, for one group, by its place in the settings.
    pub fn refuses_writes(&self, group: usize) -> bool {
        self.is_read_only() && self.is_replicated.get(group) == Some(&true)
    }

    /// Whether the group, by its place in the settings, has or may have replicas.
    pub fn replicates(&self, group: usize) -> bool {
        self.hindrance.is_none() && self.is_replicated.get(group) == Some(&true)
    }

    pub fn role(&self) -> Role {
        if self.is_read_only() {
            Role::Replica
        } else if self.replicas.list().is_empty() {
            Role::Standalone
        } else {
            Role::Primary
        }
    }

    /// The primary of this process; `None`: it has none.
    pub fn primary(&self) -> Option<PrimaryAddress> {
        self.primary.borrow().clone()
    }
    pub(super) fn watch_primary(&self) -> watch::Receiver<Option<PrimaryAddress>> {
        self.primary.subscribe()
    }

    /// Makes this process a replica of another, or with `None` one that takes writes. Nothing of
    /// the former primary is applied after this returns. False if nothing changes.
    pub fn follow(&self, primary: Option<PrimaryAddress>) -> bool {
        let mut turns = self.turns.lock();
        let changes = *self.primary.borrow() != primary;
        if changes {
            *turns += 1;
            self.is_read_only.store(primary.is_some(), Relaxed);
            // Before the link's task runs: who asks now must not see the link to the former primary.
            self.link.begin(clock::now());
            self.primary.send_replace(primary);
        }
        changes
    }

    /// The number of the present turn.
    pub(super) fn turn(&self) -> u64 {
        *self.turns.lock()
    }
    /// The right to apply changes of the primary that this process followed at turn `number`;
    /// `None`: it follows it no more.
    pub(super) fn take_turn(&self, number: u64) -> Option<Turn<'_>> {
        let turns = self.turns.lock();
        (*turns == number).then(|| Turn(turns))
    }

    /// Whether a replica that showed this may connect. `authenticated` says whether it has shown
    /// the password.
    pub fn admits(&self, secret: &[u8], authenticated: bool) -> bool {
        match &self.settings.secret {
            // The time of the comparison reveals only the length.
            Some(expected) => expected.as_bytes().ct_eq(secret).into(),
            None => authenticated,
        }
    }

    /// How many records a replica names to resume.
    pub fn positions(&self) -> usize {
        self.logs.positions()
    }

    /// Changes that were logged since the first replica connected.
    pub fn changes(&self) -> u64 {
        changes_in(&self.logs.cut())
    }
    /// The changes so far, for one who waits until a replica has them: they leave at once.
    pub fn place(&self) -> ChangesAt {
        let place = ChangesAt { id: self.logs.id(), changes: self.changes() };
        self.replicas.hurry.notify_waiters();
        place
    }
    pub fn log_bytes(&self) -> usize {
        self.logs.capacity()
    }
    /// What distinguishes these logs from others, or those of the primary; 0: there are none.
    pub fn log_id(&self) -> u64 {
        self.logs.id()
    }

    /// Stops logging when it has been of no use for long.
    pub fn tick(&self, now: Millis) {
        self.logs.tick(now, self.is_read_only());
    }

    /// Waits until so many replicas have all changes made before this call, or until the time is
    /// over (`None`: for as long as it takes). Gives the number of replicas that have them.
    pub async fn wait(&self, replicas: usize, limit: Option<Duration>) -> usize {
        let changes = self.changes();
        let end = limit.map(|limit| Instant::now() + limit);
        loop {
            let acknowledged = self.replicas.acknowledged.notified();
            let count = self.replicas.count_with(changes);
            if count >= replicas {
                return count;
            }
            self.replicas.hurry.notify_waiters();
            match end {
                None => acknowledged.await,
                Some(end) => {
                    if timeout_at(end, acknowledged).await.is_err() {
                        return self.replicas.count_with(changes);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::link_status::LinkState, *};

    #[test]
    fn a_link_to_the_former_primary_is_not_shown_for_the_next_one() {
        let settings = Settings::from_args(&["--replica-of=redis://127.0.0.1:1"]).expect("valid");
        let replication = Replication::new(&settings, &[]);
        let link = &replication.link;
        link.down_since.store(0, Relaxed);
        link.marked_at.store(clock::now(), Relaxed);
        link.set_state(LinkState::Connected);
        assert!(link.is_up() && link.behind_for(clock::now()).is_some());
        let next = PrimaryAddress { host: "127.0.0.1".to_owned(), port: 2, tls: None };
        assert!(replication.follow(Some(next)));
        assert!(!link.is_up() && link.behind_for(clock::now()).is_none());
    }
}
