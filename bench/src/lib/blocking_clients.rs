//! The smallest clients that the programs need to load, probe and check servers: Redis protocol
//! (RESP2) and HTTP/1.1, blocking.
//!
//! They check what they read; they are not load generators.
use anyhow::{Context, bail, ensure};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// Longest line of a reply; a server under test is not trusted.
const MAX_LINE: u64 = 64 * 1024;
/// Longest body or bulk string: the largest value there is.
const MAX_BODY: usize = 512 << 20;

/// A connection whose reads and writes give up after a time.
struct Connection {
    input: BufReader<TcpStream>,
    output: Vec<u8>,
}

impl Connection {
    fn open(address: SocketAddr, timeout: Duration) -> anyhow::Result<Connection> {
        let stream =
            TcpStream::connect_timeout(&address, timeout).with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        Ok(Connection { input: BufReader::with_capacity(64 * 1024, stream), output: Vec::new() })
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        self.input.get_mut().write_all(&self.output)?;
        self.output.clear();
        Ok(())
    }

    /// A line without its line break.
    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = Vec::new();
        (&mut self.input).take(MAX_LINE).read_until(b'\n', &mut line)?;
        ensure!(!line.is_empty(), "the server closed the connection");
        ensure!(line.pop() == Some(b'\n'), "a reply breaks off or has an endless line");
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        String::from_utf8(line).context("a reply's line is not text")
    }

    fn bytes(&mut self, length: usize) -> anyhow::Result<Vec<u8>> {
        ensure!(length <= MAX_BODY, "a reply announces {length} bytes");
        let mut bytes = vec![0; length];
        self.input.read_exact(&mut bytes).context("a reply breaks off")?;
        Ok(bytes)
    }
}

/// A reply of the Redis protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RedisReply {
    /// `+OK`
    Status(String),
    /// `-ERR …`, without the dash
    Error(String),
    /// `:1`
    Integer(i64),
    /// `$3 …`; absent for nil
    Bulk(Option<Vec<u8>>),
}

impl RedisReply {
    /// The number that is a value; absent for nil.
    pub(crate) fn value(self) -> anyhow::Result<Option<u64>> {
        match self {
            RedisReply::Bulk(None) => Ok(None),
            RedisReply::Bulk(Some(text)) => Ok(Some(std::str::from_utf8(&text)?.parse()?)),
            other => bail!("GET was answered {other:?}"),
        }
    }
}

/// A client of the Redis protocol.
pub(crate) struct RespClient(Connection);

impl RespClient {
    /// Connects; connecting and each read and write give up after `timeout`.
    pub(crate) fn connect(address: SocketAddr, timeout: Duration) -> anyhow::Result<RespClient> {
        Connection::open(address, timeout).map(RespClient)
    }

    /// Queues a command.
    pub(crate) fn queue(&mut self, arguments: &[&[u8]]) {
        let output = &mut self.0.output;
        output.extend_from_slice(format!("*{}\r\n", arguments.len()).as_bytes());
        for argument in arguments {
            output.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
            output.extend_from_slice(argument);
            output.extend_from_slice(b"\r\n");
        }
    }

    /// Sends what is queued.
    pub(crate) fn flush(&mut self) -> anyhow::Result<()> {
        self.0.flush()
    }

    /// Reads the next reply.
    pub(crate) fn reply(&mut self) -> anyhow::Result<RedisReply> {
        let line = self.0.line()?;
        let (kind, rest) = line.split_at_checked(1).context("a reply begins with an empty line")?;
        let number = || -> anyhow::Result<i64> { Ok(rest.parse()?) };
        Ok(match kind {
            "+" => RedisReply::Status(rest.to_owned()),
            "-" => RedisReply::Error(rest.to_owned()),
            ":" => RedisReply::Integer(number().with_context(|| format!("reply {line:?}"))?),
            "$" => match number().with_context(|| format!("reply {line:?}"))? {
                -1 => RedisReply::Bulk(None),
                length => {
                    let length = usize::try_from(length).with_context(|| format!("reply {line:?}"))?;
                    let mut bytes = self.0.bytes(length + 2)?;
                    ensure!(bytes.ends_with(b"\r\n"), "a bulk string is longer than announced");
                    bytes.truncate(length);
                    RedisReply::Bulk(Some(bytes))
                }
            },
            _ => bail!("reply {line:?} is of a kind that was not asked for"),
        })
    }

    /// Sends one command and reads its reply.
    pub(crate) fn call(&mut self, arguments: &[&[u8]]) -> anyhow::Result<RedisReply> {
        self.queue(arguments);
        self.flush()?;
        self.reply()
    }

    /// The number that `GET` finds under a key.
    pub(crate) fn value(&mut self, key: &str) -> anyhow::Result<Option<u64>> {
        self.call(&[b"GET", key.as_bytes()])?.value()
    }

    /// The numbers under several keys, asked for together.
    pub(crate) fn values(&mut self, keys: &[String]) -> anyhow::Result<Vec<Option<u64>>> {
        keys.iter().for_each(|key| self.queue(&[b"GET", key.as_bytes()]));
        self.flush()?;
        keys.iter().map(|_| self.reply()?.value()).collect()
    }

    /// The number behind `name` in a section of INFO; absent if the section has no such name.
    pub(crate) fn info(&mut self, section: &str, name: &str) -> anyhow::Result<Option<u64>> {
        let reply = self.call(&[b"INFO", section.as_bytes()])?;
        let RedisReply::Bulk(Some(info)) = reply else { bail!("INFO was answered {reply:?}") };
        let info = String::from_utf8_lossy(&info);
        let rest = info.lines().find_map(|line| line.strip_prefix(name));
        Ok(rest.and_then(|rest| rest.split(',').next()?.trim().parse().ok()))
    }

    /// Number of keys in the database (`DBSIZE`).
    pub(crate) fn count(&mut self) -> anyhow::Result<u64> {
        match self.call(&[b"DBSIZE"])? {
            RedisReply::Integer(count) => Ok(count.try_into()?),
            other => bail!("DBSIZE was answered {other:?}"),
        }
    }

    /// Stores entries, pipelined; each must be answered OK.
    pub(crate) fn load(
        &mut self,
        entries: u64,
        mut entry: impl FnMut(u64, &mut Vec<u8>, &mut Vec<u8>),
    ) -> anyhow::Result<()> {
        const BATCH: u64 = 512;
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for first in (0..entries).step_by(BATCH as usize) {
            let batch = first..(first + BATCH).min(entries);
            for number in batch.clone() {
                entry(number, &mut key, &mut value);
                self.queue(&[b"SET", &key, &value]);
            }
            self.flush()?;
            for number in batch {
                let reply = self.reply()?;
                ensure!(reply == RedisReply::Status("OK".into()), "SET of key number {number} was answered {reply:?}");
            }
        }
        Ok(())
    }
}

/// An answer over HTTP.
#[derive(Debug)]
pub(crate) struct HttpAnswer {
    /// Its status code.
    pub(crate) status: u16,
    /// Its body.
    pub(crate) body: Vec<u8>,
    /// What the server says it is (`Server`).
    pub(crate) server: Option<String>,
}

/// A client of HTTP/1.1 that keeps its connection; bodies must have a `Content-Length`.
pub(crate) struct HttpClient(Connection);

impl HttpClient {
    /// Connects; connecting and each read and write give up after `timeout`.
    pub(crate) fn connect(address: SocketAddr, timeout: Duration) -> anyhow::Result<HttpClient> {
        Connection::open(address, timeout).map(HttpClient)
    }

    /// `GET path`.
    pub(crate) fn get(&mut self, path: &str) -> anyhow::Result<HttpAnswer> {
        self.ask("GET", path)
    }

    /// A request without a body.
    pub(crate) fn ask(&mut self, method: &str, path: &str) -> anyhow::Result<HttpAnswer> {
        let length = if method == "POST" { "Content-Length: 0\r\n" } else { "" };
        let request = format!("{method} {path} HTTP/1.1\r\nHost: bench\r\n{length}\r\n");
        self.0.output.extend_from_slice(request.as_bytes());
        self.answer()
    }

    fn answer(&mut self) -> anyhow::Result<HttpAnswer> {
        self.0.flush()?;
        let status_line = self.0.line()?;
        let status = status_line
            .strip_prefix("HTTP/1.1 ")
            .and_then(|rest| rest.get(..3)?.parse().ok())
            .with_context(|| format!("an answer begins with {status_line:?}"))?;
        let (mut length, mut server) = (None, None);
        loop {
            let line = self.0.line()?;
            if line.is_empty() {
                break;
            }
            let Some((name, value)) = line.split_once(':') else { continue };
            if name.eq_ignore_ascii_case("content-length") {
                length = Some(value.trim().parse().with_context(|| format!("header {line:?}"))?);
            } else if name.eq_ignore_ascii_case("server") {
                server = Some(value.trim().to_owned());
            }
        }
        let body = match (status, length) {
            (204 | 304, _) => Vec::new(),
            (_, Some(length)) => self.0.bytes(length)?,
            (_, None) => bail!("an answer with status {status} has no Content-Length"),
        };
        Ok(HttpAnswer { status, body, server })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    const TIMEOUT: Duration = Duration::from_secs(10);

    /// A server that answers its one connection with `bytes`, ends its side, and hands back all it
    /// was sent until the client ends.
    fn scripted(bytes: &'static [u8]) -> (SocketAddr, std::thread::JoinHandle<Vec<u8>>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let address = listener.local_addr().expect("bound");
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("accept");
            stream.write_all(bytes).expect("write");
            stream.shutdown(std::net::Shutdown::Write).expect("shut down");
            let mut received = Vec::new();
            stream.read_to_end(&mut received).expect("read");
            received
        });
        (address, server)
    }

    #[test]
    fn replies_of_every_kind_are_read() {
        let (address, server) = scripted(b"+OK\r\n-ERR no\r\n:-7\r\n$2\r\n\r\n\r\n$-1\r\n*0\r\n");
        let mut client = RespClient::connect(address, TIMEOUT).expect("connect");
        client.queue(&[b"GET", b"a\r\n"]);
        client.flush().expect("send");
        assert_eq!(client.reply().expect("status"), RedisReply::Status("OK".into()));
        assert_eq!(client.reply().expect("error"), RedisReply::Error("ERR no".into()));
        assert_eq!(client.reply().expect("integer"), RedisReply::Integer(-7));
        assert_eq!(client.reply().expect("bulk"), RedisReply::Bulk(Some(b"\r\n".to_vec())));
        assert_eq!(client.reply().expect("nil"), RedisReply::Bulk(None));
        client.reply().expect_err("an array was not asked for");
        client.reply().expect_err("closed");
        drop(client);
        assert_eq!(server.join().expect("served"), b"*2\r\n$3\r\nGET\r\n$3\r\na\r\n\r\n");
    }

    #[test]
    fn a_hostile_length_is_refused_before_it_is_allocated() {
        let (address, _server) = scripted(b"$9000000000000000000\r\n");
        let mut client = RespClient::connect(address, TIMEOUT).expect("connect");
        let error = client.reply().expect_err("too long");
        assert!(error.to_string().contains("announces"), "{error}");
    }

    #[test]
    fn answers_are_read_to_their_length() {
        let (address, _server) = scripted(
            b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabcHTTP/1.1 404 Not Found\r\nContent-Length:0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
        );
        let mut client = HttpClient::connect(address, TIMEOUT).expect("connect");
        let first = client.get("/a").expect("answer");
        assert_eq!((first.status, &first.body[..]), (200, &b"abc"[..]));
        assert_eq!(client.get("/b").expect("answer").status, 404);
        client.get("/c").expect_err("no length");
    }
}
