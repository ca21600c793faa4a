//! What users of a Redis source may do (`auth = "passthrough"`): that Redis's own answers, and how
//! long they count.
use super::user::{DEFAULT_USER, User};
use crate::telemetry::LogLimiter;
use arc_swap::ArcSwapOption;
use larder_engine::Millis;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{
            AtomicU64,
            Ordering::{AcqRel, Acquire, Release},
        },
    },
    time::{Duration, Instant},
};

/// Shortest time between two warnings.
const WARNINGS: Duration = Duration::from_secs(60);

/// The users that clients have logged in as, and `default`.
#[derive(Debug)]
pub struct UpstreamRights {
    /// How old an answer may be while it decides, ms.
    max_age: Millis,
    users: Mutex<HashMap<Box<str>, Weak<UserRights>>>,
    /// Counts questions, and calls of [`UpstreamRights::forget`].
    questions: AtomicU64,
    /// The number of the last call of [`UpstreamRights::forget`].
    forgotten: AtomicU64,
    /// Counts answers that differ from the one before.
    changes: AtomicU64,
    warnings: LogLimiter,
    /// Asked for although no client may use it: a client is `default` before it logs in.
    default: Arc<UserRights>,
}

/// What one user may do. Workers read it without a lock.
#[derive(Debug)]
pub struct UserRights {
    pub name: Box<str>,
    user: ArcSwapOption<User>,
    /// Counts changes.
    version: AtomicU64,
    /// The last moment at which the answer counts, ms since 1970; 0: there is none.
    valid_until: AtomicU64,
    /// The number of the question that has the answer.
    answered: AtomicU64,
}

/// The moment at which the Redis was asked about users.
#[derive(Debug, Clone, Copy)]
pub struct RightsQuestion {
    at: Millis,
    number: u64,
}

/// What the Redis said about a user.
#[derive(Debug)]
pub enum RightsAnswer {
    /// The user, with its rules.
    User(Arc<User>),
    /// There is no such user.
    Nobody,
    /// It does not say.
    Unknown,
}

/// What may be done for a client of a user now.
#[derive(Debug, Clone)]
pub enum RightsNow {
    /// What these rules allow.
    Known(Arc<User>),
    /// The Redis has to decide.
    AskSource,
    /// Nothing: the user is gone, or has been turned off.
    Gone,
}

impl UpstreamRights {
    /// Nothing is known yet. `max_age`: how old an answer may be while it decides.
    pub fn new(max_age: Duration) -> UpstreamRights {
        let default = Arc::new(UserRights::new(DEFAULT_USER));
        let users = HashMap::from([(default.name.clone(), Arc::downgrade(&default))]);
        UpstreamRights {
            max_age: max_age.as_millis() as Millis,
            users: Mutex::new(users),
            questions: AtomicU64::new(0),
            forgotten: AtomicU64::new(0),
            changes: AtomicU64::new(0),
            warnings: LogLimiter::new(WARNINGS),
            default,
        }
    }
    /// The rights of a user; they are kept up to date while anybody holds them.
    pub fn of(&self, name: &str) -> Arc<UserRights> {
        let mut users = self.users.lock();
        if let Some(rights) = users.get(name).and_then(Weak::upgrade) {
            return rights;
        }
        users.retain(|_, rights| rights.strong_count() > 0);
        let rights = Arc::new(UserRights::new(name));
        users.insert(name.into(), Arc::downgrade(&rights));
        rights
    }
    pub fn of_default(&self) -> &Arc<UserRights> {
        &self.default
    }
    /// All users whose rights are in use.
    pub fn in_use(&self) -> Vec<Arc<UserRights>> {
        self.users.lock().values().filter_map(Weak::upgrade).collect()
    }
    /// How often to ask, so that an answer never gets too old. `None`: answers do not count.
    pub fn interval(&self) -> Option<Duration> {
        (self.max_age > 0).then(|| Duration::from_millis((self.max_age / 2).max(1)))
    }
    /// Whether it is time to log that the Redis does not tell.
    pub fn may_warn(&self) -> bool {
        self.warnings.due(Instant::now()).is_some()
    }
    /// Call it before the Redis is asked.
    pub fn question(&self, now: Millis) -> RightsQuestion {
        RightsQuestion { at: now, number: self.next_number() }
    }
    fn next_number(&self) -> u64 {
        1 + self.questions.fetch_add(1, AcqRel)
    }
    /// Takes over what the Redis answered, unless a later question has its answer already: cores ask
    /// beside each other. False: answers were forgotten after it was asked, so this one may be too
    /// old, and nothing has changed.
    pub fn learn(&self, rights: &UserRights, asked: RightsQuestion, answer: RightsAnswer) -> bool {
        let until = asked.at.saturating_add(self.max_age);
        let (user, until) = match answer {
            RightsAnswer::User(user) => (Some(user), until),
            RightsAnswer::Nobody => (None, until),
            RightsAnswer::Unknown => (None, 0),
        };
        // The lock orders this and `forget`.
        let _users = self.users.lock();
        let counts = self.forgotten.load(Acquire) < asked.number;
        if counts && rights.answered.fetch_max(asked.number, AcqRel) < asked.number {
            let (before, known) = (rights.version(), rights.last().is_some());
            rights.learn(user, until);
            self.changes.fetch_add(u64::from(known && rights.version() != before), Release);
        }
        counts
    }
    /// Another number after each change of a user that was known.
    pub fn changes(&self) -> u64 {
        self.changes.load(Acquire)
    }
    /// Forgets all answers, also those that are under way: a client has changed users at the Redis.
    pub fn forget(&self) {
        let users = self.users.lock();
        self.forgotten.store(self.next_number(), Release);
        users.values().filter_map(Weak::upgrade).for_each(|rights| rights.valid_until.store(0, Release));
    }
}

impl UserRights {
    fn new(name: &str) -> UserRights {
        UserRights {
            name: name.into(),
            user: ArcSwapOption::empty(),
            version: AtomicU64::new(0),
            valid_until: AtomicU64::new(0),
            answered: AtomicU64::new(0),
        }
    }
    fn learn(&self, user: Option<Arc<User>>, until: Millis) {
        let old = self.user.load();
        let is_same = match (&*old, &user) {
            (Some(old), Some(new)) => old.line() == new.line(),
            (None, None) => true,
            _ => false,
        };
        if !is_same {
            // The old answer must not count for the new version.
            self.valid_until.store(0, Release);
            self.user.store(user);
            self.version.fetch_add(1, Release);
        }
        self.valid_until.store(until, Release);
    }
    /// Counts changes.
    pub fn version(&self) -> u64 {
        self.version.load(Acquire)
    }
    /// Whether the rules of this version still count.
    #[inline]
    pub fn is_current(&self, version: u64, now: Millis) -> bool {
        self.valid_until.load(Acquire) >= now && self.version.load(Acquire) == version
    }
    /// Whether the user may log in with this password, by an answer that still counts.
    pub fn admit(&self, password: &[u8], now: Millis) -> bool {
        match self.now(now) {
            RightsNow::Known(user) => user.has_no_password() || user.passwords().contain(password),
            RightsNow::AskSource | RightsNow::Gone => false,
        }
    }
    /// What the Redis said last, however long ago.
    pub fn last(&self) -> Option<Arc<User>> {
        self.user.load_full()
    }
    /// What counts now.
    pub fn now(&self, now: Millis) -> RightsNow {
        if self.valid_until.load(Acquire) < now {
            return RightsNow::AskSource;
        }
        match self.user.load_full() {
            Some(user) if user.is_on() => RightsNow::Known(user),
            _ => RightsNow::Gone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_a_change_of_users_overtook_does_not_count() {
        let all = UpstreamRights::new(Duration::from_secs(1));
        let app = all.of("app");
        let before = all.question(1_000);
        all.forget();
        assert!(!all.learn(&app, before, RightsAnswer::Nobody));
        assert!(matches!(app.now(1_000), RightsNow::AskSource));
        assert!(all.learn(&app, all.question(1_000), RightsAnswer::Nobody));
        assert!(matches!(app.now(2_000), RightsNow::Gone));
        assert!(matches!(app.now(2_001), RightsNow::AskSource));
    }

    #[test]
    fn an_answer_that_a_later_question_overtook_does_not_count() {
        let all = UpstreamRights::new(Duration::from_secs(1));
        let app = all.of("app");
        let (first, second) = (all.question(1_000), all.question(1_000));
        assert!(all.learn(&app, second, RightsAnswer::Nobody));
        assert!(all.learn(&app, first, RightsAnswer::Unknown));
        assert!(matches!(app.now(1_500), RightsNow::Gone));
    }
}
