//! The header of the PROXY protocol, versions 1 and 2: a proxy's word on who the client of a
//! connection is.
//!
//! Source: <https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt>. Type-length-values of version 2 are skipped.
use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

/// Longest header of version 1, with its CR LF (section 2.1).
pub const LONGEST_TEXT: usize = 107;
/// Longest header of version 2 that is taken, bytes. The format has room for 65,551; certificates
/// of clients fit into this.
pub const LONGEST: usize = 4096;

/// What a header of version 1 begins with.
const TEXT: &[u8] = b"PROXY ";
/// What a header of version 2 begins with (section 2.2).
const BINARY: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes of a header of version 2 before its addresses.
const FIXED: usize = 16;

/// What the first bytes of a connection are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyHeader {
    /// A header of `len` bytes.
    Complete {
        /// Bytes to skip: what follows is the client's.
        len: usize,
        /// The client; `None`: the header names none, because the proxy itself is the client (a
        /// health check) or does not know.
        client: Option<SocketAddr>,
    },
    /// The beginning of one, as far as it goes.
    Partial,
    /// Something else.
    Absent,
}

/// What is wrong with a header, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MalformedHeader(pub &'static str);

impl fmt::Display for MalformedHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Whether the input begins with all that tells a header from other protocols.
pub fn begins_header(input: &[u8]) -> bool {
    input.starts_with(TEXT) || input.starts_with(BINARY)
}

/// Reads the header at the front of a connection's bytes.
///
/// # Errors
/// It is one, and more bytes would not make it right.
pub fn parse(input: &[u8]) -> Result<ProxyHeader, MalformedHeader> {
    let begins = |mark: &[u8]| mark.starts_with(&input[..input.len().min(mark.len())]);
    if input.starts_with(TEXT) {
        parse_text(input)
    } else if input.starts_with(BINARY) {
        parse_binary(input)
    } else if begins(TEXT) || begins(BINARY) {
        Ok(ProxyHeader::Partial)
    } else {
        Ok(ProxyHeader::Absent)
    }
}

/// `PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n`
fn parse_text(input: &[u8]) -> Result<ProxyHeader, MalformedHeader> {
    let within = &input[..input.len().min(LONGEST_TEXT)];
    let Some(end) = within.iter().position(|byte| matches!(byte, b'\r' | b'\n')) else {
        return match input.len() < LONGEST_TEXT {
            true => Ok(ProxyHeader::Partial),
            false => Err(MalformedHeader("the line is longer than 107 bytes")),
        };
    };
    match within[end..] {
        [b'\r'] if within.len() < LONGEST_TEXT => return Ok(ProxyHeader::Partial),
        [b'\r', b'\n', ..] => {}
        _ => return Err(MalformedHeader("the line does not end with CR LF")),
    }
    let line = &within[TEXT.len()..end];
    let complete = |client| Ok(ProxyHeader::Complete { len: end + 2, client });
    let mut parts = line.split(|byte| *byte == b' ');
    let family = parts.next();
    // Bytes after UNKNOWN are ignored.
    if family == Some(b"UNKNOWN") {
        return complete(None);
    }
    let mut part = || parts.next().ok_or(MalformedHeader("the line has too few parts"));
    let (source, destination, source_port, destination_port) = (part()?, part()?, part()?, part()?);
    if parts.next().is_some() {
        return Err(MalformedHeader("the line has too many parts"));
    }
    let (source, port): (IpAddr, u16) = match family {
        Some(b"TCP4") => {
            let _: Ipv4Addr = address(destination)?;
            (address::<Ipv4Addr>(source)?.into(), self::port(source_port)?)
        }
        Some(b"TCP6") => {
            let _: Ipv6Addr = address(destination)?;
            (address::<Ipv6Addr>(source)?.into(), self::port(source_port)?)
        }
        _ => return Err(MalformedHeader("the family is none of TCP4, TCP6 and UNKNOWN")),
    };
    self::port(destination_port)?;
    complete(Some(SocketAddr::new(source.to_canonical(), port)))
}

fn address<A: std::str::FromStr>(text: &[u8]) -> Result<A, MalformedHeader> {
    let text = std::str::from_utf8(text).ok();
    text.and_then(|text| text.parse().ok()).ok_or(MalformedHeader("an address is none of its family"))
}

/// Digits without a sign, and without zeros before them.
fn port(text: &[u8]) -> Result<u16, MalformedHeader> {
    let is_number = text.iter().all(u8::is_ascii_digit) && !(text.len() > 1 && text[0] == b'0');
    let text = std::str::from_utf8(text).ok().filter(|_| is_number);
    text.and_then(|text| text.parse().ok()).ok_or(MalformedHeader("a port is not a number up to 65535"))
}

fn parse_binary(input: &[u8]) -> Result<ProxyHeader, MalformedHeader> {
    let Some((fixed, rest)) = input.split_first_chunk::<FIXED>() else { return Ok(ProxyHeader::Partial) };
    let [.., command, family, high, low] = *fixed;
    let announced = usize::from(u16::from_be_bytes([high, low]));
    let len = FIXED + announced;
    if command >> 4 != 2 {
        return Err(MalformedHeader("the version is not 2"));
    }
    if len > LONGEST {
        return Err(MalformedHeader("the header is longer than 4096 bytes"));
    }
    // Only connections of streams come here.
    let addresses = match (command & 0xf, family) {
        (0, _) => 0,
        (1, 0x00) => 0,
        (1, 0x11) => 12,
        (1, 0x21) => 36,
        (1, 0x31) => 216,
        (1, _) => return Err(MalformedHeader("the family is none of TCP over IPv4, TCP over IPv6 and Unix sockets")),
        _ => return Err(MalformedHeader("the command is none of LOCAL and PROXY")),
    };
    if announced < addresses {
        return Err(MalformedHeader("the header is too short for its addresses"));
    }
    if rest.len() < announced {
        return Ok(ProxyHeader::Partial);
    }
    let port = |at: usize| u16::from_be_bytes([rest[at], rest[at + 1]]);
    let client = match addresses {
        12 => rest.first_chunk::<4>().map(|source| SocketAddr::new(Ipv4Addr::from(*source).into(), port(8))),
        36 => rest
            .first_chunk::<16>()
            .map(|source| SocketAddr::new(IpAddr::from(Ipv6Addr::from(*source)).to_canonical(), port(32))),
        _ => None,
    };
    Ok(ProxyHeader::Complete { len, client })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn complete(len: usize, client: &str) -> Result<ProxyHeader, MalformedHeader> {
        Ok(ProxyHeader::Complete { len, client: Some(client.parse().expect("an address")) })
    }
    fn binary(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let len = u16::try_from(rest.len()).expect("short").to_be_bytes();
        [&BINARY[..], &[command, family], &len, rest].concat()
    }

    #[test]
    fn version_1() {
        for (line, client) in [
            ("PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n", "192.0.2.1:56324"),
            ("PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", "255.255.255.255:65535"),
            ("PROXY TCP6 2001:db8::1 ::1 0 443\r\n", "[2001:db8::1]:0"),
            ("PROXY TCP6 ::ffff:192.0.2.1 ::1 5 443\r\n", "192.0.2.1:5"),
        ] {
            assert_eq!(parse(line.as_bytes()), complete(line.len(), client), "{line}");
            assert_eq!(parse(format!("{line}PING\r\n").as_bytes()), complete(line.len(), client), "{line}");
        }
        for line in ["PROXY UNKNOWN\r\n", "PROXY UNKNOWN ffff:f...f:ffff any thing 65535 65535\r\n"] {
            let unknown = ProxyHeader::Complete { len: line.len(), client: None };
            assert_eq!(parse(line.as_bytes()), Ok(unknown), "{line}");
        }
    }

    #[test]
    fn malformed_lines() {
        for line in [
            "PROXY \r\n",
            "PROXY TCP4\r\n",
            "PROXY UDP4 192.0.2.1 198.51.100.1 1 2\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1 1\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1 1 2 3\r\n",
            "PROXY TCP4  192.0.2.1 198.51.100.1 1 2\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1 1 2 \r\n",
            "PROXY TCP4 192.0.2.256 198.51.100.1 1 2\r\n",
            "PROXY TCP4 192.0.02.1 198.51.100.1 1 2\r\n",
            "PROXY TCP4 2001:db8::1 ::1 1 2\r\n",
            "PROXY TCP6 192.0.2.1 198.51.100.1 1 2\r\n",
            "PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1 65536 2\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1 01 2\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1 +1 2\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1 1 -2\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1 1 2\n",
            "PROXY TCP4 192.0.2.1 198.51.100.1 1 2\rX",
            "PROXY TCP4 192.0.2.1\n198.51.100.1 1 2\r\n",
            "PROXY tcp4 192.0.2.1 198.51.100.1 1 2\r\n",
        ] {
            assert!(parse(line.as_bytes()).is_err(), "{line}");
        }
        // 107 bytes are allowed, not one more.
        let unknown = |len: usize| format!("PROXY UNKNOWN {}\r\n", "x".repeat(len - "PROXY UNKNOWN \r\n".len()));
        assert_eq!(parse(unknown(107).as_bytes()), Ok(ProxyHeader::Complete { len: 107, client: None }));
        assert!(parse(unknown(108).as_bytes()).is_err());
        assert!(parse(&unknown(200).as_bytes()[..107]).is_err(), "no line that long may end well");
    }

    #[test]
    fn version_2() {
        let ipv4 = [192, 0, 2, 1, 198, 51, 100, 1, 0xdc, 4, 1, 0xbb];
        let header = binary(0x21, 0x11, &ipv4);
        assert_eq!(parse(&header), complete(28, "192.0.2.1:56324"));
        let with_values = binary(0x21, 0x11, &[&ipv4[..], &[4, 0, 1, 9]].concat());
        assert_eq!(parse(&with_values), complete(32, "192.0.2.1:56324"), "type-length-values are skipped");
        let mut ipv6 = [0; 36];
        (ipv6[0], ipv6[1], ipv6[15], ipv6[33]) = (0x20, 1, 7, 9);
        assert_eq!(parse(&binary(0x21, 0x21, &ipv6)), complete(52, "[2001::7]:9"));
        for (header, what) in [
            (binary(0x20, 0x11, &ipv4), "LOCAL: the addresses do not count"),
            (binary(0x20, 0, &[]), "LOCAL"),
            (binary(0x21, 0, &[]), "unspecified"),
            (binary(0x21, 0x31, &[b'/'; 216]), "a Unix socket"),
        ] {
            assert_eq!(parse(&header), Ok(ProxyHeader::Complete { len: header.len(), client: None }), "{what}");
        }
        for (header, what) in [
            (binary(0x11, 0x11, &ipv4), "version 1"),
            (binary(0x31, 0x11, &ipv4), "version 3"),
            (binary(0x22, 0x11, &ipv4), "a command that does not exist"),
            (binary(0x21, 0x12, &ipv4), "UDP"),
            (binary(0x21, 0x41, &ipv4), "a family that does not exist"),
            (binary(0x21, 0x11, &ipv4[..11]), "too short"),
            (binary(0x21, 0x21, &ipv4), "too short for IPv6"),
            (binary(0x21, 0x11, &[0; LONGEST - 15]), "too long"),
        ] {
            assert!(parse(&header).is_err(), "{what}");
        }
        assert!(parse(&binary(0x21, 0x11, &[0; LONGEST - 15])[..FIXED]).is_err(), "refused by its length alone");
    }

    #[test]
    fn other_protocols() {
        for input in ["PING\r\n", "PROXIED", "GET / HTTP/1.1\r\n", "*1\r\n", "\r\n\r\nGET", "\u{16}\u{3}\u{1}", "X"] {
            assert_eq!(parse(input.as_bytes()), Ok(ProxyHeader::Absent), "{input}");
            assert!(!begins_header(input.as_bytes()));
        }
        for input in ["", "P", "PROXY", "PROXY ", "\r", "\r\n\r\n", "\r\n\r\n\0\r\nQUIT"] {
            assert_eq!(parse(input.as_bytes()), Ok(ProxyHeader::Partial), "{input}");
        }
    }

    proptest! {
        /// A header that comes in two pieces reads as the whole does, and what is behind it does not matter.
        #[test]
        fn pieces(ports in any::<[u16; 2]>(), source in any::<IpAddr>(), cut in any::<prop::sample::Index>(), rest in any::<Vec<u8>>()) {
            let (family, other) = if source.is_ipv4() { ("TCP4", "192.0.2.7") } else { ("TCP6", "::7") };
            let line = format!("PROXY {family} {source} {other} {} {}\r\n", ports[0], ports[1]).into_bytes();
            let octets = match source {
                IpAddr::V4(v4) => [&v4.octets()[..], &[0; 4], &ports[0].to_be_bytes(), &[0; 2]].concat(),
                IpAddr::V6(v6) => [&v6.octets()[..], &[0; 16], &ports[0].to_be_bytes(), &[0; 2]].concat(),
            };
            let client = SocketAddr::new(source.to_canonical(), ports[0]);
            for header in [line, binary(0x21, if source.is_ipv4() { 0x11 } else { 0x21 }, &octets)] {
                let whole = ProxyHeader::Complete { len: header.len(), client: Some(client) };
                prop_assert_eq!(parse(&[&header[..], &rest].concat()), Ok(whole));
                prop_assert_eq!(parse(&header[..cut.index(header.len())]), Ok(ProxyHeader::Partial));
            }
        }
        /// Whatever comes: no panic, and a length within the input.
        #[test]
        fn any_bytes(which in 0..3usize, input in any::<Vec<u8>>()) {
            let input = [[&b""[..], TEXT, BINARY][which], &input].concat();
            if let Ok(ProxyHeader::Complete { len, .. }) = parse(&input) {
                prop_assert!(len <= input.len() && len <= LONGEST);
            }
        }
    }
}
