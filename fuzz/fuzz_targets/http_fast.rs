//! What the fast path takes for a plain request is one, whatever came before it on the connection and however it is cut.
#![no_main]
use larder_proto::{http::etag::Tags, http::head::{BodyMethod, Front, Heads}, http::json, http::target};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&[u8], &[u8], usize)| {
    let (before, bytes, cut) = input;
    let front = Heads::default().front(bytes);

    // What a connection has seen makes no difference.
    let mut used = Heads::default();
    used.front(before);
    assert_eq!(used.front(bytes), front);

    // More bytes do not change an answer, except that of waiting.
    let part = Heads::default().front(&bytes[..cut.min(bytes.len())]);
    match (&part, &front) {
        (Front::Partial, _) => {}
        _ => assert_eq!(part, front),
    }

    let recognised = match front {
        Front::Plain { target, len } => Some(("GET", target, len, None)),
        Front::WithBody { method, target, head, len } => {
            let name = match method {
                BodyMethod::Get => "GET",
                BodyMethod::Put => "PUT",
                BodyMethod::Post => "POST",
                BodyMethod::Delete => "DELETE",
            };
            Some((name, target, head, Some(len - head)))
        }
        Front::Partial | Front::Other => None,
    };
    if let Some((method, target, head, body)) = recognised {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut request = httparse::Request::new(&mut headers);
        let parsed = request.parse(&bytes[..head]).expect("a request");
        assert_eq!(parsed, httparse::Status::Complete(head));
        assert_eq!((request.method, request.version), (Some(method), Some(1)));
        assert_eq!(request.path.map(str::as_bytes), Some(target));
        let mut lengths = Vec::new();
        for header in request.headers.iter() {
            for name in ["transfer-encoding", "upgrade", "expect", "range", "if-none-match"] {
                assert!(!header.name.eq_ignore_ascii_case(name));
            }
            if header.name.eq_ignore_ascii_case("content-length") {
                lengths.push(std::str::from_utf8(header.value).expect("digits").parse::<usize>().expect("a length"));
            }
        }
        assert!(lengths.len() < 2);
        assert_eq!(body.unwrap_or(0), lengths.pop().unwrap_or(0));
        // The general path sees the same path and query.
        let uri: http::Uri = std::str::from_utf8(target).expect("ASCII").parse().expect("a target");
        let (path, query) = target::split(target);
        assert_eq!((uri.path().as_bytes(), uri.query().unwrap_or_default().as_bytes()), (path, query));
    }

    let mut scratch = Vec::new();
    if let Ok(decoded) = target::decode_path(before, &mut scratch) {
        assert!(decoded.len() <= before.len());
    }
    let mut text = Vec::new();
    json::write(&mut text, before);
    assert_eq!(text.len(), json::len(before));
    let text: String = serde_json::from_slice(&text).expect("a JSON string");
    assert_eq!(text, String::from_utf8_lossy(before));
    let _ = Tags::parse([before, bytes].into_iter());
});
