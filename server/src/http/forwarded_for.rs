//! The client of a request that came over trusted proxies: `X-Forwarded-For`, or `Forwarded` (RFC 7239).
//!
//! Each proxy adds the address from which it got the request, at the end. A client can write what it likes before that. So the client is the
//! rightmost address that is no trusted proxy's: the last one that a trusted proxy vouches for.
use crate::config::{ForwardedHeader, ProxySettings};
use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

/// The address of a client, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClientAddress {
    pub(super) ip: IpAddr,
    /// Proxies seldom say it.
    port: Option<u16>,
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

/// The client of a request that a trusted proxy has sent. `fields` are the values of the header that counts, in their order.
///
/// An entry that is no address (`unknown`, a pseudonym, nonsense) ends the way: the client is then the proxy that wrote it.
pub(super) fn client_of<'h>(
    proxies: &ProxySettings,
    proxy: ClientAddress,
    fields: impl Iterator<Item = &'h [u8]>,
) -> ClientAddress {
    let entry = match proxies.header {
        ForwardedHeader::Off => return proxy,
        ForwardedHeader::XForwardedFor => |entry: &[u8]| address(entry),
        ForwardedHeader::Forwarded => for_parameter,
    };
    // From the left: each address that is no trusted proxy replaces what was found before it.
    let mut client = None;
    for field in fields {
        for element in elements(field) {
            client = match entry(element) {
                None => None,
                Some(address) if proxies.trusts(address.ip) => client.or(Some(address)),
                address => address,
            };
        }
    }
    client.unwrap_or(proxy)
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

    fn client(header: ForwardedHeader, fields: &[&str]) -> String {
        let trusted = ["10.0.0.0/8", "2001:db8:cafe::/48"].map(|range| range.parse().expect("a range")).to_vec();
        let proxies = ProxySettings { trusted, header };
        let proxy = ClientAddress::from(SocketAddr::from(([10, 0, 0, 1], 5)));
        client_of(&proxies, proxy, fields.iter().map(|field| field.as_bytes())).to_string()
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
            assert_eq!(client(ForwardedHeader::XForwardedFor, fields), expected, "{fields:?}");
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
            assert_eq!(client(ForwardedHeader::Forwarded, fields), expected, "{fields:?}");
        }
        assert_eq!(client(ForwardedHeader::Off, &["for=192.0.2.60"]), "10.0.0.1:5");
    }

    proptest! {
        /// What stands before the entry of a trusted proxy changes nothing, short of an open quote, which hides that entry.
        #[test]
        fn clients_choose_nothing(before in "[ -~&&[^\"]]{0,60}") {
            for (header, entry) in [(ForwardedHeader::XForwardedFor, "192.0.2.1"), (ForwardedHeader::Forwarded, "for=192.0.2.1")] {
                let found = client(header, &[&format!("{before}, {entry}, {}", entry.replace("192.0.2.1", "10.0.0.7"))]);
                prop_assert_eq!(&found, "192.0.2.1");
            }
        }
        #[test]
        fn any_bytes(fields in any::<Vec<Vec<u8>>>()) {
            for header in [ForwardedHeader::XForwardedFor, ForwardedHeader::Forwarded] {
                let proxies = ProxySettings { trusted: Vec::new(), header };
                client_of(&proxies, SocketAddr::from(([10, 0, 0, 1], 5)).into(), fields.iter().map(Vec::as_slice));
            }
        }
    }
}
