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
    /// Like `Plain`, with a body of known length, which may not be there yet: any `PUT`, `POST` and
    /// `DELETE`, and a `GET` with a `Content-Length`.
    WithBody {
        /// The method.
        method: BodyMethod,
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

/// The method of a request that may have a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyMethod {
    /// `GET`, with a body that some routes read.
    Get,
    /// `PUT`
    Put,
    /// `POST`
    Post,
    /// `DELETE`
    Delete,
}

impl BodyMethod {
    const ALL: [(&[u8], BodyMethod); 4] = [
        (b"GET ", BodyMethod::Get),
        (b"POST ", BodyMethod::Post),
        (b"DELETE ", BodyMethod::Delete),
        (b"PUT ", BodyMethod::Put),
    ];
}

/// Recognises plain requests on one connection.
///
/// Clients repeat their headers word for word, so the last header block that was found harmless is
/// kept and compared before anything is parsed: whether a block is harmless, and which length it
/// gives the body, depends on its bytes alone.
#[derive(Debug, Default)]
pub struct Heads {
    harmless: Vec<u8>,
    /// The length that it gives the body; `None`: it has no `Content-Length`.
    body: Option<usize>,
    /// The rest is of the last request that was recognised.
    authorization: Option<Vec<u8>>,
    /// The head says which page asks, so it is harmless for `GET` alone.
    names_page: bool,
    wants_base64: bool,
}

/// Longer header blocks are parsed each time rather than kept.
const LONGEST_KEPT: usize = 1024;
/// More headers than this are the general server's business.
const MOST_HEADERS: usize = 32;
const VERSION: &[u8] = b" HTTP/1.1\r\n";

impl Heads {
    /// The `Authorization` of the last request that was recognised. The caller checks it.
    pub fn authorization(&self) -> Option<&[u8]> {
        self.authorization.as_deref()
    }
    /// Whether the last request that was recognised says which page asks.
    pub fn names_page(&self) -> bool {
        self.names_page
    }
    /// Whether the last request that was recognised has `Upstash-Encoding: base64` (Redis over HTTP).
    pub fn wants_base64(&self) -> bool {
        self.wants_base64
    }

    /// Looks at the front of `input`.
    pub fn front<'b>(&mut self, input: &'b [u8]) -> Front<'b> {
        self.front_for(input, |_| true)
    }

    /// Like `front`. A request with a `Host` that `allows_host` refuses is the general server's
    /// business. For equal hosts, `allows_host` must always return the same.
    pub fn front_for<'b>(&mut self, input: &'b [u8], allows_host: impl Fn(&[u8]) -> bool) -> Front<'b> {
        let known = BodyMethod::ALL.iter().find_map(|(name, method)| Some((*method, input.strip_prefix(*name)?)));
        let Some((method, rest)) = known else {
            let may_become_one = BodyMethod::ALL.iter().any(|(name, _)| name.starts_with(input));
            return if may_become_one { Front::Partial } else { Front::Other };
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
        let changes = method != BodyMethod::Get;
        if !self.harmless.is_empty() && headers.starts_with(&self.harmless) && !(changes && self.names_page) {
            return recognised(method, target, before_headers + self.harmless.len(), self.body);
        }
        let mut parsed = [httparse::EMPTY_HEADER; MOST_HEADERS];
        match httparse::parse_headers(headers, &mut parsed) {
            Ok(httparse::Status::Partial) => Front::Partial,
            Ok(httparse::Status::Complete((len, parsed))) => match fields(parsed) {
                Ok(HarmlessFields { host, .. }) if !allows_host(host) => Front::Other,
                Ok(HarmlessFields { names_page: true, .. }) if changes => Front::Other,
                Ok(HarmlessFields { body, authorization, names_page, encoding, .. }) => {
                    if authorization != self.authorization() {
                        self.authorization = authorization.map(<[u8]>::to_vec);
                    }
                    self.wants_base64 = encoding.is_some_and(|encoding| encoding.eq_ignore_ascii_case(b"base64"));
                    (self.body, self.names_page) = (body, names_page);
                    // The kept block and these values belong together.
                    self.harmless.clear();
                    if len <= LONGEST_KEPT {
                        self.harmless.extend_from_slice(&headers[..len]);
                    }
                    recognised(method, target, before_headers + len, body)
                }
                Err(NotHarmless) => Front::Other,
            },
            Err(_) => Front::Other,
        }
    }
}

/// A request of which the head is whole and harmless.
fn recognised(method: BodyMethod, target: &[u8], head: usize, body: Option<usize>) -> Front<'_> {
    match (method, body) {
        (BodyMethod::Get, None) => Front::Plain { target, len: head },
        // What it means to store nothing is the general server's business.
        (BodyMethod::Put, None) => Front::Other,
        // Without a length and without an encoding there is no body (RFC 9112 section 6.3).
        (_, body) => Front::WithBody { method, target, head, len: head.saturating_add(body.unwrap_or(0)) },
    }
}

/// Characters of a target that the general server takes as they are: `unreserved`, `sub-delims`,
/// `:@/?` and the `%` of an escape (RFC 3986). A space ends the target; everything else is left to
/// the general server's judgement.
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

/// A header changes the answer, the length of the body cannot be told, or there is not one `Host`.
struct NotHarmless;

/// What harmless headers say.
#[derive(Default)]
struct HarmlessFields<'h> {
    host: &'h [u8],
    /// The length of the body; `None`: there is no `Content-Length`.
    body: Option<usize>,
    authorization: Option<&'h [u8]>,
    /// `Origin` or `Sec-Fetch-Site`, which decide whether a change is carried out.
    names_page: bool,
    /// `Upstash-Encoding`
    encoding: Option<&'h [u8]>,
}

fn fields<'h>(headers: &[httparse::Header<'h>]) -> Result<HarmlessFields<'h>, NotHarmless> {
    let mut hosts = headers.iter().filter(|header| header.name.eq_ignore_ascii_case("host"));
    // The general server says what is wrong with none or two (RFC 9112 section 3.2).
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(NotHarmless) };
    let mut fields = HarmlessFields { host: host.value, ..HarmlessFields::default() };
    for header in headers {
        fields.names_page |= ["origin", "sec-fetch-site"].iter().any(|name| header.name.eq_ignore_ascii_case(name));
        let once = match () {
            () if header.name.eq_ignore_ascii_case("authorization") => Some(&mut fields.authorization),
            () if header.name.eq_ignore_ascii_case("upstash-encoding") => Some(&mut fields.encoding),
            () => None,
        };
        if let Some(value) = once {
            if value.replace(header.value).is_some() {
                return Err(NotHarmless);
            }
        } else if header.name.eq_ignore_ascii_case("content-length") {
            let is_number = (1..=9).contains(&header.value.len()) && header.value.iter().all(u8::is_ascii_digit);
            if !is_number || fields.body.is_some() {
                return Err(NotHarmless);
            }
            let digits = header.value.iter().map(|digit| usize::from(digit - b'0'));
            fields.body = Some(digits.fold(0, |number, digit| number * 10 + digit));
        } else if !is_harmless(header) {
            return Err(NotHarmless);
        }
    }
    Ok(fields)
}

/// Headers that no route of a plain request looks at, `Connection: keep-alive`, and a `Host` of which
/// the general server says nothing.
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
    if header.name.eq_ignore_ascii_case("host") {
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:[]%".contains(byte);
        return header.value.iter().all(is_plain);
    }
    IGNORED.iter().any(|name| name.eq_ignore_ascii_case(header.name))
        || ["x-", "sec-", "upstash-"].into_iter().any(has_prefix)
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
        let bare = b"GET / HTTP/1.1\r\nhost:\r\n\r\nGET";
        assert_eq!(front(bare), Front::Plain { target: b"/", len: bare.len() - 3 });
    }

    #[test]
    fn hosts_that_are_refused_are_left_alone() {
        let mut heads = Heads::default();
        let request = |host| format!("GET /a HTTP/1.1\r\nhost: {host}\r\n\r\n").into_bytes();
        // Also after a block that was kept.
        for _ in 0..2 {
            for (host, is_allowed) in [("here", true), ("elsewhere", false), ("here", true)] {
                let request = request(host);
                let front = heads.front_for(&request, |host| host == b"here");
                assert_eq!(matches!(front, Front::Plain { .. }), is_allowed, "{host}");
            }
        }
    }

    #[test]
    fn bodies_of_known_length_are_recognised() {
        for (name, method) in [
            ("GET", BodyMethod::Get),
            ("PUT", BodyMethod::Put),
            ("POST", BodyMethod::Post),
            ("DELETE", BodyMethod::Delete),
        ] {
            let head = format!(
                "{name} /v1/kv/a HTTP/1.1\r\nhost: h\r\nContent-Length: 12\r\ncontent-type: text/plain\r\n\r\n"
            );
            let (head, len) = (head.as_bytes(), head.len());
            let mut heads = Heads::default();
            // Also when the block is known already.
            for _ in 0..2 {
                let expected = Front::WithBody { method, target: b"/v1/kv/a", head: len, len: len + 12 };
                assert_eq!(heads.front(head), expected);
            }
            for cut in 0..len {
                assert_eq!(front(&head[..cut]), Front::Partial, "{cut}");
            }
        }
        let bare = b"DELETE /a HTTP/1.1\r\nhost: h\r\n\r\n";
        let (head, len) = (bare.len(), bare.len());
        assert_eq!(front(bare), Front::WithBody { method: BodyMethod::Delete, target: b"/a", head, len });
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
        // Without a length a PUT is another matter than a GET.
        let mut heads = Heads::default();
        heads.front(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n");
        assert_eq!(heads.front(b"PUT / HTTP/1.1\r\nhost: h\r\n\r\n"), Front::Other);
    }

    #[test]
    fn everything_else_is_left_alone() {
        for other in [
            "PATCH /lookup HTTP/1.1\r\n",
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
        assert_eq!(front(b"GET /v1/kv/a HTTP/1.1\r\nAccept: */*\r\n\r\n"), Front::Other, "no Host");
        for header in [
            "Host: h",
            "Connection: close",
            "Connection: Upgrade",
            "Upgrade: h2c",
            "Expect: 100-continue",
            "Range: bytes=0-1",
            "If-None-Match: *",
            "If-Match: *",
            "If-Modified-Since: now",
            "If-Range: \"1\"",
            "Content-Length: +0",
            "Content-Length: 0x0",
            "Transfer-Encoding: chunked",
            "TE: trailers",
            "Authorization: Basic eA==\r\nauthorization: Basic eA==",
            "Upstash-Encoding: base64\r\nUpstash-Encoding: base64",
            "Bad name: x",
            "X-Unfolded: a\r\n b",
        ] {
            let request = format!("GET /v1/kv/a HTTP/1.1\r\nHost: h\r\n{header}\r\n\r\n");
            assert_eq!(front(request.as_bytes()), Front::Other, "{header:?}");
        }
    }

    #[test]
    fn what_a_head_says_is_of_the_last_one() {
        let mut heads = Heads::default();
        let mut long = String::from("x-long: ");
        long.extend(std::iter::repeat_n('x', LONGEST_KEPT));
        for (fields, authorization, names_page, wants_base64) in [
            ("", None, false, false),
            ("Authorization: Bearer a\r\n", Some(&b"Bearer a"[..]), false, false),
            ("Authorization: Bearer b\r\nUpstash-Encoding: BASE64\r\n", Some(b"Bearer b"), false, true),
            ("Upstash-Encoding: none\r\nUpstash-Telemetry-Sdk: x\r\n", None, false, false),
            ("Upstash-Encoding: base64\r\nOrigin: http://h\r\n", None, true, true),
            (&format!("Sec-Fetch-Site: none\r\n{long}\r\n"), None, true, false),
            ("", None, false, false),
        ] {
            let request = format!("GET /a HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
            // Also when the block is known already.
            for _ in 0..2 {
                assert!(matches!(heads.front(request.as_bytes()), Front::Plain { .. }), "{fields}");
                let said = (heads.authorization(), heads.names_page(), heads.wants_base64());
                assert_eq!(said, (authorization, names_page, wants_base64), "{fields}");
            }
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
            method in "(GET|PUT|POST|DELETE)",
            headers in proptest::collection::vec(
                prop_oneof![
                    ("(host|accept|x-[a-z]{1,4}|range|connection)", "[ -~]{0,12}"),
                    ("content-length", "[0-9]{0,3}"),
                ],
                0..5,
            ),
            cut in any::<proptest::sample::Index>(),
        ) {
            let mut request = format!("{method} {target} HTTP/1.1\r\n");
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
