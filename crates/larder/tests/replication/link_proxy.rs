//! A TCP proxy between a replica and its primary that can be cut, and stalled.
use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

#[derive(Default)]
struct State {
    is_cut: AtomicBool,
    is_stalled: AtomicBool,
    /// Bytes from the primary after which the connection is cut; 0: no limit.
    limit: AtomicU64,
    open: Mutex<Vec<TcpStream>>,
}

/// The proxy, on a port of its own.
pub struct LinkProxy {
    pub port: u16,
    state: Arc<State>,
}

impl LinkProxy {
    pub fn to(primary: u16) -> LinkProxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, state) = (listener.local_addr().unwrap().port(), Arc::<State>::default());
        let shared = state.clone();
        thread::spawn(move || {
            for replica in listener.incoming() {
                let Ok(replica) = replica else { continue };
                if shared.is_cut.load(SeqCst) {
                    continue;
                }
                let Ok(primary) = TcpStream::connect(("127.0.0.1", primary)) else { continue };
                let mut open = shared.open.lock().unwrap();
                open.extend([replica.try_clone().unwrap(), primary.try_clone().unwrap()]);
                drop(open);
                let (from, to, of) = (replica.try_clone().unwrap(), primary.try_clone().unwrap(), shared.clone());
                thread::spawn(move || pass(from, to, &of, false));
                let of = shared.clone();
                thread::spawn(move || pass(primary, replica, &of, true));
            }
        });
        LinkProxy { port, state }
    }

    /// Ends all connections and makes no new ones.
    pub fn cut(&self) {
        self.state.is_cut.store(true, SeqCst);
        for stream in self.state.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
    /// Ends all connections once; new ones are passed.
    pub fn interrupt(&self) {
        self.cut();
        self.mend();
    }
    /// Ends each connection after so many bytes from the primary, mostly within a frame.
    pub fn cut_each_after(&self, bytes: u64) {
        self.state.limit.store(bytes, SeqCst);
    }
    pub fn mend(&self) {
        self.state.limit.store(0, SeqCst);
        self.state.is_cut.store(false, SeqCst);
    }
    /// Nothing passes any more, but the connections stay.
    pub fn stall(&self, is_stalled: bool) {
        self.state.is_stalled.store(is_stalled, SeqCst);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, state: &State, is_limited: bool) {
    let mut buffer = [0; 16 << 10];
    let mut passed = 0;
    loop {
        while state.is_stalled.load(SeqCst) {
            thread::sleep(Duration::from_millis(5));
        }
        let Ok(read @ 1..) = from.read(&mut buffer) else { break };
        let limit = state.limit.load(SeqCst);
        let allowed = if is_limited && limit > 0 { limit.saturating_sub(passed).min(read as u64) } else { read as u64 };
        if to.write_all(&buffer[..allowed as usize]).is_err() || allowed < read as u64 {
            break;
        }
        passed += allowed;
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
