//! Closing a connection so that the last answer arrives.
//!
//! Closing a socket with unread input makes the kernel send RST, and a client that receives RST may
//! throw away the error that we had just sent it. So: end our half, read what still comes for a
//! short while, then close.
use super::drain_phase::{Drain, Phase};
use std::time::Duration;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::sleep,
};

/// How long a client may take once the process drains: the whole process waits for it.
const DRAINING: Duration = Duration::from_millis(50);

/// What a client may still send us; after that it is cut off.
const MOST: usize = 1 << 20;

/// Ends our half, then discards input until the client ends its half, has sent too much, or takes
/// longer than `patience`. A drain that has begun, or begins meanwhile, cuts the patience short.
pub(crate) async fn linger(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), drain: &Drain, patience: Duration) {
    let end_and_discard = async {
        // Over TLS this sends, and a client that reads nothing could make it wait.
        if stream.shutdown().await.is_ok() {
            discard(stream).await;
        }
    };
    // Whatever ends the wait, the connection is closed next.
    tokio::select! {
        () = end_and_discard => {}
        () = sleep(patience) => {}
        () = draining(drain) => {}
    }
}

async fn draining(drain: &Drain) {
    drain.reached(Phase::Draining).await;
    sleep(DRAINING).await;
}

async fn discard(stream: &mut (impl AsyncRead + Unpin)) {
    let mut sink = [0; 4096];
    let mut seen = 0;
    while let Ok(n) = stream.read(&mut sink).await
        && n > 0
        && seen < MOST
    {
        seen += n;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{
        net::{TcpListener, TcpStream},
        time::Instant,
    };

    /// How long Larder waits for a client that sends nothing and stays, on a clock that only moves
    /// while all tasks wait.
    async fn waited(drain: &Drain) -> Duration {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let client = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("it listens");
        let (mut stream, _) = listener.accept().await.expect("the client has connected");
        let start = Instant::now();
        linger(&mut stream, drain, Duration::from_secs(1)).await;
        drop(client);
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_drain_cuts_the_patience_short() {
        let drain = Drain::default();
        assert!(waited(&drain).await >= Duration::from_secs(1));
        let begins = async {
            sleep(Duration::from_millis(500)).await;
            drain.advance(Phase::Draining);
        };
        let (during, ()) = tokio::join!(waited(&drain), begins);
        assert!((500..700).contains(&during.as_millis()), "{during:?}");
        let after = waited(&drain).await;
        assert!(after < Duration::from_millis(100), "{after:?}");
    }
}
