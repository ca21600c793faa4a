//! The settings of a primary and its replicas.
use super::{secret::Secret, url_parts::host_port};
use larder_units::{parse_duration, show_duration};
use std::{fmt, str::FromStr, time::Duration};

/// The port of a primary that is named without one.
const DEFAULT_PORT: u16 = 6380;
const SCHEME: &str = "redis://";
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
}

/// Where a primary serves the Redis protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrimaryAddress {
    /// Without the brackets of an IPv6 address.
    pub host: String,
    /// Not 0.
    pub port: u16,
}

impl fmt::Display for PrimaryAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "{SCHEME}[{}]:{}", self.host, self.port),
            false => write!(f, "{SCHEME}{}:{}", self.host, self.port),
        }
    }
}

impl FromStr for PrimaryAddress {
    type Err = String;
    fn from_str(text: &str) -> Result<PrimaryAddress, String> {
        let authority = text.strip_prefix(SCHEME).unwrap_or(text);
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        let what = || format!("`{text}` is not a primary: write redis://host:port, its address for the Redis protocol");
        if authority.contains(['/', '@', '?', '#', ' ']) {
            return Err(what());
        }
        let (host, port) = host_port(authority, DEFAULT_PORT, "redis").map_err(|_| what())?;
        Ok(PrimaryAddress { host, port })
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
        ] {
            let address: PrimaryAddress = text.parse().expect("a primary");
            assert_eq!(address.to_string(), shown);
            assert_eq!(address.to_string().parse(), Ok(address));
        }
        for text in ["", ":80", "a:0", "http://a:8080", "redis://u@a", "redis://a/1"] {
            let error = text.parse::<PrimaryAddress>().expect_err(text);
            assert!(error.contains("is not a primary: write redis://host:port"), "{error}");
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
