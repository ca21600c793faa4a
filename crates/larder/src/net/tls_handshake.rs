//! The beginning of a client's TLS connection: the handshake, and what is said of one that fails.
use super::listeners::Service;
use larder_base::{
    lifecycle::{drain_phase::Phase, linger::linger},
    tls::{HandshakeError, HandshakeTurns, ServerTls, TlsClientStream, TlsService, handshake},
};
use larder_config::Address;
use larder_core::app::Worker;
use std::{
    rc::Rc,
    time::{Duration, Instant},
};
use tokio::net::TcpStream;
use tokio_rustls::rustls::HandshakeKind;

/// How long a client that does not speak TLS may take to read so.
const LINGER: Duration = Duration::from_millis(500);

const NOT_TLS_MEMCACHED: &[u8] = b"CLIENT_ERROR this port speaks TLS\r\n";
const NOT_TLS_REDIS: &[u8] = b"-ERR this port speaks TLS: connect with TLS (rediss://)\r\n";
const NOT_TLS_HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
content-type: application/problem+json\r\n\
content-length: 132\r\n\
connection: close\r\n\
\r\n\
{\"type\":\"/problems/tls-required\",\"title\":\"This port speaks TLS\",\"status\":400,\"detail\":\"a plain HTTP request came: write https://\"}\r\n";

/// The client's connection once the handshake is done. `None`: there is none, which is counted and
/// logged.
pub(super) async fn begin_tls(
    worker: &Worker,
    service: Service,
    tls: &ServerTls,
    turns: &Rc<HandshakeTurns>,
    stream: TcpStream,
    peer: &Address,
) -> Option<TlsClientStream> {
    let spoken = match service {
        Service::Http | Service::Admin => TlsService::Http,
        Service::Redis(_) | Service::Memcached => TlsService::Redis,
    };
    let done = tokio::select! {
        biased;
        done = handshake(tls, spoken, stream, turns, worker.app.live.header_timeout()) => done,
        () = worker.app.drain.reached(Phase::Draining) => return None,
    };
    let counters = &worker.counters;
    let (counter, reason) = match done {
        Ok(stream) => {
            match stream.handshake_kind() {
                Some(HandshakeKind::Resumed) => counters.tls_handshakes_resumed.add(1),
                _ => counters.tls_handshakes_full.add(1),
            }
            return Some(stream);
        }
        Err(HandshakeError::Gone) => return None,
        Err(HandshakeError::Failed(error)) => (&counters.tls_failed_handshakes, error.to_string()),
        Err(HandshakeError::TimedOut) => {
            (&counters.tls_handshakes_timed_out, "the client took longer than header-timeout".to_owned())
        }
        Err(HandshakeError::NotTls(mut stream)) => {
            let answer = match service {
                Service::Http | Service::Admin => NOT_TLS_HTTP,
                Service::Redis(_) => NOT_TLS_REDIS,
                Service::Memcached => NOT_TLS_MEMCACHED,
            };
            // An empty socket buffer takes these few bytes.
            let _ = stream.try_write(answer);
            linger(&mut stream, &worker.app.drain, LINGER).await;
            (&counters.tls_not_spoken, "the client does not speak TLS".to_owned())
        }
    };
    counter.add(1);
    if let Some(left_out) = worker.app.telemetry.handshakes.due(Instant::now()) {
        let listener = match service {
            Service::Http => "https",
            Service::Redis(_) => "rediss",
            Service::Memcached => "memcacheds",
            Service::Admin => "admin",
        };
        tracing::warn!(%peer, listener, reason, not_logged = left_out, "TLS handshake failed");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_a_plain_request_states_its_length_truly() {
        let text = std::str::from_utf8(NOT_TLS_HTTP).expect("ascii");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "body is {} bytes", body.len());
        assert!(body.trim_end().ends_with('}'));
    }
}
