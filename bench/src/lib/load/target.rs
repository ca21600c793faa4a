//! What is loaded: an address and a protocol, written as a URL.
use anyhow::{Context, bail, ensure};
use std::{
    fmt,
    net::{SocketAddr, ToSocketAddrs},
};

/// The protocols that the generator speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TargetProtocol {
    /// Redis protocol, version 2 (RESP2)
    Redis,
    /// HTTP/1.1, connections kept
    Http,
    /// memcached's text protocol
    Memcache,
}

impl TargetProtocol {
    /// In a sentence.
    pub(crate) fn name(self) -> &'static str {
        match self {
            TargetProtocol::Redis => "the Redis protocol",
            TargetProtocol::Http => "HTTP",
            TargetProtocol::Memcache => "memcached's protocol",
        }
    }
}

/// A server to load.
#[derive(Debug, Clone)]
pub(crate) struct TargetUrl {
    /// The URL as given, for results.
    pub(crate) url: String,
    /// What it speaks.
    pub(crate) protocol: TargetProtocol,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// `host:port` as given: HTTP's Host header.
    pub(crate) authority: String,
    /// HTTP: the path with its query, as given, perhaps with `{key}`; empty if there is none.
    pub(crate) path: String,
    /// Redis: user (may be empty) and password for AUTH.
    pub(crate) login: Option<(String, String)>,
    /// Redis: the database for SELECT.
    pub(crate) database: u32,
}

impl TargetUrl {
    /// Reads `redis://[[user]:password@]host[:port][/database]`, `http://host[:port][/path]` or `memcache://host[:port]`; resolves the host.
    pub(crate) fn parse(url: &str) -> anyhow::Result<TargetUrl> {
        let (scheme, rest) = url.split_once("://").with_context(|| {
            format!("--url {url:?} has no scheme: write http://{url}, redis://{url} or memcache://{url}")
        })?;
        let (protocol, port) = match scheme {
            "redis" => (TargetProtocol::Redis, 6379),
            "http" => (TargetProtocol::Http, 80),
            "memcache" => (TargetProtocol::Memcache, 11211),
            _ => bail!("--url {url:?}: the schemes are http, redis and memcache"),
        };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let (login, authority) = match authority.rsplit_once('@') {
            Some((login, authority)) => {
                ensure!(protocol == TargetProtocol::Redis, "--url {url:?}: only redis:// takes a user and password");
                let (user, password) = login.split_once(':').unwrap_or(("", login));
                (Some((user.to_owned(), password.to_owned())), authority)
            }
            None => (None, authority),
        };
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
        let authority = if has_port { authority.to_owned() } else { format!("{authority}:{port}") };
        let address = authority
            .to_socket_addrs()
            .with_context(|| format!("--url {url:?}: cannot resolve {authority:?}"))?
            .next()
            .with_context(|| format!("--url {url:?}: {authority:?} has no address"))?;
        let database = match path.trim_start_matches('/') {
            digits if protocol == TargetProtocol::Redis && !digits.is_empty() => {
                digits.parse().with_context(|| format!("--url {url:?}: {digits:?} is not a database number"))?
            }
            _ => 0,
        };
        Ok(TargetUrl { url: url.to_owned(), protocol, address, authority, path: path.to_owned(), login, database })
    }
}

impl fmt::Display for TargetUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.login {
            // A password belongs into no result.
            Some(_) => write!(f, "redis://…@{}/{}", self.authority, self.database),
            None => f.write_str(&self.url),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> TargetUrl {
        TargetUrl::parse(url).expect(url)
    }

    #[test]
    fn urls_are_taken_apart() {
        let http = parse("http://127.0.0.1:8080/lookup?key={key}");
        assert_eq!((http.protocol, http.path.as_str()), (TargetProtocol::Http, "/lookup?key={key}"));
        assert_eq!(http.authority, "127.0.0.1:8080");
        assert_eq!(parse("http://127.0.0.1?key={key}").path, "?key={key}");
        assert_eq!(parse("memcache://127.0.0.1").address.port(), 11211);
        let redis = parse("redis://me:secret@127.0.0.1:7000/3");
        assert_eq!((redis.database, redis.address.port()), (3, 7000));
        assert_eq!(redis.login, Some(("me".into(), "secret".into())));
        assert_eq!(parse("redis://:secret@[::1]").address.to_string(), "[::1]:6379");
        assert!(!redis.to_string().contains("secret"));
    }

    #[test]
    fn mistakes_are_named() {
        let error = |url| format!("{:#}", TargetUrl::parse(url).expect_err(url));
        assert!(error("localhost:80").contains("scheme"));
        assert!(error("ftp://localhost").contains("memcache"));
        assert!(error("redis://127.0.0.1/x").contains("database"));
        assert!(error("http://a:b@127.0.0.1/").contains("password"));
        assert!(error("redis://127.0.0.1:99999").contains("resolve"));
    }
}
