//! Proxies in front of the listeners: who they are, and how they say who the client is.
use ipnet::IpNet;
use larder_proto::http::forwarded::ForwardedSyntax;
use std::{fmt, net::IpAddr, str::FromStr};

/// The proxies whose word on the client's address counts, and the ways in which they give it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProxySettings {
    /// Addresses and ranges of the proxies.
    pub trusted: Vec<IpNet>,
    /// The header of an HTTP request that names the client.
    pub header: ForwardedHeader,
}

impl ProxySettings {
    /// Whether an address is a trusted proxy's.
    pub fn trusts(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.trusted.iter().any(|range| range.contains(&address))
    }
}

/// Whether connections from trusted proxies begin with a header of the PROXY protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProxyProtocol {
    /// None does.
    #[default]
    Off,
    /// Some do.
    Optional,
    /// All do; one that does not is closed.
    Required,
}
impl ProxyProtocol {
    pub(super) const NAMES: &'static [&'static str] = &["off", "optional", "required"];
    pub(super) fn from_name(name: &str) -> ProxyProtocol {
        match name {
            "optional" => ProxyProtocol::Optional,
            "required" => ProxyProtocol::Required,
            _ => ProxyProtocol::Off,
        }
    }
}

/// The header in which trusted proxies name the client of an HTTP request. Only one counts: a
/// client can send the other itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ForwardedHeader {
    /// None.
    Off,
    /// `X-Forwarded-For`.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
}
impl ForwardedHeader {
    pub(super) const NAMES: &'static [&'static str] = &["x-forwarded-for", "forwarded", "off"];
    pub(super) fn from_name(name: &str) -> ForwardedHeader {
        match name {
            "forwarded" => ForwardedHeader::Forwarded,
            "off" => ForwardedHeader::Off,
            _ => ForwardedHeader::XForwardedFor,
        }
    }
    /// How it lists addresses.
    pub fn syntax(self) -> Option<ForwardedSyntax> {
        match self {
            ForwardedHeader::Off => None,
            ForwardedHeader::XForwardedFor => Some(ForwardedSyntax::XForwardedFor),
            ForwardedHeader::Forwarded => Some(ForwardedSyntax::Forwarded),
        }
    }
    /// The field's name, in lower case.
    pub fn field(self) -> Option<&'static str> {
        match self {
            ForwardedHeader::Off => None,
            ForwardedHeader::XForwardedFor => Some("x-forwarded-for"),
            ForwardedHeader::Forwarded => Some("forwarded"),
        }
    }
}

/// `192.0.2.1`, `10.0.0.0/8`, `2001:db8::/32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AddressRange(pub IpNet);
impl FromStr for AddressRange {
    type Err = String;
    fn from_str(text: &str) -> Result<AddressRange, String> {
        let what = || format!("`{text}` is not an address or a range: write 192.0.2.1 or 10.0.0.0/8");
        let range = match text.contains('/') {
            true => text.parse::<IpNet>().map_err(|_| what())?,
            false => IpNet::from(text.parse::<IpAddr>().map_err(|_| what())?.to_canonical()),
        };
        match range.trunc() == range {
            true => Ok(AddressRange(range)),
            false => Err(format!("`{text}` has bits set behind its prefix: write {}", range.trunc())),
        }
    }
}
/// A range of one is written as an address.
impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.prefix_len() == self.0.max_prefix_len() {
            true => self.0.addr().fmt(f),
            false => self.0.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        let trusted = ["192.0.2.1", "10.0.0.0/8", "2001:db8::/32", "::ffff:198.51.100.7"];
        let trusted = trusted.map(|text| text.parse::<AddressRange>().expect("valid").0).to_vec();
        let proxies = ProxySettings { trusted, ..ProxySettings::default() };
        for (address, expected) in [
            ("192.0.2.1", true),
            ("::ffff:192.0.2.1", true),
            ("192.0.2.2", false),
            ("10.255.0.1", true),
            ("11.0.0.1", false),
            ("2001:db8:1::1", true),
            ("2001:db9::1", false),
            ("198.51.100.7", true),
        ] {
            assert_eq!(proxies.trusts(address.parse().expect("an address")), expected, "{address}");
        }
    }

    #[test]
    fn not_ranges() {
        for text in ["", "localhost", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0", "10.0.0.0/8/8", "1.2.3.4:80"] {
            let error = text.parse::<AddressRange>().expect_err("refused");
            assert!(error.contains("is not an address or a range: write 192.0.2.1 or 10.0.0.0/8"), "{error}");
        }
        assert_eq!(
            "10.0.0.1/8".parse::<AddressRange>().expect_err("refused"),
            "`10.0.0.1/8` has bits set behind its prefix: write 10.0.0.0/8"
        );
    }
}
