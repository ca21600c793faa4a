//! What all cores share of one origin: its URL, addresses, limits and health.
use super::{key_moments::KeyMoments, request_headers};
use crate::{
    fetch_refusals::known_only_streamed, source_error::SourceError, source_health::SourceHealth,
    source_limits::SourceLimits,
};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Request, Uri, header,
    uri::{Authority, Scheme},
};
use http_body_util::Full;
use larder_base::{buffers::Buffers, tls::ClientTls};
use larder_config::OriginUrl;
use larder_engine::Millis;
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

/// The settings and shared state of the connections of all cores to one origin.
pub(super) struct OriginSettings {
    pub(super) url: OriginUrl,
    /// Scheme, hosts and ports, for errors and logs.
    pub(super) origin: String,
    /// At least one.
    pub(super) addresses: Vec<SharedAddress>,
    pub(super) limits: SourceLimits,
    pub(super) health: Arc<SourceHealth>,
    pub(super) buffers: Arc<Buffers>,
    /// Keys that the origin asked not to be asked for until a moment.
    pub(super) waiting_keys: KeyMoments,
    /// Keys whose values are known to be larger than `max-value`, until a moment.
    pub(super) large_keys: KeyMoments,
    /// Responses that are on their way to clients without being kept.
    pub(super) passing_through: AtomicUsize,
}

/// How long a key whose value was too large is not fetched to be kept.
const LARGE_FOR: Millis = 10_000;

/// What all cores share of one of its addresses.
pub(super) struct SharedAddress {
    pub(super) host: String,
    pub(super) port: u16,
    /// Scheme, host and port, for errors and logs.
    pub(super) name: String,
    /// What each request carries, `Host` included.
    pub(super) headers: HeaderMap,
    /// Like `headers`, as they are sent, each with its line end.
    pub(super) encoded_headers: Vec<u8>,
    pub(super) tls: Option<ClientTls>,
    /// What requests over HTTP/2 have instead of the header `Host`; `None`: only HTTP/1.1 is
    /// spoken.
    pub(super) http2: Option<Authority>,
    /// It asked not to be asked before then.
    rests_until: AtomicU64,
}

impl OriginSettings {
    /// Reads the files that the URL names.
    ///
    /// # Errors
    /// A text that names the file or host at fault.
    pub(super) fn new(
        url: &OriginUrl,
        limits: SourceLimits,
        health: SourceHealth,
        buffers: Arc<Buffers>,
    ) -> Result<OriginSettings, String> {
        // The files are read once, for all addresses.
        let protocols: &[&[u8]] = if url.options.http2 { &[b"h2", b"http/1.1"] } else { &[] };
        let tls = url.tls.as_ref().map(|tls| ClientTls::new(tls, &url.addresses[0].host, protocols)).transpose()?;
        let headers = request_headers::build(&url.options)?;
        let addresses = url.addresses.iter().map(|address| {
            let authority = address.authority(tls.is_some());
            let mut headers = headers.clone();
            // `source-headers` may name the host that all addresses serve.
            if !headers.contains_key(header::HOST) {
                let host = HeaderValue::from_str(&authority);
                headers.insert(header::HOST, host.map_err(|_| format!("`{authority}` cannot be the name of a host"))?);
            }
            let http2 = match tls.is_some() && url.options.http2 {
                true => Some(authority_of(&headers[header::HOST])?),
                false => None,
            };
            Ok::<_, String>(SharedAddress {
                http2,
                name: format!("{}://{authority}", url.scheme()),
                encoded_headers: encoded(&headers),
                headers,
                tls: tls.as_ref().map(|tls| tls.towards(&address.host)).transpose()?,
                host: address.host.clone(),
                port: address.port,
                rests_until: AtomicU64::new(0),
            })
        });
        Ok(OriginSettings {
            origin: url.origin(),
            addresses: addresses.collect::<Result<_, _>>()?,
            url: url.clone(),
            limits,
            health: Arc::new(health),
            buffers,
            waiting_keys: KeyMoments::default(),
            large_keys: KeyMoments::default(),
            passing_through: AtomicUsize::new(0),
        })
    }
    /// The value of the key is larger than `max-value`.
    pub(super) fn note_large(&self, key: &[u8], now: Millis) {
        self.large_keys.add(key, now + LARGE_FOR, now);
    }
    /// The error for a key of [`large_keys`](OriginSettings::large_keys).
    pub(super) fn known_only_streamed(&self) -> SourceError {
        known_only_streamed(self.limits.max_value)
    }
    /// The error of an origin, or of Larder, that will not answer this key however often it is
    /// asked.
    pub(super) fn refused(&self, reason: impl fmt::Display) -> SourceError {
        SourceError::Refused(format!("ERR {}: {reason}", self.origin).into())
    }
}

fn encoded(headers: &HeaderMap) -> Vec<u8> {
    let lines =
        headers.iter().map(|(name, value)| [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    lines.flatten().collect()
}

/// What `Host` names, for HTTP/2.
fn authority_of(host: &HeaderValue) -> Result<Authority, String> {
    Authority::try_from(host.as_bytes()).map_err(|_| "source-headers: Host: it names no host".to_owned())
}

impl SharedAddress {
    /// A `GET` with the header fields that every request has.
    pub(super) fn request(&self, target: &Uri, over_http2: bool) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::default());
        request.headers_mut().clone_from(&self.headers);
        *request.uri_mut() = match &self.http2 {
            Some(authority) if over_http2 => {
                // Twice the same would be refused, or worse, not be the same.
                request.headers_mut().remove(header::HOST);
                let mut parts = target.clone().into_parts();
                (parts.scheme, parts.authority) = (Some(Scheme::HTTPS), Some(authority.clone()));
                Uri::from_parts(parts).expect("a path, and all that goes before it")
            }
            _ => target.clone(),
        };
        request
    }
    /// The error of an address that gave no answer that can be used.
    pub(super) fn unavailable(&self, reason: impl fmt::Display) -> SourceError {
        SourceError::Unavailable(format!("{}: {reason}", self.name).into())
    }
    /// The error of an address that gave no answer to a write, which it may have made.
    pub(super) fn lost(&self, reason: impl fmt::Display) -> SourceError {
        SourceError::Lost(format!("{}: {reason}", self.name).into())
    }
    /// The error of an address that will not answer this key however often it is asked.
    pub(super) fn refused(&self, reason: impl fmt::Display) -> SourceError {
        SourceError::Refused(format!("ERR {}: {reason}", self.name).into())
    }
    /// It is not asked before `until`.
    pub(super) fn rest_until(&self, until: Millis) {
        self.rests_until.fetch_max(until, Relaxed);
    }
    /// Until when it is not to be asked, if that is not past.
    pub(super) fn rests(&self, now: Millis) -> Option<Millis> {
        Some(self.rests_until.load(Relaxed)).filter(|until| *until > now)
    }
}
