//! The login: a `set` whose value is a name and a password, as memcached's auth file wants it.
use crate::session::Session;
use larder_base::identity::{Credential, LoginOutcome, User};
use larder_core::app::Worker;
use std::{sync::Arc, time::Duration};

pub(crate) const FAILED: &str = "CLIENT_ERROR authentication failure";
pub(crate) const PASSTHROUGH: &str =
    "SERVER_ERROR auth = passthrough: the source's users cannot log in over memcached; use the Redis protocol";

/// What a login comes to.
pub(crate) enum Login {
    /// The line to answer.
    Answered(String),
    /// The password must be compared apart from other work, by [`compare`].
    Compare(Arc<User>),
}

/// Checks a name and a password, and logs the client in.
pub(crate) fn check(worker: &Worker, session: &mut Session, name: &[u8], password: &[u8]) -> Login {
    if worker.app.upstream_rights.is_some() {
        return Login::Answered(PASSTHROUGH.to_owned());
    }
    let outcome = worker.app.users.log_in(session.client.peer.ip(), name, password);
    settle(worker, session, name, outcome)
}

/// Compares a password on a thread of its own, and logs the client in.
pub(crate) async fn compare(worker: &Worker, session: &mut Session, user: Arc<User>, password: &[u8]) -> String {
    let name = user.name.clone();
    let outcome = worker.app.users.compare(session.client.peer.ip(), user, password).await;
    match settle(worker, session, name.as_bytes(), outcome) {
        Login::Answered(line) => line,
        Login::Compare(_) => FAILED.to_owned(),
    }
}

fn settle(worker: &Worker, session: &mut Session, name: &[u8], outcome: LoginOutcome) -> Login {
    Login::Answered(match outcome {
        LoginOutcome::Granted(user, ends) => {
            session.log_in(user);
            session.client.end_login_at(ends);
            "STORED".to_owned()
        }
        LoginOutcome::Compare(user) => return Login::Compare(user),
        LoginOutcome::Wait(wait) => too_many(wait),
        LoginOutcome::Wrong => {
            note_failed(worker, session, name);
            FAILED.to_owned()
        }
    })
}

fn too_many(wait: Duration) -> String {
    format!("{FAILED}: too many failed logins from this address: wait {} s", wait.as_secs() + 1)
}

/// Counts and logs a login that failed.
fn note_failed(worker: &Worker, session: &Session, name: &[u8]) {
    let peer = &session.client.peer;
    worker.counters.failed_logins.add(1);
    let name = String::from_utf8_lossy(&name[..name.len().min(64)]);
    tracing::warn!(client = %peer, user = %name.escape_debug(), by = "memcached", "a login failed");
    let client = || format!("memcached client {peer}");
    worker.app.users.note_failed((Credential::Login, peer.ip()), "toplevel", (b"memcached", &name), client);
}
