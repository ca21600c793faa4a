//! The users of this process: who they are, who may log in, and when they change.
use super::{
    acl_log::{AclLog, RefusalReason},
    command_catalog::CommandCatalog,
    jwt::{TokenVerifier, VerifiedToken},
    login_throttle::{Credential, LoginThrottle},
    user::{DEFAULT_USER, RejectedRule, User},
    users_file,
};
use crate::buffers::TableShare;
use larder_config::{Secret, Settings};
use larder_engine::Millis;
use larder_store::clock;
use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::IpAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::Semaphore;

/// All users. Changes hold at once: who keeps a [`User`] compares [`Users::generation`] before each
/// use.
#[derive(Debug)]
pub struct Users {
    catalog: CommandCatalog,
    table: Mutex<UserTable>,
    /// Counts changes of the table.
    generation: AtomicU64,
    /// Counts users that were made.
    births: AtomicU64,
    file: Option<PathBuf>,
    /// The password of `default`, unless the file says what `default` is.
    password: Option<Secret>,
    /// Verifies tokens (`jwt-jwks`).
    tokens: Option<TokenVerifier>,
    /// A user that may do everything, and one that may do nothing. Both are named `default`.
    unrestricted: Arc<User>,
    powerless: Arc<User>,
    log: AclLog,
    /// For each [`Credential`].
    throttles: [LoginThrottle; 3],
    comparisons: Arc<Semaphore>,
}

#[derive(Debug)]
struct UserTable {
    by_name: BTreeMap<Box<str>, Arc<User>>,
    /// About what the users occupy, and what they occupied when the file was read: the clients'
    /// part is what came since.
    bytes: usize,
    of_file: usize,
    share: TableShare,
}
impl UserTable {
    fn made(&self) -> usize {
        self.bytes.saturating_sub(self.of_file)
    }
    fn replace(&mut self, name: &str, user: Option<Arc<User>>) -> Option<Arc<User>> {
        self.bytes += user.as_ref().map_or(0, |user| user.owned());
        let old = match user {
            Some(user) => self.by_name.insert(name.into(), user),
            None => self.by_name.remove(name),
        };
        self.bytes -= old.as_ref().map_or(0, |user| user.owned());
        self.share.settle(self.made());
        old
    }
}

/// What a change of users means for open connections.
#[derive(Debug, Default)]
pub struct ChangedUsers {
    /// Users that may hear other channels than before, but not all.
    pub hear_less: BTreeSet<Box<str>>,
}
impl ChangedUsers {
    fn note(&mut self, old: Option<&Arc<User>>, new: &User) {
        if old.is_some_and(|old| old.hears_other_channels(new)) && !new.permissions().hear_everything() {
            self.hear_less.insert(new.name.clone());
        }
    }
}

#[derive(Debug)]
pub enum LoginOutcome {
    /// The user, and when a token ends its login; [`Millis::MAX`]: nothing ends it.
    Granted(Arc<User>, Millis),
    /// There is no such user, or it is off, or the password is wrong.
    Wrong,
    /// The address has failed too often: its logins are refused for this long.
    Wait(Duration),
    /// The password must be compared apart from other work, by [`Users::compare`].
    Compare(Arc<User>),
}

/// A login whose client leaves during the comparison counts as failed: it costs as much.
struct LeftLogin<'t>(Option<(&'t LoginThrottle, IpAddr)>);
impl Drop for LeftLogin<'_> {
    fn drop(&mut self) {
        if let Some((throttle, address)) = self.0 {
            throttle.failed(address, Instant::now());
        }
    }
}

impl Users {
    /// The users of the settings' file, and `default`. What clients add to them has this share.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn new(settings: &Settings, catalog: CommandCatalog, share: TableShare) -> Result<Users, Vec<String>> {
        let users = Users {
            unrestricted: Arc::new(User::unrestricted(DEFAULT_USER, &catalog)),
            powerless: Arc::new(User::new(DEFAULT_USER, &catalog)),
            catalog,
            table: Mutex::new(UserTable { by_name: BTreeMap::new(), bytes: 0, of_file: 0, share }),
            generation: AtomicU64::new(1),
            births: AtomicU64::new(1),
            file: settings.users_file.clone(),
            password: settings.password.clone(),
            tokens: settings.jwt.clone().map(TokenVerifier::new),
            log: AclLog::default(),
            throttles: Default::default(),
            comparisons: Arc::new(Semaphore::new(1)),
        };
        users.load()?;
        Ok(users)
    }

    /// Reads the file again, and the keys of tokens. Users whose lines have gone are gone;
    /// `default` is then as without a file. Without a file only what [`Users::new`] made counts
    /// again.
    ///
    /// # Errors
    /// What is wrong with a file. Nothing has changed then.
    pub fn load(&self) -> Result<ChangedUsers, Vec<String>> {
        let read = match &self.file {
            Some(path) => users_file::read(path, &self.catalog)?,
            None => Vec::new(),
        };
        if let Some(tokens) = &self.tokens {
            tokens.replace_keys(tokens.keys_of_file().map_err(|why| vec![why])?);
        }
        let mut table = self.table.lock();
        let mut new: BTreeMap<Box<str>, Arc<User>> = BTreeMap::new();
        let mut changed = ChangedUsers::default();
        for mut user in [self.default_of_settings()].into_iter().chain(read) {
            let old = table.by_name.get(&user.name);
            user.born = old.map_or_else(|| self.birth(), |old| old.born);
            changed.note(old, &user);
            new.insert(user.name.clone(), Arc::new(user));
        }
        table.bytes = new.values().map(|user| user.owned()).sum();
        table.of_file = table.bytes;
        table.by_name = new;
        table.share.settle(0);
        self.generation.fetch_add(1, Ordering::Release);
        Ok(changed)
    }
    fn default_of_settings(&self) -> User {
        match &self.password {
            None => (*self.unrestricted).clone(),
            Some(password) => self
                .unrestricted
                .changed(&[format!(">{}", &**password)], &self.catalog)
                .unwrap_or_else(|_| (*self.powerless).clone()),
        }
    }
    fn birth(&self) -> u64 {
        self.births.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether Larder itself knows who may log in. Otherwise a Redis source does, if there is one.
    pub fn are_own(&self) -> bool {
        self.file.is_some() || self.password.is_some()
    }
    pub fn file(&self) -> Option<&PathBuf> {
        self.file.as_ref()
    }
    /// The commands that rules may name.
    pub fn catalog(&self) -> &CommandCatalog {
        &self.catalog
    }
    /// What was refused lately.
    pub fn log(&self) -> &AclLog {
        &self.log
    }
    /// Another number after each change.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
    pub fn find(&self, name: &str) -> Option<Arc<User>> {
        self.table.lock().by_name.get(name).cloned()
    }
    /// The user that clients are before they log in. It always exists.
    pub fn default_user(&self) -> Arc<User> {
        self.find(DEFAULT_USER).unwrap_or_else(|| self.powerless.clone())
    }
    /// One that may do everything, for work whose rules another server or node applies.
    pub fn unrestricted(&self) -> Arc<User> {
        self.unrestricted.clone()
    }
    /// One that may do nothing, for clients that have not logged in.
    pub fn powerless(&self) -> Arc<User> {
        self.powerless.clone()
    }
    /// This user as it is now; `None`: it was deleted.
    pub fn again(&self, user: &User) -> Option<Arc<User>> {
        self.find(&user.name).filter(|now| now.born == user.born)
    }
    /// All users, by name.
    pub fn all(&self) -> Vec<Arc<User>> {
        self.table.lock().by_name.values().cloned().collect()
    }

    /// Makes a user, or changes one.
    ///
    /// # Errors
    /// The rule that cannot be applied, or that there is no room. Nothing has changed then.
    pub fn set<R: AsRef<[u8]>>(&self, name: &str, rules: &[R]) -> Result<ChangedUsers, RejectedRule> {
        let mut table = self.table.lock();
        let old = table.by_name.get(name).cloned();
        let mut user = match &old {
            Some(old) => old.changed(rules, &self.catalog)?,
            None => User::new(name, &self.catalog).changed(rules, &self.catalog)?,
        };
        let mut changed = ChangedUsers::default();
        changed.note(old.as_ref(), &user);
        let before = old.as_ref().map_or(0, |old| old.owned());
        let most = table.share.max();
        if user.owned() > before && table.made() + user.owned() - before > most {
            return Err(RejectedRule::NoRoom { most });
        }
        user.born = old.map_or_else(|| self.birth(), |old| old.born);
        table.replace(name, Some(Arc::new(user)));
        self.generation.fetch_add(1, Ordering::Release);
        Ok(changed)
    }
    /// Deletes users; those that there were. `default` stays.
    pub fn delete(&self, names: &[&str]) -> usize {
        let mut table = self.table.lock();
        let deleted = names.iter().filter(|name| **name != DEFAULT_USER && table.replace(name, None).is_some()).count();
        self.generation.fetch_add(1, Ordering::Release);
        deleted
    }
    /// Writes all users to the file.
    ///
    /// # Errors
    /// There is no file, or it could not be written.
    pub fn save(&self) -> io::Result<()> {
        let path = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let users = self.all();
        users_file::write(path, users.iter().map(|user| &**user))
    }

    /// Checks a name and a password. The time says nothing about which of them is wrong.
    pub fn log_in(&self, address: IpAddr, name: &[u8], password: &[u8]) -> LoginOutcome {
        let user = std::str::from_utf8(name).ok().and_then(|name| self.find(name)).filter(|user| user.is_on());
        // What is sent without a name may be a token, even where `default` needs no password.
        let is_token =
            name == DEFAULT_USER.as_bytes() && self.tokens.as_ref().is_some_and(|of| of.may_be_token(password));
        if let Some(open) = user.as_ref().filter(|user| user.has_no_password() && !is_token) {
            return LoginOutcome::Granted(open.clone(), Millis::MAX);
        }
        if let Some(wait) = self.wait(Credential::Login, address) {
            return LoginOutcome::Wait(wait);
        }
        // A token that its user sends as the password, or that anybody sends without a name, which is then
        // the default one.
        let token = self.verified_token(address, password);
        if let Some(token) = token.filter(|token| name == DEFAULT_USER.as_bytes() || name == token.user.as_bytes()) {
            return self.granted_by(&token);
        }
        let Some(user) = user else {
            // As long as for a user with one password.
            std::hint::black_box(self.default_user().passwords().contain_one(password));
            return LoginOutcome::Wrong;
        };
        if user.passwords().are_slow() {
            LoginOutcome::Compare(user)
        } else if user.passwords().contain(password) {
            LoginOutcome::Granted(user, Millis::MAX)
        } else {
            LoginOutcome::Wrong
        }
    }
    /// The user whose password this is, if it is that of one user alone. Only SHA-256 passwords are
    /// tokens: each would have to be compared with argon2.
    pub fn log_in_by_token(&self, address: IpAddr, token: &[u8]) -> LoginOutcome {
        if let Some(wait) = self.wait(Credential::Login, address) {
            return LoginOutcome::Wait(wait);
        }
        let users = self.all();
        let mut found = users.iter().filter(|user| user.is_on() && user.passwords().contain_token(token));
        match (found.next(), found.next()) {
            (Some(user), None) if !token.is_empty() => LoginOutcome::Granted(user.clone(), Millis::MAX),
            _ => self.verified_token(address, token).map_or(LoginOutcome::Wrong, |token| self.granted_by(&token)),
        }
    }
    /// Whether clients may log in with tokens (`jwt-jwks`).
    pub fn take_tokens(&self) -> bool {
        self.tokens.is_some()
    }
    /// What a token says, if this is one and its signature, issuer, audience and times are right.
    fn verified_token(&self, address: IpAddr, text: &[u8]) -> Option<VerifiedToken> {
        let tokens = self.tokens.as_ref().filter(|tokens| tokens.may_be_token(text))?;
        match tokens.verify(text, clock::wall()) {
            Ok(token) => Some(token),
            Err(why) => {
                tracing::warn!(client = %address, "a token is refused: {why}");
                None
            }
        }
    }
    fn granted_by(&self, token: &VerifiedToken) -> LoginOutcome {
        match self.find(&token.user).filter(|user| user.is_on()) {
            Some(user) => LoginOutcome::Granted(user, clock::of_wall(token.ends)),
            None => LoginOutcome::Wrong,
        }
    }
    /// How long this address has to wait before what it shows is looked at.
    pub fn wait(&self, credential: Credential, address: IpAddr) -> Option<Duration> {
        self.throttles[credential as usize].wait(address, Instant::now())
    }
    /// Compares a password with those of a user, on a thread of its own: one at a time, so that
    /// logins leave the cores to others. An address whose earlier logins failed while this one waited
    /// for its turn gets no turn.
    pub async fn compare(&self, address: IpAddr, user: Arc<User>, password: &[u8]) -> LoginOutcome {
        let Ok(turn) = self.comparisons.clone().acquire_owned().await else { return LoginOutcome::Wrong };
        if let Some(wait) = self.wait(Credential::Login, address) {
            return LoginOutcome::Wait(wait);
        }
        let (compared, password) = (user.clone(), password.to_vec());
        let mut left = LeftLogin(Some((&self.throttles[Credential::Login as usize], address)));
        let is_right = tokio::task::spawn_blocking(move || {
            // A client that leaves ends its request, and not this.
            let _turn = turn;
            compared.passwords().contain(&password)
        });
        let is_right = is_right.await;
        left.0 = None;
        if is_right.unwrap_or(false) { LoginOutcome::Granted(user, Millis::MAX) } else { LoginOutcome::Wrong }
    }
    /// Counts and logs what an address has shown in vain. `object` says how, `user` for whom.
    pub fn note_failed(
        &self,
        (credential, address): (Credential, IpAddr),
        context: &'static str,
        (object, user): (&[u8], &str),
        client: impl FnOnce() -> String,
    ) {
        self.throttles[credential as usize].failed(address, Instant::now());
        self.log.add((RefusalReason::Login, context), (object, user), client);
    }
}
