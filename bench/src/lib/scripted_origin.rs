//! An HTTP origin in this process that suffers on command: slow, failing, or gone. A thread for
//! each connection.
use anyhow::Context;
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

/// Requests that it works on at a time; others queue, as at a service with so many workers.
pub(crate) const WORKERS: usize = 32;
/// Longest head of a request; what is tested is not trusted.
const MAX_HEAD: usize = 16 * 1024;
/// A path that begins like this has a short life ([`SHORT_LIFE`]), any other an hour.
pub(crate) const SHORT: &str = "/short-";
/// Seconds.
pub(crate) const SHORT_LIFE: u32 = 2;

/// What the origin does now.
#[derive(Debug, Default)]
pub(crate) struct OriginState {
    /// How long a worker takes for a request, ms.
    pub(crate) delay: AtomicU64,
    /// Per cent of the requests that are answered 500.
    pub(crate) failing: AtomicU32,
    /// Connections are closed at once.
    pub(crate) gone: AtomicBool,
    /// Requests that came.
    pub(crate) requests: AtomicU64,
    free: Workers,
}

#[derive(Debug)]
struct Workers(Mutex<usize>, Condvar);
impl Default for Workers {
    fn default() -> Workers {
        Workers(Mutex::new(WORKERS), Condvar::new())
    }
}
impl Workers {
    fn work(&self, time: Duration) {
        let mut free = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        while *free == 0 {
            free = self.1.wait(free).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        *free -= 1;
        drop(free);
        thread::sleep(time);
        *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) += 1;
        self.1.notify_one();
    }
}

/// An origin, which listens until the process ends.
pub(crate) struct ScriptedOrigin {
    pub(crate) address: SocketAddr,
    pub(crate) state: Arc<OriginState>,
}

impl ScriptedOrigin {
    pub(crate) fn start(delay: Duration) -> anyhow::Result<ScriptedOrigin> {
        let listener = TcpListener::bind("127.0.0.1:0").context("no port for the origin")?;
        let address = listener.local_addr()?;
        let state = Arc::new(OriginState::default());
        state.delay.store(delay.as_millis() as u64, Relaxed);
        let shared = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = shared.clone();
                // A client that breaks off ends its thread.
                thread::spawn(move || drop(serve(stream, &state)));
            }
        });
        Ok(ScriptedOrigin { address, state })
    }
}

fn serve(mut stream: TcpStream, state: &OriginState) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut input, mut buffer) = (Vec::new(), [0; 4096]);
    let mut random = fastrand::Rng::new();
    loop {
        let end = loop {
            if let Some(at) = memchr::memmem::find(&input, b"\r\n\r\n") {
                break at + 4;
            }
            let read = stream.read(&mut buffer)?;
            if read == 0 || input.len() > MAX_HEAD {
                return Ok(());
            }
            input.extend_from_slice(&buffer[..read]);
        };
        let is_short = input.starts_with(format!("GET {SHORT}").as_bytes());
        input.drain(..end);
        state.requests.fetch_add(1, Relaxed);
        if state.gone.load(Relaxed) {
            return Ok(());
        }
        state.free.work(Duration::from_millis(state.delay.load(Relaxed)));
        let (status, life) = match random.u32(0..100) < state.failing.load(Relaxed) {
            true => ("500 Internal Server Error", 0),
            false => ("200 OK", if is_short { SHORT_LIFE } else { 3600 }),
        };
        let cache = if life == 0 { "no-store".to_owned() } else { format!("max-age={life}") };
        let body = [b'v'; 64];
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nCache-Control: {cache}\r\n\r\n", body.len());
        stream.write_all(&[head.as_bytes(), &body].concat())?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lib::blocking_clients::HttpClient;

    #[test]
    fn it_does_what_it_is_told() {
        let origin = ScriptedOrigin::start(Duration::ZERO).expect("starts");
        let connect = || HttpClient::connect(origin.address, Duration::from_secs(10)).expect("connects");
        let mut client = connect();
        assert_eq!(client.get("/short-a").expect("answers").status, 200);
        origin.state.failing.store(100, Relaxed);
        assert_eq!(client.get("/a").expect("answers").status, 500);
        origin.state.gone.store(true, Relaxed);
        client.get("/a").expect_err("gone");
        origin.state.gone.store(false, Relaxed);
        origin.state.failing.store(0, Relaxed);
        assert_eq!(connect().get("/a").expect("answers").status, 200);
        assert_eq!(origin.state.requests.load(Relaxed), 4);
    }
}
