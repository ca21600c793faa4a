//! The URL of a Cassandra or ScyllaDB cluster:
//! `cassandra://[USER[:PASSWORD]@]HOST[:PORT][,HOST[:PORT]…]/KEYSPACE[?table=TABLE]`.
use super::{
    secret::Secret,
    url_parts::{DatabaseUrl, escaped, escaped_file, host_port, name_of, named, parameters, show_parameters, some},
};
use larder_units::{parse_duration, show_duration};
use std::{fmt, path::PathBuf, time::Duration};

const DEFAULT_PORT: u16 = 9042;
const DEFAULT_TABLE: &str = "kv";
const PARAMETERS: &str = "table, key, columns, consistency, read-consistency, dc, speculative and password-file";

/// A Cassandra source. Its `Display` is the URL with the password masked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CassandraUrl {
    /// The nodes to ask first, which name the others: host (IPv6 without brackets) and port.
    pub nodes: Vec<(String, u16)>,
    pub user: Option<String>,
    pub password: Option<Secret>,
    /// The file that holds it instead; read again for each new session.
    pub password_file: Option<PathBuf>,
    pub keyspace: String,
    pub table: String,
    /// The column that is the key, where `columns` is set; `None`: the primary key.
    pub key: Option<String>,
    /// `columns`: the column of another program's table that is the value; `None`: the table is
    /// Larder's own.
    pub columns: Option<String>,
    /// How many replicas acknowledge a write.
    pub consistency: CassandraConsistency,
    /// How many replicas answer a read; `None`: as many as a write.
    pub read_consistency: Option<CassandraConsistency>,
    /// `dc`: the data centre whose nodes are asked first.
    pub datacenter: Option<String>,
    /// `speculative`: a read that takes longer is sent to another replica as well.
    pub speculative: Option<Duration>,
}

/// How many replicas take part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CassandraConsistency {
    One,
    LocalOne,
    Two,
    Three,
    Quorum,
    #[default]
    LocalQuorum,
    EachQuorum,
    All,
}
impl CassandraConsistency {
    const NAMES: [(&str, CassandraConsistency); 8] = [
        ("one", CassandraConsistency::One),
        ("local_one", CassandraConsistency::LocalOne),
        ("two", CassandraConsistency::Two),
        ("three", CassandraConsistency::Three),
        ("quorum", CassandraConsistency::Quorum),
        ("local_quorum", CassandraConsistency::LocalQuorum),
        ("each_quorum", CassandraConsistency::EachQuorum),
        ("all", CassandraConsistency::All),
    ];
    fn parse(parameter: &str, text: &str) -> Result<CassandraConsistency, String> {
        let lower = text.to_ascii_lowercase();
        // An error shows what was written.
        named(parameter, &Self::NAMES, &lower).or_else(|_| named(parameter, &Self::NAMES, text))
    }
    fn name(self) -> &'static str {
        name_of(&Self::NAMES, &self)
    }
}

impl CassandraUrl {
    /// Reads what follows `cassandra:`. No error shows a part of the password.
    pub(super) fn parse(rest: &str) -> Result<CassandraUrl, String> {
        let parts = DatabaseUrl::of(rest, "cassandra://HOST/KEYSPACE", "keyspace")?;
        let DatabaseUrl { user, password, hosts, path: keyspace, query } = parts;
        let nodes = hosts.split(',').map(|host| host_port(host, DEFAULT_PORT, "cassandra"));
        let mut url = CassandraUrl {
            nodes: nodes.collect::<Result<_, _>>()?,
            user,
            password,
            password_file: None,
            keyspace,
            table: String::new(),
            key: None,
            columns: None,
            consistency: CassandraConsistency::default(),
            read_consistency: None,
            datacenter: None,
            speculative: None,
        };
        for parameter in parameters(query) {
            let (name, text) = parameter?;
            match name {
                "table" => url.table = text,
                "key" => url.key = some(text),
                "columns" => url.columns = some(text),
                "consistency" => url.consistency = CassandraConsistency::parse(name, &text)?,
                "read-consistency" => url.read_consistency = Some(CassandraConsistency::parse(name, &text)?),
                "dc" => url.datacenter = some(text),
                "speculative" => {
                    url.speculative = Some(parse_duration(&text).map_err(|error| format!("speculative: {error}"))?);
                }
                "password-file" => url.password_file = some(text).map(PathBuf::from),
                "tls" | "ssl" | "sslmode" | "sslrootcert" | "ca" => {
                    return Err(format!("{name}: there is no TLS to Cassandra yet; use a private network or a tunnel"));
                }
                _ => return Err(format!("unknown parameter `{name}`: cassandra:// takes {PARAMETERS}")),
            }
        }
        url.check()?;
        if url.table.is_empty() {
            DEFAULT_TABLE.clone_into(&mut url.table);
        }
        Ok(url)
    }

    fn check(&self) -> Result<(), String> {
        if self.keyspace.is_empty() {
            return Err("the keyspace is missing: write cassandra://HOST/KEYSPACE".to_owned());
        }
        if self.password.is_some() && self.password_file.is_some() {
            return Err("give the password in the URL or in password-file, not in both".to_owned());
        }
        if self.user.is_none() && (self.password.is_some() || self.password_file.is_some()) {
            return Err("the user is missing: write cassandra://USER@HOST/KEYSPACE".to_owned());
        }
        if self.table.is_empty() && (self.key.is_some() || self.columns.is_some()) {
            return Err("key and columns belong to a table: add table=TABLE".to_owned());
        }
        if self.key.is_some() && self.columns.is_none() {
            return Err("key goes with the column that is the value: add columns=COLUMN".to_owned());
        }
        if self.read_consistency == Some(CassandraConsistency::EachQuorum) {
            return Err("read-consistency cannot be each_quorum: Cassandra reads with local_quorum".to_owned());
        }
        Ok(())
    }

    /// How many replicas answer a read. No read takes `each_quorum`.
    pub fn consistency_of_reads(&self) -> CassandraConsistency {
        match self.read_consistency.unwrap_or(self.consistency) {
            CassandraConsistency::EachQuorum => CassandraConsistency::LocalQuorum,
            of_reads => of_reads,
        }
    }

    /// The nodes, for errors and logs.
    pub fn origin(&self) -> String {
        let all: Vec<_> = self.nodes.iter().map(|(host, port)| shown_node(host, *port)).collect();
        all.join(",")
    }
}

fn shown_node(host: &str, port: u16) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{}:{port}", escaped(host)),
    }
}

impl fmt::Display for CassandraUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cassandra://")?;
        if let Some(user) = &self.user {
            let password = if self.password.is_some() { ":***" } else { "" };
            write!(f, "{}{password}@", escaped(user))?;
        }
        write!(f, "{}/{}", self.origin(), escaped(&self.keyspace))?;
        let consistency = Some(self.consistency).filter(|of| *of != CassandraConsistency::default());
        show_parameters(
            f,
            [
                ("table", (self.table != DEFAULT_TABLE).then(|| escaped(&self.table))),
                ("key", self.key.as_deref().map(escaped)),
                ("columns", self.columns.as_deref().map(escaped)),
                ("consistency", consistency.map(|of| of.name().to_owned())),
                ("read-consistency", self.read_consistency.map(|of| of.name().to_owned())),
                ("dc", self.datacenter.as_deref().map(escaped)),
                ("speculative", self.speculative.map(show_duration)),
                ("password-file", self.password_file.as_deref().map(escaped_file)),
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
            ("cassandra://db/shop", "cassandra://db:9042/shop"),
            ("cassandra://db/shop?table=kv&consistency=LOCAL_QUORUM", "cassandra://db:9042/shop"),
            (
                "cassandra://app:p%40ss@a,b:9043,[::1]/shop?table=carts&consistency=quorum&read-consistency=local_one",
                "cassandra://app:***@a:9042,b:9043,[::1]:9042/shop?table=carts&consistency=quorum&read-consistency=local_one",
            ),
            (
                "cassandra://app@db/shop?dc=eu&speculative=20ms&password-file=/run/p",
                "cassandra://app@db:9042/shop?dc=eu&speculative=20ms&password-file=/run/p",
            ),
            ("cassandra://db/shop?table=&dc=", "cassandra://db:9042/shop"),
            (
                "cassandra://db/shop?columns=na%22me&key=Id&table=users",
                "cassandra://db:9042/shop?table=users&key=Id&columns=na%22me",
            ),
        ] {
            let url: SourceUrl = text.parse().expect(text);
            assert_eq!(url.to_string(), shown);
            let again: SourceUrl = shown.replace(":***", ":p%40ss").parse().expect(shown);
            assert_eq!(again, url);
        }
    }

    #[test]
    fn wrong_urls_say_what_would_be_right() {
        for (text, expected) in [
            ("cassandra:db/shop", "write two slashes after cassandra:"),
            ("cassandra:///shop", "the source's host is missing: write cassandra://HOST:PORT"),
            ("cassandra://db", "the keyspace is missing: write cassandra://HOST/KEYSPACE"),
            ("cassandra://db:0/shop", "`0` is not a port"),
            ("cassandra://app:se/cret@db/shop", "a / in a user or password is written %2F"),
            ("cassandra://:secret@db/shop", "the user is missing"),
            ("cassandra://a:secret@db/shop?password-file=f", "give the password in the URL or in password-file"),
            ("cassandra://db/shop?tables=users", "unknown parameter `tables`: cassandra:// takes table, key, columns"),
            ("cassandra://db/shop?columns=name", "key and columns belong to a table: add table=TABLE"),
            ("cassandra://db/shop?table=t&key=id", "key goes with the column that is the value: add columns=COLUMN"),
            ("cassandra://db/shop?consistency=any", "`any` is no consistency: write one of one, local_one,"),
            ("cassandra://db/shop?read-consistency=each_quorum", "read-consistency cannot be each_quorum"),
            ("cassandra://db/shop?speculative=x", "speculative: "),
            ("cassandra://db/shop?sslmode=require", "sslmode: there is no TLS to Cassandra yet"),
            ("casandra://db/shop", "unknown source casandra:, did you mean cassandra:?"),
        ] {
            let error = text.parse::<SourceUrl>().expect_err(text);
            assert!(error.starts_with(expected), "{text}: {error}");
            assert!(!error.contains("cret"), "{error}");
        }
    }
}
