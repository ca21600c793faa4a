//! Parts that the URLs of all sources have: host and port, parameters, percent escapes.
use larder_proto::percent;
use percent_encoding::{AsciiSet, CONTROLS};

/// What would end a part of a URL.
pub(super) const RESERVED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'%')
    .add(b'/')
    .add(b'?')
    .add(b'#')
    .add(b'@')
    .add(b':')
    .add(b'&')
    .add(b'=')
    .add(b'"')
    .add(b'\\');
/// The same for a path.
pub(super) const RESERVED_IN_PATH: &AsciiSet = &RESERVED.remove(b'/').remove(b':').remove(b'@');

/// Reads `HOST[:PORT]`; the host comes without the brackets of an IPv6 address. `scheme` is for the
/// error text.
pub(super) fn host_port(authority: &str, default_port: u16, scheme: &str) -> Result<(String, u16), String> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, port)) if host.parse::<std::net::Ipv6Addr>().is_ok() => (host, port),
            _ => return Err(format!("`{authority}` is not a host: write [::1]:{default_port}")),
        },
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let port = match port.strip_prefix(':') {
        None if port.is_empty() => default_port,
        Some(port) if port.bytes().all(|b| b.is_ascii_digit()) => match port.parse() {
            Ok(port) if port != 0 => port,
            _ => return Err(format!("`{port}` is not a port (1 to 65535)")),
        },
        _ => return Err(format!("`{authority}` is not a host and port")),
    };
    if host.is_empty() {
        return Err(format!("the source's host is missing: write {scheme}://HOST:PORT"));
    }
    Ok((decode(host, "host")?, port))
}

/// The parameters of a query, their values decoded.
pub(super) fn parameters(query: &str) -> impl Iterator<Item = Result<(&str, String), String>> {
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok((name, decode(value, name)?))
    })
}

/// Decodes percent escapes; `what` is for the error text.
pub(super) fn decode(text: &str, what: &str) -> Result<String, String> {
    let decoded = percent::decode(text.as_bytes()).into_owned();
    String::from_utf8(decoded).map_err(|_| format!("the {what} is not UTF-8"))
}
