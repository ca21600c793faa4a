//! A worker without sockets, clients of it, and a real redis-server to compare with.
use crate::{
    CommandAccess, Flow, Session,
    connection::ClientConnection,
    waiting_replies::{WaitingKind, Waits},
};
use larder_base::telemetry::Logs;
use larder_config::Settings;
use larder_core::{
    app::{App, Bound, Worker},
    clients::Listed,
    read::Group,
};
use larder_engine::{Cache, Config, Millis};
use larder_proto::{
    output::Output,
    resp::{Limits, Parsed, Parser, Scanner, encode},
};
use larder_source::{FillPolicy, Source, none::NoneSource};
use larder_store::clock;
use std::{
    future::{Future, poll_fn},
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

/// One worker of a server.
pub(super) struct Server {
    pub(super) worker: Worker,
}

impl Server {
    /// Without a source, with these arguments of `larder serve`.
    pub(super) fn new(args: &[&str]) -> Server {
        Server::with_source(args, Rc::new(NoneSource))
    }

    pub(super) fn with_source(args: &[&str], source: Rc<dyn Source>) -> Server {
        let config = Config { max_memory: 64 << 20, shards: Some(8), ..Config::default() };
        Server::with(args, source, Cache::new(config))
    }

    /// Another worker on the same tier, without a source.
    pub(super) fn beside(cache: &Arc<Cache>) -> Server {
        Server::sharing(cache, Rc::new(NoneSource))
    }
    /// Another worker on the same tier.
    pub(super) fn sharing(cache: &Arc<Cache>, source: Rc<dyn Source>) -> Server {
        Server::with(&[], source, cache.clone())
    }

    fn with(args: &[&str], source: Rc<dyn Source>, cache: Arc<Cache>) -> Server {
        let mut settings = Settings::from_args(args).expect("valid arguments");
        settings.threads = 1;
        settings.groups[0].max_memory = 1 << 20;
        let mut app = App::new(settings, Logs::default(), Bound::default(), 100, crate::catalog())
            .expect("no source to go wrong");
        cache.set_listener(larder_engine::ListenerKind::Tracking, app.tables.tracking.clone());
        if let Some(events) = &app.groups.default().events {
            cache.set_listener(larder_engine::ListenerKind::Events, events.clone());
        }
        app.groups.default_mut().cache = cache;
        let mut worker = Worker::new(0, Arc::new(app));
        let group = (**worker.groups.default()).clone();
        let policy = FillPolicy { key_counts: group.policy.key_counts.clone(), ..FillPolicy::default() };
        *worker.groups.default_mut() = Rc::new(Group { source, policy: Arc::new(policy), ..group });
        Server { worker }
    }

    /// Of the top level's listeners.
    fn access(&self) -> Arc<CommandAccess> {
        CommandAccess::of_listeners(&self.worker.app.settings)[0].clone()
    }
    fn listed(&self) -> Listed {
        let address = |port| ([127, 0, 0, 1], port).into();
        let waker = std::task::Waker::noop().clone();
        self.worker.app.clients.register(address(1), address(2), 0, clock::now(), waker)
    }
    /// A connection with its pipeline, but for the socket.
    pub(super) fn conn(&self) -> ClientConnection {
        ClientConnection::new(&self.worker, self.listed().client.clone(), self.access())
    }
    pub(super) fn client(&self) -> Client<'_> {
        let listed = self.listed();
        Client {
            server: self,
            session: Session::new(&self.worker, listed.client.clone(), self.access()),
            _listed: listed,
            parser: Parser::default(),
            closed: false,
            now: None,
        }
    }
}

/// One core's runtime.
pub(super) fn runtime() -> tokio::runtime::LocalRuntime {
    tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default()).expect("a runtime")
}

/// A connection of a [`Server`].
pub(super) struct Client<'s> {
    pub(super) server: &'s Server,
    pub(super) session: Session,
    _listed: Listed,
    parser: Parser,
    /// The server has hung up.
    pub(super) closed: bool,
    /// The time, if it stands still.
    pub(super) now: Option<Millis>,
}

/// A command from its words.
pub(super) fn words(line: &str) -> Vec<Vec<u8>> {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

impl Client<'_> {
    /// Sends a command that is answered without waiting, and returns the raw reply.
    pub(super) fn call(&mut self, args: &[Vec<u8>]) -> Vec<u8> {
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        self.raw(&encode(&args))
    }
    /// Like `call`, with words, as text.
    pub(super) fn say(&mut self, line: &str) -> String {
        String::from_utf8_lossy(&self.call(&words(line))).into_owned()
    }
    /// Sends bytes, none of which make anything wait; what comes back.
    pub(super) fn raw(&mut self, bytes: &[u8]) -> Vec<u8> {
        let ready = std::pin::pin!(self.serve(bytes));
        match ready.poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
            std::task::Poll::Ready(reply) => reply,
            std::task::Poll::Pending => panic!("must not wait: {:?}", String::from_utf8_lossy(bytes)),
        }
    }
    /// Sends a command and returns the raw reply; waits as long as it takes.
    pub(super) async fn wait(&mut self, args: &[Vec<u8>]) -> Vec<u8> {
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        self.serve(&encode(&args)).await
    }
    /// Sends words; waits as long as it takes.
    pub(super) async fn ask(&mut self, line: &str) -> String {
        let parts = words(line);
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let reply = self.serve(&encode(&parts)).await;
        String::from_utf8_lossy(&reply).into_owned()
    }

    /// What a connection does with these bytes: one command after the other.
    async fn serve(&mut self, mut bytes: &[u8]) -> Vec<u8> {
        let worker = &self.server.worker;
        let mut out = Output::default();
        let mut limits = Limits::new(worker.app.settings.max_value);
        while !self.closed {
            limits.authenticated = self.session.authenticated;
            let consumed = match self.parser.parse(bytes, &limits) {
                Ok(Parsed::Command { consumed }) => consumed,
                Ok(Parsed::Incomplete { .. }) => break,
                Err(error) => {
                    error.reply(&mut out);
                    self.closed = true;
                    break;
                }
            };
            let args = self.parser.args(bytes);
            let (now, mut batch) = (self.now.unwrap_or_else(clock::now), Vec::new());
            let mut waits = Waits::new(&mut batch, None);
            let mut flow = crate::begin(worker, &mut self.session, &args, now, &mut out, &mut waits);
            let new = waits.new;
            if !batch.is_empty() {
                worker.fetch(worker.groups.default(), &mut batch);
            }
            if let Flow::Alone(command) = flow {
                flow = crate::run(worker, &mut self.session, (command, &args), &mut out).await;
            }
            match new {
                None => {}
                Some((WaitingKind::Read(mut read), _)) => {
                    poll_fn(|cx| read.poll(worker, &mut None, cx)).await;
                    read.reply(&self.server.worker, &mut self.session, &mut out);
                }
                Some((WaitingKind::ClientPipeline(mut together), _)) => {
                    together.send(worker, &self.session);
                    poll_fn(|cx| together.poll(worker, &mut self.session, cx)).await;
                    together.reply(&self.server.worker, &mut self.session, &mut out);
                }
            }
            match flow {
                Flow::Done | Flow::Waits | Flow::Paused => {}
                Flow::Close | Flow::Replicate => self.closed = true,
                Flow::Alone(_) | Flow::Behind | Flow::Input { .. } | Flow::Full => panic!("one at a time"),
            }
            bytes = &bytes[consumed..];
        }
        out.to_vec()
    }
}

/// A redis-server on a Unix socket of its own; ends with this value.
pub(crate) struct Redis {
    process: Child,
    dir: tempfile::TempDir,
}
impl Redis {
    pub(crate) fn start() -> Redis {
        let dir = tempfile::tempdir().expect("a directory");
        // `make test-valkey` names a Valkey.
        let program = std::env::var_os("LARDER_TEST_REDIS").unwrap_or_else(|| "redis-server".into());
        let process = Command::new(program)
            .args(["--port", "0", "--save", "", "--unixsocket", "redis.sock", "--enable-debug-command", "no"])
            .args(["--slowlog-log-slower-than", "-1"])
            .current_dir(&dir)
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        let redis = Redis { process, dir };
        redis.connect().say("PING");
        redis
    }
    pub(super) fn socket(&self) -> PathBuf {
        self.dir.path().join("redis.sock")
    }
    /// A connection, as soon as there is one to be had.
    pub(crate) fn connect(&self) -> RedisClient {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            match UnixStream::connect(self.socket()) {
                Ok(stream) => return RedisClient { stream, read: Vec::new() },
                Err(error) if Instant::now() > deadline => panic!("redis-server does not answer: {error}"),
                Err(_) => std::thread::sleep(Duration::from_millis(2)),
            }
        }
    }
}
impl Drop for Redis {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to do.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A connection to a [`Redis`].
pub(crate) struct RedisClient {
    stream: UnixStream,
    read: Vec<u8>,
}
impl RedisClient {
    /// Sends a command and returns the raw reply.
    pub(super) fn call(&mut self, args: &[Vec<u8>]) -> Vec<u8> {
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        self.stream.write_all(&encode(&args)).expect("redis-server reads");
        let mut scanner = Scanner::new(1 << 30);
        loop {
            if let Some(len) = scanner.scan(&self.read).expect("redis-server speaks RESP") {
                return self.read.drain(..len).collect();
            }
            let mut buffer = [0; 64 * 1024];
            let got = self.stream.read(&mut buffer).expect("redis-server answers");
            assert!(got > 0, "redis-server hung up");
            self.read.extend_from_slice(&buffer[..got]);
        }
    }
    pub(crate) fn say(&mut self, line: &str) -> String {
        String::from_utf8_lossy(&self.call(&words(line))).into_owned()
    }
    /// Sends bytes and then the end of the stream; everything that comes back.
    pub(super) fn raw(mut self, bytes: &[u8]) -> Vec<u8> {
        // It may hang up before it has read it all.
        let _ = self.stream.write_all(bytes);
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
        let mut all = Vec::new();
        let _ = self.stream.read_to_end(&mut all);
        all
    }
}
