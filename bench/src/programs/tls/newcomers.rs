//! What connected clients notice of a crowd that connects at once.
use super::{HOST, PROGRAM, keep_end};
use crate::lib::machine;
use anyhow::{Context, ensure};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::{
    cell::{Cell, RefCell},
    net::SocketAddr,
    process::Command,
    rc::Rc,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    runtime::{Builder, LocalOptions},
    sync::oneshot,
    task::{JoinSet, spawn_local},
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{ClientConfig, pki_types::ServerName},
};

/// How long the connected clients are measured before the crowd comes.
const CALM: Duration = Duration::from_secs(3);
/// For the crowd, which waits for its turn.
const PATIENCE: Duration = Duration::from_secs(120);

/// Whom the clients ask, and what.
#[derive(Clone)]
pub(super) struct Question {
    pub(super) address: SocketAddr,
    pub(super) request: Vec<u8>,
    /// How every answer ends.
    pub(super) end: Vec<u8>,
    pub(super) config: Arc<ClientConfig>,
}

/// Response times of connected clients, one request at a time on each connection.
#[derive(Debug, Serialize)]
pub(super) struct CrowdRow {
    program: &'static str,
    server: &'static str,
    protocol: &'static str,
    newcomers: u64,
    /// Until each newcomer had its first answer.
    crowd_seconds: f64,
    calm_p50_us: u64,
    calm_p99_us: u64,
    crowd_p50_us: u64,
    crowd_p99_us: u64,
    crowd_max_us: u64,
}

impl CrowdRow {
    /// The 99th percentile while the crowd connects, to that before.
    pub(super) fn ratio(&self) -> f64 {
        self.crowd_p99_us as f64 / self.calm_p99_us as f64
    }
}

impl Question {
    async fn connect(&self) -> anyhow::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        Ok(TlsConnector::from(self.config.clone()).connect(ServerName::try_from(HOST)?, stream).await?)
    }

    async fn ask(&self, stream: &mut TlsStream<TcpStream>) -> anyhow::Result<()> {
        stream.write_all(&self.request).await?;
        stream.flush().await?;
        let mut buffer = [0; 1024];
        let mut kept = 0;
        loop {
            let read = stream.read(&mut buffer[kept..]).await?;
            let filled = kept + read;
            ensure!(read > 0, "instead of the value: {}", String::from_utf8_lossy(&buffer[..filled]));
            match keep_end(&mut buffer, filled, &self.end) {
                Some(bytes) => kept = bytes,
                None => return Ok(()),
            }
        }
    }

    /// Connects all newcomers at once; each asks once and stays until all have been served.
    async fn crowd(self, newcomers: u64) -> anyhow::Result<()> {
        let mut crowd = JoinSet::new();
        for _ in 0..newcomers {
            let question = self.clone();
            crowd.spawn_local(async move {
                let mut stream = question.connect().await.context("a newcomer does not get in")?;
                question.ask(&mut stream).await.context("a newcomer gets no answer")?;
                anyhow::Ok(stream)
            });
        }
        let mut served = Vec::new();
        while let Some(newcomer) = crowd.join_next().await {
            served.push(newcomer??);
        }
        Ok(())
    }

    /// Measures `connections` clients, first alone and then while `newcomers` connect. All run on
    /// the calling thread's core.
    pub(super) fn measure(
        &self,
        server: &'static str,
        protocol: &'static str,
        connections: u64,
        newcomers: u64,
    ) -> anyhow::Result<CrowdRow> {
        let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
        // Before the crowd and while it comes.
        let times = Rc::new(RefCell::new([Histogram::<u64>::new(3)?, Histogram::new(3)?]));
        let phase = Rc::new(Cell::new(0));
        let crowd_seconds = runtime.block_on(async {
            for _ in 0..connections {
                let mut stream = self.connect().await?;
                let (question, times, phase) = (self.clone(), times.clone(), phase.clone());
                spawn_local(async move {
                    loop {
                        let (begun, of) = (Instant::now(), phase.get());
                        if question.ask(&mut stream).await.is_err() {
                            return;
                        }
                        let took = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
                        times.borrow_mut()[of].record(took).expect("it grows");
                    }
                });
            }
            tokio::time::sleep(CALM).await;
            phase.set(1);
            let begun = Instant::now();
            tokio::time::timeout(PATIENCE, self.crowd_on_another_thread(newcomers)?)
                .await
                .context("the newcomers are not served")???;
            anyhow::Ok(begun.elapsed().as_secs_f64())
        })?;
        let [calm, crowd] = &*times.borrow();
        Ok(CrowdRow {
            program: PROGRAM,
            server,
            protocol,
            newcomers,
            crowd_seconds: (crowd_seconds * 10.0).round() / 10.0,
            calm_p50_us: calm.value_at_quantile(0.5),
            calm_p99_us: calm.value_at_quantile(0.99),
            crowd_p50_us: crowd.value_at_quantile(0.5),
            crowd_p99_us: crowd.value_at_quantile(0.99),
            crowd_max_us: crowd.max(),
        })
    }

    /// The crowd runs when the connected clients have nothing to do (SCHED_IDLE, sched(7)), so that
    /// they do not measure its handshakes on their own core.
    fn crowd_on_another_thread(&self, newcomers: u64) -> anyhow::Result<oneshot::Receiver<anyhow::Result<()>>> {
        let (done, wait) = oneshot::channel();
        let (question, core) = (self.clone(), *machine::cores()?.first().context("no core")?);
        thread::Builder::new().name("crowd".to_owned()).spawn(move || {
            let run = || {
                machine::pin(core)?;
                let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
                let idle = Command::new("chrt").args(["--idle", "--pid", "0", &thread]).status()?;
                ensure!(idle.success(), "chrt (util-linux) fails");
                let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
                runtime.block_on(question.crowd(newcomers))
            };
            let _ = done.send(run());
        })?;
        Ok(wait)
    }
}
