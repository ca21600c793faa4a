//! The control thread: builds the process, accepts, keeps house, and drains when a signal ends it.
use super::{
    acceptor,
    drain_on_signal::{ONE_WISH, Signals, drain},
    idle_clients::close_idle,
    listeners::{self, Listener},
    mirror_threads, open_files_limit, ready_message, worker_thread,
};
use larder_base::{
    lifecycle::{RunError, service_manager, watchdog::Watchdog},
    telemetry::Logs,
};
use larder_config::CheckedConfig;
use larder_core::app::App;
use larder_ring::{
    peer::{Discovery, Standing},
    replica,
};
use larder_source::SourceHealth;
use larder_store::clock;
use larder_units::show_duration;
use std::{
    cell::Cell,
    io,
    pin::pin,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    runtime::{Builder, LocalOptions},
    sync::mpsc,
    task::AbortHandle,
    time::{MissedTickBehavior, interval_at, sleep, timeout},
};

/// Between two rows of the history.
const SAMPLE: Duration = Duration::from_secs(1);
/// How long the ready message waits for the first attempt to reach each source.
const FIRST_ATTEMPT: Duration = Duration::from_millis(250);
/// How long the start waits for the addresses of peers.
const FIRST_LOOKUP: Duration = Duration::from_secs(2);
/// How often it looks.
const LOOK: Duration = Duration::from_millis(2);

/// Serves until a signal ends it; returns `Ok` once drained (or once `grace` is over). The ready
/// line goes to standard output when all addresses are bound and every core has begun to connect to
/// its sources.
///
/// # Errors
/// See [`RunError`]; nothing of the process keeps running that its end does not stop.
pub fn run(config: CheckedConfig, logs: Logs) -> Result<(), RunError> {
    let settings = &config.settings;
    let room = open_files_limit::files_for_clients(settings)?;
    let limit = settings.max_connections.min(room);
    if limit < settings.max_connections {
        tracing::warn!(
            wanted = settings.max_connections,
            limit,
            "max-connections lowered to what the limit on open files (ulimit -n) allows"
        );
    }
    let (listeners, bound) = listeners::bind(settings)?;
    let mut app = App::new(config, logs, bound, limit, larder_redis::catalog())?;
    app.telemetry.build = ready_message::BUILD;
    let app = Arc::new(app);
    app.buffers.open_files().set_room(room);
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
    runtime.block_on(control(&app, listeners))
}

async fn control(app: &Arc<App>, listeners: Vec<Listener>) -> Result<(), RunError> {
    // Before anyone can know that we are here.
    let mut signals = Signals::new()?;
    discover(app).await?;
    app.snapshots.start()?;
    let watchdog = Watchdog::of_service_manager(app.settings.threads).map(Arc::new);
    let mut workers = worker_thread::start(app, watchdog.as_ref()).await?;
    let mirrors = mirror_threads::start(app)?;
    let acceptors = acceptors(app, listeners, workers.arrivals)?;
    first_attempts(app).await;
    tokio::task::spawn_local(replica::follow_primary(app.replication.clone(), app.bound.redis_port()));
    tokio::task::spawn_local({
        let app = app.clone();
        async move { app.shrink_tiers().await }
    });
    // A task of its own, because the drain needs ticks, too.
    tokio::task::spawn_local({
        let app = app.clone();
        async move { app.ticks.run().await }
    });
    // Also a process that ends before the first tick says which certificates have expired.
    keep_house(app);
    tokio::task::spawn_local(close_idle(app.clone()));
    // It can be read nowhere else.
    if app.settings.admin.is_some() {
        tokio::task::spawn_local(sample_history(app.clone()));
    }
    #[cfg(feature = "otlp")]
    let exporter = super::otlp_exporter::start(app)?;
    let mut joined = pin!(standing(app, Standing::Serving));
    let mut announced = false;
    let mut leaving: Option<Instant> = None;
    loop {
        tokio::select! {
            number = signals.next(|| reload(app.clone(), announced)) => match leaving {
                None => {
                    leaving = Some(Instant::now());
                    service_manager::stopping(app.live.grace());
                    match &app.peers {
                        Some(peers) if peers.standing() == Standing::Serving => peers.advance(Standing::Leaving),
                        _ => break,
                    }
                }
                Some(since) if since.elapsed() > ONE_WISH => return Err(RunError::SecondSignal(number)),
                Some(_) => {}
            },
            () = standing(app, Standing::Left), if leaving.is_some() => break,
            Some(worker) = workers.ended.recv() => return Err(RunError::WorkerLost(worker)),
            () = &mut joined, if !announced => {
                announced = true;
                ready_message::log(app);
                ready_message::announce(app);
                if let Some(watchdog) = watchdog.clone() {
                    tokio::task::spawn_local(async move { watchdog.watch().await });
                }
            }
            () = app.ticks.next() => {
                keep_house(app);
                if leaving.is_some_and(|since| since.elapsed() > app.live.grace() / 2) {
                    break;
                }
            }
        }
    }
    tracing::info!(grace = %show_duration(app.live.grace()), "stopping: no new connections are accepted");
    let since = leaving.unwrap_or_else(Instant::now);
    drain(app, since, acceptors, &mut workers.ended, &mut signals).await?;
    mirror_threads::finish(app, mirrors, since + app.live.grace()).await;
    #[cfg(feature = "otlp")]
    if let Some(exporter) = exporter {
        exporter.finish().await;
    }
    tracing::info!(uptime_seconds = app.telemetry.uptime().as_secs(), "stopped");
    Ok(())
}

/// Reads the configuration again, in a task of its own: it may have to wait. A service manager follows
/// once the start is announced: it takes the end of a reload for the end of the start.
fn reload(app: Arc<App>, announced: bool) {
    tokio::task::spawn_local(async move {
        if announced {
            service_manager::reloading();
        }
        let outcome = app.reload_and_say().await;
        if announced {
            service_manager::ready(&outcome);
        }
    });
}

/// Resolves once this node is so far in the life of a member; at once if it has no peers.
async fn standing(app: &App, standing: Standing) {
    if let Some(peers) = &app.peers {
        peers.reached(standing).await;
    }
}

/// Looks up the nodes whose names are given, once before anybody is served and then again and
/// again.
async fn discover(app: &App) -> Result<(), RunError> {
    let Some(peers) = &app.peers else { return Ok(()) };
    let Some(mut discovery) = Discovery::new(peers).await.map_err(RunError::Discovery)? else { return Ok(()) };
    let first = timeout(FIRST_LOOKUP, discovery.look_up()).await;
    if first.is_err() {
        tracing::warn!("peers are not looked up yet: this node is alone until they are");
    }
    tokio::task::spawn_local(discovery.keep_looking());
    Ok(())
}

/// Gives every source the time to be reached or refused, so that the ready message can say which.
/// Connections wait meanwhile.
async fn first_attempts(app: &App) {
    let decided = || {
        let is_decided = |health: &SourceHealth| health.was_up() || health.is_lost();
        app.groups.iter().all(|group| is_decided(group.source().health()))
    };
    let _ = timeout(FIRST_ATTEMPT, async {
        while !decided() {
            sleep(LOOK).await;
        }
    })
    .await;
}

fn acceptors(
    app: &Arc<App>,
    listeners: Vec<Listener>,
    arrivals: Vec<mpsc::UnboundedSender<acceptor::Arrival>>,
) -> io::Result<Vec<AbortHandle>> {
    let arrivals = Rc::new(arrivals);
    let refused = Rc::new(Cell::new(0));
    listeners
        .into_iter()
        .map(|Listener { door, socket }| {
            let listener = acceptor::AcceptingSocket::new(socket)?;
            let accepting = acceptor::accept(listener, door, app.clone(), arrivals.clone(), refused.clone());
            Ok(tokio::task::spawn_local(accepting).abort_handle())
        })
        .collect()
}

/// Adds to the history until the process ends.
async fn sample_history(app: Arc<App>) {
    let mut second = interval_at((Instant::now() + until_half_past(app.telemetry.time())).into(), SAMPLE);
    second.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        second.tick().await;
        app.sample_history();
    }
}

/// The time until the middle of a second. A tick there may be early or late, and is still the only
/// one of its second: so no second of the history has two samples, and none has none.
fn until_half_past(now: Duration) -> Duration {
    Duration::from_millis(u64::from((1500 - now.subsec_millis()) % 1000))
}

fn keep_house(app: &App) {
    if let Some(step) = clock::notice_steps() {
        let by = show_duration(Duration::from_millis(step.unsigned_abs()));
        let to = if step < 0 { "back" } else { "forward" };
        tracing::warn!("the machine's clock was set {to} by {by}; lifetimes of entries in memory go on as before");
        // The entries of a disk store end by that clock: what memory has of them is read again.
        for group in app.groups.iter().filter(|group| group.source().store().is_some()) {
            group.cache.mark_prefix(b"", true, clock::now());
        }
    }
    let now = clock::now();
    for group in app.groups.iter() {
        group.cache.tick(now);
    }
    app.replication.tick(now);
    app.buffers.tick();
    app.gate.faults.end_old(now);
    app.snapshots.tick();
    if let Some(tls) = &app.tls {
        tls.tick();
    }
}
