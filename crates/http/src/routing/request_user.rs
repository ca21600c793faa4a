//! Who is calling: the user of a request, from its `Authorization`, and what the user's rules say
//! of the request's keys.
//!
//! A header is verified once for a connection, then compared. Where `default` may do everything
//! without a password, no client is asked.
use super::upstream_user::KnownUpstreamUser;
use crate::messages::problem_json::{Problem, ProblemKind};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use larder_base::identity::{
    Beyond, Credential, DEFAULT_USER, KeyAccess, LoginOutcome, Refusal, RefusalReason, TouchedKey, User,
};
use larder_core::{app::Worker, read::Group};
use larder_engine::Millis;
use larder_store::clock;
use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
    iter,
    net::IpAddr,
    rc::Rc,
    sync::Arc,
};
use subtle::ConstantTimeEq as _;

#[derive(Debug, Clone, Default)]
pub(crate) struct RequestUser {
    /// The user, and until when its login counts ([`Millis::MAX`]: for good). `None`: clients need not
    /// log in.
    login: Option<(Arc<User>, Millis)>,
    /// The rules of the user refuse something.
    is_restricted: bool,
}

impl RequestUser {
    pub(crate) fn of(user: Arc<User>, ends: Millis) -> RequestUser {
        RequestUser { is_restricted: !user.permissions().is_unrestricted(), login: Some((user, ends)) }
    }
    /// The name, if the client has logged in by name. All others are `default`, which has no budget
    /// of its own.
    pub(crate) fn name(&self) -> Option<&str> {
        self.user().map(|user| &*user.name).filter(|name| *name != DEFAULT_USER)
    }
    pub(crate) fn user(&self) -> Option<&Arc<User>> {
        self.login.as_ref().map(|(user, _)| user)
    }
    pub(crate) fn login(&self) -> Option<&(Arc<User>, Millis)> {
        self.login.as_ref()
    }
    /// Whether requests are those of a user whose credentials were looked at.
    pub(crate) fn is_known(&self) -> bool {
        self.login.is_some()
    }
    #[inline]
    fn restricted(&self) -> Option<&User> {
        self.user().map(|user| &**user).filter(|_| self.is_restricted)
    }

    /// Checks a command on a key of a group. `command` is a row of the command table.
    #[inline]
    pub(crate) fn check_key(
        &self,
        (worker, group): (&Worker, &Group),
        command: &'static str,
        (key, access): (&[u8], KeyAccess),
    ) -> Result<(), Problem> {
        let Some(user) = self.restricted() else { return Ok(()) };
        let key = &name_in_rules(group, key);
        let checked = check_rules(worker, user, command, (key, access));
        checked.map_err(|refusal| note_refused(worker, user, (command, key), refusal))
    }

    /// Like [`Self::check_key`], for a caller that leaves a refusal to the general path, which counts
    /// and logs it.
    #[inline]
    pub(crate) fn may(
        &self,
        (worker, group): (&Worker, &Group),
        command: &'static str,
        (key, access): (&[u8], KeyAccess),
    ) -> bool {
        let Some(user) = self.restricted() else { return true };
        check_rules(worker, user, command, (&name_in_rules(group, key), access)).is_ok()
    }

    /// Whether the rules name this key of a group: others do not appear in lists.
    #[inline]
    pub(crate) fn knows_key(&self, group: &Group, key: &[u8]) -> bool {
        self.restricted().is_none_or(|user| user.permissions().know_key(&name_in_rules(group, key)))
    }

    /// Checks a command that names no keys, or touches any.
    pub(crate) fn check_command(&self, worker: &Worker, command: &'static str, beyond: Beyond) -> Result<(), Problem> {
        match self.restricted() {
            Some(user) => {
                let request = worker.app.users.catalog().request(command);
                let checked = user.permissions().check(&request, iter::empty(), iter::empty(), beyond);
                checked.map_err(|refusal| note_refused(worker, user, (command, b"*"), refusal))
            }
            None => Ok(()),
        }
    }
}

fn name_in_rules<'k>(group: &Group, key: &'k [u8]) -> Cow<'k, [u8]> {
    match group.is_default() {
        true => Cow::Borrowed(key),
        false => [b"@", group.name.as_bytes(), b"/", key].concat().into(),
    }
}

fn check_rules(
    worker: &Worker,
    user: &User,
    command: &'static str,
    (key, access): (&[u8], KeyAccess),
) -> Result<(), Refusal> {
    let request = worker.app.users.catalog().request(command);
    let touched = iter::once(TouchedKey { key, access, position: 1 });
    user.permissions().check(&request, touched, iter::empty(), Beyond::Nothing)
}

/// Counts and logs a refusal.
fn note_refused(worker: &Worker, user: &User, (command, key): (&'static str, &[u8]), refusal: Refusal) -> Problem {
    let (reason, object, detail) = match refusal {
        Refusal::Command | Refusal::Channel(_) => {
            let detail = format!("user {} has no permissions to run the '{command}' command", user.name);
            (RefusalReason::Command, command.as_bytes(), detail)
        }
        Refusal::Key(_) => {
            (RefusalReason::Key, key, format!("user {} has no permissions to access the key", user.name))
        }
    };
    worker.counters.user_refusals.add(1);
    worker.app.users.log().add((reason, "toplevel"), (object, &user.name), || "http".to_owned());
    Problem::of(ProblemKind::Forbidden, detail)
}

/// The value of an `Authorization`, and its user.
type VerifiedHeader = (Box<[u8]>, Rc<RequestUser>);

#[derive(Debug, Default)]
pub(crate) struct KnownUsers {
    /// The name in the client's certificate (`tls-client-user`): who it is without `Authorization`,
    /// if there is such a user.
    certificate_user: Option<Box<str>>,
    /// The generation of users of which the rest is.
    users_seen: Cell<u64>,
    /// Requests need no `Authorization`, and it is not looked at.
    is_open: Cell<bool>,
    /// Requests without `Authorization`, if they are served.
    without: RefCell<Option<Rc<RequestUser>>>,
    with: RefCell<Option<VerifiedHeader>>,
    /// The last user, where the Redis behind checks users.
    upstream: KnownUpstreamUser,
    /// Held while a header is verified: the other streams of an HTTP/2 connection wait, and need not
    /// compare the same password again.
    verifying: tokio::sync::Mutex<()>,
    /// A header that was refused, for the path that says so.
    refused: RefCell<Option<(Box<[u8]>, Problem)>>,
}

impl KnownUsers {
    /// Of a connection whose client has shown a certificate of this user.
    pub(crate) fn new(certificate_user: Option<&str>) -> KnownUsers {
        KnownUsers { certificate_user: certificate_user.map(Into::into), ..KnownUsers::default() }
    }
    /// The name in the client's certificate.
    pub(crate) fn certificate_user(&self) -> Option<&str> {
        self.certificate_user.as_deref()
    }
    /// Whether the client's certificate names a user who may be here.
    pub(crate) fn has_certificate(&self, worker: &Worker) -> bool {
        let found = self.certificate_user().and_then(|name| worker.app.users.find(name));
        worker.app.upstream_rights.is_none() && found.is_some_and(|user| user.is_on())
    }
    /// Whether requests need no `Authorization`. Forgets users if users have changed.
    #[inline]
    pub(crate) fn is_open(&self, worker: &Worker) -> bool {
        if self.users_seen.get() != worker.app.users.generation() {
            self.forget(worker);
        }
        self.is_open.get()
    }
    #[cold]
    fn forget(&self, worker: &Worker) {
        self.users_seen.set(worker.app.users.generation());
        let shown = self.certificate_user.as_ref().and_then(|name| worker.app.users.find(name));
        let default = || Some(worker.app.users.default_user()).filter(|default| default.has_no_password());
        let user = shown.filter(|user| user.is_on()).or_else(|| default().filter(|default| default.is_on()));
        if worker.app.upstream_rights.is_some() {
            return;
        }
        self.is_open.set(user.as_ref().is_some_and(|user| user.permissions().is_unrestricted()));
        *self.without.borrow_mut() = user.map(|user| Rc::new(RequestUser::of(user, Millis::MAX)));
        *self.with.borrow_mut() = None;
    }

    /// The user with this header, if it was verified. Call [`Self::is_open`] before.
    pub(crate) fn known(&self, header: Option<&[u8]>) -> Option<Rc<RequestUser>> {
        if let Some(user) = self.upstream.get(header) {
            return Some(user);
        }
        match header {
            None => self.without.borrow().clone(),
            Some(header) => {
                let with = self.with.borrow();
                let is_over = |&(_, ends): &(_, Millis)| ends != Millis::MAX && clock::now() >= ends;
                let is_known = |(known, user): &&VerifiedHeader| {
                    bool::from(known.ct_eq(header)) && !user.login().is_some_and(is_over)
                };
                let (_, user) = with.as_ref().filter(is_known)?;
                Some(user.clone())
            }
        }
    }

    /// The user with this header, verified if need be.
    ///
    /// # Errors
    /// The credentials are missing or wrong, or the address has to wait.
    pub(crate) async fn identify(
        &self,
        worker: &Worker,
        header: Option<&[u8]>,
        address: IpAddr,
    ) -> Result<Rc<RequestUser>, Problem> {
        loop {
            if self.is_open(worker) {
                return Ok(Rc::default());
            }
            if let Some(known) = self.known(header) {
                return Ok(known);
            }
            if let Some(all) = &worker.app.upstream_rights {
                return self.upstream.identify(worker, all, header, address).await;
            }
            let header = header.ok_or_else(|| Problem::new(ProblemKind::LoginRequired))?;
            let refused = self.refused.borrow_mut().take_if(|(refused, _)| **refused == *header);
            if let Some((_, problem)) = refused {
                return Err(problem);
            }
            let _turn = self.verifying.lock().await;
            let seen = self.users_seen.get();
            if seen == worker.app.users.generation()
                && let Some(known) = self.known(Some(header))
            {
                return Ok(known);
            }
            let (user, ends) = verify(worker, header, address).await?;
            // If users changed while the password was compared, it may be an old one.
            if seen == worker.app.users.generation() {
                let user = Rc::new(RequestUser::of(user, ends));
                *self.with.borrow_mut() = Some((header.into(), user.clone()));
                return Ok(user);
            }
        }
    }

    /// Keeps a refusal for the path that says so, which asks next.
    pub(crate) fn keep_refused(&self, header: Option<&[u8]>, problem: Problem) {
        *self.refused.borrow_mut() = header.map(|header| (header.into(), problem));
    }
}

/// The user and the password of `Authorization: Basic` (RFC 7617).
///
/// # Errors
/// It is another scheme, or malformed.
pub(crate) fn basic_credentials(header: &[u8]) -> Result<(Vec<u8>, Vec<u8>), Problem> {
    let split = header.iter().position(|byte| *byte == b' ').unwrap_or(header.len());
    if !header[..split].eq_ignore_ascii_case(b"basic") {
        return Err(Problem::of(ProblemKind::LoginRequired, "the scheme is not Basic"));
    }
    let Ok(mut name) = BASE64_STANDARD.decode(header[split..].trim_ascii()) else {
        return Err(Problem::of(ProblemKind::LoginRequired, "the credentials are not base64"));
    };
    let at = name.iter().position(|byte| *byte == b':').unwrap_or(name.len());
    let password = name.get(at + 1..).unwrap_or_default().to_vec();
    name.truncate(at);
    Ok((if name.is_empty() { DEFAULT_USER.into() } else { name }, password))
}

/// Counts and logs credentials that were wrong. `user` is the name that came with a password.
pub(crate) fn note_failed(worker: &Worker, (credential, address): (Credential, IpAddr), user: &str) {
    let (object, what) = match credential {
        Credential::Login => ("HTTP", "a login over HTTP failed"),
        Credential::PeerSecret => ("peer-secret", "a wrong peer-secret was shown"),
        Credential::ReplicationSecret => ("replication-secret", "a wrong replication-secret was shown"),
    };
    worker.counters.failed_logins.add(1);
    tracing::warn!(client = %address, user = %user.escape_debug(), "{what}");
    let client = || format!("addr={address} http");
    worker.app.users.note_failed((credential, address), "toplevel", (object.as_bytes(), user), client);
}

/// The user whom the credentials of a header show, and until when.
async fn verify(worker: &Worker, header: &[u8], address: IpAddr) -> Result<(Arc<User>, Millis), Problem> {
    let users = &worker.app.users;
    let split = header.iter().position(|byte| *byte == b' ').unwrap_or(header.len());
    let (scheme, credentials) = (&header[..split], header[split..].trim_ascii());
    let (shown, outcome) = if scheme.eq_ignore_ascii_case(b"basic") {
        let (name, password) = basic_credentials(header)?;
        let outcome = users.log_in(address, &name, &password);
        let outcome = match outcome {
            LoginOutcome::Compare(user) => users.compare(address, user, &password).await,
            other => other,
        };
        (String::from_utf8_lossy(&name[..name.len().min(64)]).into_owned(), outcome)
    } else if scheme.eq_ignore_ascii_case(b"bearer") {
        ("(bearer)".to_owned(), users.log_in_by_token(address, credentials))
    } else {
        return Err(Problem::of(ProblemKind::LoginRequired, "the scheme is neither Basic nor Bearer"));
    };
    match outcome {
        LoginOutcome::Granted(user, ends) => Ok((user, ends)),
        LoginOutcome::Wait(wait) => Err(Problem::too_many_logins(wait)),
        LoginOutcome::Wrong | LoginOutcome::Compare(_) => {
            note_failed(worker, (Credential::Login, address), &shown);
            Err(Problem::of(ProblemKind::LoginRequired, "the user or the password is wrong, or the user is disabled"))
        }
    }
}
