//! The URL that names a source: `none:`, `table:FILE`, `disk:DIR`, `redis://`, `rediss://`, `unix://`, `http://`, `https://`, `postgres://`,
//! `cassandra://`, `demo:`.
use super::{
    cassandra_url::CassandraUrl,
    demo_url::DemoUrl,
    origin_url::OriginUrl,
    postgres_url::PostgresUrl,
    secret::Secret,
    tls_client_settings::TlsClientSettings,
    url_parts::{RESERVED, RESERVED_IN_PATH},
};
use percent_encoding::utf8_percent_encode;
use std::{fmt, path::PathBuf};

/// A parsed source URL. Its `Display` is the URL with the password masked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceUrl {
    /// `none:`: the memory tier is all there is.
    None,
    /// `table:FILE`: the immutable table in that file.
    Table(PathBuf),
    /// `disk:DIR`: the durable store in that directory.
    Disk(PathBuf),
    /// `redis://`, `rediss://`, `unix://`, and the same for a cluster (`redis+cluster://`) or
    /// behind Sentinels (`redis+sentinel://`).
    Redis(RedisUrl),
    /// `http://host[:port]/path/{key}`, `https://…`: an HTTP API.
    Http(OriginUrl),
    /// `postgres://user@host/database`: rows of a PostgreSQL database.
    Postgres(Box<PostgresUrl>),
    /// `cassandra://host/keyspace`: a table of a Cassandra or ScyllaDB cluster.
    Cassandra(Box<CassandraUrl>),
    /// `demo:`: answers that are made up, with a delay and faults.
    Demo(DemoUrl),
}

/// What follows from the scheme alone, before the source is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceClass {
    /// No source.
    Memory,
    /// A table on this machine, which reads look in instead of the memory tier.
    Table,
    /// A store on this machine. All its changes go through Larder.
    Store,
    /// A store of a cluster, which other programs change as well.
    SharedStore,
    /// A Redis server, which may announce changes.
    Redis,
    /// A server of single values.
    Values,
}

impl SourceUrl {
    /// The class of the source.
    pub fn class(&self) -> SourceClass {
        match self {
            SourceUrl::None => SourceClass::Memory,
            SourceUrl::Table(_) => SourceClass::Table,
            SourceUrl::Disk(_) => SourceClass::Store,
            SourceUrl::Redis(_) => SourceClass::Redis,
            SourceUrl::Cassandra(_) => SourceClass::SharedStore,
            SourceUrl::Http(_) | SourceUrl::Postgres(_) | SourceUrl::Demo(_) => SourceClass::Values,
        }
    }
    /// Whether the source can announce changes of what was read.
    pub fn announces_changes(&self) -> bool {
        match self {
            SourceUrl::Redis(_) => true,
            SourceUrl::Postgres(url) => url.is_watched(),
            _ => false,
        }
    }
    /// Whether reads have no answer but that of the memory tier or the table, so mode rules mean
    /// nothing.
    pub fn has_one_answer(&self) -> bool {
        matches!(self.class(), SourceClass::Memory | SourceClass::Table)
    }
    /// Whether several servers stand behind it, each with a part of the keys.
    pub fn is_cluster(&self) -> bool {
        matches!(
            self,
            SourceUrl::Redis(RedisUrl { deployment: Deployment::Cluster { .. }, .. }) | SourceUrl::Cassandra(_)
        )
    }
}

/// A Redis source: `redis://[user[:password]@]host[:port][/database]`, or
/// `unix://[user[:password]@]/path[?db=N]`; for several servers see [`Deployment`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisUrl {
    /// Where it listens.
    pub address: RedisAddress,
    /// `rediss://`: speak TLS.
    pub tls: Option<TlsClientSettings>,
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
    /// `redis+cluster://[user[:password]@]host[:port][,host[:port]…][?read-from=replica]`: a Redis
    /// Cluster, which any of these knows.
    Cluster {
        /// The nodes to ask besides `address`.
        seeds: Vec<RedisAddress>,
        /// Misses are read from replicas where there are any, else from masters.
        from_replicas: bool,
    },
    /// `redis+sentinel://[user[:password]@]host[:port][,host[:port]…]/service[/database]`: the
    /// master that Sentinels name.
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
pub enum RedisAddress {
    /// A host name or address (IPv6 without brackets) and port.
    Tcp { host: String, port: u16 },
    /// A socket in the file system.
    Unix(PathBuf),
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
            SourceUrl::Http(url) => url.fmt(f),
            SourceUrl::Postgres(url) => url.fmt(f),
            SourceUrl::Cassandra(url) => url.fmt(f),
            SourceUrl::Demo(url) => url.fmt(f),
        }
    }
}

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
        query.extend(self.tls.iter().flat_map(TlsClientSettings::parameters));
        let mark = if query.is_empty() { "" } else { "?" };
        write!(f, "{mark}{}", query.join("&"))
    }
}
