//! One item of `peers`: the address of a node, as an address or as a URL.
use super::url_parts::host_port;
use std::{fmt, str::FromStr};

/// What stands before a name whose addresses are peers.
pub(super) const PEER_NAME: &str = "dns:";
/// The port of a node that is named without one.
const DEFAULT_PORT: u16 = 8080;

/// Where a node is reached over HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerAddress {
    /// Without the brackets of an IPv6 address.
    pub host: String,
    /// Not 0.
    pub port: u16,
}

impl PeerAddress {
    /// The base URL of the node.
    pub fn url(&self) -> String {
        format!("http://{self}")
    }
}

/// `host:port`, with brackets around an IPv6 address.
impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl FromStr for PeerAddress {
    type Err = String;
    fn from_str(text: &str) -> Result<PeerAddress, String> {
        let authority = text.strip_prefix("http://").unwrap_or(text);
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        let what = || format!("`{text}` is not a peer: write host:port or http://host:port");
        if authority.contains(['/', '@', '?', '#', ' ']) {
            return Err(what());
        }
        let (host, port) = host_port(authority, DEFAULT_PORT, "http").map_err(|_| what())?;
        Ok(PeerAddress { host, port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_or_a_base_url() {
        for (text, shown) in [
            ("10.0.0.1:8080", "10.0.0.1:8080"),
            ("a", "a:8080"),
            ("http://a:81/", "a:81"),
            ("http://[::1]:9", "[::1]:9"),
            ("[::1]", "[::1]:8080"),
        ] {
            let address: PeerAddress = text.parse().expect("a peer");
            assert_eq!(address.to_string(), shown);
            assert_eq!(address.url().parse(), Ok(address));
        }
        for text in ["", ":80", "a:0", "a:b", "a/b", "https://a", "a b", "u@a"] {
            let error = text.parse::<PeerAddress>().expect_err(text);
            assert!(error.contains("is not a peer: write host:port"), "{error}");
        }
    }
}
