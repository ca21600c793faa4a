//! The acceptor: takes connections from every listener and hands each to the worker with the fewest
//! open ones.
//!
//! Not SO_REUSEPORT: the kernel's hash leaves cores unequal whenever connections are few, and they
//! are usually few and long.
use super::listeners::{Door, Service};
use crate::{
    app::App,
    clients::Seat,
    lifecycle::{faults::FaultPlace, linger::linger},
    tls,
};
use larder_store::clock;
use std::{
    cell::Cell,
    io::{self, Write},
    net::{SocketAddr, TcpStream},
    rc::Rc,
    sync::Arc,
    time::Duration,
};
use tokio::{net::TcpListener, sync::mpsc::UnboundedSender};

/// A connection on its way to its worker.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) stream: TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) door: Door,
    /// Its place among the worker's connections.
    pub(super) seat: Seat,
}

/// How long the acceptor pauses when the process has run out of something (files, memory): there is
/// no event to wait for.
const PAUSE: Duration = Duration::from_millis(20);

/// Refused connections whose client is still being waited for, at most; more are cut at once.
const MAX_REFUSED: usize = 128;

/// How long a refused client may take to read why.
const LINGER: Duration = Duration::from_secs(1);

/// Accepts until dropped.
pub(super) async fn accept(
    listener: TcpListener,
    door: Door,
    app: Arc<App>,
    workers: Rc<Vec<UnboundedSender<Arrival>>>,
    refused: Rc<Cell<usize>>,
) {
    let mut in_trouble = false;
    loop {
        let accepted = listener.accept().await;
        // Out of this thread's poller: the connection is going to be another thread's.
        let accepted = accepted.and_then(|(stream, peer)| Ok((stream.into_std()?, peer)));
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) if is_of_the_connection(&error) => continue,
            Err(error) => {
                // Once for each time of trouble, not fifty times a second.
                if !std::mem::replace(&mut in_trouble, true) {
                    tracing::warn!(%error, "cannot accept connections, trying again");
                }
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        in_trouble = false;
        if is_cut(&app, door.service) {
            continue;
        }
        let Some(seat) = app.clients.admit(door.service == Service::Admin) else {
            app.telemetry.control().connections_refused.add(1);
            refuse(stream, door, &app, &refused);
            continue;
        };
        let worker = seat.worker;
        // Fails when the worker has gone, that is while the process ends.
        let _ = workers[worker].send(Arrival { stream, peer, door, seat });
    }
}

/// Does a fault that was ordered close the connection at once? Never one to the admin listener,
/// which ends faults.
fn is_cut(app: &App, service: Service) -> bool {
    let place = match service {
        Service::Redis(_) => FaultPlace::Redis,
        Service::Http => FaultPlace::Http,
        Service::Admin => return false,
    };
    app.faults.are_on() && app.faults.cuts(place, "", clock::now())
}

/// Did the client give up between its connection and our accept?
fn is_of_the_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
    )
}

const NO_ROOM_REDIS: &[u8] = b"-ERR max number of clients reached (max-connections)\r\n";
const NO_ROOM_HTTP: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
content-type: application/problem+json\r\n\
content-length: 154\r\n\
retry-after: 1\r\n\
connection: close\r\n\
\r\n\
{\"type\":\"/problems/too-many-connections\",\"title\":\"Too many connections\",\"status\":503,\"detail\":\"max number of clients reached (setting `max-connections`)\"}";

/// Says why, then closes.
fn refuse(mut stream: TcpStream, door: Door, app: &Arc<App>, refused: &Rc<Cell<usize>>) {
    let reason = match door.service {
        // A handshake for the sake of a reason would cost more than serving the client.
        _ if door.is_tls => tls::REFUSAL,
        Service::Redis(_) => NO_ROOM_REDIS,
        Service::Http | Service::Admin => NO_ROOM_HTTP,
    };
    // An empty socket buffer takes these few bytes; if not, the client goes without a reason.
    let told = stream.write_all(reason).is_ok();
    if told && refused.get() < MAX_REFUSED {
        refused.set(refused.get() + 1);
        let (app, refused) = (app.clone(), refused.clone());
        tokio::task::spawn_local(async move {
            if let Ok(mut stream) = tokio::net::TcpStream::from_std(stream) {
                linger(&mut stream, &app.drain, LINGER).await;
            }
            refused.set(refused.get() - 1);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_states_its_length_truly() {
        let text = std::str::from_utf8(NO_ROOM_HTTP).expect("ascii");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "body is {} bytes", body.len());
    }
}
