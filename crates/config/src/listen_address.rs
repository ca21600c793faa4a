//! Listening addresses: `127.0.0.1:8080`, `[::1]:8080`, `localhost:8080`, `:8080` (all interfaces).
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

/// Reads a listening address. No host means all interfaces: `[::]`, which takes IPv4 as well, where
/// the machine has IPv6, else `0.0.0.0`. A name stands for its first IPv4 address, or its first
/// address if it has none.
pub(super) fn parse_address(text: &str, ipv6: bool) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let what = format!(
        "`{text}` is not an address: write 127.0.0.1:8080, [::1]:8080, localhost:8080, or :8080 for all interfaces"
    );
    let Some((host, port)) = text.rsplit_once(':') else {
        return Err(what);
    };
    let port: u16 = match port.parse() {
        Ok(port) if port_digits(text) => port,
        _ => return Err(what),
    };
    match host {
        "" if ipv6 => Ok((Ipv6Addr::UNSPECIFIED, port).into()),
        "" => Ok((Ipv4Addr::UNSPECIFIED, port).into()),
        "*" => parse_address(&format!(":{port}"), ipv6),
        host if host.contains([':', '[', ']', '/', ' ']) => Err(what),
        host => resolve(host, port).map_err(|error| format!("`{text}`: {error}")),
    }
}

/// `u16::from_str` takes a sign.
fn port_digits(text: &str) -> bool {
    text.rsplit(':').next().is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()))
}

fn resolve(host: &str, port: u16) -> Result<SocketAddr, String> {
    let all: Vec<SocketAddr> = (host, port)
        .to_socket_addrs()
        .map_err(|error| format!("the name {host} cannot be resolved ({error})"))?
        .collect();
    let first = all.iter().find(|a| a.is_ipv4()).or(all.first());
    first.copied().ok_or_else(|| format!("the name {host} has no address"))
}

/// Joins a host as people write it (no brackets needed) and a port, for `PROXY_HOST` and
/// `REDIS_HOST`.
pub(super) fn join_host(host: &str, port: &str) -> String {
    if host.contains(':') && !host.starts_with('[') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, shown) in [
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("[::1]:8080", "[::1]:8080"),
            (":8080", "[::]:8080"),
            ("*:8080", "[::]:8080"),
            ("0.0.0.0:80", "0.0.0.0:80"),
            ("localhost:8080", "127.0.0.1:8080"),
        ] {
            assert_eq!(parse_address(text, true).map(|a| a.to_string()).as_deref(), Ok(shown));
        }
        assert_eq!(parse_address(":8080", false).map(|a| a.to_string()).as_deref(), Ok("0.0.0.0:8080"));
    }

    #[test]
    fn not_addresses() {
        for text in ["", "8080", "localhost", "::1:8080x", "1.2.3.4:70000", "a:-1", "a:+1", "a:", "[::1]", "http://a:1"]
        {
            let error = parse_address(text, true).unwrap_err();
            assert!(error.contains("is not an address: write 127.0.0.1:8080"), "{text}: {error}");
        }
        let error = parse_address("no-such-host.invalid:1", true).unwrap_err();
        assert!(error.contains("the name no-such-host.invalid cannot be resolved"), "{error}");
    }

    #[test]
    fn hosts_and_ports() {
        assert_eq!(join_host("::1", "80"), "[::1]:80");
        assert_eq!(join_host("[::1]", "80"), "[::1]:80");
        assert_eq!(join_host("", "80"), ":80");
        assert_eq!(join_host("redis", "6379"), "redis:6379");
    }
}
