//! A client of memcached's text protocol, and a memcached to compare with.
use super::larder::Larder;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    process::{Child, Command, Stdio},
    time::Duration,
};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(20);

/// A stream of either server.
pub(super) trait Stream: Read + Write {}
impl<S: Read + Write> Stream for S {}

/// One client.
pub(super) struct Wire(BufReader<Box<dyn Stream>>);

impl Wire {
    pub(super) fn larder(server: &Larder) -> Wire {
        let stream = TcpStream::connect(("127.0.0.1", server.memcached[0])).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Wire(BufReader::new(Box::new(stream)))
    }
    pub(super) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.get_mut().write_all(bytes.as_ref()).unwrap();
    }
    /// The same to a server that may hang up meanwhile.
    pub(super) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
        self.0.get_mut().write_all(bytes.as_ref())
    }
    /// One line, without its end; empty at the end of the stream.
    pub(super) fn line(&mut self) -> String {
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line).unwrap();
        String::from_utf8_lossy(&line).trim_end_matches("\r\n").to_owned()
    }
    /// Everything up to the answer to a `mn` that is sent behind `bytes`.
    pub(super) fn ask(&mut self, bytes: impl AsRef<[u8]>) -> String {
        self.send([bytes.as_ref(), b"mn\r\n"].concat());
        let mut all = Vec::new();
        while !all.ends_with(b"MN\r\n") {
            let before = all.len();
            self.0.read_until(b'\n', &mut all).unwrap();
            let last = &all[before.saturating_sub(200)..];
            assert!(all.len() > before, "the connection ended behind {:?}", String::from_utf8_lossy(last));
        }
        all.truncate(all.len() - 4);
        String::from_utf8_lossy(&all).into_owned()
    }
    /// What comes until the connection ends.
    pub(super) fn rest(&mut self) -> String {
        let mut all = Vec::new();
        // A reset is an end, too.
        let _ = self.0.read_to_end(&mut all);
        String::from_utf8_lossy(&all).into_owned()
    }
}

/// Debian's memcached on a socket of its own, killed when dropped.
pub(super) struct Memcached {
    child: Child,
    dir: TempDir,
}

impl Memcached {
    pub(super) fn start() -> Memcached {
        let dir = TempDir::new().unwrap();
        let socket = dir.path().join("socket");
        let child = Command::new("memcached")
            .args(["-u", "root", "-m", "64", "-t", "1", "-s"])
            .arg(&socket)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        super::common::wait_until("memcached to listen", || UnixStream::connect(&socket).is_ok());
        Memcached { child, dir }
    }
    pub(super) fn client(&self) -> Wire {
        let stream = UnixStream::connect(self.dir.path().join("socket")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Wire(BufReader::new(Box::new(stream)))
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

pub(super) fn start(args: &[&str]) -> Larder {
    Larder::start(&[&["--memcached=127.0.0.1:0"], args].concat())
}
