//! Recognises the plain requests that can be answered before a full HTTP server looks at them.

/// What stands at the front of a connection's input.
#[derive(Debug, PartialEq, Eq)]
pub enum Front<'b> {
    /// The beginning of what may become a plain request.
    Partial,
    /// A whole HTTP/1.1 `GET` without a body, none of whose headers changes the answer.
    Plain {
        /// The request target, made of characters that mean themselves (and `%`).
        target: &'b [u8],
        /// Bytes of the request, up to the next one.
        len: usize,
    },
    /// The same of a `PUT` with a body of known length, which may not be there yet.
    Put {
        /// As above.
        target: &'b [u8],
        /// Bytes of the head: where the body begins.
        head: usize,
        /// Bytes of the request, with its body.
        len: usize,
    },
    /// Anything else: the general server's business.
    Other,
}

/// Recognises plain requests on one connection.
///
/// Clients repeat their headers word for word, so the last header block that was found harmless is kept and compared before
/// anything is parsed: whether a block is harmless depends on its bytes alone.
#[derive(Debug, Default)]
pub struct Heads {
    harmless: Vec<u8>,
}

/// Longer header blocks are parsed each time rather than kept.
const LONGEST_KEPT: usize = 1024;
/// More headers than this are the general server's business.
const MOST_HEADERS: usize = 32;
const METHOD: &[u8] = b"GET ";
const PUT: &[u8] = b"PUT ";
const VERSION: &[u8] = b" HTTP/1.1\r\n";

impl Heads {
    /// Looks at the front of `input`.
    pub fn front<'b>(&mut self, input: &'b [u8]) -> Front<'b> {
        let (is_get, rest) = match (input.strip_prefix(METHOD), input.strip_prefix(PUT)) {
            (Some(rest), _) => (true, rest),
            (None, Some(rest)) => (false, rest),
            _ if METHOD.starts_with(input) || PUT.starts_with(input) => return Front::Partial,
            _ => return Front::Other,
        };
        let Some(end) = rest.iter().position(|&b| !PLAIN_TARGET[usize::from(b)]) else {
            return Front::Partial;
        };
        let (target, rest) = rest.split_at(end);
        if target.first().is_none_or(|&first| first != b'/') {
            return Front::Other;
        }
        let Some(headers) = rest.strip_prefix(VERSION) else {
            return if VERSION.starts_with(rest) { Front::Partial } else { Front::Other };
        };
        let before_headers = input.len() - headers.len();
        if is_get && !self.harmless.is_empty() && headers.starts_with(&self.harmless) {
            return Front::Plain { target, len: before_headers + self.harmless.len() };
        }
        let mut parsed = [httparse::EMPTY_HEADER; MOST_HEADERS];
        match httparse::parse_headers(headers, &mut parsed) {
            Ok(httparse::Status::Partial) => Front::Partial,
            Ok(httparse::Status::Complete((len, parsed))) if !is_get => match body(parsed) {
                Some(body) => {
                    let head = before_headers + len;
                    Front::Put { target, head, len: head.saturating_add(body) }
                }
                None => Front::Other,
            },
            Ok(httparse::Status::Complete((len, parsed))) if parsed.iter().all(is_harmless) => {
                if len <= LONGEST_KEPT {
                    self.harmless.clear();
                    self.harmless.extend_from_slice(&headers[..len]);
                }
                Front::Plain { target, len: before_headers + len }
            }
            Ok(_) | Err(_) => Front::Other,
        }
    }
}

/// Characters of a target that the general server takes as they are: `unreserved`, `sub-delims`, `:@/?` and the `%` of an
/// escape (RFC 3986). A space ends the target; everything else is left to the general server's judgement.
const PLAIN_TARGET: [bool; 256] = {
    let mut plain = [false; 256];
    let allowed = b"-._~!$&'()*+,;=:@/?%0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut i = 0;
    while i < allowed.len() {
        plain[allowed[i] as usize] = true;
        i += 1;
    }
    plain
};

/// The length of the body, if there is one of known length and nothing else among the headers that changes the answer.
fn body(headers: &[httparse::Header<'_>]) -> Option<usize> {
    let is_length = |header: &&httparse::Header<'_>| header.name.eq_ignore_ascii_case("content-length");
    let mut lengths = headers.iter().filter(is_length);
    let text = std::str::from_utf8(lengths.next()?.value).ok()?;
    let is_number = text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_plain =
        is_number && lengths.next().is_none() && headers.iter().all(|header| is_length(&header) || is_harmless(header));
    is_plain.then(|| text.parse().ok()).flatten()
}

/// Headers that no route looks at, and `Connection: keep-alive`.
fn is_harmless(header: &httparse::Header<'_>) -> bool {
    const IGNORED: &[&str] = &[
        "accept",
        "accept-charset",
        "accept-encoding",
        "accept-language",
        "baggage",
        "b3",
        "cache-control",
        "content-type",
        "cookie",
        "dnt",
        "forwarded",
        "from",
        "host",
        "keep-alive",
        "larder-node",
        "larder-ring",
        "origin",
        "pragma",
        "priority",
        "referer",
        "tracestate",
        "traceparent",
        "upgrade-insecure-requests",
        "user-agent",
        "via",
    ];
    let has_prefix =
        |prefix: &str| header.name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    if header.name.eq_ignore_ascii_case("connection") {
        return header.value.eq_ignore_ascii_case(b"keep-alive");
    }
    IGNORED.iter().any(|name| name.eq_ignore_ascii_case(header.name)) || has_prefix("x-") || has_prefix("sec-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn front(input: &[u8]) -> Front<'_> {
        Heads::default().front(input)
    }

    #[test]
    fn plain_requests_are_recognised() {
        let curl = b"GET /v1/kv/a%20b?c HTTP/1.1\r\nHost: h:1\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\n\r\n";
        assert_eq!(front(curl), Front::Plain { target: b"/v1/kv/a%20b?c", len: curl.len() });
        let bare = b"GET / HTTP/1.1\r\n\r\nGET";
        assert_eq!(front(bare), Front::Plain { target: b"/", len: bare.len() - 3 });
    }

    #[test]
    fn puts_of_known_length_are_recognised() {
        let head = b"PUT /v1/kv/a HTTP/1.1\r\nhost: h\r\nContent-Length: 12\r\ncontent-type: text/plain\r\n\r\n";
        let len = head.len();
        assert_eq!(front(head), Front::Put { target: b"/v1/kv/a", head: len, len: len + 12 });
        for cut in 0..len {
            assert_eq!(front(&head[..cut]), Front::Partial, "{cut}");
        }
        for other in [
            "",
            "content-length: 1\r\ncontent-length: 1\r\n",
            "content-length: -1\r\n",
            "content-length: \r\nx: y\r\n",
            "content-length: 1234567890\r\n",
            "content-length: 1\r\ntransfer-encoding: chunked\r\n",
            "content-length: 1\r\nexpect: 100-continue\r\n",
            "content-length: 1\r\nif-match: *\r\n",
            "content-length: 1\r\ncontent-encoding: gzip\r\n",
            "content-length: 1\r\nconnection: close\r\n",
        ] {
            let request = format!("PUT /v1/kv/a HTTP/1.1\r\nhost: h\r\n{other}\r\n");
            assert_eq!(front(request.as_bytes()), Front::Other, "{other}");
        }
        // The headers of a GET are remembered, those of a PUT are another matter.
        let mut heads = Heads::default();
        heads.front(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n");
        assert_eq!(heads.front(b"PUT / HTTP/1.1\r\nhost: h\r\n\r\n"), Front::Other);
    }

    #[test]
    fn everything_else_is_left_alone() {
        for other in [
            "POST /lookup HTTP/1.1\r\n",
            "HEAD / HTTP/1.1\r\n\r\n",
            "\r\nGET / HTTP/1.1\r\n\r\n",
            "get / HTTP/1.1\r\n\r\n",
            "GET  / HTTP/1.1\r\n\r\n",
            "GET /a#b HTTP/1.1\r\n\r\n",
            "GET /\u{e9} HTTP/1.1\r\n\r\n",
            "GET * HTTP/1.1\r\n\r\n",
            "GET http://h/ HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.0\r\n\r\n",
            "GET / HTTP/1.1\nHost: h\n\n",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            "\x16\x03\x01",
        ] {
            assert_eq!(front(other.as_bytes()), Front::Other, "{other:?}");
        }
        for header in [
            "Connection: close",
            "Connection: Upgrade",
            "Upgrade: h2c",
            "Expect: 100-continue",
            "Range: bytes=0-1",
            "If-None-Match: *",
            "If-Match: *",
            "If-Modified-Since: now",
            "If-Range: \"1\"",
            "Content-Length: 0",
            "Transfer-Encoding: chunked",
            "TE: trailers",
            "Authorization: Basic eA==",
            "Bad name: x",
            "X-Unfolded: a\r\n b",
        ] {
            let request = format!("GET /v1/kv/a HTTP/1.1\r\nHost: h\r\n{header}\r\n\r\n");
            assert_eq!(front(request.as_bytes()), Front::Other, "{header:?}");
        }
    }

    #[test]
    fn a_repeated_header_block_is_not_taken_for_a_longer_one() {
        let mut heads = Heads::default();
        let first = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n";
        assert!(matches!(heads.front(first), Front::Plain { .. }));
        let second = b"GET /a HTTP/1.1\r\nHost: h\r\nRange: bytes=0-0\r\n\r\n";
        assert_eq!(heads.front(second), Front::Other);
        // Two in a row: the first ends where its own block ends.
        let both = [&first[..], &second[..]].concat();
        assert_eq!(heads.front(&both), Front::Plain { target: b"/a", len: first.len() });
    }

    proptest! {
        /// However the bytes arrive, a prefix of a request is never mistaken for another answer than "wait" (or, if the whole
        /// is not plain, than "not plain").
        #[test]
        fn prefixes_agree_with_the_whole(
            target in "/[a-z0-9%+?=/]{0,12}",
            headers in proptest::collection::vec(("(host|accept|x-[a-z]{1,4}|range|connection)", "[ -~]{0,12}"), 0..5),
            cut in any::<proptest::sample::Index>(),
        ) {
            let mut request = format!("GET {target} HTTP/1.1\r\n");
            for (name, value) in headers {
                request += &format!("{name}: {value}\r\n");
            }
            request += "\r\n";
            let request = request.as_bytes();
            let whole = front(request);
            prop_assert_ne!(&whole, &Front::Partial);
            let cut = cut.index(request.len());
            let part = front(&request[..cut]);
            prop_assert!(part == Front::Partial || (part == Front::Other && whole == Front::Other), "{part:?} {whole:?}");
        }

        #[test]
        fn never_panics_and_never_reads_past_the_end(input in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Front::Plain { len, .. } = front(&input) {
                prop_assert!(len <= input.len());
            }
        }
    }
}
