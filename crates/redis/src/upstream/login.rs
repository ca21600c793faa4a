//! AUTH in front of a Redis when Larder has no users of its own. Redis knows the users.
//!
//! Commands of a user go to Redis over connections that are logged in as that user, which its
//! clients share. With `auth = "passthrough"` its reads are answered from the copies where the
//! [`rights`] that Redis tells allow it. Without, Larder's own user keeps the normal path, and all
//! commands on data of any other user go to Redis.
use crate::{
    auth,
    command_context::CommandContext,
    command_outcome::{CommandError, WRONG_PASS},
    session::Session,
    upstream::{client_state::UpstreamUser, requests, rights},
};
use larder_base::identity::{Credential, DEFAULT_USER, RightsNow, UserRights};
use larder_core::app::Worker;
use larder_proto::resp::encode;
use larder_source::{RedisServer, SourceError};
use larder_store::clock;
use std::{slice, sync::Arc};
use subtle::ConstantTimeEq as _;

/// The credentials that a client sends: a password, with or without a user.
#[derive(Clone, Copy)]
pub(crate) struct Login<'a> {
    pub(crate) user: Option<&'a [u8]>,
    pub(crate) password: &'a [u8],
}

impl Login<'_> {
    fn name(&self) -> &[u8] {
        self.user.unwrap_or(DEFAULT_USER.as_bytes())
    }

    /// Whether Redis must check the credentials.
    pub(crate) fn is_for_redis(self, call: &CommandContext<'_>) -> bool {
        let server = call.redis().filter(|_| !call.worker.app.users.are_own());
        let is_passthrough = call.worker.app.upstream_rights.is_some();
        server.is_some_and(|server| server.is_single() && (is_passthrough || !self.is_larder(server, call.session)))
    }
    /// Whether these are the credentials that Larder itself uses.
    fn is_larder(self, server: &dyn RedisServer, session: &Session) -> bool {
        let (name, password) = server.credentials();
        session.upstream.user.is_none()
            && name.as_bytes() == self.name()
            && password.is_some_and(|password| password.as_bytes().ct_eq(self.password).into())
    }

    /// Lets Redis check the credentials. The client's commands then go there as that user.
    pub(crate) async fn log_in(self, call: &mut CommandContext<'_>) -> Result<(), CommandError> {
        let text = |bytes| std::str::from_utf8(bytes).map_err(|_| WRONG_PASS);
        let (name, password) = (text(self.name())?, text(self.password)?);
        let own = requests::own_server(call)?;
        auth::may_try(call, Credential::Login)?;
        let all_rights = call.worker.app.upstream_rights.clone();
        let rights = all_rights.map(|all| all.of(name));
        let user = self.user.is_some().then_some(name);
        let known = call.worker.user_servers.find(user, Some(password));
        let server = known.or_else(|| own.as_user(user, Some(password))).ok_or_else(requests::no_redis)?;
        match call.session.dedicated {
            // The connection keeps its other state.
            Some(_) => {
                let command: Vec<&[u8]> = [&b"AUTH"[..]].into_iter().chain(self.user).chain([self.password]).collect();
                let replies = requests::send(call, encode(&command), 1).await?;
                call.session.skip_replies(0, call.reply.output());
                if let Some(why) = replies[0].strip_prefix(b"-") {
                    auth::failed(call, self.name());
                    return Err(CommandError::Owned(why.trim_ascii_end().to_vec()));
                }
                call.session.change().upstream.changed_user = true;
            }
            None if rights.as_ref().is_some_and(|rights| rights.admit(self.password, clock::now())) => {}
            None => {
                let checked = server.check_login().await;
                if let Err(SourceError::Refused(_)) = &checked {
                    auth::failed(call, self.name());
                }
                checked?;
            }
        }
        call.worker.user_servers.keep(user, Some(password), &server);
        match rights {
            None if name == own.credentials().0 => {
                call.session.log_in_as_larder(call.worker, name);
            }
            rights => {
                if let (Some(all), Some(rights)) = (&call.worker.app.upstream_rights, &rights)
                    && matches!(rights.now(clock::now()), RightsNow::AskSource | RightsNow::Gone)
                {
                    rights::learn(call.worker, all, slice::from_ref(rights)).await;
                }
                call.session.log_in_at_upstream(call.worker, name, UpstreamUser { server, rights });
            }
        }
        call.session.release_dedicated();
        Ok(())
    }
}

/// Has the Redis behind check the credentials of a client that does not speak its protocol.
///
/// # Errors
/// [`SourceError::Refused`]: they are wrong. Others: Redis cannot be asked.
pub async fn check_login(worker: &Worker, user: &[u8], password: &[u8]) -> Result<Arc<UserRights>, SourceError> {
    let wrong = || SourceError::Refused("WRONGPASS".into());
    let text = |bytes| std::str::from_utf8(bytes).map_err(|_| wrong());
    let (name, password_text) = (text(user)?, text(password)?);
    let all = worker.app.upstream_rights.as_ref().ok_or_else(requests::no_redis)?;
    let own = worker.groups.default().source.as_redis().ok_or_else(requests::no_redis)?;
    let rights = all.of(name);
    if !rights.admit(password, clock::now()) {
        own.as_user(Some(name), Some(password_text)).ok_or_else(requests::no_redis)?.check_login().await?;
    }
    Ok(rights)
}
