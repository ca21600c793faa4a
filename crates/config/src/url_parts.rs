//! Parts that the URLs of all sources have: host and port, parameters, percent escapes.
use crate::secret::Secret;
use larder_proto::percent;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use std::{fmt, path::Path};

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
/// Like `RESERVED`, for a path.
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

/// `//[USER[:PASSWORD]@]HOSTS[/PATH][?QUERY]`, the URL of a database behind its scheme. What is in it is
/// decoded, but for the hosts and the query.
pub(super) struct DatabaseUrl<'u> {
    pub(super) user: Option<String>,
    pub(super) password: Option<Secret>,
    pub(super) hosts: &'u str,
    /// Without the slash before it.
    pub(super) path: String,
    pub(super) query: &'u str,
}

impl<'u> DatabaseUrl<'u> {
    /// Reads what follows the scheme. Errors show `example`, call the path `path`, and show nothing of
    /// the password.
    pub(super) fn of(rest: &'u str, example: &str, path: &str) -> Result<DatabaseUrl<'u>, String> {
        let scheme = example.split_once(':').map_or(example, |(scheme, _)| scheme);
        let rest = rest.strip_prefix("//");
        let rest = rest.ok_or_else(|| format!("write two slashes after {scheme}:, as in {example}"))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, of_path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (userinfo, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        if of_path.contains('@') {
            // Nothing of it may be shown: it is part of a password.
            return Err("a / in a user or password is written %2F".to_owned());
        }
        let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
        Ok(DatabaseUrl {
            user: some(decode(user, "user")?),
            password: some(decode(password, "password")?).map(Secret::from),
            hosts,
            path: decode(of_path.trim_start_matches('/'), path)?,
            query,
        })
    }
}

/// `None` for an empty text.
pub(super) fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// The value of that name, or an error with all names.
pub(super) fn named<T: Copy>(parameter: &str, names: &[(&str, T)], text: &str) -> Result<T, String> {
    let found = names.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let all: Vec<_> = names.iter().map(|(name, _)| *name).collect();
        format!("`{text}` is no {parameter}: write one of {}", all.join(", "))
    })
}

/// The name of a value; the first if it has several.
pub(super) fn name_of<T: PartialEq>(names: &[(&'static str, T)], value: &T) -> &'static str {
    names.iter().find(|(_, of)| of == value).map_or("", |(name, _)| name)
}

/// Text as it stands in a URL.
pub(super) fn escaped(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// A file as it stands in a URL.
pub(super) fn escaped_file(file: &Path) -> String {
    utf8_percent_encode(&file.to_string_lossy(), RESERVED_IN_PATH).to_string()
}

/// Writes the parameters that have a value, as a query.
pub(super) fn show_parameters<const N: usize>(
    f: &mut fmt::Formatter<'_>,
    parameters: [(&str, Option<String>); N],
) -> fmt::Result {
    let given = parameters.into_iter().filter_map(|(name, value)| Some((name, value?)));
    given.enumerate().try_for_each(|(at, (name, value))| write!(f, "{}{name}={value}", if at == 0 { "?" } else { "&" }))
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
