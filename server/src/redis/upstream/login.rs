//! AUTH in front of a Redis when Larder has no password of its own (setting `password`). Redis knows the users.
//!
//! Larder's own user keeps the normal path. Any other user gets a dedicated connection that is logged in as that user.
//! All its commands on data go over it, past the copies, so Redis enforces the user's rights.
use super::{requests, user::UpstreamUser};
use crate::{
    redis::{
        auth,
        command_context::CommandContext,
        command_error::{CommandError, WRONG_PASS},
        session::Session,
    },
    source::RedisServer,
};
use larder_proto::resp::encode;
use subtle::ConstantTimeEq as _;

/// The credentials that a client sends: a password, with or without a user.
#[derive(Clone, Copy)]
pub(in crate::redis) struct Login<'a> {
    pub(in crate::redis) user: Option<&'a [u8]>,
    pub(in crate::redis) password: &'a [u8],
}

impl Login<'_> {
    fn name(&self) -> &[u8] {
        self.user.unwrap_or(auth::USER)
    }

    /// Whether Redis must check the credentials.
    pub(in crate::redis) fn is_for_redis(self, call: &CommandContext<'_>) -> bool {
        let server = call.group().source.as_redis().filter(|_| !call.worker.app.users.are_own());
        server.is_some_and(|server| server.is_single() && !self.is_larder(server, call.session))
    }
    /// Whether these are the credentials that Larder itself uses.
    fn is_larder(self, server: &dyn RedisServer, session: &Session) -> bool {
        let (name, password) = server.credentials();
        session.upstream.user.is_none()
            && name.as_bytes() == self.name()
            && password.is_some_and(|password| password.as_bytes().ct_eq(self.password).into())
    }

    /// Lets Redis check the credentials, and gives the client its dedicated connection.
    pub(in crate::redis) async fn log_in(self, call: &mut CommandContext<'_>, resp3: bool) -> Result<(), CommandError> {
        let text = |bytes| std::str::from_utf8(bytes).map_err(|_| WRONG_PASS);
        let (name, password) = (text(self.name())?, text(self.password)?);
        let server = requests::server(call)?;
        let is_other = name != server.credentials().0;
        match call.session.dedicated {
            // The connection keeps its other state.
            Some(_) => {
                let command: Vec<&[u8]> = [&b"AUTH"[..]].into_iter().chain(self.user).chain([self.password]).collect();
                let replies = requests::send(call, encode(&command), 1).await?;
                call.session.skip_replies(0, call.reply.output());
                if let Some(why) = replies[0].strip_prefix(b"-") {
                    return Err(CommandError::Owned(why.trim_ascii_end().to_vec()));
                }
            }
            None => {
                let own = server.log_in(self.user.is_some().then_some(name), password, resp3).await?;
                if is_other {
                    call.session.dedicate(own);
                }
            }
        }
        call.session.upstream.user = is_other.then(|| UpstreamUser { name: name.into(), password: password.into() });
        call.session.client.about.lock().user = name.into();
        call.session.authenticate(true);
        call.session.release_dedicated();
        Ok(())
    }
}
