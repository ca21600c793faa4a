//! The worker threads: one core each, with its own runtime, its own connections to the sources and
//! its own clients.
use super::{
    acceptor::Arrival,
    listeners::{Door, Service},
    proxy_protocol::{may_send_header, take_header},
    ring_transport::{self, FirstKey, PlainStream, WorkerRing},
    tls_handshake::begin_tls,
};
use larder_base::{
    lifecycle::{RunError, drain_phase::Phase, watchdog::Watchdog},
    outbound::stop_pacing,
    tls::{ClientStream, HandshakeTurns, ServerTls},
};
use larder_config::Address;
use larder_core::{
    app::{App, Worker},
    clients::{Client, Seat},
};
use larder_memcached::PendingFlush;
use larder_proto::{memcached, resp};
use larder_redis::CommandAccess;
use larder_redis::connection::{self, BufferPool};
use larder_ring::peer::{self, Standing};
use std::{io, pin::pin, rc::Rc, sync::Arc, thread, time::Duration};
use tokio::{
    net::TcpStream,
    runtime::{Builder, LocalOptions},
    sync::mpsc,
};

/// How long a node hands its keys over at most, if `grace` is long.
const LONGEST_LEAVE: Duration = Duration::from_secs(5);

/// The running workers, seen from the control thread.
pub(super) struct Workers {
    /// Where to send each worker its connections. Dropping them tells the workers that no more will
    /// come.
    pub(super) arrivals: Vec<mpsc::UnboundedSender<Arrival>>,
    /// Numbers of the workers that ended.
    pub(super) ended: mpsc::UnboundedReceiver<usize>,
}

/// Starts `threads` workers and waits until each has built its sources.
pub(super) async fn start(app: &Arc<App>, watchdog: Option<&Arc<Watchdog>>) -> Result<Workers, RunError> {
    let (up, mut ups) = mpsc::unbounded_channel();
    let (end, ended) = mpsc::unbounded_channel();
    let mut arrivals = Vec::new();
    let flush = Arc::<PendingFlush>::default();
    for id in 0..app.settings.threads {
        let (sender, receiver) = mpsc::unbounded_channel();
        arrivals.push(sender);
        let (app, up, ended) = (app.clone(), up.clone(), Ended(id, end.clone()));
        let (watchdog, flush) = (watchdog.cloned(), flush.clone());
        thread::Builder::new().name(format!("worker-{id}")).spawn(move || {
            let _ended = ended;
            main(id, app, watchdog, receiver, flush, up);
        })?;
    }
    drop(up);
    for _ in 0..app.settings.threads {
        // A worker that panics while it builds drops its sender without a word.
        ups.recv().await.unwrap_or(Err(RunError::WorkerLost(0)))?;
    }
    Ok(Workers { arrivals, ended })
}

/// Reports the end of a worker, also by panic.
struct Ended(usize, mpsc::UnboundedSender<usize>);
impl Drop for Ended {
    fn drop(&mut self) {
        // The receiver is gone when the process is already ending.
        let _ = self.1.send(self.0);
    }
}

type Up = mpsc::UnboundedSender<Result<(), RunError>>;

fn main(
    id: usize,
    app: Arc<App>,
    watchdog: Option<Arc<Watchdog>>,
    arrivals: mpsc::UnboundedReceiver<Arrival>,
    flush: Arc<PendingFlush>,
    up: Up,
) {
    if app.settings.pin
        && let Err(error) = pin(id)
    {
        let _ = up.send(Err(RunError::Pin(error)));
        return;
    }
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    // The control thread may be gone already, on another worker's error.
    match runtime {
        Err(error) => {
            let _ = up.send(Err(error.into()));
        }
        Ok(runtime) => runtime.block_on(async move {
            let worker = Rc::new(Worker::new(id, app));
            if let Some(watchdog) = watchdog.clone() {
                tokio::task::spawn_local(async move { watchdog.keep_beating(id).await });
            }
            if id == 0 {
                larder_redis::learn_rights(&worker).await;
                tokio::task::spawn_local(larder_redis::keep_asking_for_rights(worker.clone()));
            }
            let _ = up.send(Ok(()));
            drop(up);
            if id == 0 {
                tokio::task::spawn_local(come_and_go(worker.clone()));
                let worker = worker.clone();
                tokio::task::spawn_local(async move { worker.app.snapshots.verify(&worker.groups).await });
            }
            serve(worker, arrivals, flush).await;
            if let Some(watchdog) = watchdog {
                watchdog.worker_ends(id);
            }
        }),
    }
}

/// Keeps the calling thread on one core of those that it may use: worker 0 on the first, the next
/// on the second. If there are more workers than cores, some share one.
///
/// # Errors
/// The system refuses, or is not Linux.
#[cfg(target_os = "linux")]
fn pin(worker: usize) -> io::Result<()> {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let allowed = sched_getaffinity(None)?;
    let cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
    let mut own = CpuSet::new();
    // The thread runs, so there is a core.
    own.set(cores.cycle().nth(worker).expect("at least one core"));
    Ok(sched_setaffinity(None, &own)?)
}

#[cfg(not(target_os = "linux"))]
fn pin(_worker: usize) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "threads can be pinned on Linux only"))
}

/// What this node does for its peers when it starts and when it ends.
async fn come_and_go(worker: Rc<Worker>) {
    let Some(peers) = &worker.app.peers else { return };
    let groups: Vec<_> = worker.groups.iter().filter_map(|group| group.peers.clone()).collect();
    peer::join(&groups).await;
    // No group may be shared.
    peers.advance(Standing::Serving);
    peers.reached(Standing::Leaving).await;
    peer::leave(&groups, LONGEST_LEAVE.min(worker.app.live.grace() / 3)).await;
    // Whatever came of it.
    peers.advance(Standing::Left);
}

/// Connections that a worker admits before others have their turn.
const ARRIVALS: usize = 4;

/// Serves connections until there are none left and no more will come, or until the grace time is
/// over.
async fn serve(worker: Rc<Worker>, mut arrivals: mpsc::UnboundedReceiver<Arrival>, flush: Arc<PendingFlush>) {
    let app = worker.app.clone();
    // Every connection holds a sender: the receiver hears when the last is gone.
    let (alive, mut all_gone) = mpsc::channel::<()>(1);
    let access = CommandAccess::of_listeners(&app.settings).into();
    let ring = ring_transport::start(&worker);
    let shared =
        Shared { pool: Rc::default(), http: Rc::default(), access, turns: Rc::default(), ring: ring.clone(), flush };
    if worker.queue_delay.is_on() {
        let worker = worker.clone();
        tokio::task::spawn_local(async move { worker.queue_delay.watch().await });
    }
    tokio::task::spawn_local({
        let worker = worker.clone();
        async move { worker.longest_turn.watch(&worker.app.ticks, &worker.counters.longest_turn).await }
    });
    let mut draining = pin!(app.drain.reached(Phase::Draining));
    let mut closing = pin!(app.drain.reached(Phase::Closing));
    let mut aborting = pin!(app.drain.reached(Phase::Aborting));
    let mut told = false;
    let mut admitted = 0;
    loop {
        if admitted == ARRIVALS {
            admitted = 0;
            // A task that yields runs again after the runtime has looked for events.
            tokio::task::yield_now().await;
        }
        tokio::select! {
            biased;
            () = &mut aborting => return,
            () = &mut draining, if !told => {
                told = true;
                app.clients.visit(worker.id, |client| match larder_redis::tells_to_move(&app, client) {
                    true => client.tell_to_move(),
                    false => client.finish(),
                });
            }
            arrival = arrivals.recv() => match arrival {
                Some(arrival) => {
                    admitted += 1;
                    admit(&worker, &shared, arrival, alive.clone());
                }
                None => break,
            }
        }
    }
    drop(alive);
    // The last replies may still be with the ring.
    let all_gone = async {
        all_gone.recv().await;
        if let Some(ring) = &ring {
            ring.emptied().await;
        }
    };
    let mut all_gone = pin!(all_gone);
    tokio::select! {
        biased;
        () = &mut closing => app.clients.visit(worker.id, Client::finish),
        () = &mut all_gone => return,
    }
    tokio::select! {
        biased;
        () = &mut aborting => {}
        () = &mut all_gone => {}
    }
}

/// What the connections of one worker share, by protocol.
#[derive(Clone)]
struct Shared {
    pool: Rc<BufferPool>,
    http: Rc<larder_http::HttpWorkerState>,
    /// By the number of the listener.
    access: Rc<[Arc<CommandAccess>]>,
    turns: Rc<HandshakeTurns>,
    ring: Option<WorkerRing>,
    flush: Arc<PendingFlush>,
}

impl Shared {
    /// The stream of a new connection without TLS.
    fn plain_stream(&self, service: Service, stream: TcpStream) -> io::Result<PlainStream> {
        let ring = self.ring.as_ref().filter(|ring| ring.works());
        let first_key: Option<FirstKey> = match service {
            Service::Redis(_) => Some(|input| resp::first_arguments(input).next()?),
            Service::Memcached => Some(|input| memcached::keys_ahead(input).next()?),
            // HTTP has gained nothing over the ring (decision 0084).
            Service::Http | Service::Admin => None,
        };
        ring_transport::plain_stream(stream, ring, first_key)
    }
}

/// The addresses of the client and of our end.
type Ends = (Address, Address);

/// Starts the task of a connection.
fn admit(worker: &Rc<Worker>, shared: &Shared, arrival: Arrival, alive: mpsc::Sender<()>) {
    let Arrival { stream, peer, door, seat } = arrival;
    let (stream, local) = match prepare(stream, &peer) {
        Ok(stream) => stream,
        // Already reset by the client, or out of memory in the kernel: no client is left to tell.
        Err(_) => return,
    };
    let counters = &worker.counters;
    match door.service {
        Service::Redis(_) => counters.redis_connections_opened.add(1),
        Service::Memcached => counters.memcached_connections_opened.add(1),
        Service::Http | Service::Admin => counters.http_connections_opened.add(1),
    }
    let place = Place { worker: worker.clone(), service: door.service, _seat: seat, _alive: alive };
    let shared = shared.clone();
    // A panic unwinds to the task's boundary: the runtime drops the task, `Place` counts it, the other
    // connections go on. Tasks of their own kinds: that of a plain connection is not to be as large
    // as the others.
    match worker.app.tls.clone().filter(|_| door.is_tls) {
        _ if may_send_header(worker, door, &peer) => {
            tokio::task::spawn_local(serve_proxied(place, shared, stream, door, (peer, local)))
        }
        None => tokio::task::spawn_local(serve_plain(place, shared, stream, (peer, local))),
        Some(tls) => tokio::task::spawn_local(serve_tls(place, shared, tls, stream, (peer, local))),
    };
}

/// Serves the connection of a trusted proxy, which may begin with a PROXY header.
async fn serve_proxied(place: Place, shared: Shared, mut stream: TcpStream, door: Door, (proxy, local): Ends) {
    let Some(peer) = take_header(&place.worker, door, &mut stream, proxy).await else { return };
    match place.worker.app.tls.clone().filter(|_| door.is_tls) {
        None => serve_plain(place, shared, stream, (peer, local)).await,
        Some(tls) => serve_tls(place, shared, tls, stream, (peer, local)).await,
    }
}

/// Serves a connection without TLS.
async fn serve_plain(place: Place, shared: Shared, stream: TcpStream, ends: Ends) {
    // Fails when the runtime ends.
    if let Ok(stream) = shared.plain_stream(place.service, stream) {
        serve_client(place, shared, stream, ends).await;
    }
}

/// Serves a connection that begins with a TLS handshake.
async fn serve_tls(place: Place, shared: Shared, tls: Arc<ServerTls>, stream: TcpStream, ends: Ends) {
    if let Some(stream) = begin_tls(&place.worker, place.service, &tls, &shared.turns, stream, &ends.0).await {
        serve_client(place, shared, stream, ends).await;
    }
}

/// Serves a connection until it ends.
async fn serve_client<S: ClientStream>(place: Place, shared: Shared, stream: S, ends: Ends) {
    let (worker, http) = (place.worker.clone(), shared.http);
    match place.service {
        Service::Redis(listener) => {
            connection::serve(worker, shared.pool, stream, ends, shared.access[listener].clone()).await
        }
        Service::Memcached => larder_memcached::serve(worker, shared.pool, shared.flush, stream, ends).await,
        Service::Http => {
            larder_http::serve_connection(worker, http, stream, ends, larder_http::ListenerRole::Native).await
        }
        Service::Admin => {
            larder_http::serve_connection(worker, http, stream, ends, larder_http::ListenerRole::Admin).await
        }
    }
    drop(place);
}

/// The stream in this thread's runtime, and our end of it.
fn prepare(stream: std::net::TcpStream, peer: &Address) -> io::Result<(TcpStream, Address)> {
    let local = match peer {
        Address::Ip(peer) => {
            // Replies leave whole: waiting for more to send would only delay them.
            stream.set_nodelay(true)?;
            stop_pacing(socket2::SockRef::from(&stream), peer);
            stream.local_addr()?.into()
        }
        Address::Unix(_) => peer.clone(),
    };
    Ok((TcpStream::from_std(stream)?, local))
}

/// What a connection occupies while it lives.
struct Place {
    worker: Rc<Worker>,
    service: Service,
    _seat: Seat,
    _alive: mpsc::Sender<()>,
}
impl Drop for Place {
    fn drop(&mut self) {
        let counters = &self.worker.counters;
        match self.service {
            Service::Redis(_) => counters.redis_connections_closed.add(1),
            Service::Memcached => counters.memcached_connections_closed.add(1),
            Service::Http | Service::Admin => counters.http_connections_closed.add(1),
        }
        if thread::panicking() {
            counters.connection_panicked();
        }
    }
}
