//! A TCP proxy in this process that adds a network's round trip to a server beside it.
use anyhow::Context;
use std::{
    io::{Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

/// Chunks that may be on their way in a direction of a connection.
const IN_FLIGHT: usize = 1024;
/// How often a server that is gone is tried.
const AGAIN: Duration = Duration::from_millis(20);

/// Listens until the process ends, and returns where. What passes arrives half of `round_trip` later.
/// While the server is gone, connections are refused here as they are there.
pub(crate) fn start(server: SocketAddr, round_trip: Duration) -> anyhow::Result<SocketAddr> {
    let mut listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port for the delaying proxy")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        loop {
            let Ok((client, _)) = listener.accept() else { continue };
            let Ok(server) = TcpStream::connect(server) else {
                drop((client, listener));
                listener = until_done(|| TcpStream::connect(server).and_then(|_| TcpListener::bind(address)));
                continue;
            };
            let pairs = [(client.try_clone(), server.try_clone()), (Ok(server), Ok(client))];
            for (from, to) in pairs {
                if let (Ok(from), Ok(to)) = (from, to) {
                    pass(from, to, round_trip / 2);
                }
            }
        }
    });
    Ok(address)
}

fn until_done<T>(attempt: impl Fn() -> std::io::Result<T>) -> T {
    loop {
        match attempt() {
            Ok(done) => return done,
            Err(_) => thread::sleep(AGAIN),
        }
    }
}

/// One direction: a thread reads, another one writes when the time has come. The end of one ends the
/// connection.
fn pass(mut from: TcpStream, mut to: TcpStream, delay: Duration) {
    let _ = to.set_nodelay(true);
    let (send, receive) = mpsc::sync_channel::<(Instant, Vec<u8>)>(IN_FLIGHT);
    thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            if send.send((Instant::now() + delay, buffer[..read].to_vec())).is_err() {
                break;
            }
        }
    });
    thread::spawn(move || {
        for (due, bytes) in receive {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        // Fails only if it is closed already.
        let _ = to.shutdown(Shutdown::Both);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers one connection with its first byte, and ends.
    fn echo_once(listener: &TcpListener) {
        let (mut stream, _) = listener.accept().expect("accept");
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a byte");
        stream.write_all(&byte).expect("the same byte");
    }

    #[test]
    fn a_round_trip_takes_at_least_its_time_and_the_end_passes() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let server = thread::spawn(move || echo_once(&listener));
        let round_trip = Duration::from_millis(20);
        let mut client = TcpStream::connect(start(address, round_trip).expect("starts")).expect("connects");
        let begun = Instant::now();
        client.write_all(b"x").expect("sent");
        let mut all = Vec::new();
        client.read_to_end(&mut all).expect("read to the end");
        assert_eq!(all, b"x");
        assert!(begun.elapsed() >= round_trip);
        server.join().expect("served");
    }

    #[test]
    fn connections_are_refused_while_the_server_is_gone() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        drop(listener);
        let proxy = start(address, Duration::ZERO).expect("starts");
        // The first one finds out.
        while TcpStream::connect(proxy).is_ok() {
            thread::sleep(AGAIN);
        }
        let listener = TcpListener::bind(address).expect("its port again");
        let mut client = until_done(|| TcpStream::connect(proxy));
        client.write_all(b"x").expect("sent");
        // The proxy's own question whether the server is back comes first.
        drop(listener.accept().expect("the question"));
        echo_once(&listener);
        let mut all = Vec::new();
        client.read_to_end(&mut all).expect("read to the end");
        assert_eq!(all, b"x");
    }
}
