//! A core's connections to the primary, over which a replica forwards its clients' writes
//! (`replica-writes = "forward"`).
//!
//! A connection carries one client's commands at a time. Behind them it asks for the number of
//! changes that the primary has made (`LARDER.FORWARDED`), so that the answer can wait until these
//! are here: who has written reads its own write.
use super::{changes_at::ChangesAt, link::client_tls, link_status::LinkState, replication::Replication};
use bytes::{Bytes, BytesMut};
use larder_base::outbound::{Stream, connect_tcp};
use larder_config::{PrimaryAddress, ReplicationMode};
use larder_proto::resp::{Scanner, encode};
use std::{
    cell::RefCell,
    fmt, io,
    pin::Pin,
    str,
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};
use tokio::{
    io::{AsyncRead as _, AsyncReadExt as _, AsyncWriteExt as _, ReadBuf},
    sync::Semaphore,
    time::{Instant, timeout, timeout_at},
};

/// How long a connection and its login may take.
const CONNECTING: Duration = Duration::from_secs(2);
/// How long the primary may take to answer.
const ANSWERING: Duration = Duration::from_secs(5);
/// How long an answer waits at most until the write is here.
const ARRIVING: Duration = Duration::from_secs(1);
/// Connections of a core; a write that needs one more waits.
const MAX_CONNECTIONS: usize = 64;
/// A connection that was idle for longer is not used again.
const MAX_IDLE_TIME: Duration = Duration::from_secs(30);
/// What a reply holds at most besides a value.
const REST: usize = 1 << 20;

/// One core's connections to the primary.
pub struct Forwarder {
    replication: Arc<Replication>,
    /// The latest is last.
    idle: RefCell<Vec<Connection>>,
    under_way: Semaphore,
}

struct Connection {
    to: PrimaryAddress,
    resp3: bool,
    stream: Stream,
    input: BytesMut,
    idle_since: Instant,
}

/// Why the primary's answer is not here.
#[derive(Debug)]
pub enum ForwardError {
    /// The write was not sent.
    NotSent(String),
    /// It was sent: whether the primary has made it is not known.
    Unanswered(String),
}

impl fmt::Display for ForwardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ForwardError::NotSent(why) => write!(f, "primary unavailable: {why}; nothing was written"),
            ForwardError::Unanswered(why) => write!(f, "primary unavailable: {why}; the write may have been made"),
        }
    }
}

impl Forwarder {
    /// Without connections yet.
    pub fn new(replication: Arc<Replication>) -> Forwarder {
        Forwarder { replication, idle: RefCell::default(), under_way: Semaphore::new(MAX_CONNECTIONS) }
    }

    /// Sends commands to the primary. Gives the reply to the last of `count`, once this process has
    /// what they have written, or after a second.
    ///
    /// # Errors
    /// See [`ForwardError`].
    pub async fn forward(&self, commands: &[u8], count: usize, resp3: bool) -> Result<Bytes, ForwardError> {
        // Never closed.
        let _under_way = self.under_way.acquire().await;
        let primary = self.replication.primary();
        let primary = primary.ok_or_else(|| ForwardError::NotSent("this process has no primary any more".into()))?;
        let mut connection = match self.take_idle(&primary, resp3) {
            Some(connection) => connection,
            None => self.connect(&primary, resp3).await.map_err(ForwardError::NotSent)?,
        };
        let send = async {
            let mut bytes = commands.to_vec();
            bytes.extend(encode(&[ASK]));
            connection.stream.write_all(&bytes).await?;
            connection.stream.flush().await?;
            let mut last = Bytes::new();
            for _ in 0..count {
                last = self.reply(&mut connection).await?;
            }
            let place = place(&self.reply(&mut connection).await?);
            Ok::<_, io::Error>((last, place))
        };
        let of = |why: String| ForwardError::Unanswered(format!("{primary}: {why}"));
        let (reply, place) = match timeout(ANSWERING, send).await {
            Ok(Ok(answered)) => answered,
            Ok(Err(error)) => return Err(of(format!("the connection was lost ({error})"))),
            Err(_) => return Err(of("it did not answer in time".into())),
        };
        connection.idle_since = Instant::now();
        self.idle.borrow_mut().push(connection);
        if let Some(place) = place {
            self.wait_for(place).await;
        }
        Ok(reply)
    }

    /// Waits until this process has so many changes of its primary: for a second at most, and only
    /// while the connection is up.
    pub async fn wait_for(&self, place: ChangesAt) {
        let link = &self.replication.link;
        if self.replication.settings.mode != ReplicationMode::Stream {
            return;
        }
        let end = Instant::now() + ARRIVING;
        loop {
            let marked = link.marked.notified();
            let follows = link.state() == LinkState::Connected && link.log_id() == place.id;
            if !follows || link.changes() >= place.changes || timeout_at(end, marked).await.is_err() {
                return;
            }
        }
    }

    fn take_idle(&self, primary: &PrimaryAddress, resp3: bool) -> Option<Connection> {
        let mut idle = self.idle.borrow_mut();
        idle.retain_mut(|connection| connection.is_open() && connection.to == *primary);
        let at = idle.iter().rposition(|connection| connection.resp3 == resp3)?;
        Some(idle.swap_remove(at))
    }

    async fn connect(&self, primary: &PrimaryAddress, resp3: bool) -> Result<Connection, String> {
        let connect = async {
            let tls = client_tls(primary, &[]).map_err(io::Error::other)?;
            let stream = connect_tcp(&primary.host, primary.port, tls.as_ref()).await?;
            let (to, input, idle_since) = (primary.clone(), BytesMut::new(), Instant::now());
            let mut connection = Connection { to, resp3, stream, input, idle_since };
            let mut login = Vec::new();
            if let Some(password) = &self.replication.password {
                login.extend(encode(&[b"AUTH", password.as_bytes()]));
            }
            if resp3 {
                login.extend(encode(&[b"HELLO", b"3"]));
            }
            login.extend(encode(&[ASK]));
            connection.stream.write_all(&login).await?;
            connection.stream.flush().await?;
            let replies = 1 + usize::from(self.replication.password.is_some()) + usize::from(resp3);
            for _ in 0..replies {
                let reply = self.reply(&mut connection).await?;
                if let Some(error) = reply.strip_prefix(b"-") {
                    return Err(io::Error::other(String::from_utf8_lossy(error).trim_end().to_string()));
                }
            }
            Ok::<_, io::Error>(connection)
        };
        match timeout(CONNECTING, connect).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => Err(format!("{primary}: {error}")),
            Err(_) => Err(format!("{primary}: no connection in time")),
        }
    }

    /// The next reply.
    async fn reply(&self, connection: &mut Connection) -> io::Result<Bytes> {
        let mut scanner = Scanner::new(self.replication.limits.1.saturating_add(REST));
        let malformed = |_| io::Error::new(io::ErrorKind::InvalidData, "it sent something other than a reply");
        loop {
            if let Some(length) = scanner.scan(&connection.input).map_err(malformed)? {
                return Ok(connection.input.split_to(length).freeze());
            }
            if connection.stream.read_buf(&mut connection.input).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

impl Connection {
    /// Whether the primary has not closed it, as far as is known here.
    fn is_open(&mut self) -> bool {
        let (mut byte, mut cx) = ([0], Context::from_waker(Waker::noop()));
        let nothing = Pin::new(&mut self.stream).poll_read(&mut cx, &mut ReadBuf::new(&mut byte)).is_pending();
        nothing && self.input.is_empty() && self.idle_since.elapsed() < MAX_IDLE_TIME
    }
}

/// Says that the connection is a replica's, whose writes are not forwarded once more, and asks for
/// the number of changes.
const ASK: &[u8] = b"LARDER.FORWARDED";

/// The number of changes in the reply to that.
fn place(reply: &[u8]) -> Option<ChangesAt> {
    str::from_utf8(reply.strip_prefix(b"+")?.strip_suffix(b"\r\n")?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_written() {
        let at = ChangesAt { id: u64::MAX, changes: 7 };
        assert_eq!(at.to_string().parse(), Ok(at));
        assert_eq!(place(format!("+{at}\r\n").as_bytes()), Some(at));
        for other in ["", "+", "-ERR no\r\n", "+1\r\n", "+x:1\r\n", "+1:x\r\n"] {
            assert_eq!(place(other.as_bytes()), None, "{other}");
        }
    }
}
