//! A replica's connection to its primary: made again and again while there is a primary to follow.
use super::{
    apply::{Apply, LinkError},
    frames::{self, Frame, ParsedFrame},
    link_status::LinkState,
    replication::Replication,
    sender::HEARTBEAT,
};
use larder_base::{
    outbound::{Stream, connect_tcp},
    tls::ClientTls,
};
use larder_config::{PrimaryAddress, ReplicationMode};
use larder_proto::resp::encode;
use larder_source::jittered;
use larder_store::{clock, snapshot::MAX_HEAD};
use std::{sync::Arc, sync::atomic::Ordering::Relaxed, time::Duration};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    sync::watch,
    time::{sleep, timeout},
};

/// How long a connection and its first answers may take.
const CONNECTING: Duration = Duration::from_secs(5);
/// A primary that is silent for this long counts as lost.
const SILENCE: Duration = HEARTBEAT.saturating_mul(5);
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// How long the primary may take to close a connection that the replica leaves.
const LEAVING: Duration = Duration::from_secs(1);
/// Longest answer to a command.
const ANSWER: u64 = 4 << 10;
const READ: usize = 64 << 10;

/// Tells of another primary, or none.
type Watched = watch::Receiver<Option<PrimaryAddress>>;

/// Where a replica was when its last connection ended.
#[derive(Debug, Default)]
struct Place {
    primary: Option<PrimaryAddress>,
    /// The turn at which it became the primary.
    turn: u64,
    id: u64,
    records: Vec<u64>,
}

/// Follows the primary of this process, whichever it is, for ever. `port` is where this process
/// serves the Redis protocol.
pub async fn follow_primary(replication: Arc<Replication>, port: u16) {
    let mut watched = replication.watch_primary();
    let mut place = Place::default();
    loop {
        // The borrow ends before the turns are locked. `Replication::follow` takes both the other way
        // round.
        let primary = watched.borrow_and_update().clone();
        let turn = replication.turn();
        let Some(primary) = primary else {
            place = Place::default();
            if watched.changed().await.is_err() {
                return;
            }
            continue;
        };
        // In another turn clients may have written here, although the primary is the same.
        if place.primary.as_ref() != Some(&primary) || place.turn != turn {
            place = Place { primary: Some(primary.clone()), turn, ..Place::default() };
            replication.link.begin(clock::now());
        }
        let link = Link { replication: &replication, primary: &primary, turn, port };
        follow(&link, &mut watched, &mut place).await;
    }
}

/// A link to one primary.
struct Link<'l> {
    replication: &'l Replication,
    primary: &'l PrimaryAddress,
    /// The turn at which it became the primary.
    turn: u64,
    /// Where this process serves the Redis protocol.
    port: u16,
}

/// Follows one primary until `watched` names another.
async fn follow(of: &Link<'_>, watched: &mut Watched, place: &mut Place) {
    let (replication, primary, link) = (of.replication, of.primary, &of.replication.link);
    let mut wait = FIRST_WAIT;
    loop {
        link.set_state(LinkState::Connecting);
        let ended = run(of, watched, place).await;
        link.set_state(LinkState::Down);
        let pause = match (ended, replication.settings.mode) {
            (Ok(()), ReplicationMode::Pull(every)) => {
                wait = FIRST_WAIT;
                every
            }
            (Ok(()), ReplicationMode::Stream) => wait,
            (Err(LinkError::Superseded), _) => return,
            (Err(error), _) => {
                let text = error.to_string();
                if link.error().as_ref() != Some(&text) {
                    tracing::warn!(%primary, error = text, "no connection to the primary");
                }
                let was_up = link.down_since.load(Relaxed) == 0;
                if was_up {
                    link.down_since.store(clock::now(), Relaxed);
                    wait = FIRST_WAIT;
                }
                link.set_error(Some(text));
                wait
            }
        };
        tokio::select! {
            biased;
            _ = watched.changed() => return,
            () = sleep(jittered(pause)) => {}
        }
        wait = (wait * 2).min(LONGEST_WAIT);
    }
}

/// One connection. Ends without an error where changes are pulled and all are here.
async fn run(of: &Link<'_>, watched: &mut Watched, place: &mut Place) -> Result<(), LinkError> {
    let primary = of.primary;
    let connect = async {
        // Read for each connection: the files may have changed.
        let tls = client_tls(primary, &[]).map_err(LinkError::Tls)?;
        let mut stream = BufReader::new(connect_tcp(&primary.host, primary.port, tls.as_ref()).await?);
        log_in(of.replication, &mut stream, of.port, place).await?;
        Ok::<_, LinkError>(stream)
    };
    let mut stream = tokio::select! {
        biased;
        _ = watched.changed() => return Err(LinkError::Superseded),
        connected = timeout(CONNECTING, connect) => connected.map_err(|_| LinkError::Silent(CONNECTING))??,
    };
    let ended = tokio::select! {
        biased;
        _ = watched.changed() => Err(LinkError::Superseded),
        ended = receive(of, &mut stream, place) => ended,
    };
    if let Ok(()) | Err(LinkError::Superseded) = ended {
        // Beside what follows: the next primary does not wait for this one.
        tokio::task::spawn_local(leave(stream));
    }
    ended
}

/// Applies what arrives.
async fn receive(of: &Link<'_>, stream: &mut BufReader<Stream>, place: &mut Place) -> Result<(), LinkError> {
    let Link { replication, primary, .. } = *of;
    let link = &replication.link;
    let longest = longest_frame(replication);
    let mut apply = Apply::new(replication, of.turn);
    let mut input: Vec<u8> = Vec::new();
    let mut begin = 0;
    loop {
        let missing = loop {
            let (length, frame) = match frames::parse(&input[begin..], longest)? {
                ParsedFrame::Incomplete { more } => break more,
                ParsedFrame::Frame(length, frame) => (length, frame),
            };
            match frame {
                Frame::CopyEnds => apply.end_copy().await?,
                Frame::Mark { time, records } => {
                    if apply.mark(time) {
                        place.records = records.iter().collect();
                        let changes: u64 = place.records.iter().sum();
                        link.changes.store(changes, Relaxed);
                        link.marked.notify_waiters();
                        if link.down_since.swap(0, Relaxed) > 0 || link.error().is_some() {
                            tracing::info!(%primary, "following the primary");
                        }
                        link.set_error(None);
                        stream.get_mut().write_all(&frames::ack(changes)).await?;
                        stream.get_mut().flush().await?;
                        if replication.settings.mode != ReplicationMode::Stream {
                            return Ok(());
                        }
                    }
                }
                Frame::Hello { id, resumes, groups } => {
                    apply.hello(groups)?;
                    if !resumes {
                        place.records.clear();
                    }
                    place.id = id;
                    link.set_log_id(id);
                    let counter = if resumes { &link.resumptions } else { &link.full_copies };
                    counter.fetch_add(1, Relaxed);
                    link.set_state(if resumes { LinkState::Connected } else { LinkState::Copying });
                }
                Frame::CopyBegins => {
                    // Until it is complete, the next connection could not go on from anywhere.
                    place.records.clear();
                    apply.begin_copy();
                }
                frame => apply.change(frame)?,
            }
            begin += length;
        };
        apply.pause();
        input.drain(..begin);
        begin = 0;
        input.shrink_to(missing.max(READ));
        let mut limited = (&mut *stream).take(missing.max(READ) as u64);
        match timeout(SILENCE, limited.read_buf(&mut input)).await.map_err(|_| LinkError::Silent(SILENCE))?? {
            0 => return Err(LinkError::Closed),
            _ => link.heard_at.store(clock::now(), Relaxed),
        }
    }
}

/// TLS towards a primary, if it is reached so.
///
/// # Errors
/// A text that names the file.
pub fn client_tls(primary: &PrimaryAddress, protocols: &[&[u8]]) -> Result<Option<ClientTls>, String> {
    primary.tls.as_ref().map(|tls| ClientTls::new(tls, &primary.host, protocols)).transpose()
}

/// The longest frame of entries within the limits here.
fn longest_frame(replication: &Replication) -> usize {
    let (max_key, max_value) = replication.limits;
    // A head has room for the longest key that any settings allow.
    (MAX_HEAD + 64).saturating_add(max_key).saturating_add(max_value)
}

/// Authenticates, and asks for the stream of changes.
async fn log_in(
    replication: &Replication,
    stream: &mut BufReader<Stream>,
    port: u16,
    place: &Place,
) -> Result<(), LinkError> {
    let mut commands = Vec::new();
    let mut answers = 1;
    // The secret alone is enough, where there is one.
    if let (Some(password), None) = (&replication.password, &replication.settings.secret) {
        commands.extend(encode(&[&b"AUTH"[..], password.as_bytes()]));
        answers = 2;
    }
    let secret = replication.settings.secret.as_deref().unwrap_or_default();
    let port = port.to_string();
    let id = format!("{:016x}", if place.records.is_empty() { 0 } else { place.id });
    let records: Vec<u8> = place.records.iter().flat_map(|record| record.to_le_bytes()).collect();
    let command: [&[u8]; 6] = [b"LARDER.REPLICATE", b"1", secret.as_bytes(), port.as_bytes(), id.as_bytes(), &records];
    commands.extend(encode(&command));
    stream.get_mut().write_all(&commands).await?;
    stream.get_mut().flush().await?;
    for _ in 0..answers {
        let mut line = Vec::new();
        (&mut *stream).take(ANSWER).read_until(b'\n', &mut line).await?;
        match line.split_first() {
            Some((b'+', _)) if line.ends_with(b"\n") => {}
            Some((b'-', error)) => {
                return Err(LinkError::Refused(String::from_utf8_lossy(error).trim_end().to_string()));
            }
            None => return Err(LinkError::Closed),
            Some(_) => return Err(LinkError::Malformed),
        }
    }
    Ok(())
}

/// Ends a connection in order: the primary, which may be sending, closes it.
async fn leave(mut stream: BufReader<Stream>) {
    let leaving = async {
        stream.get_mut().write_all(&frames::leave()).await?;
        stream.get_mut().flush().await?;
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
    };
    // It is over with any result: what follows has a connection of its own.
    let _ = timeout(LEAVING, leaving).await;
}
