//! One attempt to connect: password, transport, handshake.
use super::request_queue::RequestQueue;
use crate::redis::{
    sentinel_master::MasterAddress,
    upstream_handshake::{ConnectionMode, Handshake, HandshakeError, perform_handshake, reason},
    upstream_password as password,
    upstream_transport::connect,
};
use larder_base::outbound::Stream;
use larder_config::Secret;
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

/// An attempt may take this long even if `source-timeout` is shorter: names must be resolved and
/// TLS takes round trips.
const ATTEMPT: Duration = Duration::from_secs(1);

/// A connection after the handshake.
pub(super) struct Connected {
    pub(super) stream: Stream,
    pub(super) handshake: Handshake,
    /// With Sentinels: tells when the master changes.
    pub(super) master: Option<MasterAddress>,
}

impl RequestQueue {
    pub(super) async fn attempt(&self) -> Result<Connected, Arc<str>> {
        if let Some(reason) = self.settings.health.cut() {
            return Err(reason);
        }
        let mut master = self.settings.master.as_ref().map(|master| master.subscribe());
        let limit = self.settings.limits.timeout.max(ATTEMPT);
        let attempt = timeout(limit, async {
            let password = &self.settings.password;
            let said = password.current();
            let refusal = match self.reach(said.as_ref(), master.as_mut()).await {
                // A client's own user gets the server's error; its password is not Larder's.
                Err(reason) if password::is_wanted(&reason) && !self.settings.is_of_user => reason,
                outcome => return outcome,
            };
            match password.renew(said.as_ref()).await {
                Ok(true) => match self.reach(password.current().as_ref(), master.as_mut()).await {
                    Err(reason) if password::is_wanted(&reason) => Err(password.explain(&reason, None)),
                    outcome => outcome,
                },
                Ok(false) => Err(password.explain(&refusal, None)),
                Err(unread) => Err(password.explain(&refusal, Some(unread))),
            }
        });
        // A server without TLS may wait for the end of what it takes for a command. A request that
        // waits for this attempt may reach its deadline first.
        let hint = if self.settings.tls.is_some() { "; does the server speak TLS on this port?" } else { "" };
        match self.meanwhile(attempt, hint).await {
            Ok(Ok((stream, handshake))) => Ok(Connected { stream, handshake, master }),
            Ok(Err(reason)) => Err(reason),
            Err(_) => Err(format!("could not connect within {limit:?}{hint}").into()),
        }
    }

    /// Connects with this password.
    async fn reach(
        &self,
        password: Option<&Secret>,
        mut master: Option<&mut MasterAddress>,
    ) -> Result<(Stream, Handshake), Arc<str>> {
        let outcome = match self.connect(&self.mode, password, master.as_deref_mut()).await {
            // A server without RESP3 cannot announce changes, but it can serve reads.
            Err(HandshakeError::NoHello(refusal)) => match self.connect(&ConnectionMode::Resp2, password, master).await
            {
                Ok((stream, handshake)) => Ok((stream, Handshake { untracked: Some(refusal), ..handshake })),
                Err(error) => Err(error),
            },
            outcome => outcome,
        };
        outcome.map_err(|(HandshakeError::Failed(reason) | HandshakeError::NoHello(reason))| reason)
    }

    async fn connect(
        &self,
        mode: &ConnectionMode,
        password: Option<&Secret>,
        master: Option<&mut MasterAddress>,
    ) -> Result<(Stream, Handshake), HandshakeError> {
        let mut stream = connect(&self.settings, master).await.map_err(reason)?;
        let handshake = perform_handshake(&mut stream, &self.settings, mode, self.purpose, password).await?;
        Ok((stream, handshake))
    }
}
