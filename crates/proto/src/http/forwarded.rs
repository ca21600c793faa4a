//! The client of a request that came over trusted proxies, by `X-Forwarded-For` or `Forwarded` (RFC
//! 7239).
//!
//! Each proxy adds the address from which it got the request, at the end. A client can write what
//! it likes before that. So the client is the rightmost address that is no trusted proxy's: the
//! last one that a trusted proxy vouches for.
use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

/// The address of a client, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientAddress {
    /// IPv4 addresses as such, not mapped into IPv6.
    pub ip: IpAddr,
    /// Proxies seldom say it.
    pub port: Option<u16>,
}

impl From<SocketAddr> for ClientAddress {
    fn from(address: SocketAddr) -> ClientAddress {
        ClientAddress { ip: address.ip(), port: Some(address.port()) }
    }
}

impl fmt::Display for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => SocketAddr::new(self.ip, port).fmt(f),
            None => self.ip.fmt(f),
        }
    }
}

/// How a header lists the addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForwardedSyntax {
    /// `X-Forwarded-For: 192.0.2.1, 10.0.0.2`
    XForwardedFor,
    /// `Forwarded: for=192.0.2.1;proto=http, for=10.0.0.2`
    Forwarded,
}

/// The client of a request that a trusted proxy has sent; `None`: that proxy. `fields` are the
/// values of the header in their order, `is_trusted` knows the addresses of trusted proxies.
///
/// An entry that is no address (`unknown`, a pseudonym, nonsense) ends the way: the client is then
/// the proxy that wrote it.
pub fn client_of<'h>(
    syntax: ForwardedSyntax,
    fields: impl Iterator<Item = &'h [u8]>,
    is_trusted: impl Fn(IpAddr) -> bool,
) -> Option<ClientAddress> {
    let entry = match syntax {
        ForwardedSyntax::XForwardedFor => |entry: &[u8]| address(entry),
        ForwardedSyntax::Forwarded => for_parameter,
    };
    // From the left: each address that is no trusted proxy replaces what was found before it.
    let mut client = None;
    for field in fields {
        for element in elements(field) {
            client = match entry(element) {
                None => None,
                Some(address) if is_trusted(address.ip) => client.or(Some(address)),
                address => address,
            };
        }
    }
    client
}

/// The elements of a list (RFC 9110 section 5.6.1). A comma in a quoted string ends none.
fn elements(field: &[u8]) -> impl Iterator<Item = &[u8]> {
    split_outside_quotes(field, b',').map(<[u8]>::trim_ascii).filter(|element| !element.is_empty())
}

fn split_outside_quotes(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let (mut in_quotes, mut escaped) = (false, false);
    text.split(move |byte| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_quotes => escaped = true,
            b'"' => in_quotes = !in_quotes,
            _ => return !in_quotes && *byte == separator,
        }
        false
    })
}

/// The address of `for=192.0.2.60;proto=http` (RFC 7239 section 4).
fn for_parameter(element: &[u8]) -> Option<ClientAddress> {
    let mut found = None;
    for pair in split_outside_quotes(element, b';') {
        let Some((name, value)) = pair.trim_ascii().split_at_checked(4) else { continue };
        if name.eq_ignore_ascii_case(b"for=") && found.replace(value).is_some() {
            // Each parameter stands once in an element.
            return None;
        }
    }
    let value = found?;
    // Addresses need no escapes: a value that has some is none.
    address(value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(value))
}

/// `192.0.2.1`, `192.0.2.1:4711`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:4711`.
fn address(text: &[u8]) -> Option<ClientAddress> {
    let text = std::str::from_utf8(text).ok()?;
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).filter(|v6| v6.contains(':'));
    if let Ok(ip) = bare.unwrap_or(text).parse::<IpAddr>() {
        return Some(ClientAddress { ip: ip.to_canonical(), port: None });
    }
    let with_port: SocketAddr = text.parse().ok()?;
    Some(ClientAddress { ip: with_port.ip().to_canonical(), port: Some(with_port.port()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 10.0.0.0/8 and 2001:db8:cafe::/48.
    fn is_trusted(address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => v4.octets()[0] == 10,
            IpAddr::V6(v6) => v6.segments()[..3] == [0x2001, 0xdb8, 0xcafe],
        }
    }
    fn client(syntax: ForwardedSyntax, fields: &[&str]) -> String {
        let proxy = ClientAddress::from(SocketAddr::from(([10, 0, 0, 1], 5)));
        client_of(syntax, fields.iter().map(|field| field.as_bytes()), is_trusted).unwrap_or(proxy).to_string()
    }

    #[test]
    fn x_forwarded_for() {
        for (fields, expected) in [
            (&["192.0.2.1"][..], "192.0.2.1"),
            (&["192.0.2.1, 10.0.0.2"], "192.0.2.1"),
            (&["203.0.113.9, 192.0.2.1,10.0.0.2 , 10.0.0.3"], "192.0.2.1"),
            (&["203.0.113.9", "192.0.2.1", "10.0.0.2"], "192.0.2.1"),
            (&["127.0.0.1, 192.0.2.1"], "192.0.2.1"),
            (&["10.0.0.9, 10.0.0.8"], "10.0.0.9"),
            (&["192.0.2.1, unknown"], "10.0.0.1:5"),
            (&["192.0.2.1, unknown, 10.0.0.2, 10.0.0.3"], "10.0.0.2"),
            (&["unknown, 192.0.2.1"], "192.0.2.1"),
            (&["2001:db8::1"], "2001:db8::1"),
            (&["2001:db8::1, [2001:db8:cafe::2]:80"], "2001:db8::1"),
            (&["[2001:db8::1]:4711"], "[2001:db8::1]:4711"),
            (&["[2001:db8::1]"], "2001:db8::1"),
            (&["::ffff:192.0.2.1"], "192.0.2.1"),
            (&["192.0.2.1:4711"], "192.0.2.1:4711"),
            (&["192.0.2.1,,"], "192.0.2.1"),
            (&["192.0.2.1, [192.0.2.2]"], "10.0.0.1:5"),
            (&["192.0.2.1, 1"], "10.0.0.1:5"),
            (&[""], "10.0.0.1:5"),
            (&[], "10.0.0.1:5"),
        ] {
            assert_eq!(client(ForwardedSyntax::XForwardedFor, fields), expected, "{fields:?}");
        }
    }

    #[test]
    fn forwarded() {
        for (fields, expected) in [
            (&["for=192.0.2.60;proto=http;by=203.0.113.43"][..], "192.0.2.60"),
            (&["For=\"[2001:db8::17]:4711\""], "[2001:db8::17]:4711"),
            (&["for=192.0.2.43, for=198.51.100.17"], "198.51.100.17"),
            (&["for=192.0.2.43, FOR=10.1.2.3;proto=https"], "192.0.2.43"),
            (&["proto=http; for=\"192.0.2.43:80\""], "192.0.2.43:80"),
            (&["for=192.0.2.43", "for=10.0.0.5"], "192.0.2.43"),
            (&["for=192.0.2.43, for=_hidden"], "10.0.0.1:5"),
            (&["for=192.0.2.43, for=unknown, for=10.0.0.2"], "10.0.0.2"),
            (&["for=192.0.2.43, by=10.0.0.2"], "10.0.0.1:5"),
            (&["for=192.0.2.43;for=192.0.2.44"], "10.0.0.1:5"),
            // A client's quoted string is one element, whatever is in it.
            (&["for=\"x, for=192.0.2.7\", for=192.0.2.8"], "192.0.2.8"),
            (&["for=\"x\\\", for=192.0.2.7\", for=10.0.0.2"], "10.0.0.2"),
            (&["for=\"192.0.2.7"], "10.0.0.1:5"),
            (&["192.0.2.7"], "10.0.0.1:5"),
        ] {
            assert_eq!(client(ForwardedSyntax::Forwarded, fields), expected, "{fields:?}");
        }
    }

    proptest! {
        /// What stands before the entry of a trusted proxy changes nothing, short of an open quote, which hides that entry.
        #[test]
        fn clients_choose_nothing(before in "[ -~&&[^\"]]{0,60}") {
            for (syntax, entry) in [(ForwardedSyntax::XForwardedFor, "192.0.2.1"), (ForwardedSyntax::Forwarded, "for=192.0.2.1")] {
                let found = client(syntax, &[&format!("{before}, {entry}, {}", entry.replace("192.0.2.1", "10.0.0.7"))]);
                prop_assert_eq!(&found, "192.0.2.1");
            }
        }
        #[test]
        fn any_bytes(fields in any::<Vec<Vec<u8>>>()) {
            for syntax in [ForwardedSyntax::XForwardedFor, ForwardedSyntax::Forwarded] {
                client_of(syntax, fields.iter().map(Vec::as_slice), is_trusted);
            }
        }
    }
}
