//! Reads the URL of a source. An error says what is wrong and what would be right, and never shows
//! a password.
use super::{
    cassandra_url::CassandraUrl,
    demo_url::DemoUrl,
    nearest_name::nearest,
    origin_url::OriginUrl,
    postgres_url::PostgresUrl,
    secret::Secret,
    source_url::{Deployment, RedisAddress, RedisUrl, SentinelUrl, SourceUrl},
    tls_client_settings::TlsClientSettings,
    url_parts::{decode, host_port, parameters},
};
use std::{path::PathBuf, str::FromStr};

const SCHEMES: &[&str] = &[
    "none",
    "table",
    "disk",
    "redis",
    "rediss",
    "unix",
    "redis+cluster",
    "rediss+cluster",
    "redis+sentinel",
    "rediss+sentinel",
    "http",
    "https",
    "postgres",
    "postgresql",
    "cassandra",
    "demo",
];
const VALID: &str = "sources are none:, table:FILE, disk:DIR, redis://HOST:PORT/DB, rediss://HOST:PORT/DB, unix:///PATH?db=N, \
    redis+cluster://HOST:PORT,…, redis+sentinel://HOST:PORT,…/SERVICE/DB, http://HOST:PORT/PATH/{key}, https://HOST:PORT/PATH/{key}, postgres://USER@HOST/DATABASE?table=TABLE, cassandra://HOST,…/KEYSPACE, demo:";
const DEFAULT_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

impl FromStr for SourceUrl {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" || text == "none:" {
            return Ok(SourceUrl::None);
        }
        // The whole URL never appears in an error: it may hold a password.
        if is_address(text) {
            return Err(format!("`{text}` is an address, not a URL: did you mean redis://{text}?"));
        }
        if text.parse::<std::net::Ipv6Addr>().is_ok() {
            return Err(format!("`{text}` is an address, not a URL: did you mean redis://[{text}]?"));
        }
        if text.starts_with(['/', '.']) {
            let socket =
                if text.starts_with('/') { format!(", unix://{text} for a Redis socket") } else { String::new() };
            return Err(format!(
                "`{text}` is a path, not a URL: write table:{text} for a table, disk:{text} for a disk store{socket}"
            ));
        }
        let Some((scheme, rest)) = text.split_once(':') else {
            return Err(format!("a source is a URL; {VALID}"));
        };
        let scheme = scheme.to_ascii_lowercase();
        // Valkey's own clients write its name.
        let scheme = match scheme.strip_prefix("valkey") {
            Some(kind) if kind.is_empty() || kind.starts_with(['s', '+']) => format!("redis{kind}"),
            _ => scheme,
        };
        if !SCHEMES.contains(&scheme.as_str()) {
            let near = nearest(&scheme, SCHEMES.iter().copied())
                .map_or(String::new(), |near| format!(", did you mean {near}:?"));
            return Err(format!("unknown source {scheme}:{near} ({VALID})"));
        }
        if scheme == "table" {
            return match decode(rest.strip_prefix("//").unwrap_or(rest), "file")? {
                file if file.is_empty() => {
                    Err("the table's file is missing: write table:/var/lib/larder/FILE.ltab".to_string())
                }
                file => Ok(SourceUrl::Table(file.into())),
            };
        }
        if scheme == "disk" {
            return match decode(rest.strip_prefix("//").unwrap_or(rest), "directory")? {
                dir if dir.is_empty() => {
                    Err("the store's directory is missing: write disk:/var/lib/larder/store".to_string())
                }
                dir => Ok(SourceUrl::Disk(dir.into())),
            };
        }
        if scheme == "http" || scheme == "https" {
            return OriginUrl::parse(&scheme, rest).map(SourceUrl::Http);
        }
        if scheme == "postgres" || scheme == "postgresql" {
            return PostgresUrl::parse(rest).map(Box::new).map(SourceUrl::Postgres);
        }
        if scheme == "cassandra" {
            return CassandraUrl::parse(rest).map(Box::new).map(SourceUrl::Cassandra);
        }
        if scheme == "demo" {
            return DemoUrl::parse(rest).map(SourceUrl::Demo);
        }
        let rest = match rest.strip_prefix("//") {
            Some(rest) if scheme != "none" => rest,
            None if scheme == "unix" => {
                return Err("write two slashes and an absolute path: unix:///run/redis.sock".to_string());
            }
            None if scheme != "none" => {
                return Err(format!("write two slashes after {scheme}:, as in {scheme}://HOST:PORT"));
            }
            _ => return Err(VALID.to_string()),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (userinfo, host) = match authority.rsplit_once('@') {
            Some((userinfo, host)) => (userinfo, host),
            None => ("", authority),
        };
        let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
        let mut url = RedisUrl {
            address: RedisAddress::Unix(PathBuf::new()),
            tls: scheme.starts_with("rediss").then(TlsClientSettings::default),
            user: some(decode(user, "user")?),
            password: some(decode(password, "password")?).map(Secret::from),
            password_file: None,
            database: 0,
            deployment: Deployment::Single,
        };
        if scheme == "unix" {
            if !host.is_empty() || path.len() < 2 {
                return Err("a socket's path is absolute: write unix:///run/redis.sock".to_string());
            }
            url.address = RedisAddress::Unix(decode(path, "path")?.into());
        } else if path.contains('@') {
            // Nothing of it may be shown: it is part of a password.
            return Err("a / in a user or password is written %2F".to_string());
        } else if scheme.ends_with("+cluster") {
            if path.len() > 1 {
                return Err("a cluster has one database: write redis+cluster://HOST:PORT,HOST:PORT".to_string());
            }
            let (first, seeds) = several(host, DEFAULT_PORT)?;
            url.address = first;
            url.deployment = Deployment::Cluster { seeds, from_replicas: false };
        } else if scheme.ends_with("+sentinel") {
            let (service, number) =
                path[path.len().min(1)..].split_once('/').unwrap_or((path.trim_start_matches('/'), ""));
            if service.is_empty() {
                return Err(
                    "the master's name is missing: write redis+sentinel://HOST:PORT,HOST:PORT/SERVICE".to_string()
                );
            }
            let (first, others) = several(host, SENTINEL_PORT)?;
            url.address = first;
            url.database = database(number)?;
            let service = decode(service, "service")?;
            let sentinels = SentinelUrl { others, service, user: None, password: None, password_file: None };
            url.deployment = Deployment::Sentinel(Box::new(sentinels));
        } else {
            url.address = tcp(host, DEFAULT_PORT)?;
            url.database = database(path.trim_start_matches('/'))?;
        }
        url.query(query)?;
        Ok(SourceUrl::Redis(url))
    }
}

/// `HOST`, `HOST:PORT` or `[::1]:PORT`, without anything that may be a password.
fn is_address(text: &str) -> bool {
    let (host, port) = text.rsplit_once(':').unwrap_or((text, "6379"));
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_host = match bracketed {
        Some(host) => host.parse::<std::net::Ipv6Addr>().is_ok(),
        None => host.contains('.') || host == "localhost" || text.contains(':'),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    !SCHEMES.contains(&host)
        && is_host
        && (bracketed.is_some() || (!host.is_empty() && host.chars().all(plain)))
        && port.parse::<u16>().is_ok()
}

impl RedisUrl {
    fn query(&mut self, query: &str) -> Result<(), String> {
        for parameter in parameters(query) {
            let (name, value) = parameter?;
            let unix = matches!(self.address, RedisAddress::Unix(_));
            match (name, &mut self.deployment) {
                ("read-from", Deployment::Cluster { from_replicas, .. }) => {
                    *from_replicas = match value.as_str() {
                        "replica" => true,
                        "primary" => false,
                        _ => return Err(format!("read-from is primary or replica, not `{value}`")),
                    };
                    continue;
                }
                ("sentinel-user", Deployment::Sentinel(sentinels)) => {
                    sentinels.user = some(value);
                    continue;
                }
                ("sentinel-password", Deployment::Sentinel(sentinels)) => {
                    sentinels.password = some(value).map(Secret::from);
                    continue;
                }
                ("sentinel-password-file", Deployment::Sentinel(sentinels)) => {
                    sentinels.password_file = some(value).map(PathBuf::from);
                    continue;
                }
                ("password-file", _) => {
                    self.password_file = some(value).map(PathBuf::from);
                    continue;
                }
                _ => {}
            }
            if let Some(tls) = &mut self.tls
                && tls.set(name, &value)?
            {
                continue;
            }
            match (name, &self.tls) {
                ("db", None) if unix => self.database = database(&value)?,
                (_, Some(_)) => {
                    let more = self.deployment.parameters();
                    return Err(format!("unknown parameter `{name}`: rediss:// takes ca, cert, key, insecure, {more}"));
                }
                (_, None) if unix => {
                    return Err(format!("unknown parameter `{name}`: unix:// takes db and password-file"));
                }
                (_, None) => {
                    let any = self.deployment.parameters();
                    return Err(format!("unknown parameter `{name}`: redis:// takes {any}"));
                }
            }
        }
        if self.password.is_some() && self.password_file.is_some() {
            return Err("give the password in the URL or in password-file, not in both".to_string());
        }
        self.tls.as_ref().map_or(Ok(()), TlsClientSettings::check)
    }
}

impl Deployment {
    /// The parameters that it takes.
    fn parameters(&self) -> &'static str {
        match self {
            Deployment::Single => "password-file",
            Deployment::Cluster { .. } => "password-file and read-from",
            Deployment::Sentinel(_) => "password-file, sentinel-user, sentinel-password and sentinel-password-file",
        }
    }
}

/// Addresses between commas: the first, and the others.
fn several(authority: &str, default_port: u16) -> Result<(RedisAddress, Vec<RedisAddress>), String> {
    let mut all = authority.split(',').map(|one| tcp(one, default_port));
    let first = all.next().unwrap_or_else(|| tcp("", default_port))?;
    Ok((first, all.collect::<Result<_, _>>()?))
}

fn tcp(authority: &str, default_port: u16) -> Result<RedisAddress, String> {
    let (host, port) = host_port(authority, default_port, "redis")?;
    Ok(RedisAddress::Tcp { host, port })
}

fn database(text: &str) -> Result<u32, String> {
    match text {
        "" => Ok(0),
        text if text.bytes().all(|b| b.is_ascii_digit()) => {
            text.parse().map_err(|_| format!("database `{text}` is too large"))
        }
        text => Err(format!("`{text}` is not the number of a database")),
    }
}

fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests;
