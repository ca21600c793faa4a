//! One client's user, and what every request must pass before it runs.
use larder_base::{
    identity::{Beyond, DEFAULT_USER, KeyAccess, RefusalReason, TouchedKey, User},
    lifecycle::{
        queue_delay::OVERLOADED,
        throttle::{Caller, CommandClass, Scope},
    },
};
use larder_config::Categories;
use larder_core::{
    app::Worker,
    clients::Client,
    gate::{self, Asked, Door, Refused},
};
use larder_engine::Millis;
use larder_proto::memcached::{MetaCommand, Request, StoreMode};
use std::{iter, sync::Arc};

/// One client's user.
pub(crate) struct Session {
    pub(crate) client: Arc<Client>,
    user: Arc<User>,
    /// The rules of the user refuse something.
    is_restricted: bool,
    /// It has to log in before anything else.
    pub(crate) must_log_in: bool,
    /// The generation of users of which `user` is.
    seen: u64,
}

/// What a request does, in the words of users' rules and limits: the Redis command that does the
/// same.
struct Rights<'r> {
    command: &'static str,
    access: KeyAccess,
    keys: TouchedKeys<'r>,
}

#[derive(Clone)]
enum TouchedKeys<'r> {
    One(&'r [u8]),
    Several(larder_proto::memcached::Keys<'r>),
    /// Every key.
    All,
    /// The request is for the connection or the server.
    None,
}

impl<'r> TouchedKeys<'r> {
    fn iter(&self) -> impl Iterator<Item = &'r [u8]> + Clone + use<'r> {
        let (one, several) = match self {
            TouchedKeys::One(key) => (Some(*key), None),
            TouchedKeys::Several(keys) => (None, Some(*keys)),
            TouchedKeys::All | TouchedKeys::None => (None, None),
        };
        one.into_iter().chain(several.into_iter().flatten())
    }
}

impl<'r> Rights<'r> {
    /// `key` is the decoded key of a meta command.
    fn of(request: &Request<'r>, key: &'r [u8]) -> Option<Rights<'r>> {
        let one = |command, access, key| Rights { command, access, keys: TouchedKeys::One(key) };
        Some(match *request {
            Request::Get { keys, exptime: None, .. } => {
                Rights { command: "get", access: KeyAccess::READ, keys: TouchedKeys::Several(keys) }
            }
            Request::Get { keys, .. } => {
                Rights { command: "getex", access: KeyAccess::BOTH, keys: TouchedKeys::Several(keys) }
            }
            Request::Store(store) => match store.mode {
                StoreMode::Append | StoreMode::Prepend => one("append", KeyAccess::BOTH, store.key),
                _ => one("set", KeyAccess::WRITE, store.key),
            },
            Request::Arithmetic { key, .. } => one("incrby", KeyAccess::BOTH, key),
            Request::Delete { key, .. } => one("del", KeyAccess::WRITE, key),
            Request::Touch { key, .. } => one("expire", KeyAccess::WRITE, key),
            Request::Flush { .. } => Rights { command: "flushall", access: KeyAccess::WRITE, keys: TouchedKeys::All },
            Request::Stats(_) => Rights { command: "info", access: KeyAccess::NONE, keys: TouchedKeys::None },
            Request::Meta(meta) => match meta.command {
                MetaCommand::Get => {
                    let flags = &meta.flags;
                    let changes = flags.exptime.is_some() || flags.vivify.is_some() || flags.recache.is_some();
                    if changes { one("getex", KeyAccess::BOTH, key) } else { one("get", KeyAccess::READ, key) }
                }
                MetaCommand::Set(_) => one("set", KeyAccess::BOTH, key),
                MetaCommand::Delete => one("del", KeyAccess::WRITE, key),
                MetaCommand::Arithmetic => one("incrby", KeyAccess::BOTH, key),
                MetaCommand::Debug => one("get", KeyAccess::READ, key),
            },
            Request::Verbosity { .. } | Request::Version | Request::Quit | Request::MetaNothing => return None,
        })
    }
}

impl Session {
    /// The client is `default` until it logs in, or the user that its certificate names.
    pub(crate) fn new(worker: &Worker, client: Arc<Client>, certificate: Option<&str>) -> Session {
        let users = &worker.app.users;
        let shown = certificate.and_then(|name| users.find(name)).filter(|user| user.is_on());
        let enters = shown.is_some();
        let user = shown.unwrap_or_else(|| users.default_user());
        let enters = enters || user.is_on() && user.has_no_password();
        let must_log_in = !enters || worker.app.upstream_rights.is_some();
        client.about.lock().lib_name = "memcached".into();
        let mut session =
            Session { seen: users.generation(), is_restricted: true, must_log_in, user: user.clone(), client };
        match must_log_in {
            true => session.user = users.powerless(),
            false => session.log_in(user),
        }
        session
    }

    /// The client has logged in as this user.
    pub(crate) fn log_in(&mut self, user: Arc<User>) {
        self.client.about.lock().user = (*user.name).into();
        self.is_restricted = !user.permissions().is_unrestricted();
        self.user = user;
        self.must_log_in = false;
    }

    /// Takes over changes of the client's user. A deleted user's client has to go.
    #[inline]
    pub(crate) fn note_changed_users(&mut self, worker: &Worker) {
        if self.seen != worker.app.users.generation() {
            self.take_changed_user(worker);
        }
    }

    #[cold]
    fn take_changed_user(&mut self, worker: &Worker) {
        self.seen = worker.app.users.generation();
        if self.must_log_in {
            return;
        }
        match worker.app.users.again(&self.user).filter(|user| user.is_on()) {
            Some(user) => self.log_in(user),
            None => {
                self.must_log_in = true;
                self.client.close();
            }
        }
    }

    /// Whether nothing has to be asked before a request.
    #[inline]
    pub(crate) fn passes(&self, worker: &Worker) -> bool {
        !self.is_restricted && !gate::has_rules(worker)
    }

    /// Whether a request may run. `key` is the decoded key of a meta command.
    ///
    /// # Errors
    /// The error line.
    #[cold]
    pub(crate) fn check(&self, worker: &Worker, request: &Request<'_>, key: &[u8]) -> Result<(), String> {
        let Some(rights) = Rights::of(request, key) else { return Ok(()) };
        if gate::has_rules(worker) {
            self.enter(worker, &rights)?;
        }
        if !self.is_restricted {
            return Ok(());
        }
        let touched =
            rights.keys.iter().enumerate().map(|(at, key)| TouchedKey { key, access: rights.access, position: at + 1 });
        let beyond = match rights.keys {
            TouchedKeys::All => Beyond::Keys(rights.access),
            _ => Beyond::Nothing,
        };
        let users = &worker.app.users;
        let asked = users.catalog().request(rights.command);
        self.user.permissions().check(&asked, touched, iter::empty(), beyond).map_err(|_| {
            worker.counters.user_refusals.add(1);
            let object = rights.keys.iter().next().unwrap_or(rights.command.as_bytes());
            let client = || format!("memcached client {}", self.client.peer);
            users.log().add((RefusalReason::Key, "toplevel"), (object, &self.user.name), client);
            format!("CLIENT_ERROR user {} may not do this (`{}`)", self.user.name, rights.command)
        })
    }

    fn enter(&self, worker: &Worker, rights: &Rights<'_>) -> Result<(), String> {
        let category = if rights.access == KeyAccess::READ { "read" } else { "write" };
        let name = Some(&*self.user.name).filter(|name| *name != DEFAULT_USER);
        let asked = Asked {
            door: Door::Memcached,
            scope: Scope::Data,
            caller: Caller { address: self.client.peer.ip(), user: name },
            class: Some(CommandClass {
                name: rights.command,
                categories: Categories::named(category).unwrap_or_default(),
            }),
            keys: &mut rights.keys.iter(),
            is_for_entries: !matches!(rights.keys, TouchedKeys::None),
        };
        gate::enter(worker, asked).map(drop).map_err(|refused| match refused {
            Refused::Overloaded => format!("SERVER_ERROR {OVERLOADED}"),
            Refused::Throttled(throttled) => {
                let millis = throttled.retry_after.as_millis().max(1);
                format!(
                    "SERVER_ERROR throttled: limit of setting {} reached, retry after {millis} ms",
                    throttled.setting()
                )
            }
        })
    }

    /// Whether the client's login counts no more (a token's `exp`).
    #[inline]
    pub(crate) fn is_login_over(&self, now: Millis) -> bool {
        self.client.is_login_over(now)
    }
}
