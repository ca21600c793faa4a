//! The handshake of a connection: authentication, protocol, database, tracking.
use super::{connection_settings::ConnectionSettings, upstream_password as password};
use crate::{invalidation::InvalidationScope, server_identity::ServerIdentity};
use bytes::{Buf, BytesMut};
use larder_base::outbound::Stream;
use larder_config::Secret;
use larder_proto::resp::{self, Scanner, View, view};
use std::{
    io,
    sync::{Arc, atomic::Ordering::Relaxed},
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Maximum size of a handshake reply; real ones are much shorter.
const MAX_REPLY: usize = 64 * 1024;
/// The name that `CLIENT LIST` shows.
const NAME: &[u8] = b"larder";

/// The protocol of a connection, and whether it tracks.
#[derive(Clone)]
pub(super) enum ConnectionMode {
    Resp2,
    Resp3,
    /// RESP3 with CLIENT TRACKING.
    Tracking(InvalidationScope),
}

pub(super) struct Handshake {
    /// Bytes that were read after the handshake (usually none).
    pub(super) input: BytesMut,
    /// Why the server refuses tracking, in its own words, if tracking was requested.
    pub(super) untracked: Option<Arc<str>>,
    /// The connection speaks RESP3.
    pub(super) resp3: bool,
    /// The server can change the protocol inside a transaction, and back.
    pub(super) switches: bool,
    /// The server answers `INFO keyspace`.
    pub(super) informs: bool,
    /// What the server says about itself, if that was asked.
    pub(super) identity: Option<ServerIdentity>,
}

/// Why the handshake failed.
pub(super) enum HandshakeError {
    /// The connection cannot be used; the reason is the server's own text if it sent one.
    Failed(Arc<str>),
    /// The server refused HELLO.
    NoHello(Arc<str>),
}
impl From<Arc<str>> for HandshakeError {
    fn from(reason: Arc<str>) -> HandshakeError {
        HandshakeError::Failed(reason)
    }
}

/// One command of the handshake.
struct Step {
    command: Vec<u8>,
    on_error: OnError,
    /// The reply describes the server.
    identity_reply: Option<IdentityReply>,
}
#[derive(Clone, Copy)]
enum IdentityReply {
    ConnectionMode,
    Info,
}
/// How an error reply to a handshake command is handled.
#[derive(Clone, Copy, PartialEq)]
enum OnError {
    /// The attempt fails.
    Fail,
    /// The attempt fails, unless the error says that no password is needed.
    FailIfNeeded,
    /// The error is ignored; a reply must say that the server is a master.
    NoMaster,
    /// RESP2 is tried next.
    NoHello,
    /// The connection does not track.
    Untracked,
    /// The connection cannot change its protocol.
    NoSwitch,
    /// It is unknown whether hash fields expire.
    NoInfo,
    /// The user may not call `ECHO`, or the server is busy.
    NoMarker,
    /// The attempt fails, unless a script keeps the server busy: the connection may be needed to
    /// kill the script.
    FailUnlessBusy,
    /// Nothing.
    Ignore,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ConnectionPurpose {
    /// It fetches, and learns the server's identity.
    pub(super) fetches: bool,
    /// It fetches whole replies, too.
    pub(super) keeps_replies: bool,
}

/// All commands are sent at once. Each works since Redis 2.6, except AUTH with a user (6.0) and
/// HELLO (6.0, needed for RESP3 only).
fn steps(
    settings: &ConnectionSettings,
    mode: &ConnectionMode,
    ConnectionPurpose { fetches, keeps_replies }: ConnectionPurpose,
    password: Option<&Secret>,
) -> Vec<Step> {
    use OnError::{
        Fail, FailIfNeeded, FailUnlessBusy, Ignore, NoHello, NoInfo, NoMarker, NoMaster, NoSwitch, Untracked,
    };
    let (url, of_user) = (&settings.url, settings.is_of_user);
    let mut commands: Vec<(Vec<&[u8]>, OnError)> = Vec::new();
    let resp3 = !matches!(mode, ConnectionMode::Resp2);
    let no_hello = if matches!(mode, ConnectionMode::Tracking(_)) { NoHello } else { Fail };
    let password = password.map(|password| password.as_bytes());
    let user = url.user.as_deref().map(str::as_bytes);
    match (resp3, password) {
        (true, Some(password)) => {
            commands.push((vec![b"HELLO", b"3", b"AUTH", user.unwrap_or(b"default"), password], no_hello))
        }
        (true, None) => commands.push((vec![b"HELLO", b"3"], no_hello)),
        (false, Some(password)) => {
            let mut auth: Vec<&[u8]> = vec![b"AUTH"];
            auth.extend(user);
            auth.push(password);
            commands.push((auth, if of_user { Fail } else { FailIfNeeded }));
        }
        (false, None) => {}
    }
    let database = url.database.to_string();
    if url.database != 0 {
        commands.push((vec![b"SELECT", database.as_bytes()], Fail));
    }
    if !of_user {
        commands.push((vec![b"CLIENT", b"SETNAME", NAME], Ignore));
    }
    if fetches {
        if !resp3 {
            commands.push((vec![b"HELLO"], Ignore));
        }
        commands.push((vec![b"INFO", b"server"], Ignore));
    }
    if settings.master.is_some() {
        commands.push((vec![b"ROLE"], NoMaster));
    }
    if settings.read_only {
        commands.push((vec![b"READONLY"], Fail));
    }
    if keeps_replies {
        // Tried before tracking starts. If the server refuses only a part, the last HELLO restores the
        // protocol.
        let (other, ours): (&[u8], &[u8]) = if resp3 { (b"2", b"3") } else { (b"3", b"2") };
        let tried: [Vec<&[u8]>; 4] = [vec![b"MULTI"], vec![b"HELLO", other], vec![b"HELLO", ours], vec![b"EXEC"]];
        commands.extend(tried.map(|command| (command, NoSwitch)));
        commands.push((vec![b"INFO", b"keyspace"], NoInfo));
    }
    if let ConnectionMode::Tracking(scope) = mode {
        let mut tracking: Vec<&[u8]> = vec![b"CLIENT", b"TRACKING", b"ON"];
        if !scope.prefixes.is_empty() {
            tracking.push(b"BCAST");
        }
        for prefix in &scope.prefixes[..] {
            tracking.extend([&b"PREFIX"[..], prefix]);
        }
        commands.push((tracking, Untracked));
    }
    commands.push((vec![b"ECHO", NAME], NoMarker));
    // A server that is loading its data or needs a password accepts the commands above and fails this
    // one.
    if !of_user {
        commands.push((vec![b"PING"], if keeps_replies { Fail } else { FailUnlessBusy }));
    }
    let step = |(parts, on_error): (Vec<&[u8]>, OnError)| {
        let identity_reply = match (parts[0], on_error) {
            (_, NoSwitch) => None,
            (b"HELLO", _) => Some(IdentityReply::ConnectionMode),
            (b"INFO", Ignore) => Some(IdentityReply::Info),
            _ => None,
        };
        Step { command: resp::encode(&parts), on_error, identity_reply }
    };
    commands.into_iter().map(step).collect()
}

/// Sends all commands of the handshake and reads their replies.
///
/// # Errors
/// See [`HandshakeError`].
pub(super) async fn perform_handshake(
    stream: &mut Stream,
    settings: &ConnectionSettings,
    mode: &ConnectionMode,
    purpose: ConnectionPurpose,
    password: Option<&Secret>,
) -> Result<Handshake, HandshakeError> {
    let steps = steps(settings, mode, purpose, password);
    let keeps_replies = purpose.keeps_replies;
    let (mut untracked, mut switches, mut informs) = (None, keeps_replies, keeps_replies);
    let mut identity = purpose.fetches.then(ServerIdentity::default);
    let mut after_hello = false;
    let request: Vec<u8> = steps.iter().flat_map(|step| &step.command).copied().collect();
    stream.write_all(&request).await.map_err(reason)?;
    stream.flush().await.map_err(reason)?;
    let mut input = BytesMut::with_capacity(1024);
    for step in &steps {
        let mut scanner = Scanner::new(MAX_REPLY);
        let len = loop {
            match scanner.scan(&input) {
                Err(error) => return Err(HandshakeError::Failed(error.to_string().into())),
                // An invalidation of a key that this connection has not fetched yet.
                Ok(Some(len)) if input[0] == b'>' => input.advance(len),
                Ok(Some(len)) => break len,
                Ok(None) => {
                    if stream.read_buf(&mut input).await.map_err(reason)? == 0 {
                        return Err(HandshakeError::Failed("connection closed by the source".into()));
                    }
                }
            }
        };
        if input[0] == b'-' {
            let text: Arc<str> = String::from_utf8_lossy(input[1..len].trim_ascii_end()).into();
            match step.on_error {
                OnError::FailIfNeeded if password::is_needless(&text) => {}
                OnError::Fail | OnError::FailIfNeeded => return Err(HandshakeError::Failed(text)),
                OnError::NoHello => return Err(HandshakeError::NoHello(text)),
                OnError::Untracked => untracked = Some(text),
                OnError::NoSwitch => switches = false,
                OnError::NoInfo => informs = false,
                OnError::NoMarker if !text.starts_with("BUSY ") => settings.can_mark.store(false, Relaxed),
                OnError::FailUnlessBusy if !text.starts_with("BUSY ") => return Err(HandshakeError::Failed(text)),
                OnError::FailUnlessBusy | OnError::Ignore | OnError::NoMaster | OnError::NoMarker => {}
            }
        } else if step.on_error == OnError::NoMaster && !is_master(&input[..len]) {
            return Err(HandshakeError::Failed("it is not the master (ROLE)".into()));
        } else if step.on_error == OnError::NoMarker {
            settings.can_mark.store(true, Relaxed);
        } else if let Some(identity) = &mut identity {
            match step.identity_reply {
                Some(IdentityReply::ConnectionMode) => {
                    identity.hello(&input[..len]);
                    after_hello = true;
                }
                Some(IdentityReply::Info) => identity.info(&input[..len], after_hello),
                None => {}
            }
        }
        input.advance(len);
    }
    Ok(Handshake { input, untracked, resp3: !matches!(mode, ConnectionMode::Resp2), switches, informs, identity })
}

/// Whether a reply to `ROLE` says that the server is a master.
fn is_master(reply: &[u8]) -> bool {
    let Ok(View::Array(mut parts)) = view(reply) else { return false };
    parts.next() == Some(View::Bulk(b"master"))
}

/// The text of an I/O error (`connection refused`), without the system's error number.
pub(super) fn reason(error: io::Error) -> Arc<str> {
    match error.raw_os_error() {
        Some(_) if error.kind() != io::ErrorKind::Other => error.kind().to_string().into(),
        _ => error.to_string().into(),
    }
}
