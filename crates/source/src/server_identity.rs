//! What a server says about itself. Larder asks when it connects, so that no client waits for it
//! later.
use super::upstream_commands::reply_fields::{named, text_of};
use larder_proto::resp::{View, view};
use std::sync::Arc;

/// The version of a server that does not tell its version: the oldest with `HELLO`, so that clients
/// expect few features.
const UNKNOWN_VERSION: &str = "6.0.0";

/// What a Redis server last said about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerIdentity {
    /// The program's name in `HELLO`: `redis` or `valkey`.
    pub server: Arc<str>,
    pub version: Arc<str>,
    /// `master` or `replica`.
    pub role: Arc<str>,
    /// The section `Server` of `INFO`, with its heading; empty if the server does not show it.
    pub about: Arc<str>,
}

impl Default for ServerIdentity {
    fn default() -> ServerIdentity {
        ServerIdentity {
            server: "redis".into(),
            version: UNKNOWN_VERSION.into(),
            role: "master".into(),
            about: "".into(),
        }
    }
}

impl ServerIdentity {
    /// Reads the reply to `HELLO`. An error changes nothing.
    pub(super) fn hello(&mut self, reply: &[u8]) {
        let Ok(said) = view(reply) else { return };
        let text = |name: &[u8]| {
            let value = named(Some(said), name)?;
            std::str::from_utf8(text_of(&value)).ok().filter(|text| !text.is_empty()).map(Arc::from)
        };
        for (field, name) in
            [(&mut self.server, &b"server"[..]), (&mut self.version, b"version"), (&mut self.role, b"role")]
        {
            if let Some(text) = text(name) {
                *field = text;
            }
        }
    }

    /// Takes in the reply to `INFO server`. An error changes nothing. `HELLO`, if it was answered,
    /// knows the version better: a compatible server may report the version of Redis that it is
    /// compatible with.
    pub(super) fn info(&mut self, reply: &[u8], after_hello: bool) {
        let Ok(View::Bulk(text)) = view(reply) else { return };
        let Ok(text) = std::str::from_utf8(text) else { return };
        self.about = text.trim_end().into();
        if let Some(version) = field(text, "redis_version").filter(|_| !after_hello) {
            self.version = version.into();
        }
    }
}

/// The value of a line of `INFO`.
fn field<'t>(info: &'t str, name: &str) -> Option<&'t str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim_end)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &[u8] = b"$58\r\n# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nx:y\r\n\r\n";

    #[test]
    fn hello_knows_better_than_info() {
        let mut identity = ServerIdentity::default();
        identity.info(INFO, false);
        assert_eq!((&*identity.version, &*identity.server), ("7.2.4", "redis"));
        assert!(identity.about.starts_with("# Server\r\n") && identity.about.ends_with("x:y"));
        identity.hello(
            b"%3\r\n$6\r\nserver\r\n$6\r\nvalkey\r\n$7\r\nversion\r\n$5\r\n8.1.0\r\n$4\r\nrole\r\n$7\r\nreplica\r\n",
        );
        identity.info(INFO, true);
        assert_eq!((&*identity.version, &*identity.server, &*identity.role), ("8.1.0", "valkey", "replica"));
    }

    #[test]
    fn errors_and_nonsense_change_nothing() {
        let mut identity = ServerIdentity::default();
        for reply in
            [&b"-ERR unknown command\r\n"[..], b"+OK\r\n", b"$3\r\n\xff\xff\xff\r\n", b"*1\r\n$1\r\nx\r\n", b"_\r\n"]
        {
            identity.hello(reply);
            identity.info(reply, false);
        }
        assert_eq!(identity, ServerIdentity::default());
    }
}
