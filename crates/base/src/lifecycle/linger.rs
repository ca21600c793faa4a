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

/// What a client may still send us; after that it is cut off. Its kernel and ours hold up to some
/// 10 MiB that it sent before it could see the answer: a client that is cut off by then sees an
/// error of its socket in place of the answer.
const MOST: usize = 64 << 20;

/// Ends our half, then discards input until the client ends its half, has sent too much, or takes
/// longer than `patience`. A drain that has begun, or begins meanwhile, cuts the patience short.
pub async fn linger(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), drain: &Drain, patience: Duration) {
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

    /// Larder's half of a connection, and its client's.
    async fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let client = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("it listens");
        let (stream, _) = listener.accept().await.expect("the client has connected");
        (stream, client)
    }

    /// How long Larder waits for a client that sends nothing and stays, on a clock that only moves
    /// while all tasks wait.
    async fn waited(drain: &Drain) -> Duration {
        let (mut stream, client) = connection().await;
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

    #[tokio::test]
    async fn a_client_that_sends_all_before_it_reads_gets_the_answer() {
        let (mut stream, mut client) = connection().await;
        let larder = async {
            stream.write_all(b"too large").await.expect("room for an answer");
            linger(&mut stream, &Drain::default(), Duration::from_secs(60)).await;
            drop(stream);
        };
        let client = async {
            client.write_all(&vec![0; 16 << 20]).await.expect("all of it is taken");
            client.shutdown().await.expect("the connection is there");
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).await.expect("the answer arrives");
            answer
        };
        assert_eq!(tokio::join!(larder, client).1, b"too large");
    }
}
