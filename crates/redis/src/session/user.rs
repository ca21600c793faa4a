//! The user of a client: who it is, and whose rules hold for it.
use crate::{command::Command, command_rights, session::Session, upstream::client_state::UpstreamUser};
use larder_base::identity::{DEFAULT_USER, Refusal, RightsNow, User, UserRights};
use larder_core::app::Worker;
use larder_engine::Millis;
use larder_proto::resp::Args;
use larder_store::clock;
use std::sync::Arc;

/// The user whose rules hold for a client.
pub(super) struct SessionUser {
    rules: Arc<User>,
    /// The rules refuse something.
    is_restricted: bool,
    /// The [`Users::generation`](larder_base::identity::Users::generation) of which the rules are. For
    /// a user of the upstream, the version of its rights.
    seen: u64,
    /// The name in the client's certificate (`tls-client-user`): who it is before it logs in, if
    /// there is such a user.
    certificate: Option<Box<str>>,
}
impl SessionUser {
    /// The user of a client that may do nothing yet.
    pub(super) fn powerless(worker: &Worker) -> SessionUser {
        let users = &worker.app.users;
        SessionUser { rules: users.powerless(), is_restricted: true, seen: users.generation(), certificate: None }
    }
}

impl Session {
    /// The client has shown a certificate with this name.
    pub fn show_certificate(&mut self, worker: &Worker, name: Option<&str>) {
        if let Some(name) = name {
            self.user.certificate = Some(name.into());
            self.become_default(worker);
        }
    }

    /// Makes the client what it is before it logs in: the user of its certificate, or `default`,
    /// logged in if that needs no password.
    pub(super) fn become_default(&mut self, worker: &Worker) {
        if worker.app.upstream_rights.is_some() {
            return self.become_default_of_upstream(worker);
        }
        self.user.seen = worker.app.users.generation();
        let shown = self.user.certificate.as_ref().and_then(|name| worker.app.users.find(name));
        let shown = shown.filter(|user| user.is_on());
        let is_shown = shown.is_some();
        let user = shown.unwrap_or_else(|| worker.app.users.default_user());
        let enters = is_shown || user.is_on() && user.has_no_password();
        self.log_in(user);
        self.authenticate(enters);
    }

    /// Makes the client the upstream's user `default`, logged in if that needs no password.
    fn become_default_of_upstream(&mut self, worker: &Worker) {
        let default = worker.app.upstream_rights.as_ref().map(|all| all.of_default().clone());
        let enters = matches!(
            default.as_ref().map(|rights| rights.now(clock::now())),
            Some(RightsNow::Known(user)) if user.has_no_password()
        );
        let server = worker.groups.default().source.as_redis().filter(|_| enters);
        let known = || worker.user_servers.find(None, None);
        match server.and_then(|server| known().or_else(|| server.as_user(None, None))) {
            Some(server) => {
                worker.user_servers.keep(None, None, &server);
                self.log_in_at_upstream(worker, DEFAULT_USER, UpstreamUser { server, rights: default });
            }
            None => {
                self.user.seen = worker.app.users.generation();
                self.log_in(worker.app.users.powerless());
                self.authenticate(false);
            }
        }
    }

    /// The client has logged in as this user.
    pub(crate) fn log_in(&mut self, user: Arc<User>) {
        let name = user.name.clone();
        self.log_in_as(&name, user);
    }

    /// The client has logged in with this name. The rules of `user` hold for it.
    fn log_in_as(&mut self, name: &str, user: Arc<User>) {
        self.client.about.lock().user = name.into();
        self.client.end_login_at(Millis::MAX);
        self.set_user(user);
        self.authenticate(true);
    }

    fn set_user(&mut self, user: Arc<User>) {
        self.user.is_restricted = !user.permissions().is_unrestricted();
        self.user.rules = user;
        let restricted = self.access.restricts() || self.user.is_restricted;
        self.change().restricted = restricted;
    }

    /// The client's user, if its rules refuse something.
    #[inline]
    pub(crate) fn restricted_user(&self) -> Option<&User> {
        self.user.is_restricted.then_some(&*self.user.rules)
    }

    /// The client has logged in as the user that Larder itself is at the upstream.
    pub(crate) fn log_in_as_larder(&mut self, worker: &Worker, name: &str) {
        self.change().upstream.user = None;
        self.change().asks_upstream = false;
        self.user.seen = worker.app.users.generation();
        self.log_in_as(name, worker.app.users.default_user());
    }

    /// The client has logged in as this user of the upstream.
    pub(crate) fn log_in_at_upstream(&mut self, worker: &Worker, name: &str, user: UpstreamUser) {
        self.change().upstream.user = Some(user);
        self.log_in_as(name, worker.app.users.unrestricted());
        self.take_changed_user(worker, clock::now());
    }

    /// Whether rules may have changed since those of the client's user were read.
    #[inline]
    pub(crate) fn has_old_user(&self, worker: &Worker, now: Millis) -> bool {
        match &self.upstream.user {
            None => self.user.seen != worker.app.users.generation(),
            // Rules that count again may be the same as before.
            Some(user) => {
                let is_old = |rights: &Arc<UserRights>| self.asks_upstream || !rights.is_current(self.user.seen, now);
                user.rights.as_ref().is_some_and(is_old)
            }
        }
    }

    /// Takes over changes of the client's user. A deleted user's client has to go.
    #[inline]
    pub fn note_changed_users(&mut self, worker: &Worker, now: Millis) {
        if self.has_old_user(worker, now) {
            self.take_changed_user(worker, now);
        }
    }

    #[cold]
    fn take_changed_user(&mut self, worker: &Worker, now: Millis) {
        if let Some(user) = &self.upstream.user {
            let rights = user.rights.clone();
            let version = rights.as_ref().map_or(0, |rights| rights.version());
            let now = rights.map_or(RightsNow::AskSource, |rights| rights.now(now));
            self.user.seen = version;
            self.change().asks_upstream = matches!(now, RightsNow::AskSource);
            match now {
                RightsNow::Known(user) => self.set_user(user),
                RightsNow::AskSource => {}
                RightsNow::Gone => {
                    self.client.close();
                    self.authenticate(false);
                }
            }
            return;
        }
        self.user.seen = worker.app.users.generation();
        if worker.app.upstream_rights.is_some() {
            // It has not logged in. The users that have changed are no client's.
            return;
        }
        match worker.app.users.again(&self.user.rules) {
            Some(user) => self.set_user(user),
            None => {
                self.client.close();
                self.authenticate(false);
            }
        }
    }

    /// Whether the client may call this command of Larder's table.
    #[inline]
    pub(crate) fn may_call(&self, command: &Command, args: Args<'_>) -> bool {
        !self.restricted || self.access.passes(command) && self.check_rules(command, args).is_ok()
    }

    /// Checks a command of Larder's table against the rules of the client's user.
    pub(crate) fn check_rules(&self, command: &Command, args: Args<'_>) -> Result<(), Refusal> {
        match self.restricted_user() {
            Some(user) => command_rights::check(user.permissions(), command, args),
            None => Ok(()),
        }
    }

    /// What the source has told of the client's user, with `auth = "passthrough"`.
    pub(crate) fn upstream_rights(&self) -> Option<&UserRights> {
        self.upstream.user.as_ref()?.rights.as_deref()
    }

    #[inline]
    pub(crate) fn may_get(&self, key: &[u8]) -> bool {
        !self.user.is_restricted || command_rights::check_get(self.user.rules.permissions(), key).is_ok()
    }
}
