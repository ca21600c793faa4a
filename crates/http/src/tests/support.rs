//! A worker without a process around it, and a client that shows every byte.
use crate::{
    ListenerRole,
    connection::{connection_context::ConnectionContext, connection_deadlines::ConnectionDeadline, general_path},
};
use ::http::Request;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::handshake;
use hyper_util::rt::{TokioExecutor, TokioIo};
use larder_base::telemetry::Logs;
use larder_config::{Address, GroupSettings, Settings};
use larder_core::{
    app::{App, Bound, Worker},
    read::Group,
};
use larder_engine::Write;
use larder_source::Source;
use std::{
    future::Future,
    io,
    net::{Ipv4Addr, SocketAddr},
    rc::Rc,
    sync::Arc,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// Which path answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Path {
    /// Whatever the server chooses.
    Any,
    /// Hyper, also for what the fast path could answer.
    General,
    /// Over HTTP/2 ([`Server::send_http2`]).
    Http2,
}

/// Runs a test on a runtime like a worker's. Every task gets its turn between two looks at the
/// sockets.
pub(super) fn run<F: Future>(test: impl FnOnce() -> F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .event_interval(1)
        .build_local(Default::default())
        .expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), test()).await.expect("a test hangs") })
}

pub(super) struct Server {
    pub(super) worker: Rc<Worker>,
    pub(super) http: Rc<crate::HttpWorkerState>,
    native: TcpListener,
    admin: TcpListener,
}

impl Server {
    /// With these arguments of `larder serve`, a second group `other` of 1 MiB, and no source.
    pub(super) fn new(args: &[&str]) -> Server {
        Server::build(args, None, Ipv4Addr::LOCALHOST)
    }

    /// With this source behind group `default`.
    pub(super) fn with_source(args: &[&str], source: Rc<dyn Source>) -> Server {
        Server::build(args, Some(source), Ipv4Addr::LOCALHOST)
    }

    /// Its listeners were told to listen on all addresses.
    pub(super) fn on_all_addresses(args: &[&str]) -> Server {
        Server::build(args, None, Ipv4Addr::UNSPECIFIED)
    }

    fn build(args: &[&str], source: Option<Rc<dyn Source>>, ip: Ipv4Addr) -> Server {
        let mut settings = Settings::from_args(args).expect("valid arguments");
        let default = &mut settings.groups[0];
        default.max_memory = 32 << 20;
        let other = GroupSettings { name: "other".into(), max_memory: 1 << 20, ..default.clone() };
        default.freshness.ttl = source.as_ref().map(|_| Duration::from_secs(60));
        settings.groups.push(other);
        let listen = || {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
            listener.set_nonblocking(true).expect("a socket");
            TcpListener::from_std(listener).expect("a runtime")
        };
        let (native, admin) = (listen(), listen());
        let address =
            |listener: &TcpListener| SocketAddr::from((ip, listener.local_addr().expect("bound").port())).into();
        let bound = Bound { http: vec![address(&native)], admin: Some(address(&admin)), ..Bound::default() };
        let app =
            App::new(settings, Logs::default(), bound, 100, larder_redis::catalog()).expect("no source to go wrong");
        let app = Arc::new(app);
        tokio::task::spawn_local({
            let app = app.clone();
            async move { app.ticks.run().await }
        });
        let mut worker = Worker::new(0, app);
        if let Some(source) = source {
            let group = (**worker.groups.default()).clone();
            *worker.groups.default_mut() = Rc::new(Group { source, ..group });
        }
        Server { worker: Rc::new(worker), http: Rc::default(), native, admin }
    }

    pub(super) fn set(&self, key: &[u8], value: &[u8]) {
        let cache = &self.worker.groups.default().cache;
        let stored = cache.tier().set(cache.key(key), Write::new(value), larder_store::clock::now());
        stored.expect("it fits");
    }

    pub(super) async fn connect(&self) -> Client {
        self.connect_to(ListenerRole::Native, Path::Any).await
    }

    pub(super) async fn connect_to(&self, role: ListenerRole, path: Path) -> Client {
        let listener = match role {
            ListenerRole::Native => &self.native,
            ListenerRole::Admin => &self.admin,
        };
        let address = listener.local_addr().expect("bound");
        let client = TcpStream::connect(address).await.expect("it listens");
        let (stream, peer) = listener.accept().await.expect("it was connected to");
        for stream in [&client, &stream] {
            stream.set_nodelay(true).expect("a socket");
        }
        let (worker, http) = (self.worker.clone(), self.http.clone());
        let ends = (peer.into(), address.into());
        tokio::task::spawn_local(async move {
            match path {
                Path::Any | Path::Http2 => crate::serve_connection(worker, http, stream, ends, role).await,
                Path::General => serve_general(worker, http, stream, ends).await,
            }
        });
        Client { stream: client, read: Vec::new() }
    }
}

async fn serve_general(
    worker: Rc<Worker>,
    http: Rc<crate::HttpWorkerState>,
    stream: TcpStream,
    addresses: (Address, Address),
) {
    let deadline = Rc::new(ConnectionDeadline::begin(&worker.app, &http.deadlines).await);
    let context = Rc::new(ConnectionContext::new(worker, http, addresses, ListenerRole::Native, (false, None)).await);
    general_path::serve(context, stream, Vec::new(), deadline).await;
}

pub(super) struct Client {
    pub(super) stream: TcpStream,
    read: Vec<u8>,
}

impl Server {
    /// One request over a connection of its own. Over HTTP/2, `Host` is the `:authority`.
    pub(super) async fn request(
        &self,
        (role, path): (ListenerRole, Path),
        line: (&str, &str),
        fields: &str,
        body: &str,
    ) -> Reply {
        let (method, target) = line;
        let mut client = self.connect_to(role, path).await;
        if path != Path::Http2 {
            let length = match (method, body) {
                ("GET", "") => String::new(),
                _ => format!("content-length: {}\r\n", body.len()),
            };
            return client.send(format!("{method} {target} HTTP/1.1\r\n{fields}{length}\r\n{body}")).await;
        }
        let (mut sender, connection) =
            handshake(TokioExecutor::new(), TokioIo::new(client.stream)).await.expect("HTTP/2");
        let connection = tokio::task::spawn_local(connection);
        let fields = fields.lines().filter_map(|field| field.split_once(": "));
        let (hosts, others): (Vec<_>, Vec<_>) = fields.partition(|(name, _)| name.eq_ignore_ascii_case("host"));
        let mut request = Request::builder().method(method).uri(format!("http://{}{target}", hosts[0].1));
        for (name, value) in others {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(Bytes::copy_from_slice(body.as_bytes()))).expect("a request");
        let (head, body) = sender.send_request(request).await.expect("an answer").into_parts();
        let body = body.collect().await.expect("a body").to_bytes().to_vec();
        connection.abort();
        let fields = head.headers.iter().map(|(name, value)| format!("\r\n{name}: {}", value.to_str().expect("text")));
        Reply { status: head.status.as_u16(), head: format!("HTTP/2{}", fields.collect::<String>()), body }
    }
}

/// A response as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) status: u16,
    /// Status line and headers.
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl Reply {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }

    /// The last segment of a problem's type.
    pub(super) fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status);
        let kind = problem["type"].as_str().expect("a type");
        kind.strip_prefix("/problems/").expect("a type of ours").to_owned()
    }

    /// With all that depends on the moment made equal.
    pub(super) fn timeless(mut self) -> Reply {
        let lines = self.head.lines().map(|line| match line.split_once(": ") {
            Some((name @ ("date" | "age"), _)) => format!("{name}: …"),
            Some((name @ ("cache-control" | "cache-status"), value)) => {
                let words: String = value.chars().filter(|c| !c.is_ascii_digit()).collect();
                format!("{name}: {words}")
            }
            _ => line.to_owned(),
        });
        self.head = lines.collect::<Vec<_>>().join("\n");
        self
    }
}

impl Client {
    pub(super) async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.expect("the server reads");
    }

    /// One request and its response.
    pub(super) async fn send(&mut self, request: impl AsRef<[u8]>) -> Reply {
        let request = request.as_ref();
        self.write(request).await;
        self.reply(request.starts_with(b"HEAD ")).await
    }

    pub(super) async fn get(&mut self, target: &str) -> Reply {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n")).await
    }

    /// The next response.
    pub(super) async fn reply(&mut self, is_head: bool) -> Reply {
        loop {
            if let Some((reply, len)) = parse(&self.read, is_head) {
                self.read.drain(..len);
                return reply;
            }
            let n = self.stream.read_buf(&mut self.read).await.expect("the server answers");
            assert_ne!(n, 0, "closed after {:?}", String::from_utf8_lossy(&self.read));
        }
    }

    /// What is left of a chunked body of which the head was read from `stream`.
    pub(super) async fn reply_after_head(&mut self) -> String {
        let mut read = Vec::new();
        while !read.ends_with(b"0\r\n\r\n") {
            let n = self.stream.read_buf(&mut read).await.expect("the server answers");
            assert_ne!(n, 0, "closed after {:?}", String::from_utf8_lossy(&read));
        }
        String::from_utf8(read).expect("text")
    }

    /// Everything until the server closes.
    pub(super) async fn rest(mut self) -> io::Result<Vec<u8>> {
        self.stream.read_to_end(&mut self.read).await?;
        Ok(self.read)
    }
}

fn parse(bytes: &[u8], is_head: bool) -> Option<(Reply, usize)> {
    let end = bytes.windows(4).position(|w| w == b"\r\n\r\n")? + 4;
    let head = String::from_utf8(bytes[..end].to_vec()).expect("heads are ASCII");
    let mut reply = Reply { status: head[9..12].parse().expect("a status"), head, body: Vec::new() };
    let no_body = is_head || matches!(reply.status, 100..=199 | 204 | 304);
    if no_body {
        return Some((reply, end));
    }
    if reply.header("transfer-encoding") == Some("chunked") {
        let mut at = end;
        loop {
            let line = bytes[at..].windows(2).position(|w| w == b"\r\n")?;
            let size = std::str::from_utf8(&bytes[at..at + line]).expect("hexadecimal");
            let size = usize::from_str_radix(size, 16).expect("hexadecimal");
            at += line + 2;
            if bytes.len() < at + size + 2 {
                return None;
            }
            reply.body.extend_from_slice(&bytes[at..at + size]);
            assert_eq!(&bytes[at + size..at + size + 2], b"\r\n");
            at += size + 2;
            if size == 0 {
                return Some((reply, at));
            }
        }
    }
    let len: usize = reply.header("content-length")?.parse().expect("a number");
    if bytes.len() < end + len {
        return None;
    }
    reply.body.extend_from_slice(&bytes[end..end + len]);
    Some((reply, end + len))
}
