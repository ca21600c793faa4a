//! The beginning of a connection from a trusted proxy: the header of the PROXY protocol, and what a
//! connection without a right one is told.
use super::listeners::{Door, Service};
use larder_base::{
    lifecycle::{drain_phase::Phase, linger::linger},
    tls,
};
use larder_config::{Address, ProxyProtocol};
use larder_core::app::Worker;
use larder_proto::proxy_header::{LONGEST, ProxyHeader, parse};
use std::{
    io,
    net::SocketAddr,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt, Interest},
    net::TcpStream,
    time::timeout,
};

/// How long a refused proxy may take to read why.
const LINGER: Duration = Duration::from_millis(500);
/// Room for the usual header. A longer one gets room for the longest.
const USUAL: usize = 256;

/// Why a connection has no client.
#[derive(Debug)]
enum NoClient {
    /// It ended before a header was complete.
    Gone,
    Malformed(&'static str),
    TimedOut,
}

/// Whether connections of this address to this listener may begin with a header.
pub(super) fn may_send_header(worker: &Worker, door: Door, peer: &Address) -> bool {
    door.proxy_protocol != ProxyProtocol::Off && worker.app.settings.proxies.trusts(peer.ip())
}

/// Takes the header off the stream and returns the client that it names, or the proxy if it names
/// none. `None`: the connection is refused, which is counted and logged.
pub(super) async fn take_header(
    worker: &Worker,
    door: Door,
    stream: &mut TcpStream,
    proxy: Address,
) -> Option<Address> {
    let must_come = door.proxy_protocol == ProxyProtocol::Required;
    let limit = worker.app.live.header_timeout();
    let taken = tokio::select! {
        biased;
        taken = timeout(limit, header(stream)) => taken.unwrap_or(Err(NoClient::TimedOut)),
        () = worker.app.drain.reached(Phase::Draining) => return None,
    };
    let counters = &worker.counters;
    let (counter, reason) = match taken {
        Ok(Some(client)) => {
            counters.proxy_headers_read.add(1);
            return Some(client.map_or(proxy, Address::Ip));
        }
        Ok(None) if !must_come => return Some(proxy),
        // A client that waits before it speaks, over a proxy that sends no header.
        Err(NoClient::TimedOut) if !must_come => return Some(proxy),
        // As load balancers do to see whether a server listens.
        Err(NoClient::Gone) => return None,
        Ok(None) => (&counters.proxy_headers_missing, "no PROXY header came (setting `proxy-protocol` is `required`)"),
        Err(NoClient::TimedOut) => {
            (&counters.proxy_headers_timed_out, "the PROXY header was not complete within `header-timeout`")
        }
        Err(NoClient::Malformed(what)) => (&counters.proxy_headers_malformed, what),
    };
    counter.add(1);
    if let Some(left_out) = worker.app.telemetry.proxy_headers.due(Instant::now()) {
        let listener = door.setting();
        tracing::warn!(%proxy, listener, reason, not_logged = left_out, "connection refused: PROXY protocol");
    }
    // An empty socket buffer takes these few bytes.
    let _ = stream.try_write(&refusal(door, reason));
    linger(stream, &worker.app.drain, LINGER).await;
    None
}

/// What is sent to a connection that is refused.
fn refusal(door: Door, reason: &str) -> Vec<u8> {
    match door.service {
        _ if door.is_tls => tls::REFUSAL.to_vec(),
        Service::Redis(_) => format!("-ERR PROXY protocol: {reason}\r\n").into_bytes(),
        Service::Memcached => format!("CLIENT_ERROR PROXY protocol: {reason}\r\n").into_bytes(),
        Service::Http | Service::Admin => {
            let body = format!(
                "{{\"type\":\"/problems/proxy-header\",\"title\":\"The PROXY header cannot be used\",\"status\":400,\"detail\":\"{reason}\"}}"
            );
            let len = body.len();
            format!("HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\ncontent-length: {len}\r\nconnection: close\r\n\r\n{body}")
                .into_bytes()
        }
    }
}

/// Waits for the whole header and takes it off the stream; `None`: the stream begins with something
/// else, of which nothing is taken. In a header the inner `None` is the proxy itself.
async fn header(stream: &mut TcpStream) -> Result<Option<Option<SocketAddr>>, NoClient> {
    let mut seen = vec![0; USUAL];
    loop {
        let ready = stream.ready(Interest::READABLE).await.map_err(|_| NoClient::Gone)?;
        // Looked at only: what follows the header is the client's, and so is all of it if there is no
        // header.
        let len = stream.peek(&mut seen).await.map_err(|_| NoClient::Gone)?;
        match parse(&seen[..len]) {
            Err(malformed) => return Err(NoClient::Malformed(malformed.0)),
            Ok(ProxyHeader::Absent) => return Ok(None),
            Ok(ProxyHeader::Complete { len, client }) => {
                stream.read_exact(&mut seen[..len]).await.map_err(|_| NoClient::Gone)?;
                return Ok(Some(client));
            }
            Ok(ProxyHeader::Partial) if len == 0 || ready.is_read_closed() => return Err(NoClient::Gone),
            Ok(ProxyHeader::Partial) if len == seen.len() => seen.resize(LONGEST, 0),
            Ok(ProxyHeader::Partial) => {
                // The bytes stay in the socket, which is readable all the time: the next event is that of more
                // bytes.
                let _: io::Result<()> = stream.try_io(Interest::READABLE, || Err(io::ErrorKind::WouldBlock.into()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_over_http_states_its_length_truly() {
        let door = Door { service: Service::Http, is_tls: false, proxy_protocol: ProxyProtocol::Required };
        let text = String::from_utf8(refusal(door, "no header")).expect("ASCII");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "body is {} bytes", body.len());
        assert!(body.ends_with("\"detail\":\"no header\"}"), "{body}");
    }
}
