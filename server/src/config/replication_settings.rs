//! The settings of a primary and its replicas.
use super::{
    peer_entry::PeerAddress,
    secret::Secret,
    tls_client_settings::TlsClientSettings,
    url_parts::{host_port, parameters},
};
use larder_units::{parse_duration, show_duration};
use std::{fmt, str::FromStr, time::Duration};

/// The port of a primary that is named without one.
const DEFAULT_PORT: u16 = 6380;
const SCHEME: &str = "redis://";
const TLS_SCHEME: &str = "rediss://";
const SHORTEST_PULL: Duration = Duration::from_millis(100);

/// The settings of a primary and its replicas.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs)]
pub struct ReplicationSettings {
    pub replica_of: Option<PrimaryAddress>,
    pub secret: Option<Secret>,
    /// Bytes of each group's log of changed keys.
    pub backlog: usize,
    pub mode: ReplicationMode,
    pub writes: ReplicaWrites,
    /// Where the primary serves HTTP.
    pub primary_http: Option<PeerAddress>,
}

/// What a replica does with its clients' writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReplicaWrites {
    /// It refuses them.
    #[default]
    Refuse,
    /// It has its primary make them.
    Forward,
}
impl ReplicaWrites {
    /// In the order of the variants.
    pub(super) const NAMES: &'static [&'static str] = &["refuse", "forward"];
}

/// Where a primary serves the Redis protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrimaryAddress {
    /// Without the brackets of an IPv6 address.
    pub host: String,
    /// Not 0.
    pub port: u16,
    /// `None`: without TLS.
    pub tls: Option<TlsClientSettings>,
}

impl fmt::Display for PrimaryAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.tls.is_some() { TLS_SCHEME } else { SCHEME })?;
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port)?,
            false => write!(f, "{}:{}", self.host, self.port)?,
        }
        let parameters: Vec<String> = self.tls.iter().flat_map(TlsClientSettings::parameters).collect();
        if !parameters.is_empty() {
            write!(f, "?{}", parameters.join("&"))?;
        }
        Ok(())
    }
}

impl FromStr for PrimaryAddress {
    type Err = String;
    fn from_str(text: &str) -> Result<PrimaryAddress, String> {
        let what = || {
            format!(
                "`{text}` is not a primary: write redis://host:port or rediss://host:port, its address for the Redis protocol"
            )
        };
        let mut tls = None;
        let authority = match text.strip_prefix(TLS_SCHEME) {
            None => text.strip_prefix(SCHEME).unwrap_or(text),
            Some(rest) => {
                let (authority, query) = rest.split_once('?').unwrap_or((rest, ""));
                let settings = tls.insert(TlsClientSettings::default());
                for parameter in parameters(query) {
                    let (name, value) = parameter?;
                    if !settings.set(name, &value)? {
                        return Err(format!(
                            "unknown parameter `{name}`: rediss:// takes ca, cert, key and insecure here"
                        ));
                    }
                }
                settings.check()?;
                authority
            }
        };
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        if authority.contains(['/', '@', '?', '#', ' ']) {
            return Err(what());
        }
        let (host, port) = host_port(authority, DEFAULT_PORT, "redis").map_err(|_| what())?;
        Ok(PrimaryAddress { host, port, tls })
    }
}

/// How a replica follows its primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReplicationMode {
    /// Over one connection that stays.
    #[default]
    Stream,
    /// It fetches the changes, then waits for this long.
    Pull(Duration),
}

impl fmt::Display for ReplicationMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplicationMode::Stream => f.write_str("stream"),
            ReplicationMode::Pull(every) => write!(f, "pull:{}", show_duration(*every)),
        }
    }
}

impl FromStr for ReplicationMode {
    type Err = String;
    fn from_str(text: &str) -> Result<ReplicationMode, String> {
        if text.eq_ignore_ascii_case("stream") {
            return Ok(ReplicationMode::Stream);
        }
        let Some(every) = text.strip_prefix("pull:") else {
            return Err(format!("`{text}` is not a replication mode: write stream, or pull:20s"));
        };
        match parse_duration(every)? {
            every if every < SHORTEST_PULL => {
                Err(format!("{text} is too short: the least is pull:{}", show_duration(SHORTEST_PULL)))
            }
            every => Ok(ReplicationMode::Pull(every)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_primary_is_named_by_a_url_or_by_host_and_port() {
        for (text, shown) in [
            ("redis://10.0.0.1:6380", "redis://10.0.0.1:6380"),
            ("a:1", "redis://a:1"),
            ("redis://a", "redis://a:6380"),
            ("redis://[::1]:9/", "redis://[::1]:9"),
            ("rediss://a", "rediss://a:6380"),
            ("rediss://[::1]:9/?ca=/a%20b&cert=c&key=k", "rediss://[::1]:9?ca=/a%20b&cert=c&key=k"),
            ("rediss://a:1?insecure=true", "rediss://a:1?insecure=true"),
        ] {
            let address: PrimaryAddress = text.parse().expect("a primary");
            assert_eq!(address.to_string(), shown);
            assert_eq!(address.to_string().parse(), Ok(address));
        }
        for (text, expected) in [
            ("rediss://a?cert=c", "cert and key go together"),
            ("rediss://a?db=1", "unknown parameter `db`: rediss:// takes ca, cert, key and insecure here"),
        ] {
            assert_eq!(text.parse::<PrimaryAddress>(), Err(expected.to_owned()));
        }
        for text in ["", ":80", "a:0", "http://a:8080", "redis://u@a", "redis://a/1", "redis://a?ca=b", "rediss://u@a"]
        {
            let error = text.parse::<PrimaryAddress>().expect_err(text);
            assert!(error.contains("is not a primary: write redis://host:port or"), "{error}");
        }
    }

    #[test]
    fn a_mode_is_a_stream_or_a_period() {
        for text in ["stream", "pull:20s", "pull:100ms"] {
            assert_eq!(text.parse::<ReplicationMode>().expect("a mode").to_string(), text);
        }
        for text in ["", "pull", "pull:", "pull:5", "pull:1ms", "push"] {
            assert!(text.parse::<ReplicationMode>().is_err(), "{text}");
        }
    }
}
