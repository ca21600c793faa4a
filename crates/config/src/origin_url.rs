//! The URL of an HTTP API: `http://HOST[:PORT][,HOST[:PORT]…]/PATH/{key}`, or `https://…[#ca=FILE&cert=FILE&key=FILE&insecure=true]`;
//! both take `#vary=FIELD,FIELD`.
use super::{
    checked_texts::header_name,
    origin_options::OriginOptions,
    tls_client_settings::TlsClientSettings,
    url_parts::{RESERVED, host_port, parameters},
};
use larder_proto::percent;
use percent_encoding::utf8_percent_encode;
use std::fmt;

/// What stands for the key in the URL.
const PLACEHOLDER: &str = "{key}";
/// The most addresses that one API may have.
const MAX_ADDRESSES: usize = 32;

/// An HTTP API of which each key is a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginUrl {
    /// Where it listens; at least one. Each has every key.
    pub addresses: Vec<OriginAddress>,
    /// `https://`: speak TLS. Its parameters are in the fragment, which is not sent: the query belongs to the API.
    pub tls: Option<TlsClientSettings>,
    /// Path and query before the key; begins with `/`.
    pub before_key: String,
    /// Path and query after the key.
    pub after_key: String,
    /// How it is asked: from the group's settings, not from the URL.
    pub options: OriginOptions,
}

/// One address of an API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginAddress {
    /// A host name or address (IPv6 without brackets).
    pub host: String,
    /// Its port.
    pub port: u16,
}
impl OriginAddress {
    /// Host and port, as in the header `Host`; the port is left out if it is the scheme's.
    pub fn authority(&self, tls: bool) -> String {
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => utf8_percent_encode(&self.host, RESERVED).to_string(),
        };
        match self.port == default_port(tls) {
            true => host,
            false => format!("{host}:{}", self.port),
        }
    }
}

impl OriginUrl {
    /// Reads what follows `http:` or `https:`.
    pub(super) fn parse(scheme: &str, rest: &str) -> Result<OriginUrl, String> {
        let rest = rest.strip_prefix("//").ok_or_else(|| format!("write {scheme}://HOST:PORT/PATH/{PLACEHOLDER}"))?;
        let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if authority.contains('@') {
            // Nothing of it may be shown: it may be part of a password.
            return Err(format!("an {scheme} source takes no user and password"));
        }
        let mut tls = (scheme == "https").then(TlsClientSettings::default);
        let addresses = addresses(authority, default_port(tls.is_some()), scheme)?;
        let placeholder = || {
            format!(
                "the path or query of an {scheme} source holds {PLACEHOLDER} once: write {scheme}://HOST:PORT/PATH/{PLACEHOLDER}"
            )
        };
        let (before, after_key) = target.split_once(PLACEHOLDER).ok_or_else(placeholder)?;
        if [before, after_key].iter().any(|part| part.contains(['{', '}'])) {
            return Err(placeholder());
        }
        for part in [before, after_key] {
            let clean = part.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>\\^`|".contains(&byte));
            if !clean || !percent::is_well_formed(part.as_bytes()) {
                return Err(format!("`{part}` cannot be part of a URL: write special characters as %XX"));
            }
        }
        let mut options = OriginOptions::default();
        for parameter in parameters(fragment) {
            let (name, value) = parameter?;
            if name == "vary" {
                options.vary = value.split(',').map(header_name).collect::<Result<_, _>>()?;
                continue;
            }
            let tls = tls.as_mut().ok_or("http:// takes no parameters behind # but vary")?;
            if name == "http2" {
                options.http2 = value.parse().map_err(|_| format!("http2 is true or false, not `{value}`"))?;
            } else if !tls.set(name, &value)? {
                return Err(format!(
                    "unknown parameter `{name}`: https:// takes #ca, cert, key, insecure, http2 and vary"
                ));
            }
        }
        tls.as_ref().map_or(Ok(()), TlsClientSettings::check)?;
        let root = if before.starts_with('/') { "" } else { "/" };
        Ok(OriginUrl {
            addresses,
            tls,
            before_key: format!("{root}{before}"),
            after_key: after_key.to_string(),
            options,
        })
    }

    /// Scheme, hosts and ports: what log lines and errors name. The path may hold secrets.
    pub fn origin(&self) -> String {
        let authorities: Vec<String> = self.addresses.iter().map(|one| one.authority(self.tls.is_some())).collect();
        format!("{}://{}", self.scheme(), authorities.join(","))
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }
}

/// Addresses between commas.
fn addresses(authority: &str, default_port: u16, scheme: &str) -> Result<Vec<OriginAddress>, String> {
    let several = authority.split(',').map(|one| host_port(one, default_port, scheme));
    let mut found: Vec<OriginAddress> = Vec::new();
    for one in several {
        let (host, port) = one?;
        let address = OriginAddress { host, port };
        if found.contains(&address) {
            return Err(format!("`{}:{port}` is named twice", address.host));
        }
        found.push(address);
    }
    match found.len() {
        ..=MAX_ADDRESSES => Ok(found),
        many => Err(format!("{many} addresses are more than the {MAX_ADDRESSES} that an {scheme} source takes")),
    }
}

fn default_port(tls: bool) -> u16 {
    if tls { 443 } else { 80 }
}

impl fmt::Display for OriginUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{PLACEHOLDER}{}", self.origin(), self.before_key, self.after_key)?;
        let mut parameters: Vec<String> = self.tls.iter().flat_map(TlsClientSettings::parameters).collect();
        parameters.extend((!self.options.http2).then(|| "http2=false".to_owned()));
        let vary = self.options.vary.join(",");
        parameters.extend((!vary.is_empty()).then(|| format!("vary={vary}")));
        let mark = if parameters.is_empty() { "" } else { "#" };
        write!(f, "{mark}{}", parameters.join("&"))
    }
}

#[cfg(test)]
mod tests {
    use crate::SourceUrl;

    #[test]
    fn parts() {
        for (text, parts, shown) in [
            ("http://h/{key}", ("h", 80, "/", ""), "http://h/{key}"),
            ("HTTP://h:80/a/{key}/b?c=d", ("h", 80, "/a/", "/b?c=d"), "http://h/a/{key}/b?c=d"),
            ("https://h?id={key}&v=1", ("h", 443, "/?id=", "&v=1"), "https://h/?id={key}&v=1"),
            ("http://a:80,b:8000,[::1]/{key}", ("a", 80, "/", ""), "http://a,b:8000,[::1]/{key}"),
            ("http://[::1]:8000/a%20b-{key}", ("::1", 8000, "/a%20b-", ""), "http://[::1]:8000/a%20b-{key}"),
            ("http://h/{key}#vary=Accept,x-tenant", ("h", 80, "/", ""), "http://h/{key}#vary=accept,x-tenant"),
            (
                "https://h:1/{key}#ca=/c%20a&insecure=true",
                ("h", 1, "/", ""),
                "https://h:1/{key}#ca=/c%20a&insecure=true",
            ),
        ] {
            let Ok(SourceUrl::Http(url)) = text.parse() else { panic!("{text}") };
            let address = &url.addresses[0];
            assert_eq!((&*address.host, address.port, &*url.before_key, &*url.after_key), parts, "{text}");
            assert_eq!(url.to_string(), shown);
            assert_eq!(shown.parse(), Ok(SourceUrl::Http(url)));
        }
    }

    #[test]
    fn errors_say_what_to_write() {
        let once = "holds {key} once: write http";
        for (text, expected) in [
            ("http:h/{key}", "write http://HOST:PORT/PATH/{key}"),
            ("http://h", once),
            ("https://h/", once),
            ("http://h/{key}/{key}", once),
            ("http://h/{id}", once),
            ("http://h/{id}/{key}", once),
            ("http://h/#{key}", once),
            ("http:///{key}", "the source's host is missing: write http://HOST:PORT"),
            ("http://h:0/{key}", "`0` is not a port"),
            ("http://h,/{key}", "the source's host is missing"),
            ("http://h,i:80,h:80/{key}", "`h:80` is named twice"),
            ("http://[::1/{key}", "is not a host: write [::1]:80"),
            ("http://h/ä/{key}", "`/ä/` cannot be part of a URL"),
            ("http://h/a b/{key}", "cannot be part of a URL"),
            ("http://h/%zz/{key}", "cannot be part of a URL"),
            ("http://h/{key}#ca=x", "http:// takes no parameters behind # but vary"),
            ("http://h/{key}#vary=a,", "`` is not the name of a header"),
            ("https://h/{key}#pa=x", "unknown parameter `pa`: https:// takes #ca, cert, key, insecure, http2 and vary"),
            ("https://h/{key}#http2=no", "http2 is true or false, not `no`"),
            ("https://h/{key}#cert=x", "cert and key go together"),
        ] {
            let error = text.parse::<SourceUrl>().expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
        let many: Vec<String> = (0..33).map(|number| format!("h{number}")).collect();
        let error = format!("http://{}/{{key}}", many.join(",")).parse::<SourceUrl>().expect_err("too many");
        assert_eq!(error, "33 addresses are more than the 32 that an http source takes");
        let error = "http://user:hunter2@h/{key}".parse::<SourceUrl>().expect_err("a password");
        assert_eq!(error, "an http source takes no user and password");
    }
}
