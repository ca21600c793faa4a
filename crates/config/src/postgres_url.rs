//! The URL of a PostgreSQL database, in the words of libpq:
//! `postgres://USER[:PASSWORD]@HOST[:PORT][,HOST[:PORT]…]/DATABASE?table=TABLE`.
use super::{
    secret::Secret,
    source_url::RedisAddress,
    tls_client_settings::TlsClientSettings,
    url_parts::{DatabaseUrl, escaped, escaped_file, host_port, name_of, named, parameters, show_parameters, some},
};
use std::{fmt, path::PathBuf};

const DEFAULT_PORT: u16 = 5432;
const PARAMETERS: &str = "host, port, user, password, dbname, password-file, sslmode, sslrootcert, sslcert, sslkey, \
    target_session_attrs, read-from, table, key, columns, changes, publication and slot";

/// A PostgreSQL source. Its `Display` is the URL with the password masked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresUrl {
    /// Where servers listen, in the order in which they are tried. A Unix address is the socket's
    /// file.
    pub addresses: Vec<RedisAddress>,
    pub user: String,
    pub password: Option<Secret>,
    /// The file that holds it instead; read again for each connection.
    pub password_file: Option<PathBuf>,
    pub database: String,
    /// `sslmode`.
    pub tls_mode: PostgresTlsMode,
    /// What TLS trusts and shows.
    pub tls: TlsClientSettings,
    /// `target_session_attrs`: which of the servers will do.
    pub target: TargetServer,
    /// `read-from=replica`: misses are read from a standby where there is one.
    pub from_replicas: bool,
    /// The table whose rows are the values.
    pub table: Option<String>,
    /// The column that is the key; `None`: the primary key.
    pub key: Option<String>,
    /// The columns of a value; empty: all.
    pub columns: Vec<String>,
    /// How changes are announced.
    pub changes: PostgresChanges,
    /// The publication that the stream of changes reads; `None`: Larder's own.
    pub publication: Option<String>,
    /// The replication slot; `None`: a temporary one.
    pub slot: Option<String>,
    /// What the settings of the group and its prefixes say.
    pub options: Box<PostgresOptions>,
}

/// How a PostgreSQL source is asked: the settings of its group and prefixes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PostgresOptions {
    /// Deadline of one attempt to connect; `None`: that of the fetch.
    pub connect_timeout: Option<std::time::Duration>,
    /// Writes go to the table of the URL (`source-writes = through`).
    pub takes_writes: bool,
    /// The queries of the group (its prefix is empty) and of its prefixes.
    pub queries: Vec<PostgresQuery>,
}

/// The query of keys with a prefix, and what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresQuery {
    /// What the keys begin with; the rest of a key is the parameters.
    pub prefix: String,
    /// `query`.
    pub query: String,
    /// `rows = "all"`: the value is an array of all rows.
    pub all_rows: bool,
    /// `depends-on`: `TABLE.COLUMN` or `TABLE.*`.
    pub depends_on: Vec<String>,
    /// `upsert`: the statement that writes a value.
    pub upsert: Option<String>,
    /// `delete`: the statement that deletes a key.
    pub delete: Option<String>,
}

/// When TLS is spoken, and what is verified (libpq's `sslmode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PostgresTlsMode {
    Disable,
    /// If the server can. Like `allow`, which libpq tries in the other order.
    #[default]
    Prefer,
    /// Without a look at the certificate, unless `sslrootcert` is set: then like `verify-ca`.
    Require,
    /// The certificate comes from an authority that is trusted.
    VerifyCa,
    /// And has the name of the host.
    VerifyFull,
}
impl PostgresTlsMode {
    const NAMES: [(&str, PostgresTlsMode); 6] = [
        ("disable", PostgresTlsMode::Disable),
        ("prefer", PostgresTlsMode::Prefer),
        ("allow", PostgresTlsMode::Prefer),
        ("require", PostgresTlsMode::Require),
        ("verify-ca", PostgresTlsMode::VerifyCa),
        ("verify-full", PostgresTlsMode::VerifyFull),
    ];
}

/// Which of several servers will do (libpq's `target_session_attrs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TargetServer {
    #[default]
    Any,
    /// One that takes writes.
    ReadWrite,
    /// One that takes none.
    ReadOnly,
    Primary,
    Standby,
    /// A standby, or else any.
    PreferStandby,
}
impl TargetServer {
    const NAMES: [(&str, TargetServer); 6] = [
        ("any", TargetServer::Any),
        ("read-write", TargetServer::ReadWrite),
        ("read-only", TargetServer::ReadOnly),
        ("primary", TargetServer::Primary),
        ("standby", TargetServer::Standby),
        ("prefer-standby", TargetServer::PreferStandby),
    ];
}

/// How the database announces changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PostgresChanges {
    /// By logical replication.
    #[default]
    Stream,
    /// By triggers and `NOTIFY`.
    Notify,
    /// Not at all: copies live for `ttl`.
    Off,
}
impl PostgresChanges {
    const NAMES: [(&str, PostgresChanges); 3] =
        [("stream", PostgresChanges::Stream), ("notify", PostgresChanges::Notify), ("off", PostgresChanges::Off)];
}

impl PostgresUrl {
    /// Reads what follows `postgres:`. No error shows a part of the password.
    pub(super) fn parse(rest: &str) -> Result<PostgresUrl, String> {
        let parts = DatabaseUrl::of(rest, "postgres://USER@HOST/DATABASE?table=TABLE", "database")?;
        let DatabaseUrl { user, mut password, hosts, path: mut database, query } = parts;
        let mut user = user.unwrap_or_default();
        let (mut hosts, mut port) = (hosts.to_owned(), String::new());
        let mut url = PostgresUrl {
            addresses: Vec::new(),
            user: String::new(),
            password: None,
            password_file: None,
            database: String::new(),
            tls_mode: PostgresTlsMode::default(),
            tls: TlsClientSettings::default(),
            target: TargetServer::default(),
            from_replicas: false,
            table: None,
            key: None,
            columns: Vec::new(),
            changes: PostgresChanges::default(),
            publication: None,
            slot: None,
            options: Box::default(),
        };
        for parameter in parameters(query) {
            let (name, value) = parameter?;
            let file = || some(value.clone()).map(PathBuf::from);
            match name {
                "host" => hosts = value.split(',').map(escaped_host).collect::<Vec<_>>().join(","),
                "port" => port = value,
                "user" => user = value,
                "password" => password = some(value).map(Secret::from),
                "dbname" => database = value,
                "password-file" => url.password_file = file(),
                "sslmode" => url.tls_mode = named(name, &PostgresTlsMode::NAMES, &value)?,
                // The authorities that Mozilla trusts, like without it.
                "sslrootcert" if value == "system" => {
                    (url.tls.ca, url.tls_mode) = (None, PostgresTlsMode::VerifyFull);
                }
                "sslrootcert" => url.tls.ca = file(),
                "sslcert" => url.tls.cert = file(),
                "sslkey" => url.tls.key = file(),
                "target_session_attrs" => url.target = named(name, &TargetServer::NAMES, &value)?,
                "read-from" => url.from_replicas = named(name, &[("primary", false), ("replica", true)], &value)?,
                "table" => url.table = some(value),
                "key" => url.key = some(value),
                "columns" => url.columns = value.split(',').map(|of| of.trim().to_owned()).collect(),
                "changes" => url.changes = named(name, &PostgresChanges::NAMES, &value)?,
                "publication" => url.publication = some(value),
                "slot" => url.slot = some(value),
                _ => return Err(format!("unknown parameter `{name}`: postgres:// takes {PARAMETERS}")),
            }
        }
        if user.is_empty() {
            return Err("the user is missing: write postgres://USER@HOST/DATABASE".to_owned());
        }
        let default_port = match port.as_str() {
            "" => DEFAULT_PORT,
            port => port.parse().map_err(|_| format!("`{port}` is not a port (1 to 65535)"))?,
        };
        url.addresses = hosts.split(',').map(|host| address(host, default_port)).collect::<Result<_, _>>()?;
        url.database = if database.is_empty() { user.clone() } else { database };
        (url.user, url.password) = (user, password);
        url.check()?;
        Ok(url)
    }

    fn check(&mut self) -> Result<(), String> {
        if self.password.is_some() && self.password_file.is_some() {
            return Err("give the password in the URL or in password-file, not in both".to_owned());
        }
        if self.tls.cert.is_some() != self.tls.key.is_some() {
            return Err("sslcert and sslkey go together".to_owned());
        }
        if self.columns.iter().any(String::is_empty) {
            return Err("columns has an empty name: write columns=name,email".to_owned());
        }
        if self.table.is_none() && (self.key.is_some() || !self.columns.is_empty()) {
            return Err("key and columns belong to a table: add table=TABLE".to_owned());
        }
        if self.slot.is_some() && self.changes != PostgresChanges::Stream {
            return Err("slot belongs to changes=stream".to_owned());
        }
        match self.tls_mode {
            PostgresTlsMode::Disable | PostgresTlsMode::VerifyFull => {}
            PostgresTlsMode::VerifyCa => self.tls.any_name = true,
            PostgresTlsMode::Prefer | PostgresTlsMode::Require => {
                (self.tls.any_name, self.tls.insecure) = (true, self.tls.ca.is_none());
            }
        }
        Ok(())
    }

    /// Whether changes of some keys are announced.
    pub fn is_watched(&self) -> bool {
        let depends = |query: &PostgresQuery| !query.depends_on.is_empty();
        self.changes != PostgresChanges::Off && (self.table.is_some() || self.options.queries.iter().any(depends))
    }

    /// The addresses, for errors and logs.
    pub fn origin(&self) -> String {
        let all: Vec<_> = self.addresses.iter().map(ToString::to_string).collect();
        all.join(",")
    }
}

/// A host of the parameter `host`, as it is written before the path.
fn escaped_host(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { escaped(host) }
}

/// `HOST[:PORT]`, or the directory of a socket, percent-encoded.
fn address(text: &str, default_port: u16) -> Result<RedisAddress, String> {
    if text.is_empty() {
        return Err("the host is missing: write postgres://USER@HOST/DATABASE, or ?host=/run/postgresql for a socket"
            .to_owned());
    }
    let (host, port) = host_port(text, default_port, "postgres")?;
    Ok(match host.starts_with('/') {
        true => RedisAddress::Unix(PathBuf::from(host).join(format!(".s.PGSQL.{port}"))),
        false => RedisAddress::Tcp { host, port },
    })
}

impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses = self.addresses.iter().map(|address| match address {
            RedisAddress::Tcp { .. } => address.to_string(),
            RedisAddress::Unix(socket) => {
                let directory = socket.parent().map(|of| of.to_string_lossy().into_owned()).unwrap_or_default();
                let port = socket.extension().map(|of| of.to_string_lossy().into_owned()).unwrap_or_default();
                format!("{}:{port}", escaped(&directory))
            }
        });
        let addresses: Vec<_> = addresses.collect();
        let password = if self.password.is_some() { ":***" } else { "" };
        write!(f, "postgres://{}{password}@{}/{}", escaped(&self.user), addresses.join(","), escaped(&self.database))?;
        let mode = Some(self.tls_mode).filter(|mode| *mode != PostgresTlsMode::default());
        let target = Some(self.target).filter(|target| *target != TargetServer::default());
        let changes = Some(self.changes).filter(|changes| *changes != PostgresChanges::default());
        let columns = (!self.columns.is_empty())
            .then(|| self.columns.iter().map(|column| escaped(column)).collect::<Vec<_>>().join(","));
        show_parameters(
            f,
            [
                ("password-file", self.password_file.as_deref().map(escaped_file)),
                ("sslmode", mode.map(|mode| name_of(&PostgresTlsMode::NAMES, &mode).to_owned())),
                ("sslrootcert", self.tls.ca.as_deref().map(escaped_file)),
                ("sslcert", self.tls.cert.as_deref().map(escaped_file)),
                ("sslkey", self.tls.key.as_deref().map(escaped_file)),
                ("target_session_attrs", target.map(|target| name_of(&TargetServer::NAMES, &target).to_owned())),
                ("read-from", self.from_replicas.then(|| "replica".to_owned())),
                ("table", self.table.as_deref().map(escaped)),
                ("key", self.key.as_deref().map(escaped)),
                ("columns", columns),
                ("changes", changes.map(|changes| name_of(&PostgresChanges::NAMES, &changes).to_owned())),
                ("publication", self.publication.as_deref().map(escaped)),
                ("slot", self.slot.as_deref().map(escaped)),
            ],
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::SourceUrl;

    #[test]
    fn urls_are_read_and_shown() {
        for (text, shown) in [
            ("postgres://app@db/shop?table=users", "postgres://app@db:5432/shop?table=users"),
            ("postgresql://app:p%40ss@db:6000", "postgres://app:***@db:6000/app"),
            (
                "postgres://app@a,b:6000,[::1]/shop?target_session_attrs=read-write&port=7000",
                "postgres://app@a:7000,b:6000,[::1]:7000/shop?target_session_attrs=read-write",
            ),
            (
                "postgres:///shop?host=/run/postgresql&user=app&password=x",
                "postgres://app:***@%2Frun%2Fpostgresql:5432/shop",
            ),
            (
                "postgres://app@%2Frun%2Fpostgresql/shop?table=public.users&key=name&columns=a,b",
                "postgres://app@%2Frun%2Fpostgresql:5432/shop?table=public.users&key=name&columns=a,b",
            ),
            (
                "postgres://app@db/s?sslmode=verify-ca&sslrootcert=/a/ca.pem&sslcert=c&sslkey=k&password-file=/p",
                "postgres://app@db:5432/s?password-file=/p&sslmode=verify-ca&sslrootcert=/a/ca.pem&sslcert=c&sslkey=k",
            ),
            (
                "postgres://app@db/s?read-from=replica&changes=notify&publication=p",
                "postgres://app@db:5432/s?read-from=replica&changes=notify&publication=p",
            ),
            ("postgres://app@db/s?slot=x&sslmode=allow", "postgres://app@db:5432/s?slot=x"),
        ] {
            let url: SourceUrl = text.parse().expect(text);
            assert_eq!(url.to_string(), shown);
            let again: SourceUrl = shown.replace(":***", ":p%40ss").parse().expect(shown);
            assert_eq!(again.to_string(), shown);
        }
    }

    #[test]
    fn a_certificate_is_verified_as_libpq_does() {
        for (query, insecure, any_name) in [
            ("", true, true),
            ("sslmode=require", true, true),
            ("sslmode=require&sslrootcert=f", false, true),
            ("sslmode=verify-ca&sslrootcert=f", false, true),
            ("sslmode=verify-full&sslrootcert=f", false, false),
            ("sslrootcert=system", false, false),
        ] {
            let Ok(SourceUrl::Postgres(url)) = format!("postgres://a@b/c?{query}").parse() else { panic!("{query}") };
            assert_eq!((url.tls.insecure, url.tls.any_name), (insecure, any_name), "{query}");
        }
    }

    #[test]
    fn wrong_urls_say_what_would_be_right() {
        for (text, expected) in [
            ("postgres:app@db/shop", "write two slashes after postgres:"),
            ("postgres://db/shop", "the user is missing: write postgres://USER@HOST/DATABASE"),
            ("postgres://app@/shop", "the host is missing"),
            ("postgres://app@db:0/shop", "`0` is not a port"),
            ("postgres://app@db/shop?port=x", "`x` is not a port"),
            ("postgres://app:se/cret@db/shop", "a / in a user or password is written %2F"),
            ("postgres://app@db/shop?tables=users", "unknown parameter `tables`: postgres:// takes host, port"),
            ("postgres://app@db/shop?sslmode=on", "`on` is no sslmode: write one of disable, prefer, allow, require,"),
            ("postgres://app@db/shop?sslcert=c", "sslcert and sslkey go together"),
            ("postgres://app@db/shop?target_session_attrs=x", "`x` is no target_session_attrs: write one of any,"),
            ("postgres://app@db/shop?changes=x", "`x` is no changes: write one of stream, notify, off"),
            ("postgres://app@db/shop?read-from=x", "`x` is no read-from: write one of primary, replica"),
            ("postgres://app@db/shop?key=id", "key and columns belong to a table: add table=TABLE"),
            ("postgres://app@db/shop?table=t&columns=a,,b", "columns has an empty name"),
            ("postgres://app@db/shop?changes=off&slot=s", "slot belongs to changes=stream"),
            ("postgres://app:p@db/shop?password-file=f", "give the password in the URL or in password-file"),
            ("postgre://app@db/shop", "unknown source postgre:, did you mean postgres:?"),
        ] {
            let error = text.parse::<SourceUrl>().expect_err(text);
            assert!(error.starts_with(expected), "{text}: {error}");
            assert!(!error.contains("cret"), "{error}");
        }
    }
}
