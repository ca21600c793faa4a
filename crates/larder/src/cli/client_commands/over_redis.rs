//! The client over the Redis protocol: the connection is a source's, with its handshake, TLS and
//! deadline.
use super::{
    client_request::{ClientRequest, MAX_VALUE, RequestOutcome, ValueSink},
    over_http,
};
use larder_base::buffers::Buffers;
use larder_config::SourceUrl;
use larder_proto::resp::{View, encode, view};
use larder_source::{SourceError, SourceLimits, SourceSetup};
use std::time::Duration;

/// Sends the command and takes the reply.
pub(super) async fn send(
    url: &SourceUrl,
    key: &[u8],
    request: &ClientRequest,
    sink: &mut ValueSink,
    timeout: Duration,
) -> Result<RequestOutcome, String> {
    let max_value = MAX_VALUE as usize;
    let limits = SourceLimits { timeout, slow_timeout: timeout, max_value, ..SourceLimits::SMALLEST };
    let source = SourceSetup::new(url, limits, &Buffers::unbounded())?.open(None, false);
    let relay = source.as_redis().ok_or("not a Redis server")?;
    let millis;
    let command = match request {
        ClientRequest::Get => encode(&[b"GET", key]),
        ClientRequest::Del => encode(&[b"DEL", key]),
        ClientRequest::Set { value, ttl: None } => encode(&[b"SET", key, value]),
        ClientRequest::Set { value, ttl: Some(ttl) } => {
            millis = ttl.as_millis().to_string();
            encode(&[b"SET", key, value, b"PX", millis.as_bytes()])
        }
    };
    let failed = |error: SourceError| {
        // Whether it is anybody's source does not matter here.
        let error = error.to_string();
        let error = error.strip_prefix("source unavailable: ").unwrap_or(&error).replace("the source ", "the server ");
        let has_tls = matches!(url, SourceUrl::Redis(url) if url.tls.is_some());
        match error.as_str() {
            "connection refused" => format!("{url}: {error}: {}", over_http::REFUSED),
            "connection closed by the source" if !has_tls => {
                format!("{url}: connection closed by the server; if it speaks TLS on this port, write rediss://")
            }
            _ => format!("{url}: {}", over_http::with_certificate_hint(error)),
        }
    };
    let replies = relay.relay(command.into(), 1, false).await.map_err(failed)?;
    match (request, view(replies.bytes()).map_err(|error| format!("{url}: {error}"))?) {
        (ClientRequest::Get, View::Bulk(value)) => sink.put(value).map(|_| RequestOutcome::Done),
        (ClientRequest::Get, View::Null) | (ClientRequest::Del, View::Integer(0)) => Ok(RequestOutcome::Absent),
        (ClientRequest::Set { .. }, View::Simple(_)) | (ClientRequest::Del, View::Integer(_)) => {
            Ok(RequestOutcome::Done)
        }
        (_, View::Error(text)) => Err(format!("{url}: {}", String::from_utf8_lossy(text))),
        (_, other) => Err(format!("{url}: unexpected reply {other:?}")),
    }
}
