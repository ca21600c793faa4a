//! Logging in: Larder's own users (settings `password` and `users-file`), and what their rules
//! refuse.
use super::{
    command::{Command, CommandKind, Flags},
    command_context::CommandContext,
    command_lookup::FoundCommand,
    command_outcome::{CommandError, WRONG_PASS},
    command_rights,
    commands::client,
    session::Session,
};
use larder_base::identity::{Credential, LoginOutcome, Refusal, RefusalReason, User, UserRights};
use larder_core::app::Worker;
use larder_proto::resp::Args;
use larder_source::UpstreamCommand;
use std::{sync::Arc, time::Duration};

/// Whether Larder has a user with this name.
pub(super) fn exists(call: &CommandContext<'_>, name: &[u8]) -> bool {
    std::str::from_utf8(name).is_ok_and(|name| call.worker.app.users.find(name).is_some())
}

/// Checks a user and a password, and logs the client in. Returns the user if the password must be
/// compared apart from other work; call [`compare`] then.
pub(super) fn check(
    call: &mut CommandContext<'_>,
    user: &[u8],
    password: &[u8],
) -> Result<Option<Arc<User>>, CommandError> {
    let users = &call.worker.app.users;
    match users.log_in(call.session.client.peer.ip(), user, password) {
        LoginOutcome::Granted(user, ends) => {
            call.session.log_in(user);
            call.session.client.end_login_at(ends);
            Ok(None)
        }
        LoginOutcome::Compare(user) => Ok(Some(user)),
        LoginOutcome::Wrong => Err(failed(call, user)),
        LoginOutcome::Wait(wait) => Err(too_many(wait)),
    }
}

/// Refuses credentials from an address that has failed too often.
pub(super) fn may_try(call: &CommandContext<'_>, credential: Credential) -> Result<(), CommandError> {
    match call.worker.app.users.wait(credential, call.session.client.peer.ip()) {
        Some(wait) => Err(too_many(wait)),
        None => Ok(()),
    }
}
fn too_many(wait: Duration) -> CommandError {
    let text = format!("WRONGPASS too many failed logins from this address: wait {} s", wait.as_secs() + 1);
    CommandError::from(text)
}

/// Compares a password on a thread of its own, and logs the client in.
pub(super) async fn compare(
    call: &mut CommandContext<'_>,
    user: Arc<User>,
    password: &[u8],
) -> Result<(), CommandError> {
    match call.worker.app.users.compare(call.session.client.peer.ip(), user.clone(), password).await {
        LoginOutcome::Granted(user, _) => {
            call.session.log_in(user);
            Ok(())
        }
        LoginOutcome::Wait(wait) => Err(too_many(wait)),
        LoginOutcome::Wrong | LoginOutcome::Compare(_) => Err(failed(call, user.name.as_bytes())),
    }
}

/// Counts and logs a login that failed.
pub(super) fn failed(call: &CommandContext<'_>, user: &[u8]) -> CommandError {
    note_failed(call, Credential::Login, user);
    WRONG_PASS
}

/// Counts and logs credentials that were wrong.
pub(super) fn note_failed(call: &CommandContext<'_>, credential: Credential, user: &[u8]) {
    let peer = &call.session.client.peer;
    call.worker.counters.failed_logins.add(1);
    let name = String::from_utf8_lossy(&user[..user.len().min(64)]);
    let object = call.args[0].to_ascii_uppercase();
    let how = String::from_utf8_lossy(&object);
    tracing::warn!(client = %peer, user = %name.escape_debug(), by = %how, "a login failed");
    let guess = (credential, peer.ip());
    let client = || client::line(&call.session.client, call.now);
    call.worker.app.users.note_failed(guess, context(call.session), (&object, &name), client);
}

fn context(session: &Session) -> &'static str {
    if session.multi.is_some() { "multi" } else { "toplevel" }
}

/// Who decides whether the client's user may run a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DecidedBy {
    /// Larder, and it allows the command.
    Larder,
    /// The upstream: the command has to go there.
    Upstream,
}

/// A command that a client has sent, to be checked.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) worker: &'a Worker,
    pub(super) session: &'a Session,
    pub(super) args: Args<'a>,
    /// Its row in Larder's table.
    pub(super) ours: FoundCommand,
    /// Its row in the source's table, if Larder does not have it.
    pub(super) row: Option<&'a UpstreamCommand>,
}

impl Asked<'_> {
    /// Refuses a command that the client's user may not call. `command` is the row that will run.
    pub(super) fn check(self, command: &Command, goes_upstream: bool) -> Result<DecidedBy, CommandError> {
        let Asked { session, args, ours, row, .. } = self;
        if let Some(rights) = session.upstream_rights().filter(|_| session.asks_upstream && !goes_upstream) {
            return self.check_by_last_rules(rights).map(|()| DecidedBy::Larder);
        }
        // The upstream refuses its users' commands itself, in its own words and in its log.
        if session.upstream.user.is_some() && session.multi.is_none() && goes_upstream {
            let refuses = |user: &User| match command.kind {
                CommandKind::Forward => command_rights::check_forwarded(user.permissions(), row, args).is_err(),
                _ => command_rights::check(user.permissions(), command, args).is_err(),
            };
            let asks = session.asks_upstream || session.restricted_user().is_some_and(refuses);
            return Ok(if asks && command.is_data() { DecidedBy::Upstream } else { DecidedBy::Larder });
        }
        let Some(user) = session.restricted_user() else { return Ok(DecidedBy::Larder) };
        let (checked, name): (_, Box<str>) = match ours {
            FoundCommand::Command(command) => {
                (command_rights::check(user.permissions(), command, args), command.name.into())
            }
            FoundCommand::Unknown | FoundCommand::UnknownSub(_) => {
                let checked = command_rights::check_forwarded(user.permissions(), row, args);
                (checked, command_rights::forwarded_name(row, args))
            }
        };
        checked.map(|()| DecidedBy::Larder).map_err(|refusal| self.refused(&user.name, refusal, &name))
    }

    /// Checks a command that Larder runs itself for a user of the upstream, whose rules are unknown or
    /// too old for copies. The last rules decide; without any, what is for administrators, and commands
    /// of Larder's own, are refused.
    #[cold]
    fn check_by_last_rules(self, rights: &UserRights) -> Result<(), CommandError> {
        let FoundCommand::Command(command) = self.ours else { return Ok(()) };
        let (user, name) = (&rights.name, command.name);
        if let Some(last) = rights.last() {
            let checked = command_rights::check(last.permissions(), command, self.args);
            return checked.map_err(|refusal| self.refused(user, refusal, name));
        }
        let is_admin = command.flags.has(Flags::ADMIN) || name.starts_with("larder.");
        if !is_admin || command.flags.has(Flags::NO_AUTH) {
            return Ok(());
        }
        self.log_refusal(user, Refusal::Command, name);
        let why = "the source does not tell what this user may do (Larder's own user there needs +acl|getuser)";
        Err(CommandError::from(format!("NOPERM User {user} cannot run '{name}': {why}")))
    }

    /// Logs what the rules of a user refuse; the error.
    #[cold]
    fn refused(self, user: &str, refusal: Refusal, name: &str) -> CommandError {
        self.log_refusal(user, refusal, name);
        command_rights::refusal(user, name, refusal)
    }

    #[cold]
    fn log_refusal(self, user: &str, refusal: Refusal, name: &str) {
        let Asked { worker, session, args, .. } = self;
        let argument = |at: Option<usize>| at.and_then(|at| args.get(at)).unwrap_or_default();
        let (reason, object) = match refusal {
            Refusal::Command => (RefusalReason::Command, name.as_bytes()),
            Refusal::Key(at) => (RefusalReason::Key, argument(at)),
            Refusal::Channel(at) => (RefusalReason::Channel, argument(Some(at))),
        };
        let now = larder_store::clock::now();
        worker.counters.user_refusals.add(1);
        worker.app.users.log().add((reason, context(session)), (object, user), || client::line(&session.client, now));
    }
}
