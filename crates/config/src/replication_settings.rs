//! The settings of a primary and its replicas.
use super::{
    secret::Secret,
    tls_client_settings::TlsClientSettings,
    url_parts::{host_port, parameters},
};
use larder_units::{parse_duration, show_duration};
use std::{fmt, str::FromStr, time::Duration};

/// How the addresses of a primary are written for one protocol.
struct AddressForm {
    scheme: &'static str,
    tls_scheme: &'static str,
    /// The ports of a primary that is named without one, and with TLS.
    ports: [u16; 2],
    protocol: &'static str,
}
const REDIS: AddressForm =
    AddressForm { scheme: "redis://", tls_scheme: "rediss://", ports: [6380, 6380], protocol: "the Redis protocol" };
const HTTP: AddressForm =
    AddressForm { scheme: "http://", tls_scheme: "https://", ports: [8080, 8443], protocol: "HTTP" };
const SHORTEST_PULL: Duration = Duration::from_millis(100);

/// The settings of a primary and its replicas.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplicationSettings {
    pub replica_of: Option<PrimaryAddress>,
    pub secret: Option<Secret>,
    /// Bytes of each group's log of changed keys.
    pub backlog: usize,
    pub mode: ReplicationMode,
    pub writes: ReplicaWrites,
}

/// What a replica does with its clients' writes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ReplicaWrites {
    /// It refuses them.
    #[default]
    Refuse,
    /// It has its primary make them; those over HTTP if it is known where the primary serves that.
    Forward(Option<PrimaryHttp>),
}
impl ReplicaWrites {
    /// Whether it has its primary make those of the Redis protocol.
    pub fn are_forwarded(&self) -> bool {
        *self != ReplicaWrites::Refuse
    }
    /// Where its primary makes those over HTTP.
    pub fn primary_http(&self) -> Option<&PrimaryHttp> {
        if let ReplicaWrites::Forward(primary) = self { primary.as_ref() } else { None }
    }
}
impl FromStr for ReplicaWrites {
    type Err = String;
    fn from_str(text: &str) -> Result<ReplicaWrites, String> {
        match text.split_once(':').map_or((text, None), |(what, primary)| (what, Some(primary))) {
            ("refuse", None) => Ok(ReplicaWrites::Refuse),
            ("forward", primary) => primary.map(str::parse).transpose().map(ReplicaWrites::Forward),
            _ => Err(format!("`{text}` is not one of refuse, forward, forward:http://host:port")),
        }
    }
}
impl fmt::Display for ReplicaWrites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplicaWrites::Refuse => f.write_str("refuse"),
            ReplicaWrites::Forward(None) => f.write_str("forward"),
            ReplicaWrites::Forward(Some(primary)) => write!(f, "forward:{primary}"),
        }
    }
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

/// Where a primary serves HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrimaryHttp(pub PrimaryAddress);

impl fmt::Display for PrimaryAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(&REDIS, f)
    }
}
impl fmt::Display for PrimaryHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(&HTTP, f)
    }
}
impl FromStr for PrimaryAddress {
    type Err = String;
    fn from_str(text: &str) -> Result<PrimaryAddress, String> {
        PrimaryAddress::parse(text, &REDIS)
    }
}
impl FromStr for PrimaryHttp {
    type Err = String;
    fn from_str(text: &str) -> Result<PrimaryHttp, String> {
        PrimaryAddress::parse(text, &HTTP).map(PrimaryHttp)
    }
}

impl PrimaryAddress {
    /// `host:port`, with brackets around an IPv6 address.
    pub fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    fn write(&self, form: &AddressForm, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.tls.is_some() { form.tls_scheme } else { form.scheme })?;
        f.write_str(&self.authority())?;
        let parameters: Vec<String> = self.tls.iter().flat_map(TlsClientSettings::parameters).collect();
        if !parameters.is_empty() {
            write!(f, "?{}", parameters.join("&"))?;
        }
        Ok(())
    }

    fn parse(text: &str, form: &AddressForm) -> Result<PrimaryAddress, String> {
        let &AddressForm { scheme, tls_scheme, ports: [port, tls_port], protocol } = form;
        let what = || {
            format!(
                "`{text}` is not a primary: write {scheme}host:port or {tls_scheme}host:port, its address for {protocol}"
            )
        };
        let mut tls = None;
        let authority = match text.strip_prefix(tls_scheme) {
            None => text.strip_prefix(scheme).unwrap_or(text),
            Some(rest) => {
                let (authority, query) = rest.split_once('?').unwrap_or((rest, ""));
                let settings = tls.insert(TlsClientSettings::default());
                for parameter in parameters(query) {
                    let (name, value) = parameter?;
                    if !settings.set(name, &value)? {
                        return Err(format!(
                            "unknown parameter `{name}`: {tls_scheme} takes ca, cert, key and insecure here"
                        ));
                    }
                }
                settings.check()?;
                authority
            }
        };
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        if authority.contains(|c: char| "/@?#%".contains(c) || c.is_whitespace() || c.is_control()) {
            return Err(what());
        }
        let port = if tls.is_some() { tls_port } else { port };
        let (host, port) = host_port(authority, port, "redis").map_err(|_| what())?;
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
    fn a_primary_is_named_for_http_with_and_without_tls() {
        for (text, shown) in [
            ("a:1", "http://a:1"),
            ("http://[::1]:9/", "http://[::1]:9"),
            ("a", "http://a:8080"),
            ("https://a", "https://a:8443"),
            ("https://a:1?ca=/c&cert=d&key=e", "https://a:1?ca=/c&cert=d&key=e"),
        ] {
            let address: PrimaryHttp = text.parse().expect("a primary");
            assert_eq!(address.to_string(), shown);
            assert_eq!(address.to_string().parse(), Ok(address));
        }
        for text in ["", "redis://a", "http://u:p@a", "https://u@a", "a/b", "a?ca=b", "a\r\nx", "a%0d"] {
            let error = text.parse::<PrimaryHttp>().expect_err(text);
            assert!(error.contains("is not a primary: write http://host:port or https://host:port"), "{error}");
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
