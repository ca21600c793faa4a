//! The names by which clients may reach the plain HTTP listeners (`allowed-hosts`).
use std::net::IpAddr;

/// The listed names. Browsers name the host of a page in `Host`. If a page of another site makes its
/// own name point to this machine (DNS rebinding), that name is in `Host`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedHosts(Vec<Box<str>>);

impl AllowedHosts {
    pub(super) fn new(names: &[&str]) -> AllowedHosts {
        AllowedHosts(names.iter().map(|name| without_dot(name).into()).collect())
    }

    /// No name is listed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the host in `Host` is an address, a name that no site on the internet can have, or a
    /// listed name. Sites have names with a dot, and `localhost` always means this machine.
    pub fn allow(&self, host: &[u8]) -> bool {
        if host.first() == Some(&b'[') {
            return true;
        }
        let name = host.iter().position(|byte| *byte == b':').map_or(host, |port| &host[..port]);
        let Ok(name) = std::str::from_utf8(name) else { return false };
        let name = without_dot(name);
        let is_local = || name.rsplit_once('.').is_none_or(|(_, last)| last.eq_ignore_ascii_case("localhost"));
        is_local() || name.parse::<IpAddr>().is_ok() || self.0.iter().any(|listed| listed.eq_ignore_ascii_case(name))
    }
}

/// The name without the dot of the root.
fn without_dot(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sites_must_be_listed() {
        let none = AllowedHosts::default();
        let allowed = AllowedHosts::new(&["Console.example", "larder.test."]);
        for host in [
            "",
            "localhost",
            "LOCALHOST:8081",
            "localhost.",
            "a.localhost:80",
            "127.0.0.1",
            "127.0.0.1:8081",
            "10.1.2.3:80",
            "[::1]",
            "[::1]:8081",
            "larder",
            "larder:8080",
        ] {
            assert!(none.allow(host.as_bytes()) && allowed.allow(host.as_bytes()), "{host}");
        }
        for host in ["console.example", "CONSOLE.example:8081", "console.example.", "larder.test"] {
            assert!(!none.allow(host.as_bytes()) && allowed.allow(host.as_bytes()), "{host}");
        }
        for host in [
            "elsewhere.example",
            "elsewhere.example:8081",
            "localhost.elsewhere.example",
            "127.0.0.1.elsewhere.example",
            "a.console.example",
            "console.example.elsewhere",
            "elsewhere.example..",
            "\u{e9}.example",
        ] {
            assert!(!none.allow(host.as_bytes()) && !allowed.allow(host.as_bytes()), "{host}");
        }
        assert!(!none.allow(b"\xff.example"));
    }
}
