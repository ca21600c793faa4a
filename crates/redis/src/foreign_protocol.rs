//! Requests of other protocols on the Redis port: from a browser that a web page has misled, or
//! from a client that speaks TLS. Like Redis, Larder closes such a connection before it reads
//! further, because a request's body may have lines that read as commands.
use super::command_outcome::Flow;
use larder_base::tls::begins_handshake;
use larder_core::{app::Worker, clients::Client};
use larder_proto::{output::Output, resp::Args};
use std::time::Instant;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ForeignProtocol {
    Http,
    Tls,
    /// The header of the PROXY protocol, from an address that is not to send one.
    Proxy,
}
impl ForeignProtocol {
    /// Counts and logs the request: a browser may have been tricked, or a port is wrong. The
    /// connection closes without a reply, except that a PROXY header is refused if it is `first`.
    #[cold]
    pub(super) fn refuse(self, worker: &Worker, client: &Client, out: &mut Output, first: bool) -> Flow {
        let (name, counter) = match self {
            ForeignProtocol::Http => ("HTTP", &worker.counters.redis_foreign_http),
            ForeignProtocol::Tls => ("TLS", &worker.counters.redis_foreign_tls),
            ForeignProtocol::Proxy => ("the PROXY protocol", &worker.counters.redis_foreign_proxy),
        };
        counter.add(1);
        let peer = &client.peer;
        if let Some(left_out) = worker.app.telemetry.foreign.due(Instant::now()) {
            tracing::warn!(
                %peer,
                not_logged = left_out,
                "closed a connection to the Redis port: a request of {name} arrived instead of a Redis command"
            );
        }
        if self == ForeignProtocol::Proxy && first {
            let why = match worker.app.settings.proxies.trusts(peer.ip()) {
                true => {
                    "proxy-protocol is off for this listener, or this is not the beginning of the connection".to_owned()
                }
                false => format!("{} is not one of trusted-proxies", peer.ip()),
            };
            out.put(format!("-ERR PROXY header refused: {why}\r\n").as_bytes());
        }
        Flow::Close
    }
    /// The other protocol of a request, if it is not a Redis command. `args` has at least one part.
    pub(super) fn of(args: Args<'_>) -> Option<ForeignProtocol> {
        let name = &args[0];
        if name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:") {
            return Some(ForeignProtocol::Http);
        }
        if !args.is_inline() {
            return None;
        }
        // An attacker may have chosen the bytes after it.
        if begins_handshake(name) {
            return Some(ForeignProtocol::Tls);
        }
        // Redis has no such command, and what follows the line is not of who sent it.
        if name == b"PROXY" {
            return Some(ForeignProtocol::Proxy);
        }
        let last = args.get(args.len() - 1).filter(|_| args.len() > 1)?;
        is_http_version(last).then_some(ForeignProtocol::Http)
    }
}

/// Whether this is the end of an HTTP request line: `HTTP/1.1`.
fn is_http_version(word: &[u8]) -> bool {
    let version = word.split_at_checked(5).filter(|(name, _)| name.eq_ignore_ascii_case(b"http/"));
    matches!(version, Some((_, [major, b'.', minor])) if major.is_ascii_digit() && minor.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_proto::resp::{Limits, Parsed, Parser, encode};

    fn of(bytes: &[u8]) -> Option<ForeignProtocol> {
        let mut parser = Parser::default();
        let parsed = parser.parse(bytes, &Limits::new(1 << 20));
        assert!(matches!(parsed, Ok(Parsed::Command { .. })), "{bytes:?}");
        ForeignProtocol::of(parser.args(bytes))
    }

    #[test]
    fn requests_of_other_protocols() {
        for line in [
            "POST / HTTP/1.1",
            "post /",
            "Host: localhost:6380",
            "HOST: x",
            "GET / HTTP/1.0",
            "PUT /v1/kv/a HTTP/1.1",
            "OPTIONS * http/1.1",
            "PRI * HTTP/2.0",
            "SET a HTTP/1.1",
        ] {
            assert_eq!(of(format!("{line}\r\n").as_bytes()), Some(ForeignProtocol::Http), "{line}");
        }
        assert_eq!(of(&encode(&[b"POST"])), Some(ForeignProtocol::Http));
        assert_eq!(of(&encode(&[b"host:", b"x"])), Some(ForeignProtocol::Http));
        assert_eq!(of(b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n"), Some(ForeignProtocol::Proxy));
        assert_eq!(of(&encode(&[b"PROXY"])), None);
        assert_eq!(of(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03abc\nSET a b\r\n"), Some(ForeignProtocol::Tls));
    }

    #[test]
    fn commands() {
        for line in
            ["GET a", "GET HTTP/1.1 a", "HTTP/1.1", "SET a HTTP/1", "SET a xHTTP/1.1", "ECHO HTTP/1.1x", "HOST x"]
        {
            assert_eq!(of(format!("{line}\r\n").as_bytes()), None, "{line}");
        }
        // A client of Redis may store what it wants.
        assert_eq!(of(&encode(&[b"SET", b"a", b"HTTP/1.1"])), None);
        assert_eq!(of(&encode(&[b"\x16\x03\x01"])), None);
    }
}
