//! An HTTP origin in this process that suffers on command: slow, failing, or gone.
use super::small_server::{Answer, listen};
use std::{
    net::SocketAddr,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

/// Requests that it works on at a time; others queue, as at a service with so many workers.
pub(crate) const WORKERS: usize = 32;
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
        let state = Arc::new(OriginState::default());
        state.delay.store(delay.as_millis() as u64, Relaxed);
        let shared = state.clone();
        let address = listen(0, move || {
            let (state, mut random) = (shared.clone(), fastrand::Rng::new());
            move |request: &str| answer(request, &state, &mut random)
        })?;
        Ok(ScriptedOrigin { address, state })
    }
}

fn answer(request: &str, state: &OriginState, random: &mut fastrand::Rng) -> Option<Answer> {
    state.requests.fetch_add(1, Relaxed);
    if state.gone.load(Relaxed) {
        return None;
    }
    state.free.work(Duration::from_millis(state.delay.load(Relaxed)));
    let (status, cache) = match random.u32(0..100) < state.failing.load(Relaxed) {
        true => ("500 Internal Server Error", "no-store".to_owned()),
        false if request.starts_with(&format!("GET {SHORT}")) => ("200 OK", format!("max-age={SHORT_LIFE}")),
        false => ("200 OK", "max-age=3600".to_owned()),
    };
    Some(Answer { status, header: ("Cache-Control", cache), body: vec![b'v'; 64] })
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
