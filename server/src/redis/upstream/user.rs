//! The user of a client at an upstream Redis.
use crate::{
    config::Secret,
    source::{DedicatedConnection, LocalFuture, RedisServer, SourceError},
};

/// A user other than Larder's own.
pub(in crate::redis) struct UpstreamUser {
    pub(super) name: Box<str>,
    /// Needed for a second connection.
    pub(super) password: Secret,
}
impl UpstreamUser {
    /// Opens one more connection as this user.
    pub(in crate::redis) fn connect<'a>(
        &'a self,
        server: &'a dyn RedisServer,
        resp3: bool,
    ) -> LocalFuture<'a, Result<Box<dyn DedicatedConnection>, SourceError>> {
        server.log_in(Some(&self.name), &self.password, resp3)
    }
}
