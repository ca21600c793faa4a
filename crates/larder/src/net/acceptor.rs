//! The acceptor: takes connections from every listener and hands each to the worker with the fewest
//! open ones.
//!
//! Not SO_REUSEPORT: the kernel's hash leaves cores unequal whenever connections are few, and they
//! are usually few and long.
use super::{
    listeners::{BoundSocket, Door, Service},
    unix_socket::SocketFile,
};
use larder_base::{
    lifecycle::{faults::FaultPlace, linger::linger},
    tls,
};
use larder_config::Address;
use larder_core::{
    app::App,
    clients::{FullBy, Seat},
};
use larder_store::clock;
use std::{
    cell::Cell,
    io::{self, Write},
    net::TcpStream,
    os::fd::OwnedFd,
    rc::Rc,
    sync::Arc,
    time::Duration,
};
use tokio::{
    net::{TcpListener, UnixListener},
    sync::mpsc::UnboundedSender,
};

/// A connection on its way to its worker.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) stream: TcpStream,
    pub(super) peer: Address,
    pub(super) door: Door,
    /// Its place among the worker's connections.
    pub(super) seat: Seat,
}

/// How long the acceptor pauses when the process has run out of something (files, memory): there is
/// no event to wait for.
const PAUSE: Duration = Duration::from_millis(20);

/// Refused connections whose client is still being waited for, at most; more are cut at once.
const MAX_REFUSED: usize = 32;

/// How long a refused client may take to read why.
const LINGER: Duration = Duration::from_secs(1);

/// A listening socket of the control thread's runtime.
pub(super) enum AcceptingSocket {
    Tcp(TcpListener),
    /// The file goes with it.
    Unix(UnixListener, SocketFile),
}

impl AcceptingSocket {
    /// # Errors
    /// The runtime ends.
    pub(super) fn new(socket: BoundSocket) -> io::Result<AcceptingSocket> {
        Ok(match socket {
            BoundSocket::Tcp(socket) => AcceptingSocket::Tcp(TcpListener::from_std(socket)?),
            BoundSocket::Unix(socket, file) => AcceptingSocket::Unix(UnixListener::from_std(socket)?, file),
        })
    }

    /// The next connection, out of this thread's poller: it is going to be another thread's.
    async fn accept(&self) -> io::Result<(TcpStream, Address)> {
        match self {
            AcceptingSocket::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((stream.into_std()?, peer.into()))
            }
            AcceptingSocket::Unix(listener, file) => {
                let (stream, _) = listener.accept().await?;
                // All that is done with the stream is the same for both kinds (decision 0185).
                Ok((OwnedFd::from(stream.into_std()?).into(), file.address.clone()))
            }
        }
    }
}

/// Accepts until dropped.
pub(super) async fn accept(
    listener: AcceptingSocket,
    door: Door,
    app: Arc<App>,
    workers: Rc<Vec<UnboundedSender<Arrival>>>,
    refused: Rc<Cell<usize>>,
) {
    let mut in_trouble = false;
    loop {
        let (stream, peer) = match listener.accept().await {
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
        let seat = match app.clients.admit(door.service == Service::Admin) {
            Ok(seat) => seat,
            Err(full) => {
                app.telemetry.control().connections_refused.add(1);
                refuse(stream, door, full, &app, &refused);
                continue;
            }
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
        Service::Memcached => FaultPlace::Memcached,
        Service::Admin => return false,
    };
    app.gate.faults.are_on() && app.gate.faults.cuts(place, "", clock::now())
}

/// Did the client give up between its connection and our accept?
fn is_of_the_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
    )
}

/// The refusal of a client, in the protocol of its listener.
fn refusal(service: Service, full: FullBy) -> String {
    let (limit, setting) = match full {
        FullBy::MaxConnections => ("max-connections", "setting `max-connections`"),
        FullBy::OpenFiles => ("open files, ulimit -n", "limit on open files, `ulimit -n`"),
    };
    match service {
        Service::Redis(_) => return format!("-ERR max number of clients reached ({limit})\r\n"),
        Service::Memcached => return format!("SERVER_ERROR max number of clients reached ({limit})\r\n"),
        Service::Http | Service::Admin => {}
    }
    let body = format!(
        "{{\"type\":\"/problems/too-many-connections\",\"title\":\"Too many connections\",\"status\":503,\"detail\":\"max number of clients reached ({setting})\"}}"
    );
    format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\nretry-after: 1\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// Says why, then closes.
fn refuse(mut stream: TcpStream, door: Door, full: FullBy, app: &Arc<App>, refused: &Rc<Cell<usize>>) {
    // An empty socket buffer takes these few bytes; if not, the client goes without a reason.
    let told = match door.is_tls {
        // A handshake for the sake of a reason would cost more than serving the client.
        true => stream.write_all(tls::REFUSAL),
        false => stream.write_all(refusal(door.service, full).as_bytes()),
    };
    let told = told.is_ok();
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
