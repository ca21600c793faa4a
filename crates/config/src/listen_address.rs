//! Listening addresses: `127.0.0.1:8080`, `[::1]:8080`, `localhost:8080`, `:8080` (all interfaces),
//! `unix:/run/larder/redis.sock`.
use larder_proto::http::forwarded::ClientAddress;
use serde::{Serialize, Serializer};
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs},
    path::{Path, PathBuf},
    sync::Arc,
};

/// The longest path that a Unix socket can have on every platform, without the zero at its end.
const LONGEST_PATH: usize = 103;

/// The address of a listener, or of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// TCP.
    Ip(SocketAddr),
    /// A Unix socket. Its clients have no address of their own and are known by the socket's.
    Unix(Arc<UnixSocket>),
}

/// A Unix socket in the file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnixSocket {
    pub path: PathBuf,
    /// Who may connect. `None`: the process's user, and the group if there is one.
    pub mode: Option<u32>,
    /// The name or the number of the file's group.
    pub group: Option<String>,
}

impl Address {
    /// The IP address that counts in limits, in lists of addresses and for the rules of loopback:
    /// clients of a Unix socket are on this machine.
    pub fn ip(&self) -> IpAddr {
        match self {
            Address::Ip(address) => address.ip(),
            Address::Unix(_) => Ipv4Addr::LOCALHOST.into(),
        }
    }
    /// 0 for a Unix socket.
    pub fn port(&self) -> u16 {
        match self {
            Address::Ip(address) => address.port(),
            Address::Unix(_) => 0,
        }
    }
    /// The path of a Unix socket.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Address::Ip(_) => None,
            Address::Unix(socket) => Some(&socket.path),
        }
    }
    /// The address in the replies of Redis commands, where a Unix socket has the port 0.
    pub fn for_redis(&self) -> String {
        match self {
            Address::Ip(address) => address.to_string(),
            Address::Unix(socket) => format!("{}:0", socket.path.display()),
        }
    }
    /// The address without what is only said to make it: mode and group.
    pub fn without_options(&self) -> Address {
        match self {
            Address::Unix(socket) if socket.mode.is_some() || socket.group.is_some() => {
                Address::Unix(Arc::new(UnixSocket { path: socket.path.clone(), mode: None, group: None }))
            }
            other => other.clone(),
        }
    }
}

impl UnixSocket {
    /// Reads what follows `unix:`.
    fn parse(text: &str) -> Result<UnixSocket, String> {
        let text = text.strip_prefix("//").filter(|path| path.starts_with('/')).unwrap_or(text);
        let (path, options) = text.split_once('?').unwrap_or((text, ""));
        if !path.starts_with('/') || path.ends_with('/') || path.contains('\0') {
            return Err(format!(
                "`unix:{text}` has no absolute path: write unix:/run/larder/redis.sock, or \
                 unix:/run/larder/redis.sock?mode=0660&group=app"
            ));
        }
        if path.len() > LONGEST_PATH {
            return Err(format!("the path of a Unix socket has at most {LONGEST_PATH} bytes, this one {}", path.len()));
        }
        let mut socket = UnixSocket { path: path.into(), mode: None, group: None };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("mode", mode)) => match u32::from_str_radix(mode, 8) {
                    Ok(bits) if bits <= 0o777 && mode.bytes().all(|b| b.is_ascii_digit()) => socket.mode = Some(bits),
                    _ => return Err(format!("mode `{mode}` is not octal: write mode=0660")),
                },
                Some(("group", group)) if !group.is_empty() => socket.group = Some(group.to_owned()),
                _ => return Err(format!("a Unix socket has no option `{option}`: write mode=0660 or group=app")),
            }
        }
        Ok(socket)
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Address {
        Address::Ip(address)
    }
}

impl<I: Into<IpAddr>> From<(I, u16)> for Address {
    fn from(address: (I, u16)) -> Address {
        Address::Ip(address.into())
    }
}

impl From<&Address> for ClientAddress {
    fn from(address: &Address) -> ClientAddress {
        match address {
            Address::Ip(address) => (*address).into(),
            Address::Unix(_) => ClientAddress { ip: address.ip(), port: None },
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let socket = match self {
            Address::Ip(address) => return address.fmt(f),
            Address::Unix(socket) => socket,
        };
        write!(f, "unix:{}", socket.path.display())?;
        let mode = socket.mode.map(|mode| format!("mode={mode:04o}"));
        let group = socket.group.as_ref().map(|group| format!("group={group}"));
        for (option, before) in [mode, group].into_iter().flatten().zip(["?", "&"]) {
            write!(f, "{before}{option}")?;
        }
        Ok(())
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads the address of a listener.
pub(super) fn parse_listener(text: &str, ipv6: bool) -> Result<Address, String> {
    match text.strip_prefix("unix:") {
        Some(socket) => UnixSocket::parse(socket).map(|socket| Address::Unix(Arc::new(socket))),
        None => parse_address(text, ipv6).map(Address::Ip).map_err(|error| {
            let (what, forms) = error.split_once(": write ").unwrap_or((&error, ""));
            if forms.is_empty() { error } else { format!("{what}: write {forms}, or unix:/PATH") }
        }),
    }
}

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
    fn unix_sockets() {
        for (text, shown) in [
            ("unix:/run/a.sock", "unix:/run/a.sock"),
            ("unix:///run/a.sock", "unix:/run/a.sock"),
            ("unix:/a?mode=660", "unix:/a?mode=0660"),
            ("unix:/a?group=app&mode=0777", "unix:/a?mode=0777&group=app"),
            ("unix:/a?group=7", "unix:/a?group=7"),
        ] {
            let address = parse_listener(text, true).expect(text);
            assert_eq!(address.to_string(), shown);
            assert_eq!(parse_listener(shown, true).as_ref(), Ok(&address), "it reads back");
            assert!(address.ip().is_loopback() && address.port() == 0);
            let bare = address.without_options().to_string();
            assert_eq!(Some(bare.as_str()), shown.split('?').next());
        }
        let long = format!("unix:/{}", "x".repeat(LONGEST_PATH));
        for (text, error) in [
            ("unix:", "has no absolute path"),
            ("unix:a.sock", "has no absolute path"),
            ("unix:/run/", "has no absolute path"),
            ("unix:/a?mode=999", "mode `999` is not octal"),
            ("unix:/a?mode=07777", "mode `07777` is not octal"),
            ("unix:/a?mode=+7", "mode `+7` is not octal"),
            ("unix:/a?user=me", "has no option `user=me`"),
            ("unix:/a?group=", "has no option `group=`"),
            (&*long, "has at most 103 bytes, this one 104"),
            ("nonsense", "or :8080 for all interfaces, or unix:/PATH"),
        ] {
            let got = parse_listener(text, true).expect_err(text);
            assert!(got.contains(error), "{text}: {got}");
        }
    }

    #[test]
    fn hosts_and_ports() {
        assert_eq!(join_host("::1", "80"), "[::1]:80");
        assert_eq!(join_host("[::1]", "80"), "[::1]:80");
        assert_eq!(join_host("", "80"), ":80");
        assert_eq!(join_host("redis", "6379"), "redis:6379");
    }
}
