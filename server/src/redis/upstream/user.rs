//! The user that a client has logged in as at an upstream Redis.
use crate::{
    config::Secret,
    source::{DedicatedConnection, LocalFuture, RedisServer, SourceError},
};

/// Another user than Larder.
pub(in crate::redis) struct UpstreamUser {
    pub(super) name: Box<str>,
    /// For a further connection.
    pub(super) password: Secret,
}
impl UpstreamUser {
    /// One more connection.
    pub(in crate::redis) fn connect<'a>(
        &'a self,
        server: &'a dyn RedisServer,
        resp3: bool,
    ) -> LocalFuture<'a, Result<Box<dyn DedicatedConnection>, SourceError>> {
        server.log_in(Some(&self.name), &self.password, resp3)
    }
}
