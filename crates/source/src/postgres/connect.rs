//! Opens a connection to one of the servers of the URL: the first that is reached, lets the user in
//! and is of the wanted kind.
use super::{postgres_settings::PostgresSettings, sql_error::describe};
use larder_base::outbound::{Stream, connect_tcp};
use larder_base::tls::ClientTls;
use larder_config::{PostgresTlsMode, RedisAddress, TargetServer};
use std::{future::Future, io, pin::Pin, sync::Arc};
use tokio::{net::UnixStream, time::timeout};
use tokio_postgres::{Client, Config, SimpleQueryMessage, config::SslMode, error::SqlState, tls::TlsConnect};

/// The task of a connection: it does what its client asks. Notifications come from it.
pub(super) type Connection = tokio_postgres::Connection<Stream, Stream>;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Its transactions are read only, and its statements end within `source-timeout`.
    Read,
    /// Its statements end within `source-timeout`. The server takes writes.
    Write,
}

/// An open connection.
pub(super) struct Opened {
    pub(super) client: Client,
    pub(super) connection: Connection,
    /// A pooler is between: each transaction may run in another session, and what belongs to a
    /// session (settings, prepared statements) cannot be used.
    pub(super) is_pooled: bool,
    /// Of the server, for logs.
    pub(super) address: String,
    /// It is a standby.
    pub(super) is_standby: bool,
}

/// Opens a connection. Each attempt has half of `source-timeout`.
///
/// # Errors
/// What is wrong with each of the servers.
pub(super) async fn connect(settings: &Arc<PostgresSettings>, purpose: Purpose) -> Result<Opened, String> {
    let password = settings.password().await?;
    let mut config = Config::new();
    config.user(&settings.url.user).dbname(&settings.url.database).application_name("larder");
    if let Some(password) = &password {
        config.password(&**password);
    }
    let target = match (purpose, settings.url.target) {
        (Purpose::Write, _) => TargetServer::ReadWrite,
        (Purpose::Read, TargetServer::Any) if settings.url.from_replicas => TargetServer::PreferStandby,
        (Purpose::Read, target) => target,
    };
    let mut problems = Vec::new();
    // A standby that is preferred is looked for first.
    for target in [Some(target), (target == TargetServer::PreferStandby).then_some(TargetServer::Any)] {
        let Some(target) = target else { continue };
        problems.clear();
        for at in 0..settings.url.addresses.len() {
            match timeout(settings.connect_timeout(), attempt(settings, at, config.clone(), purpose)).await {
                Ok(Ok(opened)) => match refusal(&opened, target) {
                    None => return Ok(opened),
                    Some(why) => problems.push(format!("{}: {why}", opened.address)),
                },
                Ok(Err(why)) => problems.push(format!("{}: {why}", settings.url.addresses[at])),
                Err(_) => {
                    let limit = settings.connect_timeout();
                    problems.push(format!("{}: no connection after {limit:?}", settings.url.addresses[at]));
                }
            }
        }
    }
    Err(problems.join("; "))
}

/// Why this server is not of the wanted kind.
fn refusal(opened: &Opened, target: TargetServer) -> Option<&'static str> {
    match target {
        TargetServer::Any => None,
        TargetServer::ReadWrite | TargetServer::Primary => {
            opened.is_standby.then_some("is a standby, and a primary is wanted")
        }
        TargetServer::ReadOnly | TargetServer::Standby | TargetServer::PreferStandby => {
            (!opened.is_standby).then_some("is a primary, and a standby is wanted")
        }
    }
}

async fn attempt(settings: &PostgresSettings, at: usize, plain: Config, purpose: Purpose) -> Result<Opened, String> {
    // Its value comes back only from a session that took all options.
    let mark = format!("{:016x}", fastrand::u64(..));
    let mut options = format!("-c larder.session={mark} -c statement_timeout={}", settings.statement_timeout());
    if purpose == Purpose::Read {
        options.push_str(" -c default_transaction_read_only=on");
    }
    let mut config = plain.clone();
    config.options(options);
    let opened = match open(settings, at, &config).await? {
        // A pooler does not know our options.
        Err(error) if error.code() == Some(&SqlState::PROTOCOL_VIOLATION) => open(settings, at, &plain).await?,
        opened => opened,
    };
    let (client, mut connection) = opened.map_err(|error| describe(&error))?;
    // Nothing else moves the connection yet.
    let asked = client.simple_query("SELECT pg_is_in_recovery(), current_setting('larder.session', true)");
    let answer = tokio::select! {
        answer = asked => answer.map_err(|error| describe(&error))?,
        end = &mut connection => {
            return Err(end.err().map_or_else(|| "the connection was closed".to_owned(), |error| describe(&error)));
        }
    };
    let row = answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let field = |at| row.and_then(|row| row.get(at)).unwrap_or_default();
    let (is_standby, is_pooled) = (field(0) == "t", field(1) != mark);
    Ok(Opened { client, connection, is_pooled, address: settings.url.addresses[at].to_string(), is_standby })
}

/// Opens a plain stream. TLS is asked for on it, in PostgreSQL's own way.
pub(super) async fn socket(address: &RedisAddress) -> io::Result<Stream> {
    match address {
        RedisAddress::Tcp { host, port } => connect_tcp(host, *port, None).await,
        RedisAddress::Unix(path) => UnixStream::connect(path).await.map(Stream::Unix),
    }
}

/// The outer error is that of the socket, the inner one that of the server.
async fn open(
    settings: &PostgresSettings,
    at: usize,
    config: &Config,
) -> Result<Result<(Client, Connection), tokio_postgres::Error>, String> {
    let (stream, tls) = (socket(&settings.url.addresses[at]).await, settings.tls[at].clone());
    let mut config = config.clone();
    config.ssl_mode(match (&tls, settings.url.tls_mode) {
        (None, _) | (_, PostgresTlsMode::Disable) => SslMode::Disable,
        (_, PostgresTlsMode::Prefer) => SslMode::Prefer,
        _ => SslMode::Require,
    });
    Ok(config.connect_raw(stream.map_err(|error| error.to_string())?, Handshake(tls)).await)
}

/// TLS as the rest of Larder speaks it.
struct Handshake(Option<ClientTls>);
impl TlsConnect<Stream> for Handshake {
    type Stream = Stream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream>>>>;
    fn connect(self, stream: Stream) -> Self::Future {
        Box::pin(async move {
            match (self.0, stream) {
                (Some(tls), Stream::Tcp(tcp)) => Ok(Stream::Tls(Box::new(tls.connect(tcp).await?))),
                (_, stream) => Ok(stream),
            }
        })
    }
}
