//! The URL that names a source: `none:`, `table:FILE`, `disk:DIR`, `redis://`, `rediss://`, `unix://`.
use super::{Secret, nearest};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use std::{fmt, path::PathBuf, str::FromStr};

/// A parsed source URL. Its `Display` is the URL with the password masked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceUrl {
    /// `none:`: the memory tier is all there is.
    None,
    /// `table:FILE`: the immutable table in that file.
    Table(PathBuf),
    /// `disk:DIR`: the durable store in that directory.
    Disk(PathBuf),
    /// `redis://`, `rediss://`, `unix://`, and the same for a cluster (`redis+cluster://`) or behind Sentinels (`redis+sentinel://`).
    Redis(RedisUrl),
}

/// A Redis source: `redis://[user[:password]@]host[:port][/database]`, or `unix://[user[:password]@]/path[?db=N]`; for several servers see
/// [`Deployment`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisUrl {
    /// Where it listens.
    pub address: RedisAddress,
    /// `rediss://`: speak TLS.
    pub tls: Option<TlsUrl>,
    /// User for AUTH; Redis takes `default` where there is a password alone.
    pub user: Option<String>,
    /// Password for AUTH.
    pub password: Option<Secret>,
    /// The file that holds it instead; read again when the server refuses what it said.
    pub password_file: Option<PathBuf>,
    /// Database for SELECT.
    pub database: u32,
    /// One server, or several.
    pub deployment: Deployment,
}

/// What stands behind the address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Deployment {
    /// The server itself.
    #[default]
    Single,
    /// `redis+cluster://[user[:password]@]host[:port][,host[:port]…][?read-from=replica]`: a Redis Cluster, which any of these knows.
    Cluster {
        /// The nodes to ask besides `address`.
        seeds: Vec<RedisAddress>,
        /// Misses are read from replicas where there are any, else from masters.
        from_replicas: bool,
    },
    /// `redis+sentinel://[user[:password]@]host[:port][,host[:port]…]/service[/database]`: the master that Sentinels name.
    Sentinel(Box<SentinelUrl>),
}

/// Who names the master.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentinelUrl {
    /// The Sentinels besides the URL's address.
    pub others: Vec<RedisAddress>,
    /// The name under which they know the master.
    pub service: String,
    /// User for AUTH with the Sentinels (`sentinel-user`); the URL's own is the server's.
    pub user: Option<String>,
    /// Password for AUTH with the Sentinels (`sentinel-password`).
    pub password: Option<Secret>,
    /// The file that holds it instead (`sentinel-password-file`).
    pub password_file: Option<PathBuf>,
}

/// Where a Redis source listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(missing_docs)]
pub enum RedisAddress {
    /// A host name or address (IPv6 without brackets) and port.
    Tcp { host: String, port: u16 },
    /// A socket in the file system.
    Unix(PathBuf),
}

/// TLS: `rediss://host:port/db?ca=FILE&cert=FILE&key=FILE&insecure=true`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsUrl {
    /// Certificates of the authorities to trust, PEM; without it those that Mozilla trusts.
    pub ca: Option<PathBuf>,
    /// Client certificate, PEM; goes with `key`.
    pub cert: Option<PathBuf>,
    /// Its private key, PEM.
    pub key: Option<PathBuf>,
    /// Accept any certificate. For tests only.
    pub insecure: bool,
}

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
];
/// Named in the design, not built yet.
const LATER: &[&str] = &["http", "https", "demo"];
const VALID: &str = "sources are none:, table:FILE, disk:DIR, redis://HOST:PORT/DB, rediss://HOST:PORT/DB, unix:///PATH?db=N, \
    redis+cluster://HOST:PORT,…, redis+sentinel://HOST:PORT,…/SERVICE/DB";
const DEFAULT_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

impl FromStr for SourceUrl {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" || text == "none:" {
            return Ok(SourceUrl::None);
        }
        // The whole URL never appears in an error: it may hold a password.
        let Some((scheme, rest)) = text.split_once(':') else {
            return Err(format!("a source is a URL; {VALID}"));
        };
        let scheme = scheme.to_ascii_lowercase();
        if LATER.contains(&scheme.as_str()) {
            return Err(format!("source {scheme}: is not available in this version; {VALID}"));
        }
        if !SCHEMES.contains(&scheme.as_str()) {
            let near = nearest(&scheme, SCHEMES.iter().chain(LATER).copied())
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
        let rest = match rest.strip_prefix("//") {
            Some(rest) if scheme != "none" => rest,
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
            tls: scheme.starts_with("rediss").then(TlsUrl::default),
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

impl RedisUrl {
    fn query(&mut self, query: &str) -> Result<(), String> {
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decode(value, name)?;
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
            match (name, &mut self.tls) {
                ("db", None) if unix => self.database = database(&value)?,
                ("ca", Some(tls)) => tls.ca = some(value).map(PathBuf::from),
                ("cert", Some(tls)) => tls.cert = some(value).map(PathBuf::from),
                ("key", Some(tls)) => tls.key = some(value).map(PathBuf::from),
                ("insecure", Some(tls)) => {
                    tls.insecure = match value.as_str() {
                        "true" => true,
                        "false" => false,
                        _ => return Err(format!("insecure is true or false, not `{value}`")),
                    }
                }
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
        match &self.tls {
            Some(tls) if tls.cert.is_some() != tls.key.is_some() => Err("cert and key go together".to_string()),
            _ => Ok(()),
        }
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
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, port)) if host.parse::<std::net::Ipv6Addr>().is_ok() => (host, port),
            _ => return Err(format!("`{authority}` is not a host: write [::1]:6379")),
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
        return Err("the source's host is missing: write redis://HOST:PORT".to_string());
    }
    Ok(RedisAddress::Tcp { host: decode(host, "host")?, port })
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

fn decode(text: &str, what: &str) -> Result<String, String> {
    let decoded = percent_decode_str(text).decode_utf8();
    Ok(decoded.map_err(|_| format!("the {what} is not UTF-8"))?.into_owned())
}
fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

impl fmt::Display for SourceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SourceUrl::None => f.write_str("none:"),
            SourceUrl::Table(file) => {
                write!(f, "table:{}", utf8_percent_encode(&file.to_string_lossy(), RESERVED_IN_PATH))
            }
            SourceUrl::Disk(dir) => {
                write!(f, "disk:{}", utf8_percent_encode(&dir.to_string_lossy(), RESERVED_IN_PATH))
            }
            SourceUrl::Redis(url) => url.fmt(f),
        }
    }
}

/// What would end a part of a URL.
const RESERVED: &AsciiSet = &CONTROLS
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
const RESERVED_IN_PATH: &AsciiSet = &RESERVED.remove(b'/').remove(b':').remove(b'@');

/// As in a URL; a socket's path as it is.
impl fmt::Display for RedisAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RedisAddress::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            RedisAddress::Tcp { host, port } => write!(f, "{}:{port}", utf8_percent_encode(host, RESERVED)),
            RedisAddress::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (&self.address, &self.tls) {
            (RedisAddress::Unix(_), _) => "unix",
            (_, Some(_)) => "rediss",
            (_, None) => "redis",
        })?;
        f.write_str(match &self.deployment {
            Deployment::Single => "://",
            Deployment::Cluster { .. } => "+cluster://",
            Deployment::Sentinel(_) => "+sentinel://",
        })?;
        if let Some(user) = &self.user {
            write!(f, "{}", utf8_percent_encode(user, RESERVED))?;
        }
        if self.password.is_some() {
            f.write_str(":***")?;
        }
        if self.user.is_some() || self.password.is_some() {
            f.write_str("@")?;
        }
        let path = |path: &PathBuf| utf8_percent_encode(&path.to_string_lossy(), RESERVED_IN_PATH).to_string();
        let mut query = Vec::new();
        match &self.address {
            RedisAddress::Unix(socket) => {
                f.write_str(&path(socket))?;
                if self.database != 0 {
                    query.push(format!("db={}", self.database));
                }
            }
            address @ RedisAddress::Tcp { .. } => write!(f, "{address}")?,
        }
        match &self.deployment {
            Deployment::Single if matches!(self.address, RedisAddress::Unix(_)) => {}
            Deployment::Single => write!(f, "/{}", self.database)?,
            Deployment::Cluster { seeds, from_replicas } => {
                seeds.iter().try_for_each(|seed| write!(f, ",{seed}"))?;
                query.extend(from_replicas.then(|| "read-from=replica".to_string()));
            }
            Deployment::Sentinel(sentinels) => {
                let SentinelUrl { others, service, user, password, password_file } = &**sentinels;
                others.iter().try_for_each(|other| write!(f, ",{other}"))?;
                write!(f, "/{}/{}", utf8_percent_encode(service, RESERVED), self.database)?;
                query
                    .extend(user.as_ref().map(|user| format!("sentinel-user={}", utf8_percent_encode(user, RESERVED))));
                query.extend(password.is_some().then(|| "sentinel-password=***".to_string()));
                query.extend(password_file.as_ref().map(|file| format!("sentinel-password-file={}", path(file))));
            }
        }
        query.extend(self.password_file.as_ref().map(|file| format!("password-file={}", path(file))));
        if let Some(tls) = &self.tls {
            for (name, file) in [("ca", &tls.ca), ("cert", &tls.cert), ("key", &tls.key)] {
                query.extend(file.as_ref().map(|file| format!("{name}={}", path(file))));
            }
            if tls.insecure {
                query.push("insecure=true".to_string());
            }
        }
        let mark = if query.is_empty() { "" } else { "?" };
        write!(f, "{mark}{}", query.join("&"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn redis(text: &str) -> RedisUrl {
        match text.parse() {
            Ok(SourceUrl::Redis(url)) => url,
            other => panic!("{text}: {other:?}"),
        }
    }
    fn tcp(host: &str, port: u16) -> RedisAddress {
        RedisAddress::Tcp { host: host.to_string(), port }
    }

    #[test]
    fn parts() {
        assert_eq!("none:".parse(), Ok(SourceUrl::None));
        assert_eq!("none".parse(), Ok(SourceUrl::None));
        for (text, file) in [("table:a.ltab", "a.ltab"), ("table:/var/l%20b", "/var/l b"), ("table:///var/x", "/var/x")]
        {
            assert_eq!(text.parse(), Ok(SourceUrl::Table(file.into())));
        }
        assert_eq!(SourceUrl::Table("/a b/c".into()).to_string(), "table:/a%20b/c");
        for (text, dir) in [("disk:data", "data"), ("disk:/var/l%20b", "/var/l b"), ("disk:///var/x", "/var/x")] {
            assert_eq!(text.parse(), Ok(SourceUrl::Disk(dir.into())));
        }
        assert_eq!(SourceUrl::Disk("/a b/c".into()).to_string(), "disk:/a%20b/c");
        let url = redis("redis://cache.internal");
        assert_eq!((url.address, url.database, url.tls), (tcp("cache.internal", 6379), 0, None));
        let url = redis("redis://us%40er:p%3Aa%2Fss:word@[::1]:7000/15");
        assert_eq!((url.address, url.database), (tcp("::1", 7000), 15));
        assert_eq!(url.user.as_deref(), Some("us@er"));
        assert_eq!(url.password.as_deref(), Some("p:a/ss:word"));
        let url = redis("redis://:secret@h/");
        assert_eq!((url.user, url.password.as_deref(), url.database), (None, Some("secret"), 0));
        let url = redis("REDISS://h:1/2?ca=/etc/ca%20s.pem&cert=c&key=k&insecure=true");
        assert_eq!(
            url.tls,
            Some(TlsUrl {
                ca: Some("/etc/ca s.pem".into()),
                cert: Some("c".into()),
                key: Some("k".into()),
                insecure: true
            })
        );
        let url = redis("redis+cluster://u:p@a,b:7001,[::1]:7002?read-from=replica");
        assert_eq!(url.address, tcp("a", 6379));
        let seeds = vec![tcp("b", 7001), tcp("::1", 7002)];
        assert_eq!(url.deployment, Deployment::Cluster { seeds, from_replicas: true });
        let url = redis("rediss+sentinel://:p@a,b:1/my%2Fmaster/3?sentinel-user=s&sentinel-password=q");
        assert_eq!((url.address, url.database, url.tls), (tcp("a", 26379), 3, Some(TlsUrl::default())));
        let (service, user, password) = ("my/master".to_string(), Some("s".to_string()), Some("q".to_string().into()));
        assert_eq!(
            url.deployment,
            Deployment::Sentinel(Box::new(SentinelUrl {
                others: vec![tcp("b", 1)],
                service,
                user,
                password,
                password_file: None
            }))
        );
        let url = redis("unix://u:p@/run/redis.sock?db=3");
        assert_eq!(url.address, RedisAddress::Unix("/run/redis.sock".into()));
        assert_eq!((url.user.as_deref(), url.password.as_deref(), url.database), (Some("u"), Some("p"), 3));
    }

    #[test]
    fn errors_name_what_is_valid() {
        for (text, expected) in [
            ("", "a source is a URL; sources are none:, table:FILE, disk:DIR, redis://"),
            ("localhost", "a source is a URL"),
            ("rediz://h", "unknown source rediz:, did you mean redis:? (sources are none:"),
            ("mysql://h", "unknown source mysql: (sources are none:"),
            ("http://h/{key}", "source http: is not available in this version; sources are"),
            ("table:", "the table's file is missing"),
            ("table:%ff", "the file is not UTF-8"),
            ("disk:", "the store's directory is missing"),
            ("disk:%ff", "the directory is not UTF-8"),
            ("demo:", "source demo: is not available in this version"),
            ("redis+cluster://h/1", "a cluster has one database"),
            ("redis+cluster://h,", "the source's host is missing"),
            ("redis+cluster://h?read-from=any", "read-from is primary or replica, not `any`"),
            ("redis+cluster://h?db=1", "unknown parameter `db`: redis:// takes password-file and read-from"),
            ("redis+sentinel://h", "the master's name is missing"),
            (
                "redis+sentinel://h/m?x=1",
                "unknown parameter `x`: redis:// takes password-file, sentinel-user, sentinel-password and",
            ),
            ("redis+clutser://h", "unknown source redis+clutser:, did you mean redis+cluster:?"),
            ("redis:h", "sources are none:"),
            ("none://x", "sources are none:"),
            ("redis://", "the source's host is missing"),
            ("redis://h:0", "`0` is not a port"),
            ("redis://h:70000", "`70000` is not a port"),
            ("redis://h:1:2", "`h:1:2` is not a host and port"),
            ("redis://[::1", "is not a host: write [::1]:6379"),
            ("redis://[::1]x", "is not a host and port"),
            ("redis://h/one", "`one` is not the number of a database"),
            ("redis://user:a/b@h", "a / in a user or password is written %2F"),
            ("redis://h/99999999999", "database `99999999999` is too large"),
            ("redis://h?ca=x", "unknown parameter `ca`: redis:// takes password-file"),
            ("rediss://h?cat=x", "unknown parameter `cat`: rediss:// takes ca, cert, key, insecure, password-file"),
            ("rediss://h?insecure=1", "insecure is true or false, not `1`"),
            ("rediss://h?cert=x", "cert and key go together"),
            ("unix://run/x", "a socket's path is absolute: write unix:///run/redis.sock"),
            ("unix:///x?foo=1", "unknown parameter `foo`: unix:// takes db"),
            ("redis://:a@h?password-file=b", "give the password in the URL or in password-file, not in both"),
            ("redis://%ff@h", "the user is not UTF-8"),
        ] {
            let error = text.parse::<SourceUrl>().unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn passwords_are_masked_everywhere() {
        let url = redis("rediss://user:hunter2@h:1/2?cert=a&key=b");
        assert_eq!(url.to_string(), "rediss://user:***@h:1/2?cert=a&key=b");
        assert!(!format!("{url:?}").contains("hunter2"), "{url:?}");
        let url = redis("redis+sentinel://h:1,i:2/m?sentinel-password=hunter2");
        assert_eq!(url.to_string(), "redis+sentinel://h:1,i:2/m/0?sentinel-password=***");
        assert!(!format!("{url:?}").contains("hunter2"), "{url:?}");
        let error = "redis://:hunter2@h:x".parse::<SourceUrl>().unwrap_err();
        assert!(!error.contains("hunter2"), "{error}");
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(host in "[a-z0-9.-]{1,20}|::1", port in 1u16.., database: u32, user in proptest::option::of("\\PC{1,10}"), unix: bool, tls: bool, several in 0..3) {
            let address = if unix { RedisAddress::Unix(format!("/{host}").into()) } else { RedisAddress::Tcp { host, port } };
            let others = vec![tcp("::2", port), tcp("other", 1)];
            let deployment = match several {
                1 if !unix => Deployment::Cluster { seeds: others, from_replicas: tls },
                2 if !unix => Deployment::Sentinel(Box::new(SentinelUrl { others, service: "a/b?".to_string(), user: user.clone(), password: None, password_file: tls.then(|| "/s p".into()) })),
                _ => Deployment::Single,
            };
            let database = if matches!(deployment, Deployment::Cluster { .. }) { 0 } else { database };
            let url = RedisUrl { address, tls: (tls && !unix).then(TlsUrl::default), user, password: None, password_file: unix.then(|| "/a b".into()), database, deployment };
            prop_assert_eq!(redis(&url.to_string()), url);
        }
        #[test]
        fn any_text_is_an_answer(text in "(redis|rediss|unix|none)?:?/{0,2}\\PC*") {
            let _ = text.parse::<SourceUrl>();
        }
    }
}
